"""The values of summaries and key facts, and what they ask of the database."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from services.embedding.store import CollectionRows, EmbeddedRows
from services.ids import ConversationId
from services.jobs.store import JobRows
from services.language.recorded import ReplyRows
from services.memory.store import MessageRows


@dataclass(frozen=True, slots=True)
class Summary:
    """What a stretch of a conversation was about: messages `first_message_id` to `last_message_id`, None if unknown."""

    id: int
    conversation_id: ConversationId
    content: str
    first_message_id: int | None
    last_message_id: int | None
    token_estimate: int
    created_at: int


@dataclass(frozen=True, slots=True)
class KeyFact:
    """One sentence worth keeping, with the summary that told it first."""

    id: int
    conversation_id: ConversationId
    summary_id: int
    fact: str
    created_at: int


@dataclass(frozen=True, slots=True)
class RowText:
    """A row as the embedder sees it."""

    id: int
    conversation_id: ConversationId
    text: str


class TextRows(EmbeddedRows, Protocol):
    """What summaries and key facts have in common. The group that is embedded together is a summary's id."""

    def unembedded(self, namespace: str, group: int, physical: str) -> list[RowText]:
        """Rows of the group that lack vectors in this collection, by id."""

    def search(
        self, namespace: str, query: str, *, limit: int, exclude: ConversationId | None = None
    ) -> dict[int, float]:
        """Keyword search: id -> BM25 score, best first; any query is valid."""


class SummaryRows(TextRows, Protocol):
    """The summaries table."""

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
        """Store one, made now unless told otherwise; its id."""

    def get(self, namespace: str, ids: Sequence[int]) -> dict[int, Summary]:
        """Those of the ids that exist."""

    def of(self, namespace: str, conversation_id: ConversationId) -> list[Summary]:
        """The summaries of a conversation, oldest first."""

    def cursor(self, namespace: str, conversation_id: ConversationId) -> int:
        """The last message that a summary covers; 0 for none. Summaries without a range do not count."""

    def is_due(self, namespace: str, conversation_id: ConversationId, threshold: int) -> bool:
        """Whether more than `threshold` messages lie behind the cursor."""


class KeyFactRows(TextRows, Protocol):
    """The key_facts table."""

    def add(
        self, namespace: str, conversation_id: ConversationId, summary_id: int, facts: Sequence[str]
    ) -> list[int]:
        """Store those that the namespace does not know, in any case and spacing, and who tells them all; the new ids."""

    def get(self, namespace: str, ids: Sequence[int]) -> dict[int, KeyFact]:
        """Those of the ids that exist."""

    def merge(self, namespace: str, into: Mapping[int, int]) -> set[int]:
        """Let whoever tells a fact tell the other one, fact -> other, and delete the fact with its vectors; which went.

        Where one of the two is gone, nothing is done.
        """


class SummaryUnit(Protocol):
    """A unit of work for summaries."""

    @property
    def jobs(self) -> JobRows:
        """The job ledger."""

    @property
    def messages(self) -> MessageRows:
        """Conversations and messages."""

    @property
    def collections(self) -> CollectionRows:
        """Vector collections."""

    @property
    def replies(self) -> ReplyRows:
        """Kept replies of language models."""

    @property
    def summaries(self) -> SummaryRows:
        """Summaries."""

    @property
    def key_facts(self) -> KeyFactRows:
        """Key facts."""


class SummaryDatabase(Protocol):
    """Opens units of work."""

    def write(self, *, durable: bool = True) -> AbstractContextManager[SummaryUnit]:
        """One transaction."""

    def read(self) -> AbstractContextManager[SummaryUnit]:
        """One consistent view."""
