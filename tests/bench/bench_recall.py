"""Recall over 100,000 messages of 20 words, beside a bare full-text query and a bare vector product on the same data.

Run: python tests/bench/bench_recall.py [messages] [queries] [words of a query]. It takes three minutes. The embedding of
the query is not counted: the embedder here needs 0.03 ms.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import TYPE_CHECKING

import numpy as np

from services.bootstrap import open_container
from services.embedding.points import message_point_ids
from services.memory.models import NewMessage, Role
from services.memory.vectors import COLLECTION
from services.ports import Point

if TYPE_CHECKING:
    from services.bootstrap import Container
    from services.ports import Vector

DIMENSION = 384
LIMIT = 10
_BATCH = 2_000
_MINUTE = 60_000_000
# So many queries of a kind one after the other: of the first after another kind, little is in the processor's caches.
_ROUND = 20
# The threads of a NumPy product spin for a tenth of a second, in case another one follows, and take a core meanwhile.
_PAUSE = 0.15
_FULL_TEXT = "SELECT rowid, rank FROM messages_fts WHERE messages_fts MATCH ? ORDER BY rank LIMIT ?"
TARGET_P50, TARGET_RATIO = 10.0, 2.0


def main(messages: int = 100_000, queries: int = 100, words: int = 4) -> None:
    """Print milliseconds of each, and the ratio of recall to the two bare queries together."""
    text = speaker(random.Random(1))
    settings = {
        "embedding.provider": "fake",
        "embedding.dimensions": DIMENSION,
        "jobs.min_free_disk_bytes": 0,
    }
    with (
        tempfile.TemporaryDirectory() as folder,
        open_container({"data_dir": folder, **settings}) as container,
    ):
        began = time.perf_counter()
        matrix = store_all(container, messages, text)
        print(f"{messages} messages stored in {time.perf_counter() - began:.0f} s", flush=True)
        embedder = container.embedder
        assert embedder is not None

        def full_text(query: str) -> object:
            any_word = " OR ".join(f'"{word}"' for word in query.split())
            with container.sqlite.read() as connection:
                return connection.exec_driver_sql(_FULL_TEXT, (any_word, LIMIT)).all()

        def product(query: str) -> object:
            return np.argpartition(matrix @ embedder.embed([query], kind="query")[0], -LIMIT)[-LIMIT:]

        def recall(query: str) -> object:
            return container.recall.recall(query, namespace="default", limit=LIMIT, mode="hybrid")

        calls = {"bare full text": full_text, "bare vector product": product, "recall": recall}
        asked = [text(words) for _ in range(queries)]
        times = measured(calls, asked)
        # What an agent sees that asks now and then: a processor that has to wake up first.
        times |= measured({"recall after a pause": recall}, asked, at_once=1)

    print(f"{queries} queries of {words} words: p50 / p95 / p99 in ms")
    for name, taken in times.items():
        p50, p95, p99 = (sorted(taken)[int(share * len(taken))] for share in (0.5, 0.95, 0.99))
        target = f"   target p50 {TARGET_P50:.0f}" if name == "recall" else ""
        print(f"  {name:<22} {p50:6.1f} / {p95:6.1f} / {p99:6.1f}{target}")
    bare = median(times["bare full text"]) + median(times["bare vector product"])
    print(f"  recall / both bare     {median(times['recall']) / bare:6.2f}   target {TARGET_RATIO:.0f}")


def speaker(dice: random.Random) -> Callable[[int], str]:
    """Makes texts of so many words. Their frequencies fall with rank, as those of a language do."""
    vocabulary = ["".join(dice.choices("abcdefghijklmnoprstuvw", k=7)) for _ in range(20_000)]
    weights = [1 / (rank + 20) for rank in range(len(vocabulary))]
    return lambda length: " ".join(dice.choices(vocabulary, weights, k=length))


def store_all(container: Container, messages: int, text: Callable[[int], str]) -> Vector:
    """Messages of 20 words with random vectors, which are returned; embedding that many would take an hour."""
    matrix = np.random.default_rng(1).standard_normal((messages, DIMENSION), dtype=np.float32)
    matrix /= np.linalg.norm(matrix, axis=1, keepdims=True)
    for at in range(0, messages, _BATCH):
        part = matrix[at : at + _BATCH]
        store(container, at, [text(20) for _ in part], part)
    return matrix


def store(container: Container, first: int, texts: Sequence[str], vectors: Vector) -> None:
    """One conversation of messages a minute apart, with these vectors."""
    space = container.spaces.for_writing(COLLECTION)
    assert space is not None
    physical = space.collection.physical
    new = [
        NewMessage(Role.USER, text, created_at=(first + number) * _MINUTE)
        for number, text in enumerate(texts)
    ]
    with container.database.write(durable=False) as unit:
        chat = unit.messages.create_conversation("default", key=str(first))
        ids = unit.messages.add("default", chat, new)
    points = [
        Point(
            message_point_ids("default", physical, message_id, 1)[0],
            vector,
            {
                "message_id": message_id,
                "conversation_id": chat,
                "role": "user",
                "created_at": message.created_at or 0,
                "agent_visible": 1,
            },
        )
        for message_id, message, vector in zip(ids, new, vectors, strict=True)
    ]
    container.spaces.write(space, "default", points)
    with container.database.write(durable=False) as unit:
        unit.messages.mark_embedded(physical, [(message_id, 1) for message_id in ids])


def measured(
    calls: dict[str, Callable[[str], object]], queries: Sequence[str], *, at_once: int = _ROUND
) -> dict[str, list[float]]:
    """Milliseconds of each call for each query; in turns, so that whatever else runs disturbs all alike."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for call in calls.values():
        call(queries[0])
    for first in range(0, len(queries), at_once):
        for name, call in calls.items():
            time.sleep(_PAUSE)
            for query in queries[first : first + at_once]:
                started = time.perf_counter()
                call(query)
                times[name].append(1_000 * (time.perf_counter() - started))
    return times


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
