import logging
import threading
import time

import pytest
from celery.exceptions import SoftTimeLimitExceeded

from services import errors
from services.jobs.models import EMBED_MESSAGES, EXTRACT_GRAPH, JobKind, JobState, NewJob, Queue
from services.jobs.run import WorkerStopping
from services.settings import GraphSettings
from tests.builders import enqueue, job
from workers import job as jobs
from workers.job import Runner

KIND = JobKind("tests.scripted", Queue.GRAPH)


@pytest.fixture
def handler(monkeypatch):
    """Declare a handler for KIND that does what the test says."""

    def declare(function):
        monkeypatch.setattr(jobs, "REGISTRY", dict(jobs.REGISTRY))
        jobs.REGISTRY.pop(KIND.name, None)
        jobs.job(KIND)(function)

    return declare


def run(container, job_id):
    claimed = container.ledger.claim(job_id)
    runner = Runner(container)
    runner.run(claimed)
    return job(container, job_id)


def accept(container, count=1):
    return enqueue(container, *(NewJob(KIND) for _ in range(count)))


def test_a_handler_that_returns_makes_its_job_done(container, handler):
    handler(lambda _container, _run: None)
    assert run(container, *accept(container)).state is JobState.DONE


@pytest.mark.parametrize(
    "payload", ["{}", '{"block": "7"}', '{"block": -1}', '{"block": 1e99}', "[]", "{", ""]
)
def test_a_payload_of_another_version_is_a_dead_letter_that_says_so_at_the_first_attempt(container, payload):
    (job_id,) = enqueue(container, NewJob(EMBED_MESSAGES, {"block": 7}))
    with container.sqlite.write() as connection:
        connection.exec_driver_sql("UPDATE jobs SET payload = ?", (payload,))
    Runner(container).run_next([Queue.EMBEDDING])
    found = job(container, job_id)
    assert (found.state, found.error_type, found.attempts) == (JobState.DEAD, "UnknownVersion", 1)
    assert "memory.embed_messages job has no usable 'block': another version" in found.error_message


def test_a_handler_that_finished_the_job_itself_keeps_its_outcome(container, handler):
    def finish(container, run):
        with container.database.write() as unit:
            run.finish(unit, {"status": "stored"})

    handler(finish)
    assert run(container, *accept(container)).outcome == {"status": "stored"}


@pytest.mark.parametrize(
    ("error", "state", "kind"),
    [
        (errors.StorageBusy("locked"), "pending", "StorageBusy"),
        (KeyError("surprise"), "pending", "KeyError"),
        (errors.InputError("no such thing"), "dead", "InputError"),
        (errors.PermanentError("no"), "dead", "PermanentError"),
        (errors.JobCancelled("cancelled on request"), "dead", "cancelled"),
    ],
)
def test_whatever_a_handler_raises_ends_as_a_state_of_its_job(container, handler, error, state, kind):
    def fail(_container, _run):
        raise error

    handler(fail)
    now = run(container, *accept(container))
    assert (now.state, now.error_type) == (state, kind)
    assert now.error_message


def test_a_job_that_reached_its_time_limit_says_so_in_words(container, handler):
    def fail(_container, _run):
        raise SoftTimeLimitExceeded

    handler(fail)
    now = run(container, *accept(container))
    assert now.error_message == "it took longer than a job of its queue may, and was stopped"


def test_an_unexpected_error_is_logged_with_its_traceback_and_a_known_one_without(container, handler, caplog):
    raised = []

    def fail(_container, _run):
        raise raised[-1]

    handler(fail)
    for error, traced in ((KeyError("x"), True), (errors.StorageBusy("x"), False)):
        raised.append(error)
        caplog.clear()
        run(container, *accept(container))
        (record,) = caplog.records
        assert bool(record.exc_info) is traced
        assert "job_retried" in record.getMessage()


def test_a_lost_lease_changes_nothing_and_is_logged(container, handler, caplog):
    def lose(container, run):
        container.clock.advance(31)
        container.ledger.sweep()
        with container.database.write() as unit:
            unit.jobs.enqueue([NewJob(KIND, dedupe_key="effect")])
            run.finish(unit)

    handler(lose)
    caplog.set_level(logging.WARNING)
    now = run(container, *accept(container))
    assert (now.state, now.lost_leases, now.error_type) == ("pending", 1, None)
    assert "lease_lost" in caplog.text
    with container.database.read() as unit:
        assert len(unit.jobs.select(kind=KIND.name)) == 1


def test_a_job_of_an_unknown_kind_is_dead_with_its_reason(container):
    (job_id,) = enqueue(container, NewJob(JobKind("future.work", Queue.GRAPH)))
    now = run(container, job_id)
    assert (now.state, now.error_message) == (
        "dead",
        "this version has no handler for jobs of kind future.work",
    )


