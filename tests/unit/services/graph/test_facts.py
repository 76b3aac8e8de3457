"""What becomes of facts when others meet them."""

from __future__ import annotations

import random

import pytest

from services.graph.facts import EdgeDraft, Timeline
from services.graph.models import CO_OCCURRENCE

NOW = 1_000_000
ALICE, PARIS, BERLIN, ROME = 1, 2, 3, 4


def stated(target, at, fact="f", relation="lives_in", **fields):
    return EdgeDraft(None, ALICE, target, relation, fact, 0.8, at, stated=[at], **fields)


def placed(*drafts):
    """(target, fact, from, to) of what is left after placing these in turn, by time; empty stretches left out."""
    timeline = Timeline([], now=NOW, told=lambda _edge: [])
    for draft in drafts:
        timeline.place(draft)
    active = [draft.key for draft in timeline.drafts if draft.active]
    assert len(active) == len(set(active))
    assert all(draft.active or draft.valid_to is not None for draft in timeline.drafts)
    assert not any(draft.retracted for draft in timeline.drafts)
    left = [draft for draft in timeline.drafts if draft.valid_to != draft.valid_from]
    spans = [(draft.target_id, draft.fact, draft.valid_from, draft.valid_to) for draft in left]
    return sorted(spans, key=lambda span: (*span[:3], span[3] or NOW))


def test_a_new_target_of_a_single_valued_relation_ends_the_one_before():
    assert placed(stated(PARIS, 10), stated(BERLIN, 20)) == [(PARIS, "f", 10, 20), (BERLIN, "f", 20, None)]


def test_an_older_text_read_late_does_not_end_what_is_newer():
    assert placed(stated(BERLIN, 20), stated(PARIS, 10)) == [(PARIS, "f", 10, 20), (BERLIN, "f", 20, None)]


def test_what_was_told_again_later_is_not_ended_by_a_text_from_between():
    """Told in 10 and 30, so that a text of 20 read last is history, and the newest statement holds."""
    assert placed(stated(PARIS, 10), stated(PARIS, 30), stated(BERLIN, 20)) == [
        (PARIS, "f", 10, 20),
        (PARIS, "f", 30, None),
        (BERLIN, "f", 20, 30),
    ]


@pytest.mark.parametrize("relation", ["likes", "lives_in", CO_OCCURRENCE])
def test_the_order_of_reading_changes_nothing(relation):
    for seed in range(400):
        dice = random.Random(seed)
        times = dice.sample(range(100), dice.randrange(2, 7))
        said = [(dice.choice([PARIS, BERLIN]), at, dice.choice("ab")) for at in times]
        mixed = dice.sample(said, len(said))

        def read(texts):
            return placed(*(stated(target, at, fact, relation) for target, at, fact in texts))

        assert read(mixed) == read(sorted(said, key=lambda each: each[1])), seed


def test_whatever_is_told_one_fact_of_a_key_holds_and_none_ends_before_it_begins():
    """Explicit beginnings and ends, in any order; `placed` checks the keys."""
    for seed in range(1_500):
        dice = random.Random(seed)
        told = []
        for _ in range(dice.randrange(2, 9)):
            said = dice.randrange(100)
            begin = dice.choice([said, dice.randrange(100)])
            end = begin + dice.randrange(1, 50) if dice.random() < 0.2 else None
            target, words = dice.choice([PARIS, BERLIN, ROME]), dice.choice("ab")
            draft = stated(target, begin, words, dice.choice(["likes", "lives_in"]), valid_to=end)
            draft.stated = [begin if end else max(begin, said)]
            told.append(draft)
        assert all(end is None or begin <= end for _, _, begin, end in placed(*told)), seed


def test_two_targets_told_at_one_time_both_hold():
    both = placed(stated(PARIS, 10), stated(BERLIN, 10))
    assert both == [(PARIS, "f", 10, None), (BERLIN, "f", 10, None)]
    assert placed(stated(PARIS, 10), stated(BERLIN, 10), stated(ROME, 20)) == [
        (PARIS, "f", 10, 20),
        (BERLIN, "f", 10, 20),
        (ROME, "f", 20, None),
    ]


def test_only_one_target_at_a_time_is_a_matter_of_the_relation():
    """Graph bug 35: a new fact retires unrelated ones."""
    both = placed(stated(PARIS, 10, relation="knows"), stated(BERLIN, 20, relation="knows"))
    assert both == [(PARIS, "f", 10, None), (BERLIN, "f", 20, None)]


def test_another_wording_takes_the_place_of_the_one_before():
    changed = placed(stated(PARIS, 10, "for 5 years"), stated(PARIS, 20, "for 6 years"))
    assert changed == [(PARIS, "for 5 years", 10, 20), (PARIS, "for 6 years", 20, None)]


def test_a_fact_true_twice_with_a_gap_has_two_stretches():
    """Graph bug 36: the second stretch is folded into the first."""
    assert placed(stated(PARIS, 10), stated(BERLIN, 20), stated(PARIS, 30)) == [
        (PARIS, "f", 10, 20),
        (PARIS, "f", 30, None),
        (BERLIN, "f", 20, 30),
    ]


def test_the_surer_and_earlier_of_two_equal_facts_wins():
    timeline = Timeline([], now=NOW, told=lambda _edge: [])
    first = timeline.place(stated(PARIS, 20))
    second = stated(PARIS, 10)
    second.confidence = 0.9
    assert timeline.place(second) is first
    assert (first.valid_from, first.confidence, first.active) == (10, 0.9, True)


def test_a_fact_told_to_be_over_ends_in_whatever_words():
    over = stated(PARIS, 39, "left Paris", valid_to=40)
    assert placed(stated(PARIS, 10), over) == [(PARIS, "f", 10, 40)]


def test_a_past_stretch_ends_nothing_that_holds_now():
    past = stated(ROME, 5, valid_to=8)
    assert placed(stated(PARIS, 3), past) == [(PARIS, "f", 3, None), (ROME, "f", 5, 8)]


def test_standing_in_one_sentence_never_replaces_itself():
    together = [stated(PARIS, at, f"sentence {at}", CO_OCCURRENCE) for at in (10, 20, 5)]
    assert placed(*together) == [(PARIS, "sentence 5", 5, None)]


def test_of_an_explicit_beginning_the_later_statement_wins():
    """Said in 24: in Paris since 10. A text of 22 that says Berlin is older, in whatever order both are read."""
    for texts in ([0, 1], [1, 0]):
        since, other = stated(PARIS, 10), stated(BERLIN, 22)
        since.stated = [24]
        assert placed(*[(since, other)[each] for each in texts]) == [(PARIS, "f", 10, None)]
