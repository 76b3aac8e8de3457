"""The SQL of what extraction asks of messages and chunks."""

from __future__ import annotations

import json
from collections.abc import Sequence

import sqlalchemy as sa

from services.adapters.document_rows import heading_line
from services.adapters.erasure import parts
from services.adapters.tables import chunks as c
from services.adapters.tables import documents as d
from services.adapters.tables import messages as m
from services.adapters.tables import shown_messages
from services.graph.extraction_jobs import TextKind
from services.graph.texts import CONTEXT_MESSAGES, Reading
from services.memory.models import Origin, Role

_TABLES = {TextKind.MESSAGES: m, TextKind.CHUNKS: c}


def _in_prose() -> list[sa.ColumnElement[bool]]:
    """See `services.memory.models.states_facts`, of which this is the SQL."""
    return [
        m.c.role == Role.USER.value,
        m.c.origin.in_([Origin.USER.value, Origin.IMPORT.value]),
        m.c.deleted_at.is_(None),
        shown_messages,
        # With or without blanks, as whoever exported it wrote it.
        sa.func.instr(sa.func.replace(m.c.parts, ": ", ":"), '"kind":"tool_') == 0,
        m.c.content != "",
    ]


# Built once: every message that is read needs it.
_BEFORE = (
    sa.select(m.c.content, m.c.speaker)
    .where(
        m.c.namespace == sa.bindparam("namespace"),
        m.c.conversation_id == sa.bindparam("conversation"),
        m.c.id < sa.bindparam("id"),
        *_in_prose(),
    )
    .order_by(m.c.id.desc())
    .limit(CONTEXT_MESSAGES)
)


class SqlTextRows:
    """Implements `services.graph.texts.TextRows` on one connection."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def unread(
        self, kind: TextKind, namespace: str, ids: Sequence[int], *, replacing: str | None = None
    ) -> list[Reading]:
        """See TextRows."""
        read = self._messages if kind is TextKind.MESSAGES else self._chunks
        table = _TABLES[kind]
        found = [
            reading
            for part in parts(ids)
            for reading in read(
                table.c.namespace == namespace, table.c.id.in_(part), _unread(table, replacing)
            )
        ]
        return sorted(found, key=lambda reading: reading.text_id)

    def next_unread(
        self, kind: TextKind, namespace: str, *, after: int, limit: int, replacing: str | None = None
    ) -> list[int]:
        """See TextRows."""
        table = _TABLES[kind]
        tests = (*_wanted(kind, namespace, replacing), table.c.id > after)
        page = sa.select(table.c.id).where(*tests).order_by(table.c.id).limit(limit)
        return list(self._connection.execute(page).scalars())

    def newest(self) -> tuple[int, int]:
        """See TextRows."""
        ids = (sa.select(sa.func.coalesce(sa.func.max(table.c.id), 0)).scalar_subquery() for table in (m, c))
        message, chunk = self._connection.execute(sa.select(*ids)).one()
        return message, chunk

    def count_unread(self, namespace: str, *, replacing: str | None = None) -> int:
        """See TextRows."""
        counts = [
            sa.select(sa.func.count()).select_from(table).where(*_wanted(kind, namespace, replacing))
            for kind, table in _TABLES.items()
        ]
        return sum(self._connection.execute(count).scalar_one() for count in counts)

    def of_document(self, namespace: str, document_id: int) -> list[int]:
        """See TextRows."""
        mine = (c.c.namespace == namespace, c.c.document_id == document_id, c.c.graph_extractor.is_(None))
        return list(self._connection.execute(sa.select(c.c.id).where(*mine).order_by(c.c.position)).scalars())

    def of_conversation(self, namespace: str, conversation_id: int) -> list[int]:
        """See TextRows."""
        mine = (m.c.namespace == namespace, m.c.conversation_id == conversation_id, *_in_prose())
        return list(self._connection.execute(sa.select(m.c.id).where(*mine).order_by(m.c.id)).scalars())

    def mark(
        self, kind: TextKind, namespace: str, text_id: int, extractor: str, *, replacing: str | None = None
    ) -> bool:
        """See TextRows."""
        table = _TABLES[kind]
        mine = [table.c.namespace == namespace, table.c.id == text_id, _unread(table, replacing)]
        if kind is TextKind.MESSAGES:
            # Deleted while it was read: nothing of it is kept.
            mine.append(m.c.deleted_at.is_(None))
        marked = sa.update(table).where(*mine).values(graph_extractor=extractor)
        return self._connection.execute(marked).rowcount > 0

    def _messages(self, *tests: sa.ColumnElement[bool]) -> list[Reading]:
        rows = self._connection.execute(sa.select(m).where(*tests, *_in_prose())).all()
        return [
            Reading(row.content, row.created_at, row.speaker, self._before(row), message_id=row.id)
            for row in rows
        ]

    def _before(self, row: sa.Row[tuple[object, ...]]) -> tuple[str, ...]:
        place = {"namespace": row.namespace, "conversation": row.conversation_id, "id": row.id}
        found = self._connection.execute(_BEFORE, place).all()
        return tuple(f"{it.speaker}: {it.content}" if it.speaker else it.content for it in reversed(found))

    def _chunks(self, *tests: sa.ColumnElement[bool]) -> list[Reading]:
        rows = self._connection.execute(
            sa.select(c.c.id, c.c.text, c.c.heading, c.c.created_at, d.c.title).join_from(c, d).where(*tests)
        )
        return [
            Reading(
                row.text,
                row.created_at,
                context=tuple(filter(None, [heading_line(row.title, json.loads(row.heading))])),
                chunk_id=row.id,
            )
            for row in rows
        ]


def _wanted(kind: TextKind, namespace: str, replacing: str | None) -> list[sa.ColumnElement[bool]]:
    if kind is TextKind.MESSAGES:
        return [m.c.namespace == namespace, _unread(m, replacing), *_in_prose()]
    return [c.c.namespace == namespace, c.c.graph_extractor == replacing if replacing else sa.false()]


def _unread(table: sa.Table, replacing: str | None) -> sa.ColumnElement[bool]:
    nobody = table.c.graph_extractor.is_(None)
    return nobody if replacing is None else sa.or_(nobody, table.c.graph_extractor == replacing)
