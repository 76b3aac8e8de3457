import pytest

from services import errors
from services.jobs.models import (
    DETECT_MISSING,
    EMBED_MISSING,
    EVICT_GRAPH,
    EVICT_MESSAGES,
    EVICT_RESPONSES,
    GRAPH_REFRESH,
    PURGE_JOBS,
    RECONCILE,
)
from services.jobs.schedule import Periodic, Scheduler
from tests.builders import claim, finish

ENTRIES = (Periodic(RECONCILE, 600), Periodic(PURGE_JOBS, 86_400))


@pytest.fixture
def schedulers(container):
    return [Scheduler(container.database, container.clock, ENTRIES) for _ in range(2)]


def enqueued(container, kind):
    with container.database.read() as unit:
        return [job.id for job in unit.jobs.select(kind=kind.name)]


def test_the_first_period_is_skipped(container, schedulers):
    assert schedulers[0].tick() == []
    assert enqueued(container, RECONCILE) == []


def test_two_schedulers_enqueue_one_job_per_period(container, schedulers):
    for scheduler in schedulers:
        scheduler.tick()
    for period in range(1, 6):
        container.clock.advance(600)
        started = [kind for scheduler in schedulers for _ in range(3) for kind in scheduler.tick()]
        assert started.count(RECONCILE.name) == 1
        (job_id, *older) = enqueued(container, RECONCILE)
        assert len(older) == period - 1
        finish(container, claim(container, job_id))


def test_periods_that_nobody_was_there_for_are_not_made_up(container, schedulers):
    schedulers[0].tick()
    container.clock.advance(600 * 50)
    assert schedulers[0].tick() == [RECONCILE.name]
    assert len(enqueued(container, RECONCILE)) == 1


def test_a_job_that_still_waits_is_not_doubled_by_the_next_period(container, schedulers):
    schedulers[0].tick()
    for _ in range(3):
        container.clock.advance(600)
        schedulers[0].tick()
    assert len(enqueued(container, RECONCILE)) == 1


def test_a_scheduled_job_that_dies_every_time_leaves_one_dead_row(container, schedulers):
    schedulers[0].tick()
    for _ in range(3):
        container.clock.advance(600)
        schedulers[0].tick()
        (job_id,) = enqueued(container, RECONCILE)
        container.ledger.failed(claim(container, job_id), errors.PermanentError("no use"))


def test_a_clock_that_jumps_back_runs_nothing_twice(container, schedulers):
    schedulers[0].tick()
    container.clock.advance(600)
    assert schedulers[0].tick() == [RECONCILE.name]
    finish(container, claim(container, enqueued(container, RECONCILE)[0]))
    for step in (-600, 600, -3_000, 3_000):
        container.clock.advance(step)
        for scheduler in schedulers:
            assert scheduler.tick() == []
    container.clock.advance(600)
    assert schedulers[1].tick() == [RECONCILE.name]


def test_a_clock_that_was_a_month_ahead_stops_nothing_for_a_month(container, schedulers):
    schedulers[0].tick()
    container.clock.advance(30 * 86_400)
    assert schedulers[0].tick() == [RECONCILE.name, PURGE_JOBS.name]
    for (job_id,) in (enqueued(container, RECONCILE), enqueued(container, PURGE_JOBS)):
        finish(container, claim(container, job_id))
    container.clock.advance(-30 * 86_400)
    for scheduler in schedulers:
        assert scheduler.tick() == []
    container.clock.advance(600)
    started = [kind for scheduler in schedulers for kind in scheduler.tick()]
    assert started == [RECONCILE.name]


def test_the_container_schedules_upkeep(container):
    assert [entry.kind for entry in container.periodic] == [
        RECONCILE,
        EMBED_MISSING,
        DETECT_MISSING,
        EVICT_MESSAGES,
        EVICT_RESPONSES,
        EVICT_GRAPH,
        GRAPH_REFRESH,
        PURGE_JOBS,
    ]
