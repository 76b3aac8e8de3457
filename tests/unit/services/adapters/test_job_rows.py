import shutil
import threading
from types import SimpleNamespace

import pytest

from services import errors
from services.adapters import job_rows
from services.jobs.models import (
    EMBED_DOCUMENT,
    INGEST_BATCH,
    INGEST_FILE,
    PURGE_JOBS,
    REMOVE_VECTORS,
    JobState,
    Queue,
)
from tests.builders import Bells, claim, enqueue, finish, in_processes, job, new_job

MINUTE = 60_000_000


def states(container, ids):
    return [job(container, job_id).state for job_id in ids]


def batch_with(container, children):
    """A waiting batch and its children's ids."""
    (parent,) = enqueue(container, new_job(INGEST_BATCH))
    run = claim(container, parent)
    keys = (f"{parent}/{number}" for number in range(children))
    ids = enqueue(container, *(new_job(INGEST_FILE, dedupe_key=key, parent_id=parent) for key in keys))
    with container.database.write() as unit:
        run.wait_for_children(unit)
    return parent, ids


def kill(container, job_id):
    """Let a job die of an error that cannot be cured."""
    container.ledger.failed(claim(container, job_id), errors.PermanentError("no way"))


def steer(container, what, job_id):
    with container.database.write() as unit:
        return getattr(unit.jobs, what)(job_id, now=container.clock.now())


# ---- accepting -------------------------------------------------------------------------------------------------


def test_a_unit_that_is_rolled_back_leaves_no_job_and_rings_no_bell(build):
    bells = Bells()
    container = build(publisher=bells)

    def fail():
        with container.database.write() as unit:
            unit.jobs.enqueue([new_job()])
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    with container.database.read() as unit:
        assert unit.jobs.select() == []
    assert bells.rung == []


def test_bells_ring_after_the_commit_and_at_most_sixteen_times(build):
    bells = Bells()
    container = build(publisher=bells)
    with container.database.write() as unit:
        ids = unit.jobs.enqueue([new_job() for _ in range(40)])
        assert bells.rung == []
    assert bells.rung == [("embedding", "documents.embed_document", job_id) for job_id in ids[:16]]


def test_a_delayed_job_rings_no_bell(build):
    bells = Bells()
    container = build(publisher=bells)
    enqueue(container, new_job(run_after=container.clock.now() + MINUTE))
    assert bells.rung == []


def test_a_broker_that_is_away_fails_no_write_unit(build):
    bells = Bells()
    bells.away = True
    container = build(publisher=bells)
    (job_id,) = enqueue(container, new_job())
    assert job(container, job_id).state is JobState.PENDING


def test_twins_are_one_job_while_it_lives_and_two_after_that(container):
    first = enqueue(container, new_job(dedupe_key="7"), new_job(dedupe_key="7"))
    assert first[0] == first[1]
    run = claim(container, first[0])
    assert enqueue(container, new_job(dedupe_key="7")) == [first[0]]
    finish(container, run)
    assert enqueue(container, new_job(dedupe_key="7")) != [first[0]]


def test_jobs_of_other_kinds_namespaces_or_without_a_key_are_no_twins(container):
    ids = enqueue(
        container,
        new_job(dedupe_key="7"),
        new_job(REMOVE_VECTORS, dedupe_key="7"),
        new_job(dedupe_key="7", namespace="other"),
        new_job(),
        new_job(),
    )
    assert len(set(ids)) == 5


def test_among_the_children_of_a_parent_finished_ones_are_twins_too(container):
    parent, (child,) = batch_with(container, 1)
    finish(container, claim(container, child))
    assert enqueue(container, new_job(INGEST_FILE, dedupe_key=f"{parent}/0", parent_id=parent)) == [child]
    assert job(container, parent).children_open == 0


def test_a_recorded_child_is_finished_and_a_known_one_is_left_alone(container):
    parent, (_child,) = batch_with(container, 1)
    with container.database.write() as unit:
        same = new_job(INGEST_FILE, dedupe_key=f"{parent}/0", parent_id=parent)
        other = new_job(INGEST_FILE, dedupe_key="other", parent_id=parent)
        unit.jobs.record([(same, {"status": "failed"}), (other, {"status": "skipped"})])
        found = unit.jobs.select(parent_id=parent)
    assert [(it.dedupe_key, it.state, it.outcome) for it in found] == [
        ("other", "done", {"status": "skipped"}),
        (f"{parent}/0", "pending", None),
    ]


