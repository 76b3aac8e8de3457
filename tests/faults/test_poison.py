"""F21 and F23: jobs that kill, fill memory, loop and hang among good ones, in real Celery workers with real limits."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable

import pytest

from services.bootstrap import Container
from services.jobs.models import Job, JobKind, JobState, NewJob
from tests.builders import enqueue, job
from tests.faults.harness import amount
from tests.faults.limits_app import DEADLOCKED, DEAF, GREEDY, LIMITS_APP, LOOPING
from tests.services.harness import NOOP, POISON, Process, Stack, wait_until

pytestmark = [pytest.mark.faults, pytest.mark.timeout(900)]

# How each of them must end: by the limit that it is told of, by the one that it is killed by, or as it is.
ENDINGS = {
    LOOPING: "TransientError",
    DEADLOCKED: "TransientError",
    GREEDY: "MemoryError",
    DEAF: "worker_lost",
    POISON: "worker_lost",
}
POISONS = (POISON, GREEDY, LOOPING, DEADLOCKED)
LEASES = 3
# Nightly with the defaults of the product; a commit's run cannot wait for them.
SETTINGS = {
    "jobs__lease_secs": amount(commit=1.5, nightly=30),
    "jobs__heartbeat_secs": amount(commit=0.4, nightly=10),
    "jobs__sweep_interval_secs": amount(commit=0.5, nightly=10),
    "jobs__max_attempts": LEASES,
    "jobs__max_lost_leases": LEASES,
    "jobs__slice_secs": 0.5,
}


def test_poison_of_four_kinds_is_dead_with_a_reason_and_holds_up_no_good_job_f21(start: Callable[..., Stack]):
    stack = start(**SETTINGS)
    container = stack.container
    worker = stack.worker(["graph", "maintenance"], app=LIMITS_APP, concurrency=amount(commit=4, nightly=8))
    count, each = amount(commit=60, nightly=2_000), amount(commit=1, nightly=5)

    # Before anything is measured, every process has had something to do.
    _ended(container, _one_after_the_other(container, [NOOP] * 40), worker)
    normal = _one_after_the_other(container, [NOOP] * count)
    _ended(container, normal, worker)
    kinds = [NOOP] * count
    for number, kind in enumerate(POISONS * each):
        kinds.insert((number + 1) * count // (len(POISONS) * each), kind)
    mixed = dict(zip(_one_after_the_other(container, kinds), kinds, strict=True))
    ended = _ended(container, mixed, worker)

    good = [found for found in ended if mixed[found.id] == NOOP]
    assert {found.state for found in good} == {JobState.DONE}
    for found in ended:
        if (kind := mixed[found.id]) != NOOP:
            assert (found.state, found.attempts) == (JobState.DEAD, LEASES), kind
            assert found.error_type in {ENDINGS[kind], "worker_lost"}, kind
            assert found.error_message
    before, beside = _p99([job(container, job_id) for job_id in normal]), _p99(good)
    print(
        f"F21: {len(ended) - len(good)} of {len(POISONS)} kinds among {len(good)} good jobs, dead after {LEASES} leases "
        f"with a reason; good jobs' p99 {before:.3f} s without them, {beside:.3f} s beside them"
    )
    assert beside <= amount(commit=60, nightly=2 * before)
    assert worker.alive()


def test_jobs_over_a_limit_run_again_or_are_dead_and_never_vanish_f23(start: Callable[..., Stack]):
    stack = start(**SETTINGS)
    container = stack.container
    worker = stack.worker(["graph", "maintenance"], app=LIMITS_APP, concurrency=amount(commit=4, nightly=8))
    # Every other one is over its limit once and then is not; the others always are.
    asked = {
        job_id: (kind, times)
        for kind in (LOOPING, DEAF)
        for number in range(amount(commit=2, nightly=20))
        for times in [LEASES if number % 2 else 1]
        for job_id in enqueue(container, NewJob(kind, {"times": times}))
    }
    ended = _ended(container, asked, worker)
    done = [found for found in ended if found.state == JobState.DONE]
    assert done
    for found in ended:
        kind, times = asked[found.id]
        if found in done:
            assert times < LEASES
            assert found.attempts > 1
        else:
            # Whoever starves on a busy machine loses its lease instead, or once more.
            assert found.error_type in {ENDINGS[kind], "worker_lost"}, kind
            assert (found.attempts, bool(found.error_message)) == (LEASES, True)
    print(
        f"F23: {len(asked) // 2} over the soft and {len(asked) // 2} over the hard limit, half of them once: "
        f"{len(done)} done at another attempt, {len(ended) - len(done)} dead with a reason"
    )
    assert worker.alive()


def _one_after_the_other(container: Container, kinds: Iterable[JobKind]) -> list[int]:
    """Jobs that come in at a steady pace, far below what the workers can do."""
    began, found = time.monotonic(), []
    for number, kind in enumerate(kinds):
        time.sleep(max(0.0, began + 0.05 * number - time.monotonic()))
        found += enqueue(container, NewJob(kind))
    return found


def _ended(container: Container, ids: Iterable[int], worker: Process) -> list[Job]:
    wanted = list(ids)

    def ended() -> bool:
        return all(job(container, job_id).state in (JobState.DONE, JobState.DEAD) for job_id in wanted)

    wait_until(ended, "all have ended", worker, seconds=600, pause=0.5)
    return [job(container, job_id) for job_id in wanted]


def _p99(jobs: Iterable[Job]) -> float:
    """Of the seconds from being accepted to the end."""
    taken = [((found.finished_at or 0) - found.created_at) / 1_000_000 for found in jobs]
    return statistics.quantiles(taken, n=100)[-1]
