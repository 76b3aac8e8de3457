"""The SQL of snapshots: whole rows of a namespace, read in order and written under new ids."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.sqlite import insert

from services import errors
from services.adapters.correction_rows import correction_index
from services.adapters.key_fact_sources import tell
from services.adapters.summary_rows import SqlSummaryRows
from services.adapters.tables import conversations as c
from services.adapters.tables import key_fact_sources as k
from services.adapters.tables import messages as m
from services.adapters.tables import summaries as s
from services.adapters.tables import zeph_corrections as z
from services.corrections.models import CorrectionKind
from services.ids import ConversationId, MessageId
from services.memory.snapshot import StoredMessage, message_identity
from services.memory.snapshot_file import FIELDS, Record
from services.ports import Clock

_PER_PAGE = 500
_FLAGS = ("agent_visible", "user_visible", "embeddable")


class SqlSnapshotRows:
    """Implements `services.memory.snapshot.SnapshotRows` on one connection."""

    def __init__(self, connection: sa.Connection, clock: Clock) -> None:
        self._connection = connection
        self._clock = clock

    def conversations(self, namespace: str) -> Iterator[Record]:
        """See SnapshotRows."""
        return self._rows("conversation", c, c.c.namespace == namespace)

    def messages(self, namespace: str, conversation_id: int) -> Iterator[Record]:
        """See SnapshotRows."""
        for record in self._rows("message", m, *_inside(namespace, conversation_id)):
            yield record | {name: bool(record[name]) for name in _FLAGS}

    def summaries(self, namespace: str, conversation_id: int) -> list[Record]:
        """See SnapshotRows."""
        facts: defaultdict[int, list[str]] = defaultdict(list)
        mine = (s.c.namespace == namespace, s.c.conversation_id == conversation_id)
        told = sa.select(k.c.summary_id, k.c.fact).join_from(k, s, s.c.id == k.c.summary_id).where(*mine)
        for row in self._connection.execute(told.order_by(k.c.id)):
            facts[row.summary_id].append(row.fact)
        return [
            record | {"key_facts": facts[row_id]} for row_id, record in self._numbered("summary", s, *mine)
        ]

    def corrections(self, namespace: str) -> Iterator[Record]:
        """See SnapshotRows."""
        for record in self._rows("correction", z, z.c.namespace == namespace):
            yield record | {name: bool(record[name]) for name in ("lowers", "standing")}

    def born_at(self, namespace: str, created_at: int) -> list[tuple[ConversationId, str | None]]:
        """See SnapshotRows."""
        same = (c.c.namespace == namespace, c.c.created_at == created_at)
        rows = self._connection.execute(sa.select(c.c.id, c.c.key).where(*same).order_by(c.c.id))
        return [(ConversationId(row.id), row.key) for row in rows]

    def stored_messages(self, namespace: str, conversation_id: ConversationId) -> list[StoredMessage]:
        """See SnapshotRows."""
        return [
            StoredMessage(MessageId(record["id"]), message_identity(record), record["import_key"])
            for record in self._rows("message", m, *_inside(namespace, conversation_id))
        ]

    def add_conversation(self, namespace: str, conversation: Record) -> tuple[ConversationId, bool]:
        """See SnapshotRows."""
        row = conversation | {"namespace": namespace}
        row.pop("id")
        statement = sa.insert(c).returning(c.c.id)
        holder = sa.select(c.c.id).where(c.c.namespace == namespace, c.c.key == row["key"])
        taken = row["key"] is not None and self._connection.execute(holder).first() is not None
        if taken:
            row["key"] = None
        return ConversationId(self._connection.execute(statement, row).scalar_one()), taken

    def restore(self, states: Sequence[tuple[MessageId, Record]]) -> None:
        """See SnapshotRows."""
        names = ("compacted_at", "last_accessed_at", "access_count", "graph_extractor")
        rows = [
            {"message": message_id, **{f"new_{name}": record[name] for name in names}}
            for message_id, record in states
            if any(record[name] for name in names)
        ]
        if rows:
            restored = sa.update(m).where(m.c.id == sa.bindparam("message"))
            values: dict[str, Any] = {name: sa.bindparam(f"new_{name}") for name in names}
            self._connection.execute(restored.values(values), rows)

    def add_summaries(
        self, namespace: str, conversation_id: ConversationId, summaries: Sequence[Record]
    ) -> None:
        """See SnapshotRows."""
        rows = SqlSummaryRows(self._connection, self._clock)
        for summary in summaries:
            summary_id = rows.add(
                namespace,
                conversation_id,
                summary["content"],
                first=summary["first_message_id"],
                last=summary["last_message_id"],
                token_estimate=summary["token_estimate"],
                created_at=summary["created_at"],
            )
            told = namespace, conversation_id, summary_id, summary["key_facts"]
            tell(self._connection, *told, created_at=summary["created_at"])

    def add_correction(self, namespace: str, correction: Record) -> tuple[int, bool]:
        """See SnapshotRows."""
        if correction["kind"] not in set(CorrectionKind):
            raise errors.InputError(
                f"a correction is of kind {correction['kind'][:40]!r}: use one of {', '.join(CorrectionKind)}"
            )
        row = correction | {"namespace": namespace}
        row.pop("id", None)
        row |= correction_index(namespace, row["request"], row["correction_text"])
        # Equal in everything but when it was retired, which happens later.
        same = [z.c[name].is_not_distinct_from(value) for name, value in row.items() if name != "retired_at"]
        known = self._connection.execute(sa.select(z.c.id).where(*same)).scalar()
        if known is not None:
            return int(known), False
        added = self._connection.execute(
            insert(z).values(row).on_conflict_do_nothing().returning(z.c.id)
        ).scalar()
        if added is not None:
            return int(added), True
        # Of its message there is another one.
        mine = (z.c.namespace == namespace, z.c.message_id == row["message_id"])
        return int(self._connection.execute(sa.select(z.c.id).where(*mine)).scalar_one()), False

    def _rows(self, kind: str, table: sa.Table, *tests: sa.ColumnElement[bool]) -> Iterator[Record]:
        return (record for _, record in self._numbered(kind, table, *tests))

    def _numbered(
        self, kind: str, table: sa.Table, *tests: sa.ColumnElement[bool]
    ) -> Iterator[tuple[int, Record]]:
        names = [name for name in FIELDS[kind] if name in table.c]
        columns = [table.c[name] for name in names]
        after = 0
        while True:
            page = sa.select(table.c.id.label("row_id"), *columns).where(*tests, table.c.id > after)
            rows: Sequence[Any] = self._connection.execute(page.order_by(table.c.id).limit(_PER_PAGE)).all()
            for row in rows:
                yield row.row_id, {name: getattr(row, name) for name in names}
            if len(rows) < _PER_PAGE:
                return
            after = rows[-1].row_id


def _inside(namespace: str, conversation_id: int) -> tuple[sa.ColumnElement[bool], ...]:
    return m.c.namespace == namespace, m.c.conversation_id == conversation_id, m.c.deleted_at.is_(None)
