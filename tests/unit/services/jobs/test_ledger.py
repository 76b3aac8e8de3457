import pytest
import sqlalchemy as sa

from services import errors
from services.adapters.in_memory import ManualClock
from services.jobs.models import INGEST_FILE, JobState, Queue, RetryPolicy
from tests.builders import Bells, claim, enqueue, finish, job, new_job


def seconds_until_due(container, job_id):
    return (job(container, job_id).run_after - container.clock.now()) / 1e6


# ---- leases ----------------------------------------------------------------------------------------------------


def test_a_heartbeat_keeps_a_job_longer_than_its_lease(container):
    (job_id,) = enqueue(container, new_job())
    run = claim(container, job_id)
    for _ in range(10):
        container.clock.advance(20)
        container.ledger.heartbeat([run])
        assert container.ledger.sweep()["returned"] == 0
    run.checkpoint()
    finish(container, run)
    assert job(container, job_id).attempts == 1


def test_a_heartbeat_tells_the_loser_of_a_lease_to_stop(container):
    lost, kept = (claim(container, it) for it in enqueue(container, new_job(), new_job()))
    container.clock.advance(20)
    container.ledger.heartbeat([kept])
    container.clock.advance(15)
    assert container.ledger.sweep() == {"returned": 1, "buried": 0, "rung": 1}
    container.ledger.heartbeat([lost, kept])
    kept.checkpoint()
    with pytest.raises(errors.LeaseLost, match="taken over"):
        lost.checkpoint()


class Pause(ManualClock):
    """A clock that does something while a sweep waits."""

    def __init__(self):
        super().__init__()
        self.meanwhile = lambda: None

    def sleep(self, seconds):
        super().sleep(seconds)
        self.meanwhile()


@pytest.fixture
def paused(build):
    container = build()
    container.clock = Pause()
    return container


def test_a_lease_that_ran_out_while_nobody_could_write_is_left_to_whoever_renews_it_then(paused):
    alive, gone = (claim(paused, it) for it in enqueue(paused, new_job(), new_job()))
    paused.clock.advance(40)
    paused.clock.meanwhile = lambda: paused.ledger.heartbeat([alive])
    assert paused.ledger.sweep()["returned"] == 1
    assert job(paused, alive.job.id).lost_leases == 0
    assert job(paused, gone.job.id).lost_leases == 1
    finish(paused, alive)


def test_a_sweep_that_had_to_wait_for_the_database_takes_nothing_back(paused, monkeypatch):
    (job_id,) = enqueue(paused, new_job())
    claim(paused, job_id)
    paused.clock.advance(40)
    write = paused.database.write

    def blocked(**options):
        paused.clock.advance(20)
        return write(**options)

    paused.ledger.sweep()
    claim(paused, job_id)
    paused.clock.advance(40)
    with monkeypatch.context() as patched:
        patched.setattr(paused.database, "write", blocked)
        assert paused.ledger.sweep()["returned"] == 0
    assert job(paused, job_id).state is JobState.RUNNING
    assert paused.ledger.sweep()["returned"] == 1


class Killed(BaseException):
    """What ends a process in the middle of a sweep."""


def test_jobs_come_back_even_if_no_sweep_lives_until_its_second_look(paused):
    (job_id,) = enqueue(paused, new_job())
    claim(paused, job_id)
    paused.clock.advance(31)

    def die():
        raise Killed

    paused.clock.meanwhile = die
    with pytest.raises(Killed):
        paused.ledger.sweep()
    paused.clock.meanwhile = lambda: pytest.fail("nothing is left to wait for")
    assert paused.ledger.sweep()["returned"] == 1


def test_a_lease_that_was_renewed_after_a_first_look_gets_two_more(paused):
    (job_id,) = enqueue(paused, new_job())
    run = claim(paused, job_id)
    paused.clock.advance(31)
    paused.clock.meanwhile = lambda: paused.ledger.heartbeat([run])
    assert paused.ledger.sweep()["returned"] == 0
    paused.clock.advance(31)
    assert paused.ledger.sweep()["returned"] == 0
    finish(paused, run)


def test_a_job_that_was_taken_back_keeps_its_place(container):
    first, _ = (enqueue(container, new_job())[0] for _ in range(2))
    claim(container, first)
    container.clock.advance(31)
    enqueue(container, new_job())
    container.ledger.sweep()
    run = container.ledger.claim_next(list(Queue))
    assert run is not None
    assert run.job.id == first


def test_a_clock_that_is_set_back_keeps_no_job_waiting_and_no_dead_workers_lease_alive(container):
    waiting, orphaned = enqueue(container, new_job(), new_job())
    container.ledger.sweep()
    claim(container, orphaned)
    container.clock.advance(-7_200)
    container.ledger.sweep()
    assert container.ledger.claim(waiting) is not None
    container.clock.advance(31)
    assert container.ledger.sweep()["returned"] == 2


def test_a_process_that_begins_after_the_clock_was_set_back_heeds_it_too(build):
    (waiting,) = enqueue(build(), new_job())
    later = build()
    later.clock.advance(-30 * 86_400)
    later.ledger.sweep()
    assert later.ledger.claim(waiting) is not None


