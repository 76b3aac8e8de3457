"""The texts that are read for the graph: messages of users and chunks of documents, and who has read them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from services.graph.communities import CommunityUnit
from services.graph.extraction_jobs import TextKind
from services.graph.models import Source
from services.graph.store import GraphUnit

# Messages before one that help to understand it.
CONTEXT_MESSAGES = 4


@dataclass(frozen=True, slots=True)
class Reading:
    """A text as it is stored, or (`prose`, cut to size) as an extractor gets it.

    `context` are the user's messages before a message, oldest first, or title and headings above a chunk. `said_at` is
    microseconds. Either `message_id` or `chunk_id` is set, or neither for a text that is not stored. `shortened`: only
    its beginning is here.
    """

    text: str
    said_at: int
    speaker: str | None = None
    context: tuple[str, ...] = ()
    message_id: int | None = None
    chunk_id: int | None = None
    shortened: bool = False

    @property
    def text_id(self) -> int:
        """The id of the message or chunk, 0 for a text that is not stored."""
        return self.message_id or self.chunk_id or 0

    def source(self, job_id: int | None) -> Source:
        """Where facts of this text come from."""
        return Source(self.said_at, self.message_id, self.chunk_id, job_id)


class TextRows(Protocol):
    """Messages and chunks as extraction sees them: what they say, and which extractor has read them.

    Of messages only those of users in prose that are not deleted, hidden or made of tool calls. `replacing` is an
    extractor whose reading counts as none. No method sees another namespace's rows.
    """

    def unread(
        self, kind: TextKind, namespace: str, ids: Sequence[int], *, replacing: str | None = None
    ) -> list[Reading]:
        """Those of these texts that nobody has read, oldest first, messages with up to four earlier ones each."""

    def next_unread(
        self, kind: TextKind, namespace: str, *, after: int, limit: int, replacing: str | None = None
    ) -> list[int]:
        """A page of ids behind `after` of what is to be read, in order.

        Of chunks only those that `replacing` has read: which others are wanted, their ingestion says.
        """

    def newest(self) -> tuple[int, int]:
        """The highest ids of a message and of a chunk, of all namespaces."""

    def count_unread(self, namespace: str, *, replacing: str | None = None) -> int:
        """How many messages and chunks `next_unread` gives in all."""

    def of_document(self, namespace: str, document_id: int) -> list[int]:
        """The chunks of a document that nobody has read, in order."""

    def of_conversation(self, namespace: str, conversation_id: int) -> list[int]:
        """The messages of a conversation, read or not, oldest first."""

    def mark(
        self, kind: TextKind, namespace: str, text_id: int, extractor: str, *, replacing: str | None = None
    ) -> bool:
        """Note who has read it; False when it is gone or somebody else has read it by now."""


class ExtractionUnit(GraphUnit, CommunityUnit, Protocol):
    """A unit of work that reaches the graph and the texts."""

    @property
    def texts(self) -> TextRows:
        """Messages and chunks, as extraction sees them."""


class ExtractionDatabase(Protocol):
    """Opens units of work."""

    def write(self, *, durable: bool = True) -> AbstractContextManager[ExtractionUnit]:
        """One transaction."""

    def read(self) -> AbstractContextManager[ExtractionUnit]:
        """One consistent view."""
