"""Eviction: what goes first, what never goes, and that nothing is left of what went."""

from __future__ import annotations

import pytest

from services.ids import MessageId
from services.jobs.models import EVICT_MESSAGES
from services.memory.eviction import Candidate, retention
from services.memory.models import NewMessage, Origin, Role
from tests.builders import claim, enqueue, job, new_job, rows, work

NOW = 1_750_000_000_000_000
MINUTE, DAY = 60_000_000, 86_400_000_000


@pytest.fixture
def container(build):
    return build(memory__compaction_preserve_tail=1)


def add(container, *messages, namespace="default"):
    """A conversation of these (text, age in days); their ids. The embedder gets every one."""
    now = container.clock.now()
    with container.database.write() as unit:
        made = unit.messages.create_conversation(namespace)
        news = [NewMessage(Role.USER, text, created_at=now - round(age * DAY)) for text, age in messages]
        return unit.messages.add(namespace, made, news)


def evict(container, limit, **options):
    return container.eviction.evict("default", max_entries=limit, **options)


def left(container, namespace="default"):
    found = f"SELECT content FROM messages WHERE deleted_at IS NULL AND namespace = '{namespace}' ORDER BY id"
    return [row[0] for row in rows(container, found)]


def score(age, accesses=0):
    return retention(Candidate(MessageId(1), NOW - age, accesses), NOW)


# ---- the score ---------------------------------------------------------------------------------------------------


def test_what_is_new_and_often_recalled_is_retained():
    assert score(MINUTE, 10) > 0.99
    assert score(0) == 1.0


def test_the_old_is_retained_less_than_the_new():
    assert score(7 * DAY) < score(MINUTE)


def test_what_was_recalled_more_often_is_retained_better():
    assert score(DAY, 20) > score(DAY, 1) > score(DAY)


def test_a_message_that_was_never_recalled_outlives_the_first_minutes_b43():
    assert score(12 * MINUTE) > 0.98
    assert score(DAY) == pytest.approx(0.236, abs=0.001)


def test_a_time_in_the_future_counts_as_now():
    assert score(-DAY) == 1.0


# ---- what goes ---------------------------------------------------------------------------------------------------


def test_eviction_is_off_by_default(container):
    add(container, ("old", 999), ("older", 9_999), ("last", 0))
    report = container.eviction.evict("default")
    assert (report.messages, report.evicted, report.protected) == (3, 0, 0)
    assert left(container) == ["old", "older", "last"]


def test_the_least_retained_go_first_and_no_more_than_needed(container):
    ids = add(container, ("month", 30), ("used", 30), ("day", 1), ("week", 7), ("last", 0))
    with container.database.write() as unit:
        unit.messages.touch({ids[1]: 50}, now=container.clock.now() - DAY)
    assert evict(container, 3).evicted == 2
    assert left(container) == ["used", "day", "last"]
    assert evict(container, 3).evicted == 0


def test_of_those_whose_score_is_zero_the_older_go_first_b43(container):
    add(container, ("two years", 800), ("four years", 1_600), ("three years", 1_200), ("last", 0))
    evict(container, 2)
    assert left(container) == ["two years", "last"]


def test_equal_ones_go_in_the_order_of_their_ids(container):
    add(container, ("first", 5), ("second", 5), ("third", 5), ("last", 0))
    evict(container, 2)
    assert left(container) == ["third", "last"]


def test_the_tail_of_every_conversation_stays_b44(build):
    container = build(memory__compaction_preserve_tail=2)
    add(container, ("a", 900), ("b", 900), ("c", 900))
    add(container, ("d", 1), ("e", 0))
    report = evict(container, 1)
    assert (report.evicted, report.protected) == (1, 3)
    assert left(container) == ["b", "c", "d", "e"]


def test_summaries_and_what_they_end_with_stay_b44_b51(container):
    ids = add(container, ("a", 900), ("b", 900), ("c", 900), ("d", 900), ("e", 900), ("last", 0))
    with container.database.write() as unit:
        unit.messages.replace(
            "default",
            1,
            first=ids[3],
            last=ids[3],
            summary=NewMessage(Role.SYSTEM, "in short", origin=Origin.SUMMARY, created_at=1),
        )
        unit.messages.add("default", 1, [NewMessage(Role.USER, "tail")])
        summary = {"content": "s", "token_estimate": 1, "created_at": 1, "key_facts": []}
        ends = {"first_message_id": ids[0], "last_message_id": ids[2]}
        unit.snapshots.add_summaries("default", 1, [summary | ends])
    evict(container, 1)
    assert left(container) == ["a", "c", "in short", "tail"]


def test_each_conversation_may_have_a_limit_of_its_own_b44(build):
    container = build(memory__compaction_preserve_tail=1, memory__eviction__per_conversation=True)
    add(container, ("old", 900), ("older", 990), ("new", 1))
    add(container, ("ancient", 5_000), ("last", 4_000))
    report = evict(container, 2)
    assert (report.messages, report.evicted, report.protected) == (5, 1, 0)
    assert left(container) == ["old", "new", "ancient", "last"]
    report = evict(container, 1)
    assert (report.messages, report.evicted, report.protected) == (4, 2, 0)
    assert left(container) == ["new", "last"]


