"""How fast texts are read for the graph without a language model, and what the graph costs an agent that remembers.

Usage: python tests/bench/bench_extraction.py [--messages 2000]
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from pathlib import Path

from services.bootstrap import Container, open_container
from services.graph.local_extraction import candidate_names, extract
from services.graph.texts import Reading
from services.memory.models import NewMessage
from workers.local import run_pending

PEOPLE = "Ana Ben Cleo Dora Emil Fred Gina Hugo Iris Jack Kira Liam".split()
PLACES = "Porto Oslo Quito Turin Kyoto Lagos Perth Split".split()
PLAIN = "we then talked about the weather and the long way home from there".split()
TARGET_PER_SECOND = 1_000


def row(what: str, value: str, target: str = "") -> None:
    print(f"  {what:<58} {value:>18}   {target}", flush=True)


def text(chance: random.Random) -> str:
    words = [chance.choice(PLAIN) for _ in range(12)]
    names = f"I met {chance.choice(PEOPLE)} and {chance.choice(PEOPLE)} in {chance.choice(PLACES)} last week."
    return f"{names} {' '.join(words).capitalize()}."


def container(folder: str, *, enabled: bool) -> Container:
    return open_container(
        {
            "data_dir": folder,
            "embedding.provider": "none",
            "memory.graph.enabled": enabled,
            "jobs.min_free_disk_bytes": 0,
        }
    )


def remember_seconds(texts: list[str], *, enabled: bool) -> float:
    with tempfile.TemporaryDirectory() as folder, container(folder, enabled=enabled) as opened:
        opened.memory.remember("user", "first")
        began = time.process_time()
        for each in texts:
            opened.memory.remember("user", each)
        return time.process_time() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=2_000)
    count = parser.parse_args().messages
    chance = random.Random(1)
    texts = [text(chance) for _ in range(count)]
    print(f"{count} messages, seconds of CPU; load {Path('/proc/loadavg').read_text().split()[0]}")

    began = time.process_time()
    for at, each in enumerate(texts):
        candidate_names(each)
        extract(Reading(each, 0, "Zoe", tuple(texts[max(0, at - 4) : at])))
    spent = time.process_time() - began
    row("local extractor alone", f"{count / spent:,.0f}/s", f"target >= {TARGET_PER_SECOND:,}/s")

    with tempfile.TemporaryDirectory() as folder, container(folder, enabled=True) as opened:
        opened.memory.remember_many("c", [NewMessage("user", each, speaker="Zoe") for each in texts])
        began = time.process_time()
        run_pending(opened, ["graph"])
        spent = time.process_time() - began
        stats = opened.graph.stats("default")
    row("read, resolved and stored, one job for 50", f"{count / spent:,.0f}/s")
    row("entities / facts", f"{stats['entities']} / {stats['edges']}")

    off, on = (remember_seconds(texts[:500], enabled=enabled) for enabled in (False, True))
    row("one `remember` without / with the graph", f"{2 * off:.2f} / {2 * on:.2f} ms", f"{on / off:.2f} x")


if __name__ == "__main__":
    main()
