"""Recall over 100,000 messages: p50 beside a bare full-text query and a bare vector search on the same data.

Run: python tests/bench/bench_recall.py [messages] [queries]. The embedding of the query is not counted.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from collections.abc import Callable
from statistics import median

import numpy as np

from services.bootstrap import open_container
from services.embedding.points import message_point_ids
from services.memory.models import MessageFilter, NewMessage, Role
from services.memory.vectors import COLLECTION
from services.ports import Point

DIMENSION = 384
_BATCH = 2_000
_MICROSECONDS = 1_000_000


def main(messages: int = 100_000, queries: int = 100) -> None:
    """Print milliseconds of each, and the ratio of recall to the two bare queries together."""
    dice = random.Random(1)
    # Word frequencies fall with rank, as those of a language do.
    vocabulary = ["".join(dice.choices("abcdefghijklmnoprstuvw", k=7)) for _ in range(20_000)]
    weights = [1 / (rank + 20) for rank in range(len(vocabulary))]
    settings = {
        "embedding.provider": "fake",
        "embedding.dimensions": DIMENSION,
        "jobs.min_free_disk_bytes": 0,
    }
    with (
        tempfile.TemporaryDirectory() as folder,
        open_container({"data_dir": folder, **settings}) as container,
    ):
        space = container.spaces.for_writing(COLLECTION)
        assert space is not None
        physical = space.collection.physical
        vectors = np.random.default_rng(1).standard_normal((messages, DIMENSION), dtype=np.float32)
        for at in range(0, messages, _BATCH):
            texts = [
                " ".join(dice.choices(vocabulary, weights, k=20)) for _ in range(min(_BATCH, messages - at))
            ]
            new = [
                NewMessage(Role.USER, text, created_at=(at + n) * 60 * _MICROSECONDS)
                for n, text in enumerate(texts)
            ]
            with container.database.write(durable=False) as unit:
                chat = unit.messages.create_conversation("default", key=str(at))
                ids = unit.messages.add("default", chat, new)
            points = [
                Point(
                    message_point_ids("default", physical, item, 1)[0],
                    vectors[at + n],
                    {
                        "message_id": item,
                        "conversation_id": chat,
                        "role": "user",
                        "created_at": new[n].created_at or 0,
                        "agent_visible": 1,
                    },
                )
                for n, item in enumerate(ids)
            ]
            container.spaces.write(space, "default", points)
        asked = [" ".join(dice.choices(vocabulary, weights, k=4)) for _ in range(queries)]
        recall, where = container.recall, MessageFilter()

        def words(query: str) -> None:
            with container.database.read() as unit:
                unit.messages.search("default", query, limit=10, where=where)

        def meaning(query: str) -> None:
            vector = space.embedder.embed([query], kind="query")[0]
            container.vectors.search(physical, "default", vector, limit=10)

        embedding = _p50(lambda query: space.embedder.embed([query], kind="query"), asked)
        bare = _p50(words, asked), _p50(meaning, asked) - embedding
        full = (
            _p50(lambda query: recall.recall(query, namespace="default", limit=10, mode="hybrid"), asked)
            - embedding
        )
    print(f"{messages} messages, {queries} queries of 4 words, p50 in ms without embedding")
    print(f"full text {bare[0]:.1f}  vectors {bare[1]:.1f}  recall {full:.1f}  ratio {full / sum(bare):.2f}")


def _p50(call: Callable[[str], object], queries: list[str]) -> float:
    call(queries[0])
    times = []
    for query in queries:
        started = time.perf_counter()
        call(query)
        times.append(time.perf_counter() - started)
    return 1_000 * median(times)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
