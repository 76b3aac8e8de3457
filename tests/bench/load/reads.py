"""L3: 50 reads a second of 100,000 messages, 20,000 entities and 100,000 facts, beside 20 new messages a second."""

from __future__ import annotations

import multiprocessing
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

from services import errors
from services.bootstrap import Container
from services.settings import Settings
from tests.bench.bench_graph import made_up, store_entities, store_facts
from tests.bench.bench_recall import speaker, store_all
from tests.bench.load.installation import backlog, drained, installation, outcome, working
from tests.bench.load.measuring import Figure, Sampler, count, paced, times
from tests.bench.load.remembers import PER_SECOND, remember
from workers.client import connected

MESSAGES, ENTITIES, FACTS = 100_000, 20_000, 100_000
SECONDS, READS_PER_SECOND = 180, 50
# What must be answered in how many milliseconds, of 99 in a hundred.
LIMITS = {"keyword": 40, "hybrid": 120, "graph, 2 hops": 60}
QUERY_WORDS, LIMIT, HOPS = 4, 10, 2


def run(scale: float, folder: Path) -> list[Figure]:
    seconds = max(3.0, SECONDS * scale)
    with installation(folder) as stack:
        container, dice = stack.container, random.Random(1)
        store_all(container, max(100, round(MESSAGES * scale)), speaker(dice))
        _, names = made_up(max(100, round(ENTITIES * scale)), dice)
        store_facts(container, store_entities(container, names), max(200, round(FACTS * scale)), dice)
        working(stack)
        fork = multiprocessing.get_context("fork")
        gate, results = fork.Barrier(len(LIMITS) + 1), fork.Queue()
        readers = [
            fork.Process(target=_reader, args=(stack.settings, kind, names, seconds, gate, results))
            for kind in LIMITS
        ]
        for reader in readers:
            reader.start()
        gate.wait(120)
        with Sampler({"backlog": lambda: backlog(stack)}, every_seconds=1) as sampler:
            accepted = remember(stack, round(PER_SECOND * seconds))
            found = dict(results.get(timeout=300) for _ in readers)
        for reader in readers:
            reader.join(30)
        drained(stack, seconds=300)
        figures = [
            figure
            for kind, limit in LIMITS.items()
            for figure in times(f"{kind} ({len(found[kind][0]):,} reads)", found[kind][0], p99=limit)
        ]
        return [
            *figures,
            *count("reads that failed or were degraded", sum(failed for _, failed in found.values())),
            *times("accept meanwhile", accepted, p50=5, p99=50, most=1_000),
            Figure("backlog, most", sampler.peak("backlog"), "jobs", 200),
            *count("messages without a vector", container.message_vectors.waiting()),
            *outcome(stack),
        ]


def _reader(settings: Settings, kind: str, names: list[str], seconds: float, gate: Any, results: Any) -> None:
    """Ask in one way; the times, and how many answers were none."""
    failed = 0
    with connected(settings) as container:
        ask = _way(container, kind, names)

        def counted(number: int) -> None:
            nonlocal failed
            try:
                failed += not ask(number)
            except errors.MemoryError:
                failed += 1

        counted(0)
        gate.wait(120)
        rate = READS_PER_SECOND / len(LIMITS)
        results.put((kind, (paced(counted, max(1, round(rate * seconds)), per_second=rate), failed)))


def _way(container: Container, kind: str, names: list[str]) -> Callable[[int], bool]:
    """How to ask the next question; whether it was answered whole."""
    dice = random.Random(2)
    # The words that messages are made of, and so the seed.
    text = speaker(random.Random(1))
    if kind.startswith("graph"):

        def related(_: int) -> bool:
            question = f"What do we know about {dice.choice(names)}?"
            container.graph_recall.recall(question, namespace="default", limit=LIMIT, max_hops=HOPS)
            return True

        return related

    def recalled(_: int) -> bool:
        answer = container.recall.recall(text(QUERY_WORDS), namespace="default", limit=LIMIT, mode=kind)
        return not answer.degraded

    return recalled
