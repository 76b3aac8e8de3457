"""Scores, ties, and the two ways to rank."""

import pytest

from services.graph.models import CO_OCCURRENCE
from services.graph.ranking import Activation, Scored, best, by_activation, by_distance, recent_first
from services.graph.traversal import Link, Reached, Walk

DAY = 86_400_000_000


def link(edge_id, source, target, confidence=0.8, relation="knows", valid_from=0):
    return Link(edge_id, source, target, relation, confidence, valid_from)


def walked(reached, *links):
    return Walk(
        {entity: Reached(*found) for entity, found in reached.items()}, {one.edge_id: one for one in links}
    )


@pytest.mark.parametrize(
    ("match", "hop", "confidence", "score"), [(1.0, 0, 1.0, 1.0), (0.9, 1, 0.8, 0.36), (1.0, 2, 0.9, 0.3)]
)
def test_a_score_is_match_by_distance_by_confidence(match, hop, confidence, score):
    found = walked({1: (hop, match), 2: (hop + 1, match)}, link(1, 1, 2, confidence))
    (scored,) = by_distance(found)
    assert (scored.hop, scored.score) == (hop, pytest.approx(score))


def test_a_fact_into_a_start_scores_like_one_out_of_it():
    """Graph bug 40."""
    found = walked({1: (0, 1.0), 2: (1, 1.0), 3: (1, 1.0)}, link(1, 1, 2), link(2, 3, 1))
    assert {(one.hop, one.score) for one in by_distance(found)} == {(0, 0.8)}


def test_ties_fall_by_surety_then_recency_then_id():
    def one(edge_id, confidence, valid_from, relation="knows"):
        return Scored(link(edge_id, 1, edge_id + 10, confidence, relation, valid_from), 1.0, 0, 0.5)

    facts = [
        one(4, 0.5, 9, CO_OCCURRENCE),
        one(3, 0.5, 1),
        one(2, 0.5, 1),
        one(1, 0.5, 2),
        one(5, 0.6, 0),
    ]
    expected = [5, 1, 2, 3, 4]
    assert [found.link.edge_id for found in best(facts, 10)] == expected
    assert [found.link.edge_id for found in best(facts[::-1], 10)] == expected


def test_of_one_triple_the_best_stays():
    facts = [
        Scored(link(1, 1, 2), 1.0, 0, 0.4),
        Scored(link(2, 1, 2), 1.0, 0, 0.8),
        Scored(link(3, 2, 1), 1.0, 0, 0.1),
    ]
    assert [found.link.edge_id for found in best(facts, 10)] == [2, 3]
    assert len(best(facts, 1)) == 1


def test_recency_lifts_up_to_the_double_and_the_future_counts_as_today():
    now = 100 * DAY
    facts = [
        Scored(link(1, 1, 2, valid_from=now), 1.0, 0, 0.4),
        Scored(link(2, 1, 3, valid_from=now + DAY), 1.0, 0, 0.4),
        Scored(link(3, 1, 4, valid_from=now - 10 * DAY), 1.0, 0, 0.4),
    ]
    lifted = [one.score for one in recent_first(facts, now=now, rate=0.1)]
    assert lifted == [pytest.approx(0.8), pytest.approx(0.8), pytest.approx(0.6)]
    assert [one.score for one in recent_first(facts, now=now, rate=0.0)] == [0.4] * 3


def test_activation_fades_with_each_step_and_adds_up_over_several_ways():
    found = walked(
        {1: (0, 1.0), 2: (1, 1.0), 3: (1, 1.0), 4: (2, 1.0), 5: (1, 1.0), 6: (2, 1.0)},
        link(1, 1, 2, 0.5),
        link(2, 1, 3, 0.5),
        link(3, 2, 4, 1.0),
        link(4, 3, 4, 1.0),
        link(5, 1, 5, 0.5),
        link(6, 5, 6, 1.0),
    )
    how = Activation(max_hops=2)
    scores = {one.link.edge_id: one.score for one in by_activation(found, how)}
    assert scores[1] == 1.0
    # 4 is reached over two ways, 6 over one.
    assert scores[3] == pytest.approx(2 * 0.85 * 0.85 * 0.5)
    assert scores[6] == pytest.approx(0.85 * 0.5)


def test_what_activation_barely_reaches_is_left_out():
    found = walked({1: (0, 0.3), 2: (1, 0.3), 3: (2, 0.3)}, link(1, 1, 2, 0.8), link(2, 2, 3, 0.5))
    assert [one.link.edge_id for one in by_activation(found, Activation())] == [1]
    assert by_activation(found, Activation(activation_threshold=0.25)) == []


def test_a_strongly_activated_entity_receives_no_more():
    found = walked({1: (0, 0.9), 2: (0, 0.81), 3: (1, 0.81)}, link(1, 1, 2, 1.0), link(2, 2, 3, 0.5))
    scores = {one.link.edge_id: one.score for one in by_activation(found, Activation())}
    assert scores == {1: 0.9, 2: 0.81}
    open_to_more = Activation(inhibition_threshold=1.0)
    assert {one.link.edge_id: one.score for one in by_activation(found, open_to_more)} == {1: 1.0, 2: 1.0}


def test_only_the_strongest_stay_active():
    star = walked(
        {0: (0, 1.0), **dict.fromkeys(range(1, 6), (1, 1.0))},
        *(link(number, 0, number, number / 5) for number in range(1, 6)),
    )
    kept = by_activation(star, Activation(max_activated_nodes=3))
    assert {one.link.edge_id for one in kept} == {4, 5}
