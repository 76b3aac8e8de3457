"""What conversation memory asks of the database, inside one unit of work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from services.embedding.store import CollectionRows, EmbeddedRows
from services.ids import ConversationId, MessageId
from services.jobs.store import JobRows
from services.memory.models import (
    Conversation,
    ConversationName,
    Forgotten,
    MemoryStats,
    Message,
    MessageFilter,
    NewMessage,
    Role,
)

if TYPE_CHECKING:
    from services.memory.summary_store import SummaryRows

from services.memory.ranking import Place


@dataclass(frozen=True, slots=True)
class MessageText:
    """A message as the embedder sees it, with what a vector search filters by."""

    id: MessageId
    conversation_id: ConversationId
    role: Role
    created_at: int
    text: str


# One job embeds one block of ids: small enough to share the work, large enough that the ledger stays short.
MESSAGES_PER_BLOCK = 512


def block_of(message_id: int) -> int:
    """The block that a message is embedded with."""
    return message_id // MESSAGES_PER_BLOCK


class MessageRows(EmbeddedRows, Protocol):
    """The conversations and messages tables; the rows with vectors are messages, in blocks of ids.

    No method that is given a namespace sees another one's rows.
    """

    def create_conversation(
        self, namespace: str, *, key: str | None = None, title: str | None = None
    ) -> ConversationId:
        """A new conversation, or the one that has this key already."""

    def resolve(self, namespace: str, name: ConversationName) -> ConversationId | None:
        """The id of the conversation that is meant (see ConversationName), or None."""

    def conversation(self, namespace: str, conversation_id: ConversationId) -> Conversation | None:
        """One conversation, or None."""

    def find_conversation(self, namespace: str, key: str) -> Conversation | None:
        """The conversation of that key, or None."""

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
        """A page of messages behind an id, oldest first: those that are not deleted and that the agent sees or saw."""

    def before(
        self, namespace: str, conversation_id: ConversationId, message_id: int, *, limit: int
    ) -> list[Message]:
        """The newest `limit` such messages in front of an id, oldest first."""

    def count(self, namespace: str, conversation_id: ConversationId, *, after: int = 0) -> int:
        """Such messages behind an id."""

    def replace(
        self,
        namespace: str,
        conversation_id: ConversationId,
        *,
        first: int,
        last: int,
        summary: NewMessage,
    ) -> MessageId:
        """Compact: hide a range of ids from the agent, with their vectors, and append a summary; the new id.

        Raises NotFound when the range holds nothing that the agent sees.
        """

    def soft_delete(self, namespace: str, ids: Sequence[MessageId]) -> int:
        """Take messages out of every read at once; how many. Their vectors go by tombstones."""

    def stored(self, namespace: str, ids: Sequence[MessageId]) -> set[MessageId]:
        """Those of the ids that have a row, be it of a deleted message."""

    def forget(self, namespace: str, ids: Sequence[MessageId]) -> Forgotten:
        """Erase messages and what tells of them, vectors through tombstones.

        That is: summaries and compactions that retell them, corrections made of them, cached responses.
        """

    def forget_conversation(self, namespace: str, conversation_id: ConversationId) -> Forgotten:
        """Erase a conversation with all in it, and the sessions that recorded it."""

    def forget_everything(self, namespace: str) -> Forgotten:
        """Erase every row of a namespace except its jobs, with all vectors."""

    def import_keys(self, conversation_id: ConversationId, keys: Sequence[str]) -> set[str]:
        """Those of the import keys that the conversation has already."""

    def count_imported(self, conversation_id: ConversationId) -> int:
        """Messages of the conversation that have an import key."""

    def stats(self, namespace: str, physical: str | None) -> MemoryStats:
        """What the namespace holds, and how much of it has vectors in this collection."""

    def search(
        self, namespace: str, query: str, *, limit: int, where: MessageFilter
    ) -> dict[MessageId, tuple[float, Place]]:
        """Keyword search: id -> BM25 score (higher is better) and place, best first; any query is valid.

        Filtered before the limit.
        """

    def holders(
        self, namespace: str, phrases: Sequence[str], query: str, *, limit: int, where: MessageFilter
    ) -> list[MessageId]:
        """Messages with any of the phrases in their text, or in who said it when; those best for the query first."""

    def places(
        self, namespace: str, ids: Sequence[MessageId], where: MessageFilter
    ) -> dict[MessageId, Place]:
        """Where and when those of the ids were said that exist, are not deleted and pass the filter."""

    def defer_detection(self, message_id: MessageId) -> None:
        """Note that nobody has looked yet whether this message corrects something."""

    def touch(self, counts: Mapping[MessageId, int], *, now: int) -> None:
        """Add to the access counts and remember when."""

    def unembedded(self, namespace: str, block: int, physical: str, *, limit: int) -> list[MessageText]:
        """Messages of a block that are to have vectors in this collection and have none, oldest first."""

    def waiting(self, namespace: str | None, physical: str) -> int:
        """How many such messages there are, in one namespace or in all."""


class MemoryUnit(Protocol):
    """A unit of work for conversation memory."""

    @property
    def jobs(self) -> JobRows:
        """The job ledger."""

    @property
    def messages(self) -> MessageRows:
        """Conversations and messages."""

    @property
    def summaries(self) -> SummaryRows:
        """Summaries of conversations."""

    @property
    def collections(self) -> CollectionRows:
        """Vector collections."""


class MemoryDatabase(Protocol):
    """Opens units of work."""

    def write(self, *, durable: bool = True) -> AbstractContextManager[MemoryUnit]:
        """One transaction."""

    def read(self) -> AbstractContextManager[MemoryUnit]:
        """One consistent view."""