def test_a_dry_run_counts_and_changes_nothing(container):
    add(container, ("a", 9), ("b", 8), ("c", 7), ("last", 0))
    assert evict(container, 2, dry_run=True).evicted == 2
    assert left(container) == ["a", "b", "c", "last"]
    assert rows(container, "SELECT count(*) FROM jobs") == [(0,)]


def test_namespaces_have_a_limit_each_and_do_not_touch_one_another_b44(container):
    add(container, ("a", 900), ("b", 900), ("last", 0), namespace="alice")
    add(container, ("c", 9), ("last", 0))
    evict(container, 1)
    assert left(container, "alice") == ["a", "b", "last"]
    assert left(container) == ["last"]


# ---- until nothing is left ---------------------------------------------------------------------------------------


def embedded(container, *messages, namespace="default"):
    ids = add(container, *messages, namespace=namespace)
    container.message_vectors.embed_missing()
    work(container)
    return ids


def vectors(container, namespace="default"):
    physical = rows(container, "SELECT physical FROM embedding_collections")[0][0]
    return container.vectors.count(physical, namespace)


def test_a_row_is_erased_only_after_its_vectors_are_gone_b14(container):
    embedded(container, ("a", 900), ("b", 900), ("last", 0))
    assert vectors(container) == 3
    assert evict(container, 1).evicted == 2
    assert container.eviction.erase("default") == 0
    assert rows(container, "SELECT count(*) FROM messages") == [(3,)]
    work(container)
    assert vectors(container) == 1
    assert container.eviction.erase("default") == 2
    assert rows(container, "SELECT content FROM messages") == [("last",)]
    assert rows(container, "SELECT count(*) FROM vector_tombstones") == [(0,)]


def test_vectors_that_are_deleted_later_or_elsewhere_hold_nothing_up_b14(container):
    embedded(container, ("a", 900), ("b", 800), ("last", 0))
    embedded(container, ("x", 900), ("last", 0), namespace="alice")
    evict(container, 2)
    container.clock.advance(1)
    work(container)
    container.eviction.evict("alice", max_entries=1)
    container.clock.advance(1)
    evict(container, 1)
    assert container.eviction.erase("default") == 1
    assert rows(container, "SELECT count(*) FROM vector_tombstones") == [(2,)]


def test_the_sweep_serves_every_namespace_and_leaves_a_receipt(build):
    container = build(memory__compaction_preserve_tail=1, memory__eviction__max_entries=2)
    for namespace in ("default", "alice"):
        embedded(container, ("a", 900), ("b", 800), ("c", 700), ("last", 0), namespace=namespace)
    (first,) = enqueue(container, new_job(EVICT_MESSAGES))
    work(container)
    assert job(container, first).outcome == {"evicted": 4, "erased": 0}
    assert [left(container, it) for it in ("default", "alice")] == [["c", "last"]] * 2
    container.clock.advance(1)
    (second,) = enqueue(container, new_job(EVICT_MESSAGES))
    work(container)
    assert job(container, second).outcome == {"evicted": 0, "erased": 4}
    assert rows(container, "SELECT count(*) FROM messages") == [(4,)]


def test_the_sweep_erases_even_while_eviction_is_off(container):
    ids = add(container, ("a", 1), ("last", 0))
    with container.database.write() as unit:
        unit.messages.soft_delete("default", ids[:1])
    (sweep,) = enqueue(container, new_job(EVICT_MESSAGES))
    container.eviction.sweep(claim(container, sweep))
    assert job(container, sweep).outcome == {"evicted": 0, "erased": 1}


def test_many_messages_go_in_many_steps(container):
    add(container, *((f"m{number}", 5) for number in range(1_200)), ("last", 0))
    assert evict(container, 1).evicted == 1_200
    assert container.eviction.erase("default") == 1_200
    assert left(container) == ["last"]


# ---- what retells it ---------------------------------------------------------------------------------------------


def evicted(container, limit):
    """Evict and erase whatever may go for good."""
    evict(container, limit)
    work(container)
    container.clock.advance(10)
    container.eviction.erase("default")


def test_a_correction_of_what_was_evicted_goes_when_its_conversation_is_forgotten(container):
    say = container.memory.remember
    for role, text in (
        (Role.USER, "What is the PIN?"),
        (Role.ASSISTANT, "The PIN is 1234."),
        (Role.USER, "No, that's wrong: my secret PIN is 9876."),
        *((Role.USER, f"chat {number}") for number in range(9)),
    ):
        say(role, text, conversation="c")
    work(container)
    assert len(container.corrections.select()) == 1
    evicted(container, 2)
    assert container.memory.forget(conversation="c").corrections == 1
    assert container.corrections.select() == []


def test_a_summary_that_is_made_while_its_messages_are_evicted_goes_with_them(container, monkeypatch):
    ids = add(container, *((f"secret {number}", 30 - number) for number in range(9)))
    remove = container.eviction._remove

    def after_a_summary(namespace, going, run):
        with container.database.write() as unit:
            told = {"first": ids[0], "last": ids[5], "token_estimate": 1}
            unit.summaries.add(namespace, conversation, "They told secrets.", **told)
        remove(namespace, going, run)

    ((conversation,),) = rows(container, "SELECT id FROM conversations")
    monkeypatch.setattr(container.eviction, "_remove", after_a_summary)
    evicted(container, 2)
    assert len(left(container)) == 2
    with container.database.read() as unit:
        assert unit.summaries.cursor("default", conversation) == ids[5]
    assert container.memory.forget(messages=[ids[0]]).summaries == 1
