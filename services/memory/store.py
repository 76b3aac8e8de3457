"""What conversation memory asks of the database, inside one unit of work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from services.embedding.store import CollectionRows
from services.ids import ConversationId, MessageId
from services.jobs.store import JobRows
from services.memory.models import Conversation, Message, MessageFilter, NewMessage, Role


@dataclass(frozen=True, slots=True)
class MessageText:
    """A message as the embedder sees it."""

    id: MessageId
    namespace: str
    text: str


class MessageRows(Protocol):
    """The conversations and messages tables. No method sees another namespace's rows."""

    def create_conversation(
        self, namespace: str, *, key: str | None = None, title: str | None = None
    ) -> ConversationId:
        """A new conversation, or the one that has this key already."""

    def conversation(self, namespace: str, conversation_id: ConversationId) -> Conversation | None:
        """One conversation, or None."""

    def find_conversation(self, namespace: str, key: str) -> Conversation | None:
        """The conversation of that key, or None."""

    def latest_conversation(self, namespace: str) -> Conversation | None:
        """The newest one, or None."""

    def conversations(self, namespace: str, *, after: int = 0, limit: int = 1_000) -> list[Conversation]:
        """A page in order of id."""

    def add(
        self, namespace: str, conversation_id: ConversationId, messages: Sequence[NewMessage]
    ) -> list[MessageId]:
        """Append messages; ids grow in their order. Raises NotFound for a conversation of another namespace."""

    def get(self, namespace: str, ids: Sequence[MessageId]) -> dict[MessageId, Message]:
        """Those of the ids that exist and are not deleted, hidden ones included."""

    def history(
        self,
        namespace: str,
        conversation_id: ConversationId,
        *,
        limit: int,
        where: MessageFilter | None = None,
    ) -> list[Message]:
        """The newest `limit` messages that are not deleted, oldest first."""

    def after(
        self, namespace: str, conversation_id: ConversationId, message_id: int, *, limit: int
    ) -> list[Message]:
        """A page of messages behind an id, oldest first, deleted ones left out."""

    def count(self, namespace: str, conversation_id: ConversationId, *, after: int = 0) -> int:
        """Messages behind an id that are not deleted."""

    def replace(
        self,
        namespace: str,
        conversation_id: ConversationId,
        *,
        first: int,
        last: int,
        role: Role,
        summary: str,
    ) -> MessageId:
        """Compact: hide a range of ids from the agent and append a summary that only the agent sees; the new id."""

    def soft_delete(self, namespace: str, ids: Sequence[MessageId]) -> int:
        """Take messages out of every read at once; how many. Their vectors go by tombstones."""

    def erase(self, namespace: str, ids: Sequence[MessageId]) -> int:
        """Delete rows, index entries, marks and (through tombstones) vectors for good; how many."""

    def delete_conversation(self, namespace: str, conversation_id: ConversationId) -> int:
        """Erase a conversation with everything in it; the number of messages."""

    def search(
        self, namespace: str, query: str, *, limit: int, where: MessageFilter
    ) -> dict[MessageId, float]:
        """Keyword search: id -> BM25 score, higher is better; filtered before the limit; any query is valid."""

    def visible(self, namespace: str, ids: Sequence[MessageId], where: MessageFilter) -> set[MessageId]:
        """Those of the ids that exist, are not deleted and pass the filter."""

    def touch(self, counts: Mapping[MessageId, int], *, now: int) -> None:
        """Add to the access counts and remember when."""

    def unembedded(self, physical: str, *, limit: int, after: int = 0) -> list[MessageText]:
        """Messages of any namespace behind an id that lack vectors in this collection, oldest first."""

    def texts(self, ids: Sequence[MessageId], physical: str) -> list[MessageText]:
        """Those of the ids that exist, are not deleted and lack vectors in this collection."""

    def mark_embedded(self, physical: str, windows: Sequence[tuple[MessageId, int]]) -> list[MessageId]:
        """Record (id, vectors) as done; the ids of messages that are gone."""


class MemoryUnit(Protocol):
    """A unit of work for conversation memory."""

    @property
    def jobs(self) -> JobRows:
        """The job ledger."""

    @property
    def messages(self) -> MessageRows:
        """Conversations and messages."""

    @property
    def collections(self) -> CollectionRows:
        """Vector collections."""


class MemoryDatabase(Protocol):
    """Opens units of work."""

    def write(self, *, durable: bool = True) -> AbstractContextManager[MemoryUnit]:
        """One transaction."""

    def read(self) -> AbstractContextManager[MemoryUnit]:
        """One consistent view."""
