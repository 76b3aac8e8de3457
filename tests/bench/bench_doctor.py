"""How long `zeph doctor` takes on a large healthy store: `python tests/bench/bench_doctor.py [MESSAGES [CHUNKS]]`.

The store is written straight into the tables, with random vectors: accepting and embedding that much would take hours.
"""

from __future__ import annotations

import json
import os
import random
import resource
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from services.adapters.scopes import scope_token
from services.bootstrap import Container, open_container
from services.embedding.points import point_ids
from services.embedding.store import CollectionState
from services.ids import content_hash

DIMENSION = 384
NAMESPACES = ("default", "zoe", "max")
PER_STEP = 5_000
CHUNKS_PER_DOCUMENT = 50
_DICE = random.Random(1)
_WORDS = ["".join(_DICE.choices("abcdefghijklmnopqrstuvwxyz", k=_DICE.randint(3, 9))) for _ in range(20_000)]


def text(words: int) -> str:
    return " ".join(_DICE.choices(_WORDS, k=words))


def insert(container: Container, table: str, columns: str, rows: Sequence[tuple[object, ...]]) -> None:
    marks = ", ".join("?" * len(rows[0]))
    with container.sqlite.write() as connection:
        connection.exec_driver_sql(f"INSERT INTO {table}({columns}) VALUES ({marks})", list(rows))


def embed(
    container: Container, physical: str, kind: str, marks: str, rows: Sequence[tuple[int, str]]
) -> None:
    """Marks and random unit vectors for rows of (id, namespace)."""
    vectors = np.random.default_rng(rows[0][0]).standard_normal((len(rows), DIMENSION))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    insert(
        container,
        marks,
        f"{kind}_id, collection, windows, created_at",
        [(i, physical, 1, 1) for i, _ in rows],
    )
    points = [
        (
            physical,
            namespace,
            point_ids(kind, namespace, physical, row_id, 1)[0],
            1,
            blob,
            json.dumps({f"{kind}_id": row_id}),
        )
        for (row_id, namespace), blob in zip(rows, map(bytes, vectors.astype("<f4")), strict=True)
    ]
    insert(container, "vector_points", "collection, namespace, id, change, vector, payload", points)


def messages(container: Container, physical: str, count: int) -> None:
    conversations = [(n + 1, NAMESPACES[n % 3], f"k{n}", 1) for n in range(300)]
    insert(container, "conversations", "id, namespace, key, created_at", conversations)
    columns = "id, namespace, conversation_id, role, content, scope, content_hash, created_at"
    for start in range(1, count + 1, PER_STEP):
        rows = []
        for number in range(start, min(start + PER_STEP, count + 1)):
            conversation, namespace, *_ = conversations[number // 40 % 300]
            said = text(30)
            scope = scope_token("messages", namespace)
            rows.append(
                (number, namespace, conversation, "user", said, scope, content_hash(said), number * 1_000)
            )
        insert(container, "messages", columns, rows)
        embed(container, physical, "message", "message_embeddings", [(row[0], row[1]) for row in rows])


def chunks(container: Container, physical: str, count: int) -> None:
    columns = (
        "id, namespace, document_id, position, start_offset, end_offset, tokens, heading, context, text, scope, "
        "content_hash, occurrence, created_at"
    )
    for document in range(1, count // CHUNKS_PER_DOCUMENT + 1):
        namespace = NAMESPACES[document % 3]
        facts = (
            document,
            namespace,
            "zeph_documents",
            f"s{document}",
            "t",
            "text/plain",
            "h",
            10**6,
            "s",
            1,
            1,
        )
        insert(
            container,
            "documents",
            "id, namespace, collection, source, title, content_type, content_hash, size_bytes, splitter, created_at, updated_at",
            [facts],
        )
        rows = list(_chunk_rows(document, namespace))
        insert(container, "chunks", columns, rows)
        embed(container, physical, "chunk", "chunk_embeddings", [(row[0], namespace) for row in rows])


def _chunk_rows(document: int, namespace: str) -> Iterator[tuple[int, object]]:
    at, scope = 0, scope_token(namespace, "zeph_documents")
    for position in range(CHUNKS_PER_DOCUMENT):
        said = text(120)
        row_id = (document - 1) * CHUNKS_PER_DOCUMENT + position + 1
        place = (position, at, at + len(said))
        yield (row_id, namespace, document, *place, 150, "[]", "t", said, scope, content_hash(said), 0, 1)  # type: ignore[misc]
        at += len(said) + 1


def fill(container: Container, message_count: int, chunk_count: int) -> None:
    embedder = container.embedder
    assert embedder is not None
    for name, write, count in (
        ("zeph_conversations", messages, message_count),
        ("zeph_documents", chunks, chunk_count),
    ):
        with container.database.write() as unit:
            physical = unit.collections.create(name, embedder.identity, CollectionState.ACTIVE).physical
        container.vectors.ensure_collection(physical, DIMENSION)
        write(container, physical, count)
        rows = [(physical, namespace, 1, 0) for namespace in NAMESPACES]
        insert(container, "vector_namespaces", "collection, namespace, change, purged", rows)


def main() -> None:
    counts = [int(word) for word in sys.argv[1:]] or [100_000, 50_000]
    os.environ["ZEPH_CONFIG"] = ""
    with tempfile.TemporaryDirectory() as folder:
        settings = {"data_dir": folder, "embedding.provider": "fake", "embedding.dimensions": DIMENSION}
        with open_container(settings) as container:
            fill(container, counts[0], counts[-1])
            began = time.process_time()
            report = container.doctor.examine()
            used = time.process_time() - began
        size = (Path(folder) / "zeph.db").stat().st_size / 2**20
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
    print(f"{counts[0]:,} messages, {counts[-1]:,} chunks, {size:,.0f} MiB; load {os.getloadavg()[0]:.1f}")
    print(f"examined in {report.seconds:.1f} s ({used:.1f} s of one processor), {memory:.0f} MiB at most")
    print(f"findings: {report.findings or 'none'}")


if __name__ == "__main__":
    main()
