"""Which rows have vectors: what every table with vectors answers in the same way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import sqlalchemy as sa
from sqlalchemy.dialects.sqlite import insert

from services.adapters.erasure import parts
from services.adapters.tables import jobs
from services.jobs.models import JobKind
from services.ports import Clock


class MarkedRows:
    """Implements `services.embedding.store.EmbeddedRows` for one table and the table of its marks, on one connection.

    A subclass names both, the kind of job that embeds a group of rows, and how a row tells its group. `_home` is a
    table that knows every namespace with such rows; the rows' own unless a smaller one does.
    """

    _rows: ClassVar[sa.Table]
    _marks: ClassVar[sa.Table]
    _home: ClassVar[sa.Table | None] = None
    _embed_job: ClassVar[JobKind]
    _group: ClassVar[sa.ColumnElement[int]]

    def __init__(self, connection: sa.Connection, clock: Clock) -> None:
        self._connection = connection
        self._clock = clock

    def namespaces(self) -> Sequence[str]:
        """See EmbeddedRows."""
        home = self._rows if self._home is None else self._home
        embedded = sa.select(jobs.c.namespace).where(jobs.c.kind == self._embed_job.name)
        found = sa.union(sa.select(home.c.namespace), embedded).subquery()
        return self._connection.execute(sa.select(found.c.namespace).order_by("namespace")).scalars().all()

    def incomplete(
        self,
        name: str,  # noqa: ARG002 - all are of one name
        physical: str,
        *,
        limit: int,
        embedded_in: str | None = None,
    ) -> list[tuple[str, int]]:
        """See EmbeddedRows."""
        group = self._group.label("group")
        wanted = self._lacks_vectors(physical) if embedded_in is None else self._behind(physical, embedded_in)
        rows = sa.select(self._rows.c.namespace, group).where(*wanted).distinct()
        found = self._connection.execute(rows.order_by(group, self._rows.c.namespace).limit(limit))
        return [(row[0], row[1]) for row in found]

    def existing(self, ids: Sequence[int], namespace: str | None = None) -> set[int]:
        """See EmbeddedRows."""
        found: set[int] = set()
        mine = () if namespace is None else (self._rows.c.namespace == namespace,)
        for part in parts(ids):
            here = (self._rows.c.id.in_(part), *mine, *self._may_have_vectors())
            rows = sa.select(self._rows.c.id).where(*here)
            found |= set(self._connection.execute(rows).scalars())
        return found

    def mark_embedded(self, physical: str, windows: Sequence[tuple[int, int]]) -> set[int]:
        """See EmbeddedRows."""
        ids = {row_id for row_id, _ in windows}
        alive = self.existing(sorted(ids))
        now = self._clock.now()
        marks = [
            {self._mark_id.name: row_id, "collection": physical, "windows": count, "created_at": now}
            for row_id, count in windows
            if row_id in alive
        ]
        if marks:
            self._connection.execute(insert(self._marks).on_conflict_do_nothing(), marks)
        return ids - alive

    def embedded_windows(
        self, namespace: str, physical: str, *, after: int, limit: int
    ) -> list[tuple[int, int]]:
        """See EmbeddedRows."""
        rows = self._connection.execute(
            sa.select(self._mark_id, self._marks.c.windows)
            .join_from(self._marks, self._rows)
            .where(
                self._marks.c.collection == physical,
                self._rows.c.namespace == namespace,
                self._mark_id > after,
            )
            .order_by(self._mark_id)
            .limit(limit)
        )
        return [(row[0], row[1]) for row in rows]

    def unmark_embedded(self, physical: str, ids: Sequence[int]) -> None:
        """See EmbeddedRows."""
        for part in parts(ids):
            mine = (self._marks.c.collection == physical, self._mark_id.in_(part))
            self._connection.execute(sa.delete(self._marks).where(*mine))

    def forget_embeddings(self, physical: str) -> None:
        """See EmbeddedRows."""
        self._connection.execute(sa.delete(self._marks).where(self._marks.c.collection == physical))

    def _may_have_vectors(self) -> tuple[sa.ColumnElement[bool], ...]:
        """Tests that a row passes which may have vectors; most tables have no others."""
        return ()

    def _lacks_vectors(self, physical: str) -> tuple[sa.ColumnElement[bool], ...]:
        """Tests that a row passes which is to have vectors in this collection and has none."""
        return (*self._may_have_vectors(), ~self._marked(physical))

    def _behind(self, physical: str, other: str) -> tuple[sa.ColumnElement[bool], ...]:
        """Tests that a row passes which lacks vectors here and has some there."""
        return (*self._lacks_vectors(physical), self._marked(other))

    def _marked(self, physical: str) -> sa.ColumnElement[bool]:
        return sa.exists().where(self._mark_id == self._rows.c.id, self._marks.c.collection == physical)

    @property
    def _mark_id(self) -> sa.Column[int]:
        """The column of the marks that names the row."""
        return next(column for column in self._marks.primary_key if column.name != "collection")
