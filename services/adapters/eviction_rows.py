"""The SQL of eviction: which messages may go, and which are gone but for their rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import sqlalchemy as sa

from services.adapters.tables import messages as m
from services.adapters.tables import summaries as s
from services.adapters.tables import vector_tombstones as v
from services.adapters.tables import zeph_corrections as z
from services.ids import MessageId
from services.memory.eviction import Candidate
from services.memory.models import Origin


class SqlEvictionRows:
    """Implements `services.memory.eviction.EvictionRows` on one connection."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def namespaces(self) -> Sequence[str]:
        """See EvictionRows."""
        rows = sa.select(m.c.namespace).distinct().order_by(m.c.namespace)
        return self._connection.execute(rows).scalars().all()

    def counts(self, namespace: str) -> dict[int, int]:
        """See EvictionRows."""
        living = (m.c.namespace == namespace, m.c.deleted_at.is_(None))
        rows = sa.select(m.c.conversation_id, sa.func.count()).where(*living).group_by(m.c.conversation_id)
        return {row[0]: row[1] for row in self._connection.execute(rows)}

    def candidates(self, namespace: str, *, preserve_tail: int) -> Iterator[Candidate]:
        """See EvictionRows."""
        place = sa.func.row_number().over(partition_by=m.c.conversation_id, order_by=m.c.id.desc())
        living = (
            sa.select(
                m.c.id,
                m.c.conversation_id,
                m.c.origin,
                m.c.created_at,
                m.c.last_accessed_at,
                m.c.access_count,
                place.label("place"),
            )
            .where(m.c.namespace == namespace, m.c.deleted_at.is_(None))
            .subquery()
        )
        # Where a summary ends says what the next one has to cover.
        end = sa.exists().where(
            sa.or_(s.c.first_message_id == living.c.id, s.c.last_message_id == living.c.id)
        )
        seen_at = sa.func.coalesce(living.c.last_accessed_at, living.c.created_at)
        rows = sa.select(living.c.id, seen_at, living.c.access_count, living.c.conversation_id).where(
            living.c.place > preserve_tail, living.c.origin != Origin.SUMMARY, ~end
        )
        for message_id, seen, accesses, conversation_id in self._connection.execute(rows):
            yield Candidate(MessageId(message_id), seen, accesses, conversation_id)

    def erase_clean(self, namespace: str, *, limit: int) -> int:
        """See EvictionRows."""
        # The tombstones of a message are written just before its `deleted_at`.
        waiting = sa.exists().where(v.c.namespace == namespace, v.c.created_at <= m.c.deleted_at)
        # What retells a message is found by it when that is forgotten.
        retelling = (
            *((s, s.c[name]) for name in ("first_message_id", "last_message_id")),
            *((z, z.c[name]) for name in ("message_id", "target_message_id", "request_message_id")),
        )
        held = sa.union_all(
            *(
                sa.select(link).where(table.c.namespace == namespace, link.is_not(None))
                for table, link in retelling
            )
        )
        gone = (m.c.namespace == namespace, m.c.deleted_at.is_not(None), m.c.id.not_in(held))
        clean = sa.select(m.c.id).where(*gone, ~waiting)
        return self._connection.execute(sa.delete(m).where(m.c.id.in_(clean.limit(limit)))).rowcount
