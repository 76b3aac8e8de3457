"""L6: 20,000 mixed jobs in one life of a worker process: messages and notes, new, changed and forgotten; the graph."""

from __future__ import annotations

from pathlib import Path

from tests.bench.load.installation import drained, installation, outcome, working, write_ahead_log
from tests.bench.load.measuring import MIB, Figure, Sampler, children, count, growth, open_files, resident
from tests.builders import rows
from tests.faults.harness import History
from tests.faults.workload import accept, violations

JOBS = 20_000
CALLS_AT_ONCE = 200
_DONE = "SELECT count(*) FROM jobs WHERE state = 'done'"


def run(scale: float, folder: Path) -> list[Figure]:
    jobs = max(100, round(JOBS * scale))
    with installation(folder, model=False, memory__graph__enabled=True) as stack:
        history = History(folder / "history")
        container = stack.container
        worker = working(stack, concurrency=1)
        (child,) = children(worker.pid)

        def done() -> int:
            return int(rows(container, _DONE)[0][0])

        probes = {
            "done": done,
            "memory": lambda: resident(child),
            "files": lambda: open_files(child),
            "log": lambda: write_ahead_log(stack),
        }
        with Sampler(probes, every_seconds=0.5) as sampler:
            seed = 0
            while done() < jobs:
                accept(container, history, min(CALLS_AT_ONCE, jobs // 4), seed)
                # One process works off what another one accepts: a small backlog, as in any day.
                drained(stack, seconds=300)
                seed += 1
        # What the life began with is the state after a tenth of it.
        warm = next(at for at, number in enumerate(sampler.readings["done"]) if number >= jobs / 10)
        memory, files = (sampler.readings[name][warm:] for name in ("memory", "files"))
        return [
            Figure("jobs done", sampler.peak("done"), "", jobs, at_least=True, exact=True),
            *count("worker processes in that time", len({child, *children(worker.pid)}), 1),
            Figure("memory of the worker process, most", max(memory) / MIB, "MiB"),
            Figure("growth of memory after the first tenth", growth(memory, 0), "%", 10),
            Figure("open files, most", max(files)),
            Figure("growth of open files after the first tenth", growth(files, 0), "%", 0),
            Figure("write-ahead log, most", sampler.peak("log") / MIB, "MiB", 64),
            *count("differences to what was acknowledged", len(violations(container, history))),
            *outcome(stack),
        ]
