"""The SQL of conversations and messages."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.sqlite import insert

from services import errors
from services.adapters import message_search
from services.adapters.embedding_marks import MarkedRows
from services.adapters.erasure import Erasure, parts, with_ids
from services.adapters.message_search import filter_sql, filter_values
from services.adapters.scopes import scope_token
from services.adapters.tables import AROUND_CHARACTERS, SESSION_GAP, shown_messages, undetected_messages
from services.adapters.tables import conversations as c
from services.adapters.tables import message_embeddings as e
from services.adapters.tables import messages as m
from services.ids import ConversationId, MessageId, content_hash
from services.jobs.models import EMBED_MESSAGES
from services.memory.models import (
    Conversation,
    ConversationName,
    Forgotten,
    MemoryStats,
    Message,
    MessageFilter,
    NewMessage,
    Origin,
    Role,
)
from services.memory.ranking import Place
from services.memory.store import MESSAGES_PER_BLOCK, MessageText
from services.ports import Clock
from services.retrieval.query import segment

log = logging.getLogger(__name__)

_SHOWN_CHARACTERS = 120

# Built once: every message that is remembered needs them.
_MINE = sa.select(c.c.id).where(c.c.namespace == sa.bindparam("namespace"))
_LATEST = _MINE.order_by(c.c.id.desc()).limit(1)
_BY_ID = _MINE.where(c.c.id == sa.bindparam("name"))
_INSERT = sa.insert(m).returning(m.c.id)
_BY_KEY = _MINE.where(c.c.key == sa.bindparam("name"))


class SqlMessageRows(MarkedRows):
    """Implements `services.memory.store.MessageRows` on one connection."""

    _rows = m
    _marks = e
    _home = c
    _embed_job = EMBED_MESSAGES
    _group = m.c.id // MESSAGES_PER_BLOCK

    def __init__(self, connection: sa.Connection, clock: Clock) -> None:
        super().__init__(connection, clock)
        self._erasure = Erasure(connection, clock)

    # ---- conversations ---------------------------------------------------------------------------------------

    def create_conversation(
        self, namespace: str, *, key: str | None = None, title: str | None = None
    ) -> ConversationId:
        """See MessageRows."""
        row = {"namespace": namespace, "key": key, "title": title, "created_at": self._clock.now()}
        statement = insert(c).values(row).on_conflict_do_nothing().returning(c.c.id)
        created = self._connection.execute(statement).scalar()
        if created is None:
            same = sa.select(c.c.id).where(c.c.namespace == namespace, c.c.key == key)
            created = self._connection.execute(same).scalar_one()
        return ConversationId(created)

    def resolve(self, namespace: str, name: ConversationName) -> ConversationId | None:
        """See MessageRows."""
        if name is None:
            found = self._connection.execute(_LATEST, {"namespace": namespace})
        else:
            statement = _BY_ID if isinstance(name, int) else _BY_KEY
            found = self._connection.execute(statement, {"namespace": namespace, "name": name})
        return found.scalar()

    def conversation(self, namespace: str, conversation_id: ConversationId) -> Conversation | None:
        """See MessageRows."""
        return next(iter(self._conversations(c.c.namespace == namespace, c.c.id == conversation_id)), None)

    def find_conversation(self, namespace: str, key: str) -> Conversation | None:
        """See MessageRows."""
        return next(iter(self._conversations(c.c.namespace == namespace, c.c.key == key)), None)

    def conversations(self, namespace: str, *, after: int = 0, limit: int = 1_000) -> list[Conversation]:
        """See MessageRows."""
        return self._conversations(c.c.namespace == namespace, c.c.id > after, limit=limit)

    def _conversations(self, *tests: sa.ColumnElement[bool], limit: int = 1) -> list[Conversation]:
        inside = (m.c.conversation_id == c.c.id, m.c.deleted_at.is_(None))
        size = sa.select(sa.func.count()).where(*inside).scalar_subquery()
        rows = self._connection.execute(
            sa.select(c, size.label("messages")).where(*tests).order_by(c.c.id).limit(limit)
        )
        return [
            Conversation(
                ConversationId(row.id), row.namespace, row.key, row.title, row.created_at, row.messages
            )
            for row in rows
        ]

    # ---- messages --------------------------------------------------------------------------------------------

    def add(
        self, namespace: str, conversation_id: ConversationId, messages: Sequence[NewMessage]
    ) -> list[MessageId]:
        """See MessageRows."""
        if self.resolve(namespace, conversation_id) is None:
            raise errors.NotFound(f"namespace {namespace} has no conversation {conversation_id}")
        now = self._clock.now()
        rows = [_row(namespace, conversation_id, message, now) for message in messages]
        if len(rows) < 2:
            return [
                MessageId(found) for row in rows for found in self._connection.execute(_INSERT, row).scalars()
            ]
        self._introduce(namespace, conversation_id, rows)
        self._connection.execute(sa.insert(m), rows)
        # Ids only grow, and nobody else writes meanwhile.
        last = int(self._connection.execute(sa.select(sa.func.max(m.c.id))).scalar_one())
        return [MessageId(found) for found in range(last - len(rows) + 1, last + 1)]

    def _introduce(self, namespace: str, conversation_id: int, rows: list[dict[str, Any]]) -> None:
        """Give new rows what is around them, as the triggers would, and tell the message before them."""
        begins = sa.func.substr(sa.func.coalesce(m.c.segmented, m.c.content), 1, AROUND_CHARACTERS)
        mine = (m.c.namespace == namespace, m.c.conversation_id == conversation_id, m.c.deleted_at.is_(None))
        newest = (
            sa.select(m.c.id, m.c.created_at, begins.label("begins")).where(*mine).order_by(m.c.id.desc())
        )
        before = self._connection.execute(newest.limit(1)).first()
        texts = ["" if before is None else before.begins]
        texts += [(row["segmented"] or row["content"])[:AROUND_CHARACTERS] for row in rows]
        times = [None if before is None else before.created_at, *(row["created_at"] for row in rows)]

        def text(of: int, at: int) -> str:
            """What a message shows to its neighbour, if both are of one session."""
            one, other = (times[number] if number < len(times) else None for number in (of, at))
            near = one is not None and other is not None and abs(one - other) <= SESSION_GAP
            return texts[of] if near else ""

        for at, row in enumerate(rows, start=1):
            row["around"] = f"{text(at - 1, at)}\n{text(at + 1, at)}"
        if before is not None:
            # It was the last one, so nothing follows its line feed yet.
            told = sa.update(m).where(m.c.id == before.id).values(around=m.c.around + text(1, 0))
            self._connection.execute(told)

    def get(self, namespace: str, ids: Sequence[MessageId]) -> dict[MessageId, Message]:
        """See MessageRows."""
        return {
            MessageId(row.id): _message(row) for row in message_search.by_id(self._connection, namespace, ids)
        }

    def history(
        self,
        namespace: str,
        conversation_id: ConversationId,
        *,
        limit: int,
        where: MessageFilter | None = None,
    ) -> list[Message]:
        """See MessageRows."""
        tests = _tests(namespace, where or MessageFilter(agent_visible=None))
        newest = sa.select(m).where(*tests, m.c.conversation_id == conversation_id).order_by(m.c.id.desc())
        return [_message(row) for row in self._connection.execute(newest.limit(limit))][::-1]

    def after(
        self, namespace: str, conversation_id: ConversationId, message_id: int, *, limit: int
    ) -> list[Message]:
        """See MessageRows."""
        tests = _tests(namespace, MessageFilter(conversation_id, agent_visible=None))
        rows = sa.select(m).where(*tests, shown_messages, m.c.id > message_id).order_by(m.c.id).limit(limit)
        return [_message(row) for row in self._connection.execute(rows)]

    def before(
        self, namespace: str, conversation_id: ConversationId, message_id: int, *, limit: int
    ) -> list[Message]:
        """See MessageRows."""
        tests = _tests(namespace, MessageFilter(conversation_id, agent_visible=None))
        rows = (
            sa.select(m)
            .where(*tests, shown_messages, m.c.id < message_id)
            .order_by(m.c.id.desc())
            .limit(limit)
        )
        return [_message(row) for row in self._connection.execute(rows)][::-1]

    def count(self, namespace: str, conversation_id: ConversationId, *, after: int = 0) -> int:
        """See MessageRows."""
        tests = _tests(namespace, MessageFilter(conversation_id, agent_visible=None))
        counted = sa.select(sa.func.count()).where(*tests, shown_messages, m.c.id > after)
        return int(self._connection.execute(counted).scalar_one())

    def replace(
        self,
        namespace: str,
        conversation_id: ConversationId,
        *,
        first: int,
        last: int,
        summary: NewMessage,
    ) -> MessageId:
        """See MessageRows."""
        now = self._clock.now()
        mine = (
            m.c.namespace == namespace,
            m.c.conversation_id == conversation_id,
            m.c.id.between(first, last),
            m.c.agent_visible == 1,
            m.c.deleted_at.is_(None),
        )
        self._erasure.bury("message", *mine)
        hidden = sa.update(m).where(*mine).values(agent_visible=0, compacted_at=now)
        if not self._connection.execute(hidden).rowcount:
            raise errors.NotFound(
                f"conversation {conversation_id} has no message from {first} to {last} that the agent sees"
            )
        # Made in the moment in which the range was hidden: that is how forgetting finds what retells it.
        return self.add(namespace, conversation_id, [replace(summary, created_at=now)])[0]

    def soft_delete(self, namespace: str, ids: Sequence[MessageId]) -> int:
        """See MessageRows."""
        deleted = 0
        for part in parts(ids):
            mine = (m.c.namespace == namespace, m.c.id.in_(part), m.c.deleted_at.is_(None))
            self._erasure.bury("message", *mine)
            self._erasure.graph_texts(namespace, message_ids=part)
            deleted += self._connection.execute(
                sa.update(m).where(*mine).values(deleted_at=self._clock.now())
            ).rowcount
        return deleted

    def stored(self, namespace: str, ids: Sequence[MessageId]) -> set[MessageId]:
        """See MessageRows."""
        found = (
            self._connection.execute(sa.select(m.c.id).where(*with_ids(m, namespace, part)))
            for part in parts(ids)
        )
        return {MessageId(row.id) for rows in found for row in rows}

    def forget(self, namespace: str, ids: Sequence[MessageId]) -> Forgotten:
        """See MessageRows."""
        return self._erasure.messages(namespace, ids)

    def forget_conversation(self, namespace: str, conversation_id: ConversationId) -> Forgotten:
        """See MessageRows."""
        return self._erasure.conversation(namespace, conversation_id)

    def forget_everything(self, namespace: str) -> Forgotten:
        """See MessageRows."""
        return self._erasure.namespace(namespace)

    def import_keys(self, conversation_id: ConversationId, keys: Sequence[str]) -> set[str]:
        """See MessageRows."""
        found: set[str] = set()
        for part in parts(keys):
            known = sa.select(m.c.import_key).where(
                m.c.conversation_id == conversation_id, m.c.import_key.in_(part)
            )
            found |= set(self._connection.execute(known).scalars())
        return found

    def count_imported(self, conversation_id: ConversationId) -> int:
        """See MessageRows."""
        mine = (m.c.conversation_id == conversation_id, m.c.import_key.is_not(None), m.c.deleted_at.is_(None))
        return int(self._connection.execute(sa.select(sa.func.count()).where(*mine)).scalar_one())

    def stats(self, namespace: str, physical: str | None) -> MemoryStats:
        """See MessageRows."""
        alive = m.c.deleted_at.is_(None)
        count = sa.func.count()
        row = self._connection.execute(
            sa.select(
                count.filter(alive).label("messages"),
                count.filter(alive, m.c.agent_visible == 0).label("hidden"),
                count.filter(~alive).label("deleted"),
                sa.func.coalesce(sa.func.sum(sa.func.length(m.c.content)).filter(alive), 0).label(
                    "characters"
                ),
                sa.func.min(m.c.created_at).filter(alive).label("oldest_at"),
                sa.func.max(m.c.created_at).filter(alive).label("newest_at"),
            ).where(m.c.namespace == namespace)
        ).one()
        marked = (
            sa.select(count)
            .select_from(e)
            .join(m)
            .where(m.c.namespace == namespace, e.c.collection == physical, e.c.windows > 0)
        )
        conversations = sa.select(count).select_from(c).where(c.c.namespace == namespace)
        return MemoryStats(
            conversations=self._connection.execute(conversations).scalar_one(),
            embedded=self._connection.execute(marked).scalar_one(),
            waiting=self.waiting(namespace, physical or ""),
            **dict(zip(row._fields, row, strict=True)),
        )

    def defer_detection(self, message_id: MessageId) -> None:
        """See MessageRows."""
        self._connection.execute(insert(undetected_messages).values(message_id=message_id))

    def touch(self, counts: Mapping[MessageId, int], *, now: int) -> None:
        """See MessageRows."""
        rows = [{"message": message_id, "more": more, "now": now} for message_id, more in counts.items()]
        if rows:
            self._connection.execute(
                sa.update(m)
                .where(m.c.id == sa.bindparam("message"))
                .values(
                    access_count=m.c.access_count + sa.bindparam("more"), last_accessed_at=sa.bindparam("now")
                ),
                rows,
            )

    # ---- search ----------------------------------------------------------------------------------------------

    def search(
        self, namespace: str, query: str, *, limit: int, where: MessageFilter
    ) -> dict[MessageId, tuple[float, Place]]:
        """See MessageRows."""
        return message_search.search(self._connection, namespace, query, limit=limit, where=where)

    def holders(
        self, namespace: str, phrases: Sequence[str], query: str, *, limit: int, where: MessageFilter
    ) -> list[MessageId]:
        """See MessageRows."""
        return message_search.holders(self._connection, namespace, phrases, query, limit=limit, where=where)

    def places(
        self, namespace: str, ids: Sequence[MessageId], where: MessageFilter
    ) -> dict[MessageId, Place]:
        """See MessageRows."""
        return message_search.places(self._connection, namespace, ids, where)

    # ---- vectors ---------------------------------------------------------------------------------------------

    def unembedded(self, namespace: str, block: int, physical: str, *, limit: int) -> list[MessageText]:
        """See MessageRows."""
        first = block * MESSAGES_PER_BLOCK
        inside = (m.c.namespace == namespace, m.c.id.between(first, first + MESSAGES_PER_BLOCK - 1))
        rows = sa.select(m).where(*inside, *self._lacks_vectors(physical)).order_by(m.c.id).limit(limit)
        return [_text(row) for row in self._connection.execute(rows)]

    def waiting(self, namespace: str | None, physical: str) -> int:
        """See MessageRows."""
        mine = [] if namespace is None else [m.c.namespace == namespace]
        counted = sa.select(sa.func.count()).select_from(m).where(*mine, *self._lacks_vectors(physical))
        return int(self._connection.execute(counted).scalar_one())

    def _may_have_vectors(self) -> tuple[sa.ColumnElement[bool], ...]:
        return m.c.deleted_at.is_(None), m.c.agent_visible == 1, m.c.embeddable == 1


def indexed_text(message: NewMessage) -> str:
    """What full-text search sees of a message: who said it, and what."""
    return f"{message.speaker}: {message.content}" if message.speaker else message.content


def _row(namespace: str, conversation_id: ConversationId, message: NewMessage, now: int) -> dict[str, Any]:
    indexed = indexed_text(message)
    cut = segment(indexed)
    return {
        "namespace": namespace,
        "conversation_id": conversation_id,
        "role": message.role,
        "speaker": message.speaker,
        "origin": message.origin or (Origin.ASSISTANT if message.role is Role.ASSISTANT else Origin.USER),
        "content": message.content,
        # Kept only where the index must hold something else than the content.
        "segmented": cut or (indexed if indexed != message.content else None),
        "scope": scope_token("messages", namespace),
        # Escaped, because parts may hold what UTF-8 cannot say.
        "parts": json.dumps([dict(part) for part in message.parts]),
        "content_hash": content_hash(message.content),
        "import_key": message.import_key,
        "embeddable": int(message.embeddable),
        "agent_visible": int(message.agent_visible),
        "user_visible": int(message.user_visible),
        "created_at": now if message.created_at is None else message.created_at,
    }


def _tests(namespace: str, where: MessageFilter) -> list[sa.TextClause]:
    return [sa.text(filter_sql(where)).bindparams(**filter_values(namespace, where))]


def _text(row: Any) -> MessageText:
    # Who spoke is part of what is said: the index holds it as well.
    text = f"{row.speaker}: {row.content}" if row.speaker else row.content
    return MessageText(
        MessageId(row.id), ConversationId(row.conversation_id), Role(row.role), row.created_at, text
    )


def _message(row: Any) -> Message:
    return Message(
        id=MessageId(row.id),
        namespace=row.namespace,
        conversation_id=ConversationId(row.conversation_id),
        role=Role(row.role),
        content=row.content,
        speaker=row.speaker,
        origin=Origin(row.origin),
        parts=_read_parts(row.parts, row.role),
        agent_visible=bool(row.agent_visible),
        user_visible=bool(row.user_visible),
        created_at=row.created_at,
        compacted_at=row.compacted_at,
        deleted_at=row.deleted_at,
        last_accessed_at=row.last_accessed_at,
        access_count=row.access_count,
    )


def _read_parts(text: str, role: str) -> tuple[Mapping[str, Any], ...]:
    if text == "[]":
        return ()
    try:
        parts = json.loads(text)
    except ValueError:
        log.warning("parts_unreadable role=%s start=%s", role, text[:_SHOWN_CHARACTERS])
        return ()
    return tuple(part for part in parts if isinstance(part, dict)) if isinstance(parts, list) else ()
