"""The SQL of summaries and key facts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import sqlalchemy as sa

from services.adapters.embedding_marks import MarkedRows
from services.adapters.erasure import Erasure, parts
from services.adapters.key_fact_sources import hand_over, tell
from services.adapters.scopes import scope_token
from services.adapters.tables import (
    key_fact_embeddings,
    key_facts,
    messages,
    shown_messages,
    summaries,
    summary_embeddings,
)
from services.ids import ConversationId
from services.jobs.models import EMBED_SUMMARY
from services.memory.summary_store import KeyFact, RowText, Summary
from services.retrieval.query import match_expression, segment


class _TextRows(MarkedRows):
    """Implements `services.memory.summary_store.TextRows` for one table, its text column and its marks."""

    _embed_job = EMBED_SUMMARY
    _text: ClassVar[sa.Column[str]]

    def unembedded(self, namespace: str, group: int, physical: str) -> list[RowText]:
        """See TextRows."""
        mine = (self._rows.c.namespace == namespace, self._group == group)
        rows = sa.select(self._rows.c.id, self._rows.c.conversation_id, self._text).where(
            *mine, *self._lacks_vectors(physical)
        )
        found = self._connection.execute(rows.order_by(self._rows.c.id))
        return [RowText(row[0], ConversationId(row[1]), row[2]) for row in found]

    def search(
        self, namespace: str, query: str, *, limit: int, exclude: ConversationId | None = None
    ) -> dict[int, float]:
        """See TextRows."""
        name = f"{self._rows.name}_fts"
        expression = match_expression(
            query, scope=scope_token("summaries", namespace), columns=self._text.name
        )
        if expression is None:
            return {}
        score: sa.ColumnElement[float] = sa.literal_column(f"bm25({name}, 1.0, 0.0)")
        index = sa.table(name, sa.column("rowid"))
        tests = [self._rows.c.namespace == namespace]
        tests += [] if exclude is None else [self._rows.c.conversation_id != exclude]
        rows = self._connection.execute(
            sa.select(self._rows.c.id, (-score).label("score"))
            .join_from(index, self._rows, self._rows.c.id == index.c.rowid)
            .where(sa.text(f"{name} MATCH :expression").bindparams(expression=expression))
            .where(*tests)
            .order_by(score, self._rows.c.id)
            .limit(limit)
        )
        return {row.id: row.score for row in rows}

    def _found(self, namespace: str, ids: Sequence[int]) -> list[Any]:
        rows: list[Any] = []
        for part in parts(ids):
            mine = (self._rows.c.namespace == namespace, self._rows.c.id.in_(part))
            rows += self._connection.execute(sa.select(self._rows).where(*mine))
        return rows


class SqlSummaryRows(_TextRows):
    """Implements `services.memory.summary_store.SummaryRows` on one connection."""

    _rows = summaries
    _text = summaries.c.content
    _group = summaries.c.id
    _marks = summary_embeddings

    def add(
        self,
        namespace: str,
        conversation_id: ConversationId,
        content: str,
        *,
        first: int | None,
        last: int | None,
        token_estimate: int,
        created_at: int | None = None,
    ) -> int:
        """See SummaryRows."""
        row = {
            "namespace": namespace,
            "conversation_id": conversation_id,
            "content": content,
            "first_message_id": first,
            "last_message_id": last,
            "token_estimate": token_estimate,
            "segmented": segment(content),
            "scope": scope_token("summaries", namespace),
            "created_at": self._clock.now() if created_at is None else created_at,
        }
        return int(
            self._connection.execute(sa.insert(summaries).values(row).returning(summaries.c.id)).scalar_one()
        )

    def get(self, namespace: str, ids: Sequence[int]) -> dict[int, Summary]:
        """See SummaryRows."""
        return {row.id: _summary(row) for row in self._found(namespace, ids)}

    def of(self, namespace: str, conversation_id: ConversationId) -> list[Summary]:
        """See SummaryRows."""
        mine = sa.select(summaries).where(*self._mine(namespace, conversation_id))
        return [_summary(row) for row in self._connection.execute(mine.order_by(summaries.c.id))]

    def cursor(self, namespace: str, conversation_id: ConversationId) -> int:
        """See SummaryRows."""
        return self._connection.execute(self._cursor(namespace, conversation_id)).scalar_one()

    def is_due(self, namespace: str, conversation_id: ConversationId, threshold: int) -> bool:
        """See SummaryRows."""
        behind = sa.select(messages.c.id).where(
            messages.c.namespace == namespace,
            messages.c.conversation_id == conversation_id,
            messages.c.id > self._cursor(namespace, conversation_id).scalar_subquery(),
            messages.c.deleted_at.is_(None),
            shown_messages,
        )
        # One look into the index, however long the conversation is, and at what the agent never saw since the last one.
        beyond = behind.order_by(messages.c.id).offset(threshold).limit(1)
        return self._connection.execute(beyond).scalar() is not None

    def _cursor(self, namespace: str, conversation_id: ConversationId) -> sa.Select[int]:
        last = sa.func.coalesce(sa.func.max(summaries.c.last_message_id), 0)
        return sa.select(last).where(*self._mine(namespace, conversation_id))

    def _mine(self, namespace: str, conversation_id: ConversationId) -> tuple[sa.ColumnElement[bool], ...]:
        return summaries.c.namespace == namespace, summaries.c.conversation_id == conversation_id


class SqlKeyFactRows(_TextRows):
    """Implements `services.memory.summary_store.KeyFactRows` on one connection."""

    _rows = key_facts
    _text = key_facts.c.fact
    _group = key_facts.c.summary_id
    _marks = key_fact_embeddings

    def add(
        self, namespace: str, conversation_id: ConversationId, summary_id: int, facts: Sequence[str]
    ) -> list[int]:
        """See KeyFactRows."""
        now = self._clock.now()
        return tell(self._connection, namespace, conversation_id, summary_id, facts, created_at=now)

    def get(self, namespace: str, ids: Sequence[int]) -> dict[int, KeyFact]:
        """See KeyFactRows."""
        return {
            row.id: KeyFact(
                row.id, ConversationId(row.conversation_id), row.summary_id, row.fact, row.created_at
            )
            for row in self._found(namespace, ids)
        }

    def merge(self, namespace: str, into: Mapping[int, int]) -> set[int]:
        """See KeyFactRows."""
        known = self.existing(sorted({*into, *into.values()}), namespace)
        merged = {fact: other for fact, other in into.items() if fact in known and other in known}
        hand_over(self._connection, merged)
        for part in parts(merged):
            mine = (key_facts.c.namespace == namespace, key_facts.c.id.in_(part))
            Erasure(self._connection, self._clock).bury("key_fact", *mine)
            self._connection.execute(sa.delete(key_facts).where(*mine))
        return set(merged)


def _summary(row: Any) -> Summary:
    return Summary(
        row.id,
        ConversationId(row.conversation_id),
        row.content,
        row.first_message_id,
        row.last_message_id,
        row.token_estimate,
        row.created_at,
    )
