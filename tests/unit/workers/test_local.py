import os
import sys
import threading
import time

import pytest

from services import errors
from services.documents.models import DocumentMetadata, SplitterConfig
from services.jobs.models import RECONCILE, JobKind, JobState, NewJob, Queue
from tests.builders import PlainParser, ScriptedEmbedder, enqueue, job, new_job, rows, submit, write_files
from workers.job import REGISTRY, JobSpec
from workers.local import LocalWorker, nothing_due, nothing_left, run_job, run_pending


@pytest.fixture
def container(build):
    made = build(real_time=True)
    made.parser = PlainParser()
    made.embedder = ScriptedEmbedder()
    return made


def until_done(container, job_id):
    return lambda: job(container, job_id).state is JobState.DONE


def test_everything_that_was_accepted_is_done_and_nothing_is_left(container, tmp_path):
    folder = write_files(tmp_path / "docs", {f"{number}.txt": f"text {number}" for number in range(20)})
    batch = submit(container, folder)
    with LocalWorker(container, concurrency=3) as worker:
        worker.run_until(until_done(container, batch), poll_seconds=0.02)
    assert rows(container, "SELECT count(*) FROM chunks") == [(20,)]
    assert rows(container, "SELECT count(*) FROM chunk_embeddings") == [(20,)]
    assert nothing_left(container, list(Queue))


def test_an_idle_worker_stops_within_a_second(container):
    with LocalWorker(container, concurrency=4) as worker:
        time.sleep(0.3)
        started = time.monotonic()
    assert time.monotonic() - started < 1
    assert not any(thread.is_alive() for thread in worker._threads)


def test_an_idle_worker_looks_at_no_table_until_somebody_has_committed(container, monkeypatch):
    looks = []
    claim_next = container.ledger.claim_next
    monkeypatch.setattr(container.ledger, "claim_next", lambda queues: looks.append(0) or claim_next(queues))
    with LocalWorker(container, concurrency=3) as worker:
        time.sleep(0.5)
        looks.clear()
        time.sleep(1)
        assert looks == []
        (job_id,) = enqueue(container, new_job(RECONCILE))
        worker.run_until(until_done(container, job_id), poll_seconds=0.02)
        assert looks


def test_all_idle_threads_hear_of_what_comes(container, monkeypatch):
    together = threading.Barrier(3, timeout=5)
    monkeypatch.setitem(REGISTRY, RECONCILE.name, JobSpec(RECONCILE, lambda *_: together.wait(), 10, 10))
    with LocalWorker(container, concurrency=3) as worker:
        time.sleep(0.5)
        ids = enqueue(container, *(new_job(RECONCILE, dedupe_key=str(number)) for number in range(3)))
        # None of them ends before all of them run.
        worker.run_until(lambda: all(until_done(container, job_id)() for job_id in ids), poll_seconds=0.02)


def test_a_job_whose_time_comes_while_nothing_else_happens_is_run(container):
    (job_id,) = enqueue(container, new_job(RECONCILE, run_after=container.clock.now() + 700_000))
    with LocalWorker(container) as worker:
        started = time.monotonic()
        worker.run_until(until_done(container, job_id), poll_seconds=0.02)
    assert 0.5 < time.monotonic() - started < 4


def test_a_stop_in_the_middle_of_a_long_document_hands_its_job_back(container):
    text = "\n\n".join(f"Paragraph {number} of a long document." for number in range(300))
    container.ingestion.add_text(text, DocumentMetadata("long", "text/plain"), splitter=SplitterConfig(8, 0))
    started = threading.Event()

    def slow():
        started.set()
        time.sleep(0.1)

    container.embedder.before_embed = slow
    with LocalWorker(container, concurrency=1):
        assert started.wait(10)
    assert rows(container, "SELECT state, attempts, lost_leases FROM jobs") == [("pending", 0, 0)]
    done = rows(container, "SELECT count(*) FROM chunk_embeddings")[0][0]
    assert 0 < done < 300

    container.embedder.before_embed = lambda: None
    container.embedder.texts.clear()
    run_pending(container)
    total = rows(container, "SELECT count(*) FROM chunks")[0][0]
    assert len(container.embedder.texts) == total - done, "what was done is not done again"
    assert rows(container, "SELECT count(*) FROM chunk_embeddings") == [(total,)]


