"""The embedded vector store against a plain NumPy product over the same data.

Usage: python tests/bench/bench_vectors.py [--points 100000] [--dimension 384] [--queries 50]
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path

import numpy as np

from services.adapters import migrations
from services.adapters.sqlite import Sqlite
from services.adapters.sqlite_vectors import SqliteVectorStore
from services.ports import Condition, Filter, Point

NAME, NAMESPACE = "bench", "default"
ROLES = ("user", "assistant", "system", "tool")


def make(count: int, dimension: int, seed: int) -> np.ndarray:
    rows = np.random.default_rng(seed).standard_normal((count, dimension), dtype=np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def insert(store: SqliteVectorStore, rows: np.ndarray) -> float:
    rng = np.random.default_rng(1)
    keys = [str(uuid.UUID(bytes=rng.bytes(16))) for _ in rows]
    points = [
        Point(key, row, {"message_id": i, "conversation_id": i // 100, "role": ROLES[i % 4], "created_at": i})
        for i, (key, row) in enumerate(zip(keys, rows, strict=True))
    ]
    started = time.perf_counter()
    for i in range(0, len(points), 1_000):
        store.upsert(NAME, NAMESPACE, points[i : i + 1_000])
    return len(points) / (time.perf_counter() - started)


def p50(action, arguments) -> float:
    taken = []
    for argument in arguments:
        started = time.perf_counter()
        action(argument)
        taken.append(time.perf_counter() - started)
    return statistics.median(taken) * 1_000


def memory() -> str:
    status = Path("/proc/self/status").read_text()
    lines = {line.split(":")[0]: int(line.split()[1]) // 1024 for line in status.splitlines() if "kB" in line}
    return f"own {lines['RssAnon']} MB, mapped {lines['RssFile']} MB"


def second_process(folder: Path, dimension: int) -> None:
    store = SqliteVectorStore(Sqlite(folder / "zeph.db"), folder / "cache")
    queries = make(10, dimension, 2)
    store.search("none", NAMESPACE, queries[0], limit=10)
    print(f"  before the first search: {memory()}")
    started = time.perf_counter()
    store.search(NAME, NAMESPACE, queries[0], limit=10)
    print(f"  first search {1_000 * (time.perf_counter() - started):.0f} ms")
    print(f"  p50 {p50(lambda q: store.search(NAME, NAMESPACE, q, limit=10), queries):.1f} ms, {memory()}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--points", type=int, default=100_000)
    parser.add_argument("--dimension", type=int, default=384)
    parser.add_argument("--queries", type=int, default=50)
    parser.add_argument("--second", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.second:
        second_process(options.second, options.dimension)
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        sqlite = Sqlite(folder / "zeph.db")
        migrations.ensure(sqlite)
        store = SqliteVectorStore(sqlite, folder / "cache")
        store.ensure_collection(NAME, options.dimension)
        rows, queries = (
            make(options.points, options.dimension, 0),
            make(options.queries, options.dimension, 2),
        )
        print(f"{options.points} points of {options.dimension}: insert {insert(store, rows):,.0f}/s")

        started = time.perf_counter()
        store.search(NAME, NAMESPACE, queries[0], limit=10)
        print(f"first search, which builds the file: {time.perf_counter() - started:.2f} s")
        plain = p50(lambda query: np.argpartition(rows @ query, -10)[-10:], queries)
        ours = p50(lambda query: store.search(NAME, NAMESPACE, query, limit=10), queries)
        print(f"p50: plain product {plain:.1f} ms, store {ours:.1f} ms, ratio {ours / plain:.2f}")
        filters = {
            "a quarter": Filter(must=(Condition("role", any_of=("user",)),)),
            "a hundredth": Filter(must=(Condition("created_at", at_most=options.points // 100),)),
            "all but one conversation": Filter(must_not=(Condition("conversation_id", any_of=(3,)),)),
        }
        for label, where in filters.items():
            taken = p50(lambda q, w=where: store.search(NAME, NAMESPACE, q, limit=10, where=w), queries)
            print(f"p50 with a filter that leaves {label}: {taken:.1f} ms")
        found = 0
        for query in queries:
            exact = set(np.argsort(-(rows @ query))[:10].tolist())
            hits = store.search(NAME, NAMESPACE, query, limit=10)
            found += len(exact & {hit.payload["message_id"] for hit in hits})
        print(f"recall@10 against exact: {found / (10 * len(queries)):.4f}")
        taken = p50(
            lambda query: (
                store.upsert(NAME, NAMESPACE, [Point(str(uuid.UUID(int=7)), query, {"role": "user"})]),
                store.search(NAME, NAMESPACE, query, limit=10),
            ),
            queries,
        )
        print(f"p50 of one write and one search: {taken:.1f} ms")
        print(f"this process: {memory()}")
        print("a second process:", flush=True)
        arguments = ["--second", name, "--dimension", str(options.dimension)]
        subprocess.run([sys.executable, __file__, *arguments], check=True)
        sqlite.close()


if __name__ == "__main__":
    main()
