"""Giving rows their vectors: rows first, vectors second, then marked.

A text that the model refuses for good gets no vector and is marked all the same: its job ends with the reason, and
none is made for it again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from services import errors
from services.embedding.points import point_ids
from services.embedding.spaces import Space, VectorSpaces
from services.embedding.store import CollectionDatabase, EmbeddedRows
from services.jobs.models import REMOVE_VECTORS, NewJob
from services.ports import PayloadValue, Point

if TYPE_CHECKING:
    from services.ports import Vector

log = logging.getLogger(__name__)

# No model refuses this: one that does refuses everything.
_PROBE = "ok"


class TextRow(Protocol):
    """A row as the embedder sees it."""

    @property
    def id(self) -> int:
        """Of the row."""

    @property
    def text(self) -> str:
        """What is embedded."""


RowT = TypeVar("RowT", bound=TextRow)


@dataclass(frozen=True, slots=True)
class Embedded(Generic[RowT]):
    """A row with the vectors of its windows; with none where the model refuses the text, for the reason `refusal`."""

    row: RowT
    vectors: Vector
    refusal: str = ""


@dataclass(frozen=True, slots=True)
class Written:
    """How many vectors were stored, how many rows the model refuses, and the first reason."""

    vectors: int = 0
    rejected: int = 0
    reason: str = ""

    def __add__(self, other: Written) -> Written:
        return Written(
            self.vectors + other.vectors, self.rejected + other.rejected, self.reason or other.reason
        )

    @property
    def outcome(self) -> dict[str, int | str]:
        """What a job says of it."""
        refused: dict[str, int | str] = {"rejected": self.rejected, "reason": self.reason}
        return {"vectors": self.vectors} | (refused if self.rejected else {})


class VectorWriter(Generic[RowT]):
    """Writes the vectors of one kind of rows; `rows` finds them in a unit, `payload` is what a vector is filtered by."""

    def __init__(
        self,
        database: CollectionDatabase,
        spaces: VectorSpaces,
        kind: str,
        rows: Callable[[Any], EmbeddedRows],
        payload: Callable[[RowT], Mapping[str, PayloadValue]],
    ) -> None:
        self._database = database
        self._spaces = spaces
        self._kind = kind
        self._rows = rows
        self._payload = payload

    def embed(self, space: Space, rows: Sequence[RowT]) -> list[Embedded[RowT]]:
        """The rows with their vectors. Raises ModelUnavailable, and ModelRejected when the model refuses everything."""
        cut = [(row, space.embedder.windows(row.text)) for row in rows]
        try:
            matrix = space.embedder.embed([text for _, texts in cut for text in texts], kind="document")
        except errors.ModelRejected as error:
            if len(rows) > 1:
                # One bad text spoils a call: halve it until it stands alone.
                half = len(rows) // 2
                return self.embed(space, rows[:half]) + self.embed(space, rows[half:])
            nothing = space.embedder.embed([_PROBE], kind="document")[:0]
            log.warning("%s_not_embedded id=%d reason=%s", self._kind, rows[0].id, error)
            return [Embedded(rows[0], nothing, str(error))]
        found = []
        at = 0
        for row, texts in cut:
            found.append(Embedded(row, matrix[at : at + len(texts)]))
            at += len(texts)
        return found

    def write(self, space: Space, namespace: str, embedded: Sequence[Embedded[RowT]]) -> Written:
        """Store the vectors and mark the rows; vectors of rows that are gone by then are removed by a job."""
        if not embedded:
            return Written()
        physical = space.collection.physical
        ids = {
            item.row.id: point_ids(self._kind, namespace, physical, item.row.id, len(item.vectors))
            for item in embedded
        }
        points = [
            Point(point, vector, self._payload(item.row))
            for item in embedded
            for point, vector in zip(ids[item.row.id], item.vectors, strict=True)
        ]
        self._spaces.write(space, namespace, points)
        with self._database.write(durable=False) as unit:
            windows = [(row_id, len(points_of)) for row_id, points_of in ids.items()]
            gone = self._rows(unit).mark_embedded(physical, windows)
            orphans = [(namespace, physical, point) for row_id in sorted(gone) for point in ids[row_id]]
            unit.collections.bury(orphans)
            if orphans:
                unit.jobs.enqueue([removal_job(namespace)])
        refusals = [item.refusal for item in embedded if item.refusal]
        return Written(len(points), len(refusals), next(iter(refusals), ""))


def removal_job(namespace: str) -> NewJob:
    """The job that removes the vectors of rows that are deleted or hidden."""
    return NewJob(REMOVE_VECTORS, namespace=namespace, dedupe_key="deleted")
