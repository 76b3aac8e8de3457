"""The SQL of corrections."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.sqlite import insert

from services.adapters.embedding_marks import MarkedRows
from services.adapters.erasure import Erasure, parts
from services.adapters.graph_rows import ACTIVE
from services.adapters.scopes import scope_token
from services.adapters.tables import (
    acp_sessions,
    correction_embeddings,
    correction_facts,
    graph_edge_sources,
    graph_edges,
    graph_entities,
    undetected_messages,
)
from services.adapters.tables import messages as m
from services.adapters.tables import zeph_corrections as z
from services.corrections.models import (
    CorrectionKind,
    CorrectionText,
    NewCorrection,
    StatedFact,
    UserCorrection,
)
from services.ids import ConversationId, MessageId
from services.jobs.models import EMBED_CORRECTION
from services.retrieval.query import match_expression, segment


class SqlCorrectionRows(MarkedRows):
    """Implements `services.corrections.store.CorrectionRows` on one connection."""

    _rows = z
    _marks = correction_embeddings
    _embed_job = EMBED_CORRECTION
    _group = z.c.id

    def add(self, namespace: str, correction: NewCorrection) -> int | None:
        """See CorrectionRows."""
        row = {
            "namespace": namespace,
            "session_id": correction.session_id,
            "message_id": correction.message_id,
            "target_message_id": correction.target_message_id,
            "lowers": int(correction.lowers),
            "standing": int(correction.standing),
            "request_message_id": correction.request_message_id,
            "request": correction.request,
            "original_output": correction.original_output,
            "correction_text": correction.correction_text,
            "skill_name": correction.skill_name,
            "kind": correction.kind,
            "confidence": correction.confidence,
            "created_at": self._clock.now(),
            **correction_index(namespace, correction.request, correction.correction_text),
        }
        new = insert(z).values(row).on_conflict_do_nothing().returning(z.c.id)
        return self._connection.execute(new).scalar()

    def get(self, namespace: str, ids: Sequence[int]) -> dict[int, UserCorrection]:
        """See CorrectionRows."""
        found: dict[int, UserCorrection] = {}
        for part in parts(ids):
            rows = sa.select(z).where(z.c.namespace == namespace, z.c.id.in_(part))
            found |= {row.id: _correction(row) for row in self._connection.execute(rows)}
        return found

    def select(
        self,
        namespace: str,
        *,
        session_id: str | None = None,
        skill_name: str | None = None,
        conversation_id: ConversationId | None = None,
        kind: str | None = None,
        standing: bool | None = None,
        target: MessageId | None = None,
        in_force: bool = True,
        limit: int = 50,
    ) -> list[UserCorrection]:
        """See CorrectionRows."""
        inside = sa.exists().where(m.c.id == z.c.message_id, m.c.conversation_id == conversation_id)
        given = (
            (session_id, z.c.session_id == session_id),
            (skill_name, z.c.skill_name == skill_name),
            (conversation_id, inside),
            (kind, z.c.kind == kind),
            (standing, z.c.standing == standing),
            (target, z.c.target_message_id == target),
            (in_force or None, z.c.retired_at.is_(None)),
        )
        tests = [test for value, test in given if value is not None]
        rows = sa.select(z).where(z.c.namespace == namespace, *tests).order_by(z.c.id.desc()).limit(limit)
        return [_correction(row) for row in self._connection.execute(rows)]

    def search(self, namespace: str, query: str, *, limit: int) -> dict[int, float]:
        """See CorrectionRows."""
        expression = match_expression(
            query, scope=scope_token("corrections", namespace), columns="correction_text"
        )
        if expression is None:
            return {}
        score: sa.ColumnElement[float] = sa.literal_column("bm25(corrections_fts, 1.0, 0.0)")
        index = sa.table("corrections_fts", sa.column("rowid"))
        rows = self._connection.execute(
            sa.select(z.c.id, (-score).label("score"))
            .join_from(index, z, z.c.id == index.c.rowid)
            .where(sa.text("corrections_fts MATCH :expression").bindparams(expression=expression))
            .where(z.c.namespace == namespace, z.c.retired_at.is_(None))
            .order_by(score, z.c.id)
            .limit(limit)
        )
        return {row.id: row.score for row in rows}

    def unembedded(self, namespace: str, correction_id: int, physical: str) -> list[CorrectionText]:
        """See CorrectionRows."""
        mine = (z.c.namespace == namespace, z.c.id == correction_id)
        row = self._connection.execute(sa.select(z).where(*mine, *self._lacks_vectors(physical))).first()
        texts = [] if row is None else [row.correction_text, row.request]
        return [CorrectionText(correction_id, text) for text in texts if text.strip()]

    def retire(self, namespace: str, correction_id: int, *, at: int | None) -> bool:
        """See CorrectionRows."""
        mine = (z.c.namespace == namespace, z.c.id == correction_id)
        return bool(self._connection.execute(sa.update(z).where(*mine).values(retired_at=at)).rowcount)

    def remove(self, namespace: str, correction_id: int) -> bool:
        """See CorrectionRows."""
        mine = (z.c.namespace == namespace, z.c.id == correction_id)
        Erasure(self._connection, self._clock).bury("correction", *mine)
        return bool(self._connection.execute(sa.delete(z).where(*mine)).rowcount)

    def stated_facts(self, namespace: str, message_id: MessageId) -> list[StatedFact]:
        """See CorrectionRows."""
        e, s = graph_edges.c, graph_edge_sources.c
        subject, thing = graph_entities.alias(), graph_entities.alias()
        others = graph_edge_sources.alias()
        elsewhere = sa.exists().where(
            others.c.edge_id == e.id, others.c.message_id.is_distinct_from(message_id)
        )
        taken_back = sa.exists().where(correction_facts.c.edge_id == e.id)
        rows = (
            sa.select(e.id, subject.c.name.label("subject"), thing.c.name.label("object"))
            .join_from(graph_edges, graph_edge_sources, s.edge_id == e.id)
            .join(subject, subject.c.id == e.source_entity_id)
            .join(thing, thing.c.id == e.target_entity_id)
            .where(e.namespace == namespace, s.message_id == message_id, ~elsewhere)
            .where(sa.or_(sa.and_(*ACTIVE), taken_back))
            .distinct()
            .order_by(e.id)
        )
        return [StatedFact(row.id, row.subject, row.object) for row in self._connection.execute(rows)]

    def retire_facts(self, correction_id: int, edge_ids: Sequence[int]) -> None:
        """See CorrectionRows."""
        now = self._clock.now()
        for edge_id in edge_ids:
            retired = sa.update(graph_edges).where(graph_edges.c.id == edge_id, *ACTIVE)
            others = (
                sa.select(correction_facts.c.edge_id).where(correction_facts.c.edge_id == edge_id).limit(1)
            )
            taken_back = self._connection.execute(retired.values(expired_at=now)).rowcount
            if taken_back or self._connection.execute(others).first():
                kept = {"correction_id": correction_id, "edge_id": edge_id}
                self._connection.execute(insert(correction_facts).values(kept).on_conflict_do_nothing())

    def retired_facts(self, correction_id: int) -> list[int]:
        """See CorrectionRows."""
        mine = sa.select(correction_facts.c.edge_id).where(correction_facts.c.correction_id == correction_id)
        return list(self._connection.execute(mine.order_by(correction_facts.c.edge_id)).scalars())

    def restore_facts(self, correction_id: int) -> None:
        """See CorrectionRows."""
        # A trigger lets them hold again.
        self._connection.execute(
            sa.delete(correction_facts).where(correction_facts.c.correction_id == correction_id)
        )

    def undetected(self, *, limit: int) -> list[tuple[str, MessageId]]:
        """See CorrectionRows."""
        rows = (
            sa.select(m.c.namespace, m.c.id).join_from(undetected_messages, m).order_by(m.c.id).limit(limit)
        )
        return [(row.namespace, MessageId(row.id)) for row in self._connection.execute(rows)]

    def forget_undetected(self, message_ids: Sequence[MessageId]) -> None:
        """See CorrectionRows."""
        for part in parts(message_ids):
            mine = undetected_messages.c.message_id.in_(part)
            self._connection.execute(sa.delete(undetected_messages).where(mine))

    def session_of(self, namespace: str, conversation_id: ConversationId) -> str | None:
        """See CorrectionRows."""
        s = acp_sessions.c
        mine = (s.namespace == namespace, s.conversation_id == conversation_id)
        newest = sa.select(s.id).where(*mine).order_by(s.created_at.desc(), s.id.desc()).limit(1)
        return self._connection.execute(newest).scalar()


def correction_index(namespace: str, request: str, text: str) -> dict[str, str]:
    """The columns that full-text search reads: what had been asked belongs to what a correction is about."""
    whole = f"{request}\n{text}"
    return {"segmented": segment(whole) or whole, "scope": scope_token("corrections", namespace)}


def _correction(row: Any) -> UserCorrection:
    return UserCorrection(
        id=row.id,
        namespace=row.namespace,
        kind=CorrectionKind(row.kind),
        confidence=row.confidence,
        correction_text=row.correction_text,
        original_output=row.original_output,
        request=row.request,
        message_id=row.message_id,
        target_message_id=row.target_message_id,
        request_message_id=row.request_message_id,
        lowers=bool(row.lowers),
        standing=bool(row.standing),
        session_id=row.session_id,
        skill_name=row.skill_name,
        created_at=row.created_at,
        retired_at=row.retired_at,
    )
