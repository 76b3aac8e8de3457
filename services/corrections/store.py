"""What corrections ask of the database, inside one unit of work."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from services.corrections.models import CorrectionText, NewCorrection, StatedFact, UserCorrection
from services.embedding.store import CollectionRows, EmbeddedRows
from services.ids import ConversationId, MessageId
from services.jobs.store import JobRows
from services.language.recorded import ReplyRows
from services.memory.store import MessageRows


class CorrectionRows(EmbeddedRows, Protocol):
    """The zeph_corrections table. The group that is embedded together is one correction.

    No method that is given a namespace sees another one's rows.
    """

    def add(self, namespace: str, correction: NewCorrection) -> int | None:
        """Store it and return its id; None, and nothing stored, if its message has made one already."""

    def get(self, namespace: str, ids: Sequence[int]) -> dict[int, UserCorrection]:
        """Those of the ids that exist, those taken back included."""

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
        """Newest first; `in_force` leaves out what was taken back."""

    def search(self, namespace: str, query: str, *, limit: int) -> dict[int, float]:
        """Keyword search among those in force: id -> BM25 score, best first; any query is valid."""

    def unembedded(self, namespace: str, correction_id: int, physical: str) -> list[CorrectionText]:
        """The texts of this correction if it lacks vectors in this collection."""

    def retire(self, namespace: str, correction_id: int, *, at: int | None) -> bool:
        """Take it back at that time (microseconds), or with None put it into force again; whether it exists."""

    def remove(self, namespace: str, correction_id: int) -> bool:
        """Delete it, its vectors through tombstones; whether it existed."""

    def stated_facts(self, namespace: str, message_id: MessageId) -> list[StatedFact]:
        """The facts of the graph that no other text states, active or taken back by a correction, by id."""

    def retire_facts(self, correction_id: int, edge_ids: Sequence[int]) -> None:
        """Take back the facts, for as long as the correction is in force; others may have taken them back as well."""

    def retired_facts(self, correction_id: int) -> list[int]:
        """The facts that this correction took back."""

    def restore_facts(self, correction_id: int) -> None:
        """Let these facts hold again. Deleting the correction does so too."""

    def undetected(self, *, limit: int) -> list[tuple[str, MessageId]]:
        """Messages of all namespaces, oldest first, that nobody has looked at: (namespace, id)."""

    def forget_undetected(self, message_ids: Sequence[MessageId]) -> None:
        """Note that somebody will look at them."""

    def session_of(self, namespace: str, conversation_id: ConversationId) -> str | None:
        """The newest ACP session that records this conversation, or None."""


class CorrectionUnit(Protocol):
    """A unit of work for corrections."""

    @property
    def jobs(self) -> JobRows:
        """The job ledger."""

    @property
    def messages(self) -> MessageRows:
        """Conversations and messages."""

    @property
    def corrections(self) -> CorrectionRows:
        """Corrections."""

    @property
    def collections(self) -> CollectionRows:
        """Vector collections."""

    @property
    def replies(self) -> ReplyRows:
        """Kept replies of language models."""


class CorrectionDatabase(Protocol):
    """Opens units of work."""

    def write(self, *, durable: bool = True) -> AbstractContextManager[CorrectionUnit]:
        """One transaction."""

    def read(self) -> AbstractContextManager[CorrectionUnit]:
        """One consistent view."""
