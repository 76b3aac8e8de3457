"""The vectors of summaries and key facts; and facts that say again what an older one says are dropped here.

Rows first, vectors second, then marked. One job embeds one summary with its facts.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from services import errors
from services.embedding.points import row_of
from services.embedding.spaces import Space, VectorSpaces
from services.embedding.store import CollectionState
from services.embedding.upkeep import VectorOwner
from services.embedding.writing import Embedded, VectorWriter, Written
from services.jobs.models import EMBED_SUMMARY, NewJob
from services.jobs.run import JobRun
from services.memory.facts import same_claim
from services.memory.summary_store import RowText, SummaryDatabase
from services.ports import Condition, Filter, PayloadValue

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
        self._summary_writer = VectorWriter[RowText](
            database, spaces, "summary", lambda unit: unit.summaries, _payload("summary")
        )
        self._fact_writer = VectorWriter[RowText](
            database, spaces, "key_fact", lambda unit: unit.key_facts, _payload("key_fact")
        )

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
        summary_id = run.number("summary_id")
        written = Written()
        for name, embed in ((SUMMARY_COLLECTION, self._summaries), (FACT_COLLECTION, self._facts)):
            space = self._spaces.for_writing(name)
            written += Written() if space is None else embed(space, run.job.namespace, summary_id, run)
        with self._database.write(durable=False) as unit:
            run.finish(unit, written.outcome)

    def embed_summaries(self, space: Space, namespace: str, summary_id: int, run: JobRun) -> int:
        """Embed one summary, if it lacks vectors in this space; vectors made."""
        return self._summaries(space, namespace, summary_id, run).vectors

    def embed_facts(self, space: Space, namespace: str, summary_id: int, run: JobRun) -> int:
        """Embed the facts of one summary that lack vectors in this space; vectors made.

        In the active collection a fact that an older one says already in almost the same words becomes that one instead.
        """
        return self._facts(space, namespace, summary_id, run).vectors

    # ---- steps -----------------------------------------------------------------------------------------------

    def _summaries(self, space: Space, namespace: str, summary_id: int, run: JobRun) -> Written:
        run.checkpoint()
        with self._database.read() as unit:
            rows = unit.summaries.unembedded(namespace, summary_id, space.collection.physical)
        return self._summary_writer.write(space, namespace, self._summary_writer.embed(space, rows))

    def _facts(self, space: Space, namespace: str, summary_id: int, run: JobRun) -> Written:
        run.checkpoint()
        with self._database.read() as unit:
            rows = unit.key_facts.unembedded(namespace, summary_id, space.collection.physical)
        embedded = self._fact_writer.embed(space, rows)
        if space.collection.state is CollectionState.ACTIVE:
            repeated = self._repeated(space, namespace, embedded)
            if repeated:
                with self._database.write() as unit:
                    gone = unit.key_facts.merge(namespace, repeated)
                embedded = [item for item in embedded if item.row.id not in gone]
        return self._fact_writer.write(space, namespace, embedded)

    def _repeated(self, space: Space, namespace: str, facts: Sequence[Embedded[RowText]]) -> dict[int, int]:
        """The facts that an older one says already, here or in the store -> that one. A store that is away hides none."""
        repeated: dict[int, int] = {}
        told: list[Embedded[RowText]] = []
        for fact in facts:
            if not len(fact.vectors):
                continue
            vector = fact.vectors[0]
            near = {
                item.row.id: item.row.text
                for item in told
                if float(vector @ item.vectors[0]) >= self._duplicate_similarity
            }
            try:
                near |= self._stored_near(space, namespace, fact.row, vector)
            except errors.TransientError as error:
                log.warning("duplicates_unchecked reason=%s", error)
            same = [fact_id for fact_id, text in near.items() if same_claim(text, fact.row.text)]
            if same:
                repeated[fact.row.id] = min(same)
            else:
                told.append(fact)
        return repeated

    def _stored_near(self, space: Space, namespace: str, row: RowText, vector: Vector) -> dict[int, str]:
        """The older facts that are almost equal in meaning, id -> text."""
        older = Filter(must=(Condition("key_fact_id", at_most=row.id - 1),))
        hits = self._spaces.store.search(
            space.collection.physical, namespace, vector, limit=_NEIGHBOURS, where=older
        )
        close = [
            row_of(hit.payload, "key_fact_id") for hit in hits if hit.reaches(self._duplicate_similarity)
        ]
        # A vector outlives its row for a moment, and what nobody can read is not known.
        with self._database.read() as unit:
            return {fact.id: fact.fact for fact in unit.key_facts.get(namespace, close).values()}


def embed_summary_job(namespace: str, summary_id: int) -> NewJob:
    """The job that gives a summary and its facts the vectors they lack."""
    return NewJob(EMBED_SUMMARY, {"summary_id": summary_id}, namespace, dedupe_key=str(summary_id))


def _payload(kind: str) -> Callable[[RowText], dict[str, PayloadValue]]:
    return lambda row: {f"{kind}_id": row.id, "conversation_id": row.conversation_id}
