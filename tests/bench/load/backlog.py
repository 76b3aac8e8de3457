"""L4: 50,000 jobs that do nothing wait in the ledger, and two worker processes work them off."""

from __future__ import annotations

import time
from pathlib import Path

from services.jobs.models import NewJob
from tests.bench.load.installation import backlog, hints, installation, outcome
from tests.bench.load.measuring import MIB, Figure, Sampler, count, growth, resident
from tests.builders import enqueue, rows
from tests.services.harness import JOBS_APP, NOOP, wait_until

JOBS, PER_UNIT = 50_000, 5_000
_DONE = f"SELECT count(*) FROM jobs WHERE kind = '{NOOP.name}' AND state = 'done'"


def run(scale: float, folder: Path) -> list[Figure]:
    jobs = max(200, round(JOBS * scale))
    with installation(folder, model=False) as stack:
        for at in range(0, jobs, PER_UNIT):
            enqueue(stack.container, *(NewJob(NOOP) for _ in range(min(PER_UNIT, jobs - at))))
        # Counted from here, though the processes need seconds to start: they begin to work one by one.
        began = time.monotonic()
        worker = stack.worker(concurrency=2, app=JOBS_APP)
        beat = stack.beat(app=JOBS_APP)
        probes = {
            "hints": lambda: hints(stack),
            "memory": lambda: sum(map(resident, stack.left_behind())),
        }
        with Sampler(probes, every_seconds=0.5) as sampler:
            wait_until(lambda: backlog(stack) == 0, "every job has ended", worker, seconds=900)
            seconds = time.monotonic() - began
        assert beat.alive()
        return [
            Figure("drained", jobs / seconds, "jobs/s", 200, at_least=True),
            Figure("hints in Redis, most", sampler.peak("hints"), "", 5_000),
            Figure("memory of workers and beat, most", sampler.peak("memory") / MIB, "MiB"),
            Figure("growth after the first tenth", growth(sampler.readings["memory"]), "%", 10),
            *count("jobs done", rows(stack.container, _DONE)[0][0], jobs),
            *outcome(stack),
        ]