def test_a_stopping_runner_gives_its_job_back_with_the_attempts_unchanged(container, handler):
    runner = Runner(container)

    def long(_container, run):
        run.checkpoint()
        runner.stop()
        run.checkpoint()

    handler(long)
    (job_id,) = accept(container)
    runner.run(container.ledger.claim(job_id))
    now = job(container, job_id)
    assert (now.state, now.attempts, now.lost_leases) == ("pending", 0, 0)


def test_a_runner_that_was_stopped_takes_no_job_and_ends_one_that_was_just_claimed(container, handler):
    handler(lambda _container, run: run.checkpoint())
    (job_id,) = accept(container)
    runner = Runner(container)
    claimed = container.ledger.claim(job_id)
    runner.stop()
    runner.run(claimed)
    assert not runner.run_next([Queue.GRAPH])
    assert runner.drain([Queue.GRAPH], seconds=10, first=job_id)
    assert (job(container, job_id).state, job(container, job_id).attempts) == ("pending", 0)


def test_a_job_whose_bell_a_stopping_worker_hears_is_rung_for_again_at_once(container, handler):
    handler(lambda _container, _run: None)
    (job_id,) = accept(container)
    assert container.ledger.ring(Queue.GRAPH) == 0
    runner = Runner(container)
    runner.stop()
    assert runner.drain([Queue.GRAPH], seconds=10, first=job_id)
    assert container.ledger.ring(Queue.GRAPH) == 1


def test_a_drain_runs_the_named_job_first_and_then_what_is_due(container, handler):
    order = []
    handler(lambda _container, run: order.append(run.job.id))
    ids = accept(container, 4)
    assert not Runner(container).drain([Queue.GRAPH], seconds=60, first=ids[2])
    assert order == [ids[2], ids[0], ids[1], ids[3]]


def test_a_drain_ends_with_its_slice_of_time_and_says_that_work_is_left(container, handler):
    handler(lambda _container, _run: time.sleep(0.02))
    accept(container, 20)
    started = time.monotonic()
    assert Runner(container).drain([Queue.GRAPH], seconds=0.1)
    assert time.monotonic() - started < 1
    with container.database.read() as unit:
        assert 0 < len(unit.jobs.select(states=[JobState.DONE])) < 20


def test_a_drain_whose_named_job_is_taken_runs_the_others(container, handler):
    handler(lambda _container, _run: None)
    first, second = accept(container, 2)
    container.ledger.claim(first)
    Runner(container).drain([Queue.GRAPH], seconds=60, first=first)
    assert job(container, first).state is JobState.RUNNING
    assert job(container, second).state is JobState.DONE


def test_a_lease_is_kept_by_heartbeats_and_a_cancellation_arrives_with_one(build, handler):
    container = build(real_time=True, jobs__heartbeat_secs=0.1, jobs__lease_secs=1)
    leases = []

    def long(container, run):
        started = time.monotonic()
        while time.monotonic() - started < 10:
            time.sleep(0.05)
            leases.append(job(container, run.job.id).lease_until)
            if len(leases) == 8:
                with container.database.write() as unit:
                    unit.jobs.cancel(run.job.id, now=container.clock.now())
            run.checkpoint()

    handler(long)
    now = run(container, *accept(container))
    assert (now.state, now.error_type) == ("dead", "cancelled")
    assert len(set(leases)) >= 3


def test_an_idle_runner_has_no_heartbeat_thread(build, handler):
    container = build(jobs__heartbeat_secs=0.1)
    handler(lambda _container, _run: None)
    runner = Runner(container)
    for job_id in accept(container, 2):
        runner.run(container.ledger.claim(job_id))
        heart = runner._heart
        heart.join(5)
        assert not heart.is_alive()
        assert runner._heart is None
    assert heart not in threading.enumerate()


def test_a_kind_has_one_handler_and_its_options_are_checked():
    with pytest.raises(ValueError, match="has a handler already"):
        jobs.job(next(iter(jobs.REGISTRY.values())).kind)(lambda _container, _run: None)
    with pytest.raises(TypeError):
        jobs.job(KIND, hard_limit_secs=1)


def test_every_kind_of_the_ledger_has_a_handler_whose_limits_leave_time_to_end():
    from services.jobs import models

    kinds = {kind.name for kind in vars(models).values() if isinstance(kind, JobKind)}
    assert kinds <= set(jobs.REGISTRY)
    for spec in jobs.REGISTRY.values():
        assert spec.soft_limit_seconds < spec.hard_limit_seconds


def test_the_longest_extraction_that_can_be_set_ends_before_its_job():
    """Graph bug 23: an inner budget larger than the outer one. Each of three questions about names may take as long."""
    (longest,) = (
        limit.le
        for limit in GraphSettings.model_fields["extraction_timeout_secs"].metadata
        if hasattr(limit, "le")
    )
    assert 4 * longest < jobs.REGISTRY[EXTRACT_GRAPH.name].soft_limit_seconds


def test_worker_stopping_is_no_error_that_a_handler_would_swallow_as_ours():
    assert not issubclass(WorkerStopping, errors.MemoryError)