def test_a_payload_over_64_kib_is_refused_and_nothing_stored(container):
    with pytest.raises(errors.InputError, match="pass references, not bodies"):
        enqueue(container, new_job(), new_job(payload={"text": "x" * 65_536}))
    with container.database.read() as unit:
        assert unit.jobs.select() == []


def test_a_full_queue_refuses_new_work_before_anything_is_stored(build):
    container = build(jobs__max_live_jobs=10)
    enqueue(container, *(new_job() for _ in range(9)))
    with pytest.raises(errors.BackPressure, match=r"9 jobs wait already \(jobs\.max_live_jobs = 10\)"):
        enqueue(container, new_job(), new_job())
    enqueue(container, new_job())
    with container.database.read() as unit:
        assert len(unit.jobs.select()) == 10


def test_a_full_queue_refuses_what_one_transaction_adds_bit_by_bit(build):
    container = build(jobs__max_live_jobs=3)
    enqueue(container, new_job())
    with container.database.write() as unit:
        unit.jobs.enqueue([new_job()])
        with pytest.raises(errors.BackPressure, match="2 jobs wait already"):
            unit.jobs.enqueue([new_job(), new_job()])
        unit.jobs.enqueue([new_job()])
        with pytest.raises(errors.BackPressure, match="3 jobs wait already"):
            unit.jobs.enqueue([new_job()])


def test_a_full_queue_still_takes_the_children_of_an_accepted_batch_and_maintenance(build):
    container = build(jobs__max_live_jobs=3)
    _parent, children = batch_with(container, 8)
    assert len(children) == 8
    enqueue(container, new_job(REMOVE_VECTORS), new_job(PURGE_JOBS))
    with pytest.raises(errors.BackPressure):
        enqueue(container, new_job(INGEST_BATCH))


def test_a_disk_that_is_nearly_full_refuses_new_work_but_not_the_one_that_frees_space(build, monkeypatch):
    container = build(jobs__min_free_disk_bytes=2**30)
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: SimpleNamespace(free=2**30 - 1))
    with pytest.raises(errors.BackPressure, match=r"only 1023 MiB are free.*jobs\.min_free_disk_bytes"):
        enqueue(container, new_job())
    enqueue(container, new_job(REMOVE_VECTORS))


# ---- running ---------------------------------------------------------------------------------------------------


