"""ACP sessions: what an agent client and an agent said to each other, kept event by event for replay."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from services import errors
from services.ids import ConversationId, MessageId
from services.jobs.store import JobRows
from services.memory.vectors import MessageVectors
from services.ports import Clock

_LONGEST_ID = 512


@dataclass(frozen=True, slots=True)
class AcpSessionInfo:
    """A stored session. Times are microseconds; `updated_at` is that of the newest event, `events` their number."""

    id: str
    created_at: int
    updated_at: int
    title: str | None
    conversation_id: ConversationId | None
    events: int


@dataclass(frozen=True, slots=True)
class AcpEvent:
    """One event of a session. The payload is the caller's own text, returned as it came."""

    event_type: str
    payload: str
    created_at: int


class SessionRows(Protocol):
    """The acp_sessions and acp_session_events tables. No method sees another namespace's rows."""

    def all(self, namespace: str, *, limit: int | None = None) -> list[AcpSessionInfo]:
        """Newest first by `created_at`, ties by id."""

    def get(self, namespace: str, session_id: str) -> AcpSessionInfo | None:
        """One session, or None."""

    def create(self, namespace: str, session: AcpSessionInfo) -> bool:
        """Store a new session; False, and nothing changed, if the id is taken."""

    def add(self, namespace: str, session_id: str, events: Sequence[AcpEvent]) -> None:
        """Append events and move `updated_at` to the newest. Raises NotFound for an unknown session."""

    def events(self, namespace: str, session_id: str) -> Iterator[AcpEvent]:
        """In the order in which they were stored."""

    def set_title(self, namespace: str, session_id: str, title: str | None) -> bool:
        """Whether the session exists."""

    def set_conversation(
        self, namespace: str, session_id: str, conversation_id: ConversationId | None
    ) -> bool:
        """Whether the session exists. Raises NotFound for an unknown conversation."""

    def copy_conversation(
        self, namespace: str, conversation_id: ConversationId
    ) -> tuple[ConversationId, list[MessageId]]:
        """A new conversation with the messages of another, and their fresh ids; summaries and counters stay behind."""

    def delete(self, namespace: str, session_id: str) -> bool:
        """Remove a session with its events; whether it existed."""


class SessionUnit(Protocol):
    """A unit of work for sessions."""

    @property
    def jobs(self) -> JobRows:
        """The job ledger."""

    @property
    def sessions(self) -> SessionRows:
        """ACP sessions."""


class SessionDatabase(Protocol):
    """Opens units of work."""

    def write(self, *, durable: bool = True) -> AbstractContextManager[SessionUnit]:
        """One transaction."""

    def read(self) -> AbstractContextManager[SessionUnit]:
        """One consistent view."""


class SqliteStore:
    """The ACP sessions of one namespace. Sessions of other namespaces do not exist for it."""

    def __init__(
        self,
        database: SessionDatabase,
        clock: Clock,
        *,
        namespace: str,
        vectors: Callable[[], MessageVectors],
        title_max_chars: int = 60,
    ) -> None:
        self._database = database
        self._clock = clock
        self._namespace = namespace
        self._vectors = vectors
        self._title_max_chars = title_max_chars

    def list_acp_sessions(self, limit: int | None = None) -> list[AcpSessionInfo]:
        """Sessions by `created_at`, newest first, ties by id; all of them for a limit of 0 or None."""
        with self._database.read() as unit:
            return unit.sessions.all(self._namespace, limit=limit or None)

    def acp_session(self, session_id: str) -> AcpSessionInfo:
        """One session. Raises NotFound."""
        with self._database.read() as unit:
            found = unit.sessions.get(self._namespace, session_id)
        if found is None:
            raise self._unknown(session_id)
        return found

    def acp_session_exists(self, session_id: str) -> bool:
        """Whether this namespace has the session."""
        with self._database.read() as unit:
            return unit.sessions.get(self._namespace, session_id) is not None

    def create_acp_session(
        self, session_id: str, *, title: str | None = None, conversation_id: ConversationId | None = None
    ) -> bool:
        """Create a session; False, and nothing changed, if it exists. Raises InputError, NotFound."""
        with self._database.write() as unit:
            return unit.sessions.create(self._namespace, self._new(session_id, title, conversation_id))

    def save_acp_event(self, session_id: str, event_type: str, payload: str) -> None:
        """Append one event. Raises NotFound for an unknown session."""
        self.import_acp_events(session_id, [(event_type, payload)])

    def import_acp_events(self, session_id: str, events: Sequence[tuple[str, str]]) -> None:
        """Append (type, payload) pairs in their order: all of them or none. Raises NotFound for an unknown session."""
        now = self._clock.now()
        with self._database.write() as unit:
            unit.sessions.add(self._namespace, session_id, [AcpEvent(*event, now) for event in events])

    def load_acp_events(self, session_id: str) -> list[AcpEvent]:
        """Events in the order in which they were stored; [] for an unknown session."""
        with self._database.read() as unit:
            return list(unit.sessions.events(self._namespace, session_id))

    def set_acp_title(self, session_id: str, title: str | None) -> None:
        """Name a session; longer titles are cut to `title_max_chars` characters. Raises NotFound."""
        with self._database.write() as unit:
            if not unit.sessions.set_title(self._namespace, session_id, self._cut(title)):
                raise self._unknown(session_id)

    def set_acp_conversation(self, session_id: str, conversation_id: ConversationId | None) -> None:
        """Say which conversation holds what the session's user and agent said. Raises NotFound."""
        with self._database.write() as unit:
            if not unit.sessions.set_conversation(self._namespace, session_id, conversation_id):
                raise self._unknown(session_id)

    def fork_acp_session(self, session_id: str, new_id: str) -> AcpSessionInfo:
        """A new session that goes on from here with a copy of the conversation's messages.

        Events and summaries stay with the original; jobs make the vectors of the copies. Raises NotFound, and InputError if the new id is taken.
        """
        with self._database.write() as unit:
            source = unit.sessions.get(self._namespace, session_id)
            if source is None:
                raise self._unknown(session_id)
            copied = None
            if source.conversation_id is not None:
                copied, ids = unit.sessions.copy_conversation(self._namespace, source.conversation_id)
                self._vectors().ask_for(unit, self._namespace, ids)
            fork = self._new(new_id, source.title, copied)
            if not unit.sessions.create(self._namespace, fork):
                raise errors.InputError(f"session {new_id} exists already: choose another id")
        return fork

    def delete_acp_session(self, session_id: str) -> bool:
        """Remove a session with all its events; False if there is none. Its conversation stays."""
        with self._database.write() as unit:
            return unit.sessions.delete(self._namespace, session_id)

    def _new(
        self, session_id: str, title: str | None, conversation_id: ConversationId | None
    ) -> AcpSessionInfo:
        now = self._clock.now()
        return AcpSessionInfo(check_session_id(session_id), now, now, self._cut(title), conversation_id, 0)

    def _cut(self, title: str | None) -> str | None:
        return None if title is None else title[: self._title_max_chars]

    def _unknown(self, session_id: str) -> errors.NotFound:
        return errors.NotFound(
            f"namespace {self._namespace} has no session {session_id}: `zeph sessions list` shows them"
        )


def check_session_id(session_id: str) -> str:
    """The id itself. Raises InputError for one that nobody could type: empty, over 512 characters, control characters."""
    if not session_id or len(session_id) > _LONGEST_ID or not session_id.isprintable():
        raise errors.InputError(
            f"{session_id[:60]!r} is no session id: use 1 to {_LONGEST_ID} printable characters"
        )
    return session_id
