"""The vectors of corrections: rows first, vectors second, then marked. One job embeds one correction."""

from __future__ import annotations

from dataclasses import replace

from services.corrections.models import CorrectionText
from services.corrections.store import CorrectionDatabase
from services.embedding.spaces import Space, VectorSpaces
from services.embedding.upkeep import VectorOwner
from services.embedding.writing import Embedded, VectorWriter, Written
from services.jobs.models import EMBED_CORRECTION, NewJob
from services.jobs.run import JobRun

COLLECTION = "zeph_corrections"


class CorrectionVectors:
    """Embeds corrections: what the user said, and what had been asked, so that asking the like finds it."""

    def __init__(self, database: CorrectionDatabase, spaces: VectorSpaces) -> None:
        self._database = database
        self._spaces = spaces
        self._writer = VectorWriter[CorrectionText](
            database,
            spaces,
            "correction",
            lambda unit: unit.corrections,
            lambda row: {"correction_id": row.id},
        )

    @property
    def wanted(self) -> bool:
        """Whether there is an embedder at all."""
        return self._spaces.embedder is not None

    @property
    def owner(self) -> VectorOwner:
        """Corrections, as upkeep sees them."""
        return VectorOwner(
            "correction", "correction_id", lambda unit: unit.corrections, self.embed_into, embed_job
        )

    def embed(self, run: JobRun) -> None:
        """Give a correction its vectors."""
        space = self._spaces.for_writing(COLLECTION)
        written = Written()
        if space is not None:
            written = self._embed(space, run.job.namespace, run.number("correction_id"), run)
        with self._database.write(durable=False) as unit:
            run.finish(unit, written.outcome)

    def embed_into(self, space: Space, namespace: str, correction_id: int, run: JobRun) -> int:
        """Embed one correction if this space lacks it; vectors made."""
        return self._embed(space, namespace, correction_id, run).vectors

    def _embed(self, space: Space, namespace: str, correction_id: int, run: JobRun) -> Written:
        run.checkpoint()
        with self._database.read() as unit:
            texts = unit.corrections.unembedded(namespace, correction_id, space.collection.physical)
        if not texts:
            return Written()
        return self._writer.write(space, namespace, [_joined(self._writer.embed(space, texts))])


def embed_job(namespace: str, correction_id: int) -> NewJob:
    """The job that gives a correction the vectors that it lacks."""
    return NewJob(
        EMBED_CORRECTION, {"correction_id": correction_id}, namespace, dedupe_key=str(correction_id)
    )


def _joined(embedded: list[Embedded[CorrectionText]]) -> Embedded[CorrectionText]:
    """The vectors of all texts of one correction."""
    import numpy as np

    refusals = [item.refusal for item in embedded if item.refusal]
    vectors = np.concatenate([item.vectors for item in embedded])
    return replace(embedded[0], vectors=vectors, refusal="" if len(vectors) else "; ".join(refusals))
