"""How long `remember` keeps an agent waiting while two workers embed, beside a bare insert of the same rows.

Usage: python tests/bench/bench_memory.py [--messages 500] [--backlog 4000] [--provider local]
"""

from __future__ import annotations

import argparse
import random
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from services.memory.models import NewMessage, Role
from tests.services.harness import Stack

WORDS = "harbour lantern gravel orchard violin compass ferry meadow anvil thistle copper walnut".split()
TARGET_P50, TARGET_P99 = 5.0, 50.0


def row(what: str, value: str, target: str = "") -> None:
    print(f"  {what:<58} {value:>18}   {target}", flush=True)


def text(chance: random.Random) -> str:
    return " ".join(chance.choice(WORDS) for _ in range(30))


def milliseconds(action: Callable[[str], object], texts: list[str], pause_seconds: float) -> list[float]:
    times = []
    for each in texts:
        began = time.perf_counter()
        action(each)
        times.append(1_000 * (time.perf_counter() - began))
        # An agent speaks now and then; without pauses only the disk would be measured.
        time.sleep(pause_seconds)
    return sorted(times)


def shown(times: list[float]) -> str:
    return f"{statistics.median(times):.1f} / {times[int(0.99 * len(times))]:.1f} ms"


def bare_insert(folder: Path) -> Callable[[str], object]:
    """The cheapest durable way to keep a text: one row, one commit, the same pragmas."""
    connection = sqlite3.connect(folder / "bare.db", isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("CREATE TABLE notes (id INTEGER PRIMARY KEY, content TEXT NOT NULL)")
    return lambda content: connection.execute("INSERT INTO notes (content) VALUES (?)", (content,))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=500)
    parser.add_argument("--backlog", type=int, default=4_000)
    parser.add_argument("--pause", type=float, default=0.01, help="Seconds between two messages.")
    parser.add_argument("--provider", default="local")
    options = parser.parse_args()
    chance = random.Random(7)
    texts = [text(chance) for _ in range(options.messages)]
    settings = {"embedding__provider": options.provider}
    with (
        tempfile.TemporaryDirectory() as name,
        Stack(Path(name, "stack"), broker=False, **settings) as stack,
    ):
        memory = stack.container.memory
        remember: Callable[[str], object] = lambda content: memory.remember("user", content)  # noqa: E731
        insert = bare_insert(Path(name))
        bare = milliseconds(insert, texts, options.pause)
        alone = milliseconds(remember, texts, options.pause)

        backlog = [NewMessage(Role.USER, text(chance)) for _ in range(options.backlog)]
        began = time.perf_counter()
        memory.remember_many("backlog", backlog)
        bulk = time.perf_counter() - began
        stack.zeph("worker", "--concurrency", "2")
        waiting = stack.container.message_vectors.waiting
        first = waiting()
        while waiting() == first:
            time.sleep(0.05)
        bare_busy = milliseconds(insert, texts, options.pause)
        busy = milliseconds(remember, texts, options.pause)
        left = waiting()

    print(f"{options.messages} messages of 30 words, median / 99th percentile")
    row("bare insert", shown(bare))
    row("bare insert, two workers embedding", shown(bare_busy))
    row("remember, nothing else running", shown(alone))
    row("remember, two workers embedding", shown(busy), f"target {TARGET_P50:.0f} / {TARGET_P99:.0f} ms")
    row("still to embed at the end", f"{left}", "0 would mean that the workers were idle at times")
    row(f"remember_many of {options.backlog}", f"{options.backlog / bulk:,.0f}/s")


if __name__ == "__main__":
    main()