def test_eight_threads_and_four_processes_claim_each_job_once(build):
    container = build(real_time=True)
    folder = container.sqlite.path.parent
    enqueue(container, *(new_job() for _ in range(200)))

    def take_all(target, name):
        while (run := target.ledger.claim_next(["embedding"])) is not None:
            with target.database.write(durable=False) as unit:
                run.finish(unit, {"by": name})

    def in_threads(number):
        mine = build(folder, real_time=True)
        threads = [threading.Thread(target=take_all, args=(mine, f"{number}/{it}")) for it in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    in_processes(4, in_threads)

    with container.database.read() as unit:
        done = unit.jobs.select(limit=1_000)
    assert [(it.state, it.attempts) for it in done] == [("done", 1)] * 200
    assert len({it.outcome["by"] for it in done}) > 1


def test_a_job_that_is_not_due_cannot_be_claimed(container):
    (job_id,) = enqueue(container, new_job(run_after=container.clock.now() + 1))
    assert container.ledger.claim(job_id) is None
    container.clock.advance(1)
    assert container.ledger.claim(job_id) is not None
    assert container.ledger.claim(job_id) is None


def test_whoever_lost_the_lease_cannot_finish_and_its_effects_roll_back(container):
    (job_id,) = enqueue(container, new_job())
    zombie = claim(container, job_id)
    container.clock.advance(31)
    container.ledger.sweep()
    successor = claim(container, job_id)

    def late():
        with container.database.write() as unit:
            unit.jobs.enqueue([new_job(REMOVE_VECTORS)])
            zombie.finish(unit)

    with pytest.raises(errors.LeaseLost):
        late()
    container.ledger.failed(zombie, errors.PermanentError("late"))
    container.ledger.release(zombie)

    now = job(container, job_id)
    assert (now.state, now.lease_token) == ("running", successor.job.lease_token)
    with container.database.read() as unit:
        assert unit.jobs.select(kind=REMOVE_VECTORS.name) == []
    finish(container, successor)
    assert job(container, job_id).state is JobState.DONE


def test_a_parent_is_done_with_its_last_child(container):
    parent, children = batch_with(container, 3)
    for number, child in enumerate(children):
        assert job(container, parent).children_open == 3 - number
        assert job(container, parent).state is JobState.WAITING
        finish(container, claim(container, child))
    assert job(container, parent).state is JobState.DONE


def test_a_dead_child_closes_its_parent_too(container):
    parent, children = batch_with(container, 2)
    finish(container, claim(container, children[0]))
    kill(container, children[1])
    assert job(container, parent).state is JobState.DONE


def test_children_that_finish_before_their_parent_waits_do_not_close_it_early(container):
    (parent,) = enqueue(container, new_job(INGEST_BATCH))
    run = claim(container, parent)
    (child,) = enqueue(container, new_job(INGEST_FILE, parent_id=parent))
    finish(container, claim(container, child))
    assert job(container, parent).state is JobState.RUNNING
    (other,) = enqueue(container, new_job(INGEST_FILE, parent_id=parent))
    with container.database.write() as unit:
        run.wait_for_children(unit)
    assert job(container, parent).state is JobState.WAITING
    finish(container, claim(container, other))
    assert job(container, parent).state is JobState.DONE


def test_a_parent_without_children_is_done_at_once(container):
    parent, _ = batch_with(container, 0)
    assert job(container, parent).state is JobState.DONE


def test_parents_of_parents_close_and_reopen_with_them(container):
    (top,) = enqueue(container, new_job(INGEST_BATCH))
    top_run = claim(container, top)
    (middle,) = enqueue(container, new_job(INGEST_BATCH, parent_id=top))
    middle_run = claim(container, middle)
    leaves = enqueue(container, new_job(parent_id=middle), new_job(parent_id=middle))
    with container.database.write() as unit:
        top_run.wait_for_children(unit)
        middle_run.wait_for_children(unit)
    for leaf in leaves:
        kill(container, leaf)
    assert states(container, [top, middle]) == ["done", "done"]

    for leaf in leaves:
        assert steer(container, "retry", leaf)
    assert states(container, [top, middle]) == ["waiting", "waiting"]
    finish(container, claim(container, leaves[0]))
    assert states(container, [top, middle]) == ["waiting", "waiting"]
    finish(container, claim(container, leaves[1]))
    assert states(container, [top, middle]) == ["done", "done"]
    assert [job(container, it).children_open for it in (top, middle)] == [0, 0]


# ---- steering --------------------------------------------------------------------------------------------------


def test_a_pending_job_is_cancelled_at_once(container):
    (job_id,) = enqueue(container, new_job())
    assert steer(container, "cancel", job_id)
    now = job(container, job_id)
    assert (now.state, now.error_type, now.error_message) == ("dead", "cancelled", "cancelled on request")


def test_a_finished_or_unknown_job_cannot_be_cancelled(container):
    (job_id,) = enqueue(container, new_job())
    finish(container, claim(container, job_id))
    (cancelled,) = enqueue(container, new_job())
    steer(container, "cancel", cancelled)
    assert not steer(container, "cancel", job_id)
    assert not steer(container, "cancel", cancelled)
    assert not steer(container, "cancel", 4711)
    assert job(container, job_id).state is JobState.DONE


def test_a_running_job_is_asked_to_stop(container):
    (job_id,) = enqueue(container, new_job())
    run = claim(container, job_id)
    assert steer(container, "cancel", job_id)
    container.ledger.heartbeat([run])
    with pytest.raises(errors.JobCancelled):
        run.checkpoint()


@pytest.mark.parametrize("ending", ["retried", "released", "lapsed"])
def test_a_running_job_that_was_cancelled_is_never_run_again(container, ending):
    (job_id,) = enqueue(container, new_job())
    run = claim(container, job_id)
    steer(container, "cancel", job_id)
    if ending == "retried":
        container.ledger.failed(run, errors.TransientError("not now"))
    elif ending == "released":
        container.ledger.release(run)
    else:
        container.clock.advance(31)
        container.ledger.sweep()
    container.clock.advance(3_600)
    assert container.ledger.claim(job_id) is None
    now = job(container, job_id)
    assert (now.state, now.error_type) == ("dead", "cancelled")


def test_a_waiting_batch_is_cancelled_with_its_children(container):
    parent, children = batch_with(container, 3)
    run = claim(container, children[0])
    assert steer(container, "cancel", parent)
    assert states(container, [parent, *children]) == ["waiting", "running", "dead", "dead"]
    container.ledger.failed(run, errors.JobCancelled("cancelled on request"))
    assert states(container, [parent, children[0]]) == ["dead", "dead"]
    assert job(container, children[0]).error_type == "cancelled"


def test_children_that_come_in_after_the_batch_was_cancelled_are_cancelled_too(container):
    (parent,) = enqueue(container, new_job(INGEST_BATCH))
    run = claim(container, parent)
    steer(container, "cancel", parent)
    (child,) = enqueue(container, new_job(INGEST_FILE, parent_id=parent))
    with container.database.write() as unit:
        run.wait_for_children(unit)
    assert states(container, [parent, child]) == ["dead", "dead"]


def test_a_dead_job_is_retried_with_a_clean_slate_and_reopens_its_parent(container):
    parent, (child,) = batch_with(container, 1)
    kill(container, child)
    assert job(container, parent).state is JobState.DONE
    assert steer(container, "retry", child)
    now = job(container, child)
    assert (now.state, now.attempts, now.lost_leases, now.finished_at) == ("pending", 0, 0, None)
    assert job(container, parent).state is JobState.WAITING
    finish(container, claim(container, child))
    assert states(container, [parent, child]) == ["done", "done"]
    assert job(container, child).error_message is None


def test_only_dead_jobs_are_retried(container):
    (job_id,) = enqueue(container, new_job())
    assert not steer(container, "retry", job_id)
    finish(container, claim(container, job_id))
    assert not steer(container, "retry", job_id)
    assert not steer(container, "retry", 4711)


def test_a_dead_job_whose_work_is_queued_anew_stays_dead(container):
    (dead,) = enqueue(container, new_job(dedupe_key="7"))
    kill(container, dead)
    (live,) = enqueue(container, new_job(dedupe_key="7"))
    assert not steer(container, "retry", dead)
    assert states(container, [dead, live]) == ["dead", "pending"]
    finish(container, claim(container, live))
    assert steer(container, "retry", dead)


def test_the_child_of_a_batch_that_runs_anew_can_be_retried(container):
    (parent,) = enqueue(container, new_job(INGEST_BATCH, dedupe_key="folder"))
    run = claim(container, parent)
    (child,) = enqueue(container, new_job(INGEST_FILE, dedupe_key="a", parent_id=parent))
    with container.database.write() as unit:
        run.wait_for_children(unit)
    kill(container, child)
    enqueue(container, new_job(INGEST_BATCH, dedupe_key="folder"))
    assert steer(container, "retry", child)
    finish(container, claim(container, child))
    assert states(container, [parent, child]) == ["done", "done"]


def test_a_cancelled_batch_that_is_retried_runs_again_with_its_children(container):
    parent, children = batch_with(container, 2)
    steer(container, "cancel", parent)
    assert steer(container, "retry", parent)
    assert states(container, [parent, *children]) == ["pending"] * 3
    run = claim(container, parent)
    with container.database.write() as unit:
        run.wait_for_children(unit)
    for child in children:
        assert job(container, parent).state is JobState.WAITING
        finish(container, claim(container, child))
    assert job(container, parent).state is JobState.DONE


def test_retrying_a_hundred_dead_jobs_rings_sixteen_bells(build):
    bells = Bells()
    container = build(publisher=bells)
    ids = enqueue(container, *(new_job() for _ in range(100)))
    with container.database.write() as unit:
        for job_id in ids:
            unit.jobs.cancel(job_id, now=container.clock.now())
    bells.rung.clear()
    with container.database.write() as unit:
        assert all(unit.jobs.retry(job_id, now=container.clock.now()) for job_id in ids)
    assert len(bells.rung) == 16


def test_dead_jobs_are_listed_newest_first_and_within_their_namespace(container):
    mine = enqueue(container, new_job(), new_job(), new_job())
    (other,) = enqueue(container, new_job(namespace="other"))
    for job_id in (*mine[:2], other):
        kill(container, job_id)
    with container.database.read() as unit:
        dead = unit.jobs.select(namespace="default", states=[JobState.DEAD])
        everywhere = unit.jobs.select(states=[JobState.DEAD])
        assert unit.jobs.get(mine[0], "other") is None
    assert [it.id for it in dead] == [mine[1], mine[0]]
    assert dead[0].error_message == "no way"
    assert [it.id for it in everywhere] == [other, mine[1], mine[0]]


def purge(container, *states):
    with container.database.write() as unit:
        return unit.jobs.purge(finished_before=container.clock.now(), states=states)


def test_purging_takes_old_finished_jobs_only(container):
    done, dead, live = enqueue(container, new_job(), new_job(), new_job())
    finish(container, claim(container, done))
    kill(container, dead)
    assert purge(container, JobState.DONE) == 0, "just finished"
    container.clock.advance(1)
    assert purge(container, JobState.DONE) == 1
    assert states(container, [dead, live]) == ["dead", "pending"]
    assert purge(container, JobState.DEAD, JobState.PENDING) == 1
    assert states(container, [live]) == ["pending"]


def test_purging_never_takes_a_dead_child_or_a_part_of_a_live_batch(container):
    broken, broken_children = batch_with(container, 2)
    finish(container, claim(container, broken_children[0]))
    kill(container, broken_children[1])
    live, live_children = batch_with(container, 2)
    finish(container, claim(container, live_children[0]))
    whole, whole_children = batch_with(container, 2)
    for child in whole_children:
        finish(container, claim(container, child))
    container.clock.advance(1)

    purge(container, JobState.DONE)

    with container.database.read() as unit:
        left = {it.id for it in unit.jobs.select()}
    assert left >= {broken, broken_children[1], live, *live_children}
    assert left.isdisjoint({whole, *whole_children})


def test_depths_tell_how_much_waits_since_when_and_for_how_long_still(container):
    now = container.clock.now()
    ids = enqueue(container, *(new_job() for _ in range(6)), new_job(run_after=now + 3_600_000_000))
    container.clock.advance(50)
    for job_id in ids[:2]:
        finish(container, claim(container, job_id))
    kill(container, ids[2])
    claim(container, ids[3])
    container.clock.advance(10)
    with container.database.read() as unit:
        (depth,) = unit.jobs.depths(now=container.clock.now())
        assert unit.jobs.depths(now=container.clock.now(), namespace="other") == []
    assert (depth.queue, depth.pending, depth.delayed, depth.running, depth.dead) == ("embedding", 2, 1, 1, 1)
    assert depth.oldest_seconds == 60
    assert depth.eta_seconds == 15  # 3 wait; 2 were done in the last 10 seconds


def test_the_estimate_is_unknown_while_nothing_was_done_lately(container):
    enqueue(container, new_job())
    with container.database.read() as unit:
        (depth,) = unit.jobs.depths(now=container.clock.now())
    assert depth.eta_seconds is None


def test_a_tally_counts_children_that_are_alike_and_adds_what_they_made(container):
    parent, children = batch_with(container, 3)
    for child in children[:2]:
        run = claim(container, child)
        with container.database.write() as unit:
            run.finish(unit, {"status": "stored", "chunks": 4, "added": 3})
    with container.database.read() as unit:
        rows = {(it.state, it.status): it for it in unit.jobs.tally(parent)}
    assert rows["done", "stored"].jobs == 2
    assert (rows["done", "stored"].chunks, rows["done", "stored"].added) == (8, 6)
    assert rows["pending", ""].jobs == 1
    assert EMBED_DOCUMENT.name not in {it.kind for it in rows.values()}


def test_the_live_twin_of_a_job_is_found_without_reading_the_queue(container):
    with container.sqlite.read() as connection:
        question = str(job_rows._LIVE_TWIN.compile(dialect=connection.dialect))
        plan = connection.exec_driver_sql(
            f"EXPLAIN QUERY PLAN {question}", ("x",) * question.count("?")
        ).all()
    assert [step[3] for step in plan] == [
        "SEARCH jobs USING INDEX uq_jobs_live (namespace=? AND kind=? AND dedupe_key=?)"
    ]


def test_a_look_at_all_queues_reads_no_queue_and_is_one_statement(container):
    with container.sqlite.read() as connection:
        compiled = job_rows._DUE_QUEUES.compile(dialect=connection.dialect)
        values = compiled.construct_params({"now": 1})
        plan = connection.exec_driver_sql(
            f"EXPLAIN QUERY PLAN {compiled}", tuple(values[name] for name in compiled.positiontup)
        ).all()
    searches = [step[3] for step in plan if "jobs" in step[3]]
    assert searches == ["SEARCH jobs USING COVERING INDEX ix_jobs_due (queue=?)"] * len(Queue)


def test_queues_with_something_due_are_told_from_those_where_all_waits_for_later(container):
    enqueue(container, new_job(INGEST_FILE), new_job(run_after=container.clock.now() + 5_000_000))
    with container.database.read() as unit:
        assert unit.jobs.due_queues(now=container.clock.now()) == {Queue.INGESTION}
        assert unit.jobs.due_queues(now=container.clock.now() + 5_000_000) == {
            Queue.INGESTION,
            Queue.EMBEDDING,
        }
