"""The vectors of summaries and key facts; and facts that say again what an older one says are dropped here.

Rows first, vectors second, then marked. One job embeds one summary with its facts.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from services import errors
from services.embedding.points import point_ids
from services.embedding.spaces import Space, VectorSpaces
from services.embedding.store import CollectionState
from services.embedding.upkeep import VectorOwner
from services.jobs.models import EMBED_SUMMARY, REMOVE_VECTORS, NewJob
from services.jobs.run import JobRun
from services.memory.facts import same_claim
from services.memory.summary_store import RowText, SummaryDatabase, SummaryUnit, TextRows
from services.ports import Condition, Filter, PayloadValue, Point

if TYPE_CHECKING:
    from services.ports import Vector

log = logging.getLogger(__name__)

SUMMARY_COLLECTION = "zeph_session_summaries"
FACT_COLLECTION = "zeph_key_facts"

_NEIGHBOURS = 5


class SummaryVectors:
    """Embeds summaries and facts. Facts as alike as `duplicate_similarity` are looked at for repetition."""

    def __init__(
        self, database: SummaryDatabase, spaces: VectorSpaces, *, duplicate_similarity: float = 0.95
    ) -> None:
        self._database = database
        self._spaces = spaces
        self._duplicate_similarity = duplicate_similarity

    @property
    def wanted(self) -> bool:
        """Whether there is an embedder at all."""
        return self._spaces.embedder is not None

    @property
    def owners(self) -> dict[str, VectorOwner]:
        """Summaries and key facts, as upkeep sees them, by collection."""
        return {
            SUMMARY_COLLECTION: VectorOwner(
                "summary", "summary_id", lambda unit: unit.summaries, self.embed_summaries, embed_summary_job
            ),
            FACT_COLLECTION: VectorOwner(
                "key_fact", "key_fact_id", lambda unit: unit.key_facts, self.embed_facts, embed_summary_job
            ),
        }

    def embed(self, run: JobRun) -> None:
        """Give a summary and its facts their vectors."""
        summary_id = int(run.payload["summary_id"])
        vectors = 0
        for name, embed in ((SUMMARY_COLLECTION, self.embed_summaries), (FACT_COLLECTION, self.embed_facts)):
            space = self._spaces.for_writing(name)
            vectors += 0 if space is None else embed(space, run.job.namespace, summary_id, run)
        with self._database.write(durable=False) as unit:
            run.finish(unit, {"vectors": vectors})

    def embed_summaries(self, space: Space, namespace: str, summary_id: int, run: JobRun) -> int:
        """Embed one summary, if it lacks vectors in this space; vectors made."""
        run.checkpoint()
        with self._database.read() as unit:
            rows = unit.summaries.unembedded(namespace, summary_id, space.collection.physical)
        pieces, vectors = _embedded(space, rows)
        return self._write(space, namespace, "summary", rows, pieces, vectors)

    def embed_facts(self, space: Space, namespace: str, summary_id: int, run: JobRun) -> int:
        """Embed the facts of one summary that lack vectors in this space; vectors made.

        In the active collection a fact that an older one says already in almost the same words is deleted instead.
        """
        run.checkpoint()
        with self._database.read() as unit:
            rows = unit.key_facts.unembedded(namespace, summary_id, space.collection.physical)
        pieces, vectors = _embedded(space, rows)
        if space.collection.state is CollectionState.ACTIVE:
            repeated = self._repeated(space, namespace, rows, vectors)
            if repeated:
                with self._database.write() as unit:
                    unit.key_facts.remove(namespace, sorted(repeated))
            kept = [number for number, row in enumerate(rows) if row.id not in repeated]
            rows = [rows[number] for number in kept]
            pieces = [pieces[number] for number in kept]
            vectors = [vectors[number] for number in kept]
        return self._write(space, namespace, "key_fact", rows, pieces, vectors)

    # ---- steps -----------------------------------------------------------------------------------------------

    def _repeated(
        self, space: Space, namespace: str, rows: Sequence[RowText], vectors: Sequence[Vector]
    ) -> set[int]:
        """The facts that an older one says already, here or in the store. A store that is away hides none."""
        repeated: set[int] = set()
        for number, row in enumerate(rows):
            vector = vectors[number][0]
            near = [
                rows[at].text
                for at in range(number)
                if rows[at].id not in repeated
                and float(vector @ vectors[at][0]) >= self._duplicate_similarity
            ]
            try:
                near += self._stored_near(space, namespace, row, vector)
            except errors.TransientError as error:
                log.warning("duplicates_unchecked reason=%s", error)
            if any(same_claim(text, row.text) for text in near):
                repeated.add(row.id)
        return repeated

    def _stored_near(self, space: Space, namespace: str, row: RowText, vector: Vector) -> list[str]:
        """The older facts that are almost equal in meaning."""
        older = Filter(must=(Condition("key_fact_id", at_most=row.id - 1),))
        hits = self._spaces.store.search(
            space.collection.physical, namespace, vector, limit=_NEIGHBOURS, where=older
        )
        close = [int(hit.payload["key_fact_id"]) for hit in hits if hit.score >= self._duplicate_similarity]
        # A vector outlives its row for a moment, and what nobody can read is not known.
        with self._database.read() as unit:
            return [fact.fact for fact in unit.key_facts.get(namespace, close).values()]

    def _write(
        self,
        space: Space,
        namespace: str,
        kind: str,
        rows: Sequence[RowText],
        pieces: Sequence[Sequence[str]],
        vectors: Sequence[Vector],
    ) -> int:
        if not rows:
            return 0
        physical = space.collection.physical
        windows = [(row.id, len(parts)) for row, parts in zip(rows, pieces, strict=True)]
        points = [
            Point(point, vector, _payload(kind, row))
            for row, (_, count), made in zip(rows, windows, vectors, strict=True)
            for point, vector in zip(point_ids(kind, namespace, physical, row.id, count), made, strict=True)
        ]
        self._spaces.write(space, namespace, points)
        with self._database.write(durable=False) as unit:
            gone = _table(unit, kind).mark_embedded(physical, windows)
            orphans = [
                (namespace, physical, point)
                for row_id, count in windows
                if row_id in gone
                for point in point_ids(kind, namespace, physical, row_id, count)
            ]
            unit.collections.bury(orphans)
            if orphans:
                unit.jobs.enqueue([NewJob(REMOVE_VECTORS, namespace=namespace, dedupe_key="deleted")])
        return len(points)


def embed_summary_job(namespace: str, summary_id: int) -> NewJob:
    """The job that gives a summary and its facts the vectors they lack."""
    return NewJob(EMBED_SUMMARY, {"summary_id": summary_id}, namespace, dedupe_key=str(summary_id))


def _embedded(space: Space, rows: Sequence[RowText]) -> tuple[list[list[str]], list[Vector]]:
    """The windows of each text, and a matrix of their vectors for each."""
    pieces = [space.embedder.windows(row.text) or [row.text] for row in rows]
    flat = [piece for parts in pieces for piece in parts]
    matrix = space.embedder.embed(flat, kind="document") if flat else None
    vectors: list[Vector] = []
    at = 0
    for parts in pieces:
        if matrix is not None:
            vectors.append(matrix[at : at + len(parts)])
        at += len(parts)
    return pieces, vectors


def _payload(kind: str, row: RowText) -> dict[str, PayloadValue]:
    return {f"{kind}_id": row.id, "conversation_id": row.conversation_id}


_TABLES: dict[str, Callable[[SummaryUnit], TextRows]] = {
    "summary": lambda unit: unit.summaries,
    "key_fact": lambda unit: unit.key_facts,
}


def _table(unit: SummaryUnit, kind: str) -> TextRows:
    return _TABLES[kind](unit)
