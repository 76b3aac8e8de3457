"""L1: 20 messages a second for ten minutes, two worker processes, and an embedder that takes 20 ms."""

from __future__ import annotations

import random
import time
from pathlib import Path

from tests.bench.bench_recall import speaker
from tests.bench.load.installation import backlog, drained, hints, installation, outcome, working
from tests.bench.load.measuring import Figure, Sampler, Taken, count, paced, times
from tests.builders import rows
from tests.services.harness import Stack
from workers.client import connected

PER_SECOND, SECONDS = 20, 600
WORDS = 20


def run(scale: float, folder: Path) -> list[Figure]:
    messages = max(40, round(PER_SECOND * SECONDS * scale))
    with installation(folder) as stack:
        working(stack)
        remember(stack, 1)
        drained(stack, seconds=60)
        probes = {"backlog": lambda: backlog(stack), "hints": lambda: hints(stack)}
        with Sampler(probes, every_seconds=1) as sampler:
            taken = remember(stack, messages)
        ended = time.monotonic()
        drained(stack, seconds=300)
        after = time.monotonic() - ended
        stored = rows(stack.container, "SELECT count(*) FROM messages")[0][0]
        return [
            *times("accept", taken, p50=5, p99=50, most=1_000),
            Figure("backlog, most", sampler.peak("backlog"), "jobs", 200),
            Figure("hints in Redis, most", sampler.peak("hints"), "", 5_000),
            Figure("all done after the end", after, "s", 60),
            *count("messages stored", stored, messages + 1),
            *count("messages without a vector", stack.container.message_vectors.waiting()),
            *outcome(stack),
        ]


def remember(stack: Stack, messages: int, *, per_second: float = PER_SECOND) -> list[Taken]:
    """Accept messages at a steady rate."""
    # Of few words they would repeat one another, and be taken for corrections.
    say = speaker(random.Random(1))
    texts = [say(WORDS) for _ in range(messages)]
    with connected(stack.settings) as agent:
        memory = agent.memory
        return paced(lambda number: memory.remember("user", texts[number]), messages, per_second=per_second)
