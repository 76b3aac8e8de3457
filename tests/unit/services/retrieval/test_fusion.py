import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.retrieval.fusion import Leg, fuse

SCORES = st.dictionaries(st.integers(1, 30), st.floats(-5, 5, allow_subnormal=False), max_size=12)


def ids(fused):
    return [hit.id for hit in fused]


def test_an_item_scores_the_weighted_sum_of_its_scaled_scores():
    fused = fuse(
        [Leg("keyword", 0.3, {1: 10.0, 2: 5.0, 3: 0.0}), Leg("vector", 0.7, {3: 0.9, 2: 0.5, 1: 0.1})]
    )
    assert {hit.id: hit.score for hit in fused} == pytest.approx({1: 0.3, 2: 0.5, 3: 0.7})
    assert ids(fused) == [3, 2, 1]


def test_an_item_that_a_leg_does_not_know_gets_nothing_from_it():
    fused = fuse([Leg("keyword", 0.5, {1: 4.0, 2: 2.0}), Leg("vector", 0.5, {3: 0.9, 2: 0.1})])
    assert {hit.id: hit.score for hit in fused} == pytest.approx({1: 0.5, 3: 0.5, 2: 0.0})


def test_ties_are_broken_by_id():
    assert ids(fuse([Leg("keyword", 1.0, {9: 1.0, 3: 1.0, 5: 1.0})])) == [3, 5, 9]


def test_a_leg_with_a_single_item_gives_it_the_full_weight():
    assert [(hit.id, hit.score) for hit in fuse([Leg("vector", 0.4, {7: 0.02})])] == [(7, 0.4)]


def test_nothing_from_all_legs_is_nothing():
    assert fuse([]) == []
    assert fuse([Leg("keyword", 0.5, {}), Leg("vector", 0.5, {})]) == []


def test_a_hit_tells_what_each_leg_said():
    (first, _) = fuse([Leg("keyword", 0.5, {1: 4.0, 2: 2.0}), Leg("vector", 0.5, {1: 0.8})])
    assert first.legs == {"keyword": (4.0, 1), "vector": (0.8, 1)}


@given(SCORES, SCORES, st.randoms())
def test_the_order_in_which_items_and_legs_arrive_changes_nothing(keyword, vector, chance):
    def shuffled(scores):
        items = list(scores.items())
        chance.shuffle(items)
        return dict(items)

    legs = [Leg("keyword", 0.3, keyword), Leg("vector", 0.7, vector)]
    again = [Leg("vector", 0.7, shuffled(vector)), Leg("keyword", 0.3, shuffled(keyword))]
    first, second = fuse(legs), fuse(again)
    assert {hit.id: hit.legs for hit in first} == {hit.id: hit.legs for hit in second}
    assert [hit.score for hit in first] == pytest.approx([hit.score for hit in second])


@given(SCORES, SCORES)
def test_every_item_comes_once_and_scores_stay_within_the_weights(keyword, vector):
    fused = fuse([Leg("keyword", 0.3, keyword), Leg("vector", 0.7, vector)])
    assert sorted(ids(fused)) == sorted(keyword.keys() | vector.keys())
    assert all(0 <= hit.score <= 1 + 1e-9 for hit in fused)
    assert [(-hit.score, hit.id) for hit in fused] == sorted((-hit.score, hit.id) for hit in fused)


@given(SCORES)
def test_a_leg_without_weight_changes_no_ones_order(keyword):
    alone = fuse([Leg("keyword", 1.0, keyword)])
    beside = fuse([Leg("keyword", 1.0, keyword), Leg("vector", 0.0, dict.fromkeys(keyword, 3.0))])
    assert ids(alone) == ids(beside)
