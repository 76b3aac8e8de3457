"""F21 and F23: jobs that kill, fill, loop and hang among good ones, in real Celery workers with real limits."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from services.jobs.models import JobState, NewJob
from tests.builders import enqueue, job
from tests.faults.harness import amount
from tests.faults.limits_app import DEADLOCKED, DEAF, GREEDY, LIMITS_APP, LOOPING
from tests.services.harness import NOOP, POISON, Stack, wait_until

pytestmark = [pytest.mark.faults, pytest.mark.timeout(900)]

# How each of them must end: by the limit that it is told of, by the one that it is killed by, or as it is.
ENDINGS = {
    LOOPING: "TransientError",
    DEADLOCKED: "TransientError",
    GREEDY: "MemoryError",
    DEAF: "worker_lost",
    POISON: "worker_lost",
}


def test_poison_of_five_kinds_is_dead_with_a_reason_and_all_good_jobs_are_done_f21_f23(
    start: Callable[..., Stack],
):
    stack = start(jobs__lease_secs=1.5, jobs__heartbeat_secs=0.4, jobs__max_attempts=2, jobs__slice_secs=0.5)
    container = stack.container
    bad = {
        job_id: kind
        for kind in ENDINGS
        for job_id in enqueue(container, *(NewJob(kind) for _ in range(amount(commit=1, nightly=5))))
    }
    good = enqueue(container, *(NewJob(NOOP) for _ in range(amount(commit=100, nightly=2_000))))
    worker = stack.worker(["graph", "maintenance"], app=LIMITS_APP)

    def ended() -> bool:
        return all(job(container, job_id).state in (JobState.DONE, JobState.DEAD) for job_id in [*bad, *good])

    wait_until(ended, "all have ended", worker, seconds=amount(commit=120, nightly=600), pause=0.5)
    assert {job(container, job_id).state for job_id in good} == {JobState.DONE}
    for job_id, kind in bad.items():
        found = job(container, job_id)
        assert (kind, found.state, found.error_type) == (kind, JobState.DEAD, ENDINGS[kind])
        assert found.error_message
    assert worker.alive()
