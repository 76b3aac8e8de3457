"""L2: four processes accept 5,000 messages as fast as they can, while the workers work."""

from __future__ import annotations

import multiprocessing
import random
import time
from pathlib import Path
from typing import Any

from services import errors
from services.settings import Settings
from tests.bench.bench_recall import speaker
from tests.bench.load.installation import drained, hints, installation, outcome, working
from tests.bench.load.measuring import Figure, Sampler, count, timed, times
from tests.builders import rows
from workers.client import connected

MESSAGES, PROCESSES = 5_000, 4
WORDS = 20


def run(scale: float, folder: Path) -> list[Figure]:
    each = max(5, round(MESSAGES * scale / PROCESSES))
    with installation(folder) as stack:
        stack.container.memory.remember("user", "the first")
        working(stack)
        fork = multiprocessing.get_context("fork")
        gate, results = fork.Barrier(PROCESSES + 1), fork.Queue()
        callers = [
            fork.Process(target=_caller, args=(stack.settings, number, each, gate, results))
            for number in range(PROCESSES)
        ]
        for caller in callers:
            caller.start()
        gate.wait(120)
        began = time.monotonic()
        with Sampler({"hints": lambda: hints(stack)}, every_seconds=0.5) as sampler:
            found = [results.get(timeout=300) for _ in callers]
            accepted = time.monotonic() - began
            drained(stack, seconds=600)
        after = time.monotonic() - began - accepted
        for caller in callers:
            caller.join(30)
        stored = rows(stack.container, "SELECT count(*) FROM messages")[0][0]
        return [
            Figure(f"{each * PROCESSES} accepted", accepted, "s", 30),
            *times("accept", [one for taken, _ in found for one in taken]),
            *count("refused as busy", sum(busy for _, busy in found)),
            Figure("drained after that", after, "s", 180),
            Figure("hints in Redis, most", sampler.peak("hints"), "", 5_000),
            *count("messages stored", stored, (each + 1) * PROCESSES + 1),
            *count("messages without a vector", stack.container.message_vectors.waiting()),
            *outcome(stack),
        ]


def _caller(settings: Settings, number: int, messages: int, gate: Any, results: Any) -> None:
    say, busy = speaker(random.Random(number)), 0
    with connected(settings) as container:
        memory = container.memory

        def accept() -> None:
            nonlocal busy
            try:
                memory.remember("user", say(WORDS), conversation=f"caller-{number}")
            except errors.StorageBusy:
                busy += 1

        # The first call opens the database and the broker.
        accept()
        gate.wait(120)
        results.put(([timed(accept) for _ in range(messages)], busy))