def test_a_clock_that_is_right_leaves_backoff_and_leases_as_they_are(container):
    failed, running = enqueue(container, new_job(), new_job())
    container.ledger.failed(
        claim(container, failed), errors.ModelUnavailable("busy", retry_after_seconds=900)
    )
    claim(container, running)
    before = job(container, failed), job(container, running)
    container.ledger.sweep()
    assert (job(container, failed), job(container, running)) == before


def test_a_lapsed_lease_makes_the_job_due_at_once_and_the_third_one_buries_it(container):
    (job_id,) = enqueue(container, new_job())
    for lost in (1, 2):
        claim(container, job_id)
        container.clock.advance(31)
        assert container.ledger.sweep()["returned"] == 1
        assert (job(container, job_id).state, job(container, job_id).lost_leases) == ("pending", lost)
    claim(container, job_id)
    container.clock.advance(31)
    assert container.ledger.sweep()["buried"] == 1
    now = job(container, job_id)
    assert (now.state, now.error_type) == ("dead", "worker_lost")
    assert "vanished 3 times" in now.error_message


def test_a_stopping_worker_gives_a_job_back_as_it_was(container):
    (job_id,) = enqueue(container, new_job())
    before = job(container, job_id)
    container.ledger.release(claim(container, job_id))
    now = job(container, job_id)
    assert (now.state, now.attempts, now.lost_leases) == ("pending", 0, 0)
    assert now.run_after == before.run_after
    assert container.ledger.claim(job_id) is not None


# ---- failures --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [errors.StorageBusy("locked"), ZeroDivisionError("division by zero")])
def test_what_may_pass_is_retried_with_backoff_until_the_attempts_are_used_up(container, error):
    (job_id,) = enqueue(container, new_job())
    delays = []
    for _ in range(7):
        assert not container.ledger.failed(claim(container, job_id), error)
        delays.append(seconds_until_due(container, job_id))
        assert container.ledger.claim(job_id) is None
        container.clock.advance(delays[-1])
    assert container.ledger.failed(claim(container, job_id), error)

    assert delays == [1, 2, 4, 8, 16, 32, 64]  # half of the ceiling: the entropy of tests is fixed
    now = job(container, job_id)
    assert (now.state, now.attempts, now.error_type) == ("dead", 8, type(error).__name__)
    assert now.error_message == str(error)


def test_the_delay_never_leaves_the_jitters_bounds(build):
    container = build(real_time=True)
    policy = RetryPolicy()
    (job_id,) = enqueue(container, new_job())
    run = claim(container, job_id)
    delays = [container.ledger._delay_seconds(run.job, errors.TransientError("x")) for _ in range(200)]
    assert all(0 <= delay <= policy.delay_ceiling(1) for delay in delays)
    assert len(set(delays)) > 100


def test_the_ceiling_doubles_up_to_its_cap():
    policy = RetryPolicy()
    assert [policy.delay_ceiling(attempts) for attempts in (0, 1, 2, 3, 9, 10, 1_000)] == [
        2, 2, 4, 8, 512, 900, 900,
    ]  # fmt: skip


@pytest.mark.parametrize(("wished", "waited"), [(7.5, 7.5), (0, 0), (-3, 0), (86_400, 900)])
def test_the_wish_of_a_server_is_honoured_up_to_the_cap(container, wished, waited):
    (job_id,) = enqueue(container, new_job())
    container.ledger.failed(
        claim(container, job_id), errors.ModelUnavailable("busy", retry_after_seconds=wished)
    )
    assert seconds_until_due(container, job_id) == waited


def test_a_vector_store_that_is_away_costs_no_attempt_for_ten_minutes_and_work_goes_on_soon_after_f14(
    container,
):
    (job_id,) = enqueue(container, new_job())
    away = errors.VectorStoreUnavailable("the vector store does not answer", retry_after_seconds=10)
    waits, free = [], 0
    while not container.ledger.failed(claim(container, job_id), away):
        free += job(container, job_id).attempts == 0
        waits.append(seconds_until_due(container, job_id))
        container.clock.advance(waits[-1])

    assert waits[:6] == [10, 10, 10, 10, 10, 12.5]
    assert max(waits) == 60
    assert sum(waits[: free - 1]) < 600 < sum(waits[:free])
    now = job(container, job_id)
    assert (now.state, now.attempts, now.error_type) == ("dead", 8, "VectorStoreUnavailable")


@pytest.mark.parametrize(
    "error",
    [
        errors.InputError("the file is no text"),
        errors.DocumentError("the file is no text"),
        errors.DimensionMismatch("the file is no text"),
        errors.PermanentError("the file is no text"),
    ],
)
def test_what_cannot_be_cured_is_dead_at_once_with_its_reason(container, error):
    (job_id,) = enqueue(container, new_job())
    assert container.ledger.failed(claim(container, job_id), error)
    now = job(container, job_id)
    assert (now.state, now.attempts, now.error_message) == ("dead", 1, "the file is no text")