def test_only_the_named_queues_are_worked_on(container):
    embed, reconcile = enqueue(container, new_job(payload={"document_id": 1}), new_job(RECONCILE))
    with LocalWorker(container, queues=[Queue.MAINTENANCE]) as worker:
        worker.run_until(until_done(container, reconcile), poll_seconds=0.02)
    assert job(container, embed).state is JobState.PENDING
    assert not nothing_left(container, [Queue.EMBEDDING])
    assert nothing_left(container, [Queue.MAINTENANCE])


def test_a_job_enqueued_while_the_clock_was_just_read_is_not_left_behind(container):
    now = container.clock.now()
    enqueue(container, new_job(run_after=now + 500_000, payload={"document_id": 1}))
    enqueue(container, new_job(RECONCILE, run_after=now + 60_000_000))
    assert not nothing_due(container, [Queue.EMBEDDING])
    assert nothing_due(container, [Queue.MAINTENANCE])


@pytest.mark.slow
def test_the_jobs_of_a_vanished_worker_are_taken_over(build):
    container = build(
        real_time=True, jobs__lease_secs=1, jobs__heartbeat_secs=0.2, jobs__sweep_interval_secs=0.2
    )
    (job_id,) = enqueue(container, new_job(payload={"document_id": 4711}))
    assert container.ledger.claim(job_id) is not None
    with LocalWorker(container, concurrency=1) as worker:
        worker.run_until(until_done(container, job_id), poll_seconds=0.02)
    assert job(container, job_id).lost_leases == 1


def test_a_database_that_is_busy_for_a_while_does_not_end_the_worker(container, monkeypatch):
    failures = iter([errors.StorageBusy("locked")] * 2)
    claim_next = container.ledger.claim_next

    def sometimes(queues):
        for error in failures:
            raise error
        return claim_next(queues)

    monkeypatch.setattr(container.ledger, "claim_next", sometimes)
    (job_id,) = enqueue(container, new_job(payload={"document_id": 4711}))
    with LocalWorker(container, concurrency=1) as worker:
        worker.run_until(until_done(container, job_id), poll_seconds=0.02)
    assert job(container, job_id).state is JobState.DONE


def test_what_makes_working_impossible_ends_the_worker_with_its_reason(container, monkeypatch):
    def fail(_queues):
        raise errors.SchemaError("zeph.db is damaged")

    monkeypatch.setattr(container.ledger, "claim_next", fail)
    with (
        pytest.raises(errors.SchemaError, match=r"zeph\.db is damaged"),
        LocalWorker(container, concurrency=2) as worker,
    ):
        worker.run_until(lambda: False)


def test_one_job_can_be_worked_on_until_it_ends(container):
    good, bad = enqueue(container, new_job(RECONCILE), NewJob(JobKind("future.work", Queue.GRAPH)))
    run_job(container, good)
    assert job(container, good).state is JobState.DONE
    with pytest.raises(errors.PermanentError, match=f"job {bad} failed: this version has no handler"):
        run_job(container, bad)
    with pytest.raises(errors.NotFound, match="there is no job 4711"):
        run_job(container, 4711)


def test_pending_work_is_run_with_what_it_enqueues(container, tmp_path):
    batch = submit(container, write_files(tmp_path / "docs", {"a.txt": "text"}))
    run_pending(container)
    assert job(container, batch).state is JobState.DONE
    assert nothing_left(container, list(Queue))


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells threads apart")
def test_the_threads_of_a_background_worker_give_way_and_its_callers_do_not(container, monkeypatch):
    seen = []
    handler = JobSpec(RECONCILE, lambda *_: seen.append(os.getpriority(os.PRIO_PROCESS, 0)), 10, 10)
    monkeypatch.setitem(REGISTRY, RECONCILE.name, handler)
    before = os.getpriority(os.PRIO_PROCESS, 0)
    for niceness in (0, 9):
        (job_id,) = enqueue(container, new_job(RECONCILE))
        with LocalWorker(container, concurrency=1, niceness=niceness) as worker:
            worker.run_until(until_done(container, job_id), poll_seconds=0.02)
    assert seen == [before, max(before, 9)]
    assert os.getpriority(os.PRIO_PROCESS, 0) == before
