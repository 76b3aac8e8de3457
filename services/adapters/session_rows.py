"""The SQL of ACP sessions and their events."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.sqlite import insert

from services import errors
from services.adapters.tables import acp_session_events as e
from services.adapters.tables import acp_sessions as s
from services.adapters.tables import conversations as c
from services.adapters.tables import messages as m
from services.ids import ConversationId, MessageId
from services.memory.sessions import AcpEvent, AcpSessionInfo
from services.ports import Clock

_PER_PAGE = 500
# What a copied message has of its own: its place, and how often it was recalled.
_NOT_COPIED = {"id", "conversation_id", "last_accessed_at", "access_count"}


class SqlSessionRows:
    """Implements `services.memory.sessions.SessionRows` on one connection."""

    def __init__(self, connection: sa.Connection, clock: Clock) -> None:
        self._connection = connection
        self._clock = clock

    def all(self, namespace: str, *, limit: int | None = None) -> list[AcpSessionInfo]:
        """See SessionRows."""
        return self._select(s.c.namespace == namespace, limit=limit)

    def get(self, namespace: str, session_id: str) -> AcpSessionInfo | None:
        """See SessionRows."""
        return next(iter(self._select(s.c.namespace == namespace, s.c.id == session_id)), None)

    def create(self, namespace: str, session: AcpSessionInfo) -> bool:
        """See SessionRows."""
        self._check_conversation(namespace, session.conversation_id)
        row = {
            "namespace": namespace,
            "id": session.id,
            "title": session.title,
            "conversation_id": session.conversation_id,
            "created_at": session.created_at,
            "updated_at": session.updated_at,
        }
        return self._connection.execute(insert(s).values(row).on_conflict_do_nothing()).rowcount == 1

    def add(self, namespace: str, session_id: str, events: Sequence[AcpEvent]) -> None:
        """See SessionRows."""
        newest = max((event.created_at for event in events), default=0)
        later = sa.case((s.c.updated_at < newest, newest), else_=s.c.updated_at)
        moved = sa.update(s).where(s.c.namespace == namespace, s.c.id == session_id)
        found = self._connection.execute(moved.values(updated_at=later))
        if not found.rowcount:
            raise errors.NotFound(f"namespace {namespace} has no session {session_id}: create it first")
        rows = [
            {
                "namespace": namespace,
                "session_id": session_id,
                "event_type": event.event_type,
                "payload": event.payload,
                "created_at": event.created_at,
            }
            for event in events
        ]
        if rows:
            self._connection.execute(sa.insert(e), rows)

    def events(self, namespace: str, session_id: str) -> Iterator[AcpEvent]:
        """See SessionRows."""
        after = 0
        mine = sa.select(e).where(e.c.namespace == namespace, e.c.session_id == session_id)
        while page := self._connection.execute(
            mine.where(e.c.id > after).order_by(e.c.id).limit(_PER_PAGE)
        ).all():
            yield from (AcpEvent(row.event_type, row.payload, row.created_at) for row in page)
            after = page[-1].id

    def set_title(self, namespace: str, session_id: str, title: str | None) -> bool:
        """See SessionRows."""
        return self._set(namespace, session_id, title=title)

    def set_conversation(
        self, namespace: str, session_id: str, conversation_id: ConversationId | None
    ) -> bool:
        """See SessionRows."""
        self._check_conversation(namespace, conversation_id)
        return self._set(namespace, session_id, conversation_id=conversation_id)

    def copy_conversation(
        self, namespace: str, conversation_id: ConversationId
    ) -> tuple[ConversationId, list[MessageId]]:
        """See SessionRows."""
        title = sa.select(c.c.title).where(c.c.id == conversation_id).scalar_subquery()
        created = self._connection.execute(
            sa.insert(c)
            .values(namespace=namespace, title=title, created_at=self._clock.now())
            .returning(c.c.id)
        ).scalar_one()
        names = [column.name for column in m.columns if column.name not in _NOT_COPIED]
        copied = (
            sa.select(sa.literal(created), *(m.c[name] for name in names))
            .where(
                m.c.namespace == namespace,
                m.c.conversation_id == conversation_id,
                m.c.deleted_at.is_(None),
            )
            .order_by(m.c.id)
        )
        self._connection.execute(sa.insert(m).from_select(["conversation_id", *names], copied))
        ids = self._connection.execute(
            sa.select(m.c.id).where(m.c.namespace == namespace, m.c.conversation_id == created)
        ).scalars()
        return ConversationId(created), [MessageId(message_id) for message_id in ids]

    def delete(self, namespace: str, session_id: str) -> bool:
        """See SessionRows."""
        gone = sa.delete(s).where(s.c.namespace == namespace, s.c.id == session_id)
        return self._connection.execute(gone).rowcount == 1

    def _select(self, *tests: sa.ColumnElement[bool], limit: int | None = None) -> list[AcpSessionInfo]:
        inside = (e.c.namespace == s.c.namespace, e.c.session_id == s.c.id)
        size = sa.select(sa.func.count()).where(*inside).scalar_subquery()
        rows = sa.select(s, size.label("events")).where(*tests).order_by(s.c.created_at.desc(), s.c.id)
        return [
            AcpSessionInfo(row.id, row.created_at, row.updated_at, row.title, row.conversation_id, row.events)
            for row in self._connection.execute(rows.limit(limit))
        ]

    def _set(self, namespace: str, session_id: str, **values: Any) -> bool:
        mine = sa.update(s).where(s.c.namespace == namespace, s.c.id == session_id)
        return self._connection.execute(mine.values(values)).rowcount == 1

    def _check_conversation(self, namespace: str, conversation_id: ConversationId | None) -> None:
        mine = sa.select(c.c.id).where(c.c.namespace == namespace, c.c.id == conversation_id)
        if conversation_id is not None and self._connection.execute(mine).first() is None:
            raise errors.NotFound(f"namespace {namespace} has no conversation {conversation_id}")
