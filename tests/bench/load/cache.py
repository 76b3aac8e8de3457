"""L7: ten processes ask a language model the same 500 prompts at once, and then again when all answers are known."""

from __future__ import annotations

from pathlib import Path

from tests.bench.bench_cache import upstream_calls
from tests.bench.load.measuring import Figure, Taken, count, times

PROMPTS, PROCESSES = 500, 10
HIT_SECONDS = 10.0


def run(scale: float, folder: Path) -> list[Figure]:
    prompts = max(10, round(PROMPTS * scale))
    # A small fraction of the load is to see that it works: most of it would be the start of the processes.
    processes = PROCESSES if scale > 0.01 else 2
    hit_seconds = max(0.2, HIT_SECONDS * scale)
    calls, seconds, hits = upstream_calls(folder, prompts, processes, hit_seconds=hit_seconds)
    return [
        Figure("calls of the model", calls, "", int(1.01 * prompts), exact=True),
        Figure("all answered", seconds, "s"),
        *times(
            f"hit, {processes} processes, each 100 a second",
            [Taken(wall / 1_000, work / 1_000) for wall, work in hits],
            p99=5,
        ),
        *count("calls of the model that are missing", max(0, prompts - calls)),
    ]