def test_a_reason_is_one_line_of_bounded_length_even_when_the_error_says_nothing(container):
    silent, loud = enqueue(container, new_job(), new_job())
    container.ledger.failed(claim(container, silent), errors.PermanentError())
    container.ledger.failed(claim(container, loud), errors.PermanentError("many\n\tlines " * 1_000))
    assert job(container, silent).error_message == "Retrying cannot help."
    assert len(job(container, loud).error_message) == 500
    assert job(container, loud).error_message.startswith("many lines many lines")


# ---- fairness --------------------------------------------------------------------------------------------------


def test_one_job_of_a_quiet_namespace_waits_for_at_most_one_of_a_backlog(container):
    enqueue(container, *(new_job(namespace="a", priority=0) for _ in range(1_000)))
    container.clock.advance(1)
    enqueue(container, new_job(namespace="b", priority=9))
    claimed = [container.ledger.claim_next(["embedding"]).job.namespace for _ in range(2)]
    assert "b" in claimed


def test_namespaces_come_in_turn_again_and_again(container):
    for namespace in ("c", "a", "b"):
        enqueue(container, *(new_job(namespace=namespace) for _ in range(3)))
    order = [container.ledger.claim_next(["embedding"]).job.namespace for _ in range(9)]
    assert order == ["a", "b", "c"] * 3


def test_queues_come_in_turn(container):
    enqueue(container, *(new_job() for _ in range(5)), *(new_job(INGEST_FILE) for _ in range(5)))
    order = [container.ledger.claim_next(["embedding", "ingestion"]).job.queue for _ in range(10)]
    assert order in (["embedding", "ingestion"] * 5, ["ingestion", "embedding"] * 5)
    assert container.ledger.claim_next(["embedding", "ingestion"]) is None


def test_within_a_namespace_priority_comes_first_and_then_age(container):
    late, early, urgent = enqueue(
        container,
        new_job(run_after=container.clock.now() - 1),
        new_job(run_after=container.clock.now() - 2),
        new_job(priority=0),
    )
    order = [container.ledger.claim_next(["embedding"]).job.id for _ in range(3)]
    assert order == [urgent, early, late]


def test_an_idle_worker_looks_at_all_its_queues_at_once_and_writes_nothing(container):
    asked = []
    sa.event.listen(sa.Engine, "before_cursor_execute", watch := lambda *call: asked.append(call[2]))
    try:
        for _ in range(3):
            assert container.ledger.claim_next(list(Queue)) is None
    finally:
        sa.event.remove(sa.Engine, "before_cursor_execute", watch)
    looks = [statement for statement in asked if "jobs" in statement]
    assert len(looks) == 3
    assert {statement.split()[0] for statement in looks} == {"SELECT"}


def test_other_queues_are_left_alone(container):
    enqueue(container, new_job(INGEST_FILE))
    assert container.ledger.claim_next([Queue.EMBEDDING]) is None


# ---- bells -----------------------------------------------------------------------------------------------------


def test_a_sweep_rings_for_what_nobody_was_told_of_a_bounded_number_at_a_time(build):
    bells = Bells()
    container = build(publisher=bells, jobs__dispatch_window=10)
    ids = enqueue(container, *(new_job() for _ in range(40)))
    bells.rung.clear()
    assert container.ledger.sweep()["rung"] == 10
    assert container.ledger.sweep()["rung"] == 10
    assert container.ledger.sweep()["rung"] == 4
    assert container.ledger.sweep()["rung"] == 0
    assert [job_id for _, _, job_id in bells.rung] == ids[16:]


def test_an_unanswered_bell_rings_again_only_when_it_is_stale(build):
    bells = Bells()
    container = build(publisher=bells)
    (job_id,) = enqueue(container, new_job())
    container.clock.advance(29)
    assert container.ledger.ring("embedding") == 0
    container.clock.advance(2)
    assert container.ledger.ring("embedding") == 1
    assert bells.rung == [("embedding", "documents.embed_document", job_id)] * 2
    claim(container, job_id)
    container.clock.advance(31)
    assert container.ledger.ring("embedding") == 0, "it was answered"


def test_bells_that_a_broker_missed_ring_when_it_is_back(build):
    bells = Bells()
    container = build(publisher=bells)
    bells.away = True
    enqueue(container, *(new_job() for _ in range(20)))
    assert container.ledger.sweep()["rung"] == 0
    bells.away = False
    container.clock.advance(31)
    assert container.ledger.sweep()["rung"] == 20


def test_a_retry_rings_when_it_is_due(build):
    bells = Bells()
    container = build(publisher=bells)
    (job_id,) = enqueue(container, new_job())
    container.ledger.failed(claim(container, job_id), errors.TransientError("x", retry_after_seconds=5))
    bells.rung.clear()
    assert container.ledger.ring("embedding") == 0
    container.clock.advance(5)
    assert container.ledger.ring("embedding") == 1
    assert job(container, job_id).state is JobState.PENDING
