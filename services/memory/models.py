"""The values of conversation memory: frozen, checked where they are made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, TypeAlias

from services import errors
from services.ids import ConversationId, MessageId
from services.memory import strict_json

# A conversation is named by its id or by the caller's own key; None is the latest one.
ConversationName: TypeAlias = ConversationId | str | None

# The years 1 and 9999 end what calendars can show. Microseconds since 1970.
EARLIEST, LATEST = -62_135_596_800_000_000, 253_402_300_799_999_999

# How deep lists and objects of `parts` may lie in one another, the list of parts included.
PARTS_DEPTH = 64

_TOOL_PARTS = frozenset({"tool_use", "tool_result", "tool_output"})


class Role(StrEnum):
    """Who speaks."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"


class Origin(StrEnum):
    """Where a text came from, which decides how far it is trusted."""

    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"
    DOCUMENT = "document"
    IMPORT = "import"
    SUMMARY = "summary"


@dataclass(frozen=True, slots=True)
class NewMessage:
    """A message to be remembered. `created_at` is microseconds, now by default; `parts` is the JSON array beside the text.

    `import_key` names it within its conversation: the same key is stored once. `embeddable` says whether it gets
    vectors. Raises InputError for text that cannot be stored as it is (NUL, lone surrogates; see `storable`), parts that
    are no JSON or nested deeper than 64 levels, and times outside the years 1 to 9999. Lone surrogates in parts are
    replaced.
    """

    role: Role
    content: str
    speaker: str | None = None
    origin: Origin | None = None
    parts: Sequence[Mapping[str, Any]] = field(default_factory=tuple)
    agent_visible: bool = True
    user_visible: bool = True
    created_at: int | None = None
    import_key: str | None = None
    embeddable: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "role", as_role(self.role))
        object.__setattr__(self, "parts", _sound_parts(self.parts))
        if self.created_at is not None and not _is_time(self.created_at):
            raise errors.InputError(
                f"created_at is {self.created_at}: use whole microseconds since 1970, in the years 1 to 9999"
            )
        if "\x00" in self.content:
            raise errors.InputError("a message holds a NUL character, which no text may: remove it")
        try:
            self.content.encode()
        except UnicodeEncodeError as error:
            raise errors.InputError(
                f"a message holds half of a surrogate pair at {error.start}: repair it"
            ) from error

    @property
    def by_person(self) -> bool:
        """Whether a user said it to the agent, and not a tool, a document, an import or a summary."""
        spoken = self.role is Role.USER and self.origin in (None, Origin.USER) and self.agent_visible
        return spoken and not carries_tools(self.parts) and bool(self.content.strip())

    @property
    def states_facts(self) -> bool:
        """Whether the graph is made of it: a person said it, to this agent or in a conversation from elsewhere."""
        return self.by_person or (
            self.origin is Origin.IMPORT and replace(self, origin=Origin.USER).by_person
        )


@dataclass(frozen=True, slots=True)
class Message:
    """A stored message. Times are microseconds."""

    id: MessageId
    namespace: str
    conversation_id: ConversationId
    role: Role
    content: str
    speaker: str | None
    origin: Origin
    parts: tuple[Mapping[str, Any], ...]
    agent_visible: bool
    user_visible: bool
    created_at: int
    compacted_at: int | None
    deleted_at: int | None
    last_accessed_at: int | None
    access_count: int


@dataclass(frozen=True, slots=True)
class Conversation:
    """A stored conversation; `key` is the caller's own name for it."""

    id: ConversationId
    namespace: str
    key: str | None
    title: str | None
    created_at: int
    messages: int


@dataclass(frozen=True, slots=True)
class MessageFilter:
    """Which messages may be recalled; None means any. Times are microseconds: since <= created_at < before.

    `as_of` takes visibility as it was then: what came later is out, what was compacted later is in.
    """

    conversation_id: ConversationId | None = None
    roles: tuple[Role, ...] = ()
    since: int | None = None
    before: int | None = None
    agent_visible: bool | None = True
    user_visible: bool | None = None
    as_of: int | None = None


@dataclass(frozen=True, slots=True)
class EmbeddingRule:
    """Which messages are worth a vector.

    Users' always, assistants' from a length on and only if wanted, system prompts never; nor what only carries tool
    calls and their results, and nothing that is hidden from the agent.
    """

    assistant: bool = False
    assistant_min_length: int = 20

    def wants(self, message: NewMessage) -> bool:
        """Whether this message gets vectors. Lengths are characters."""
        if not message.agent_visible or not message.content.strip():
            return False
        if message.origin is Origin.TOOL or _only_tools(message.parts):
            return False
        if message.role is Role.USER or message.origin is Origin.SUMMARY:
            return True
        long_enough = len(message.content) >= self.assistant_min_length
        return message.role is Role.ASSISTANT and self.assistant and long_enough


@dataclass(frozen=True, slots=True)
class Forgotten:
    """What a deletion took away, counted. `vectors` are removed by a job soon after."""

    messages: int = 0
    vectors: int = 0
    conversations: int = 0
    summaries: int = 0
    key_facts: int = 0
    sessions: int = 0
    corrections: int = 0
    cached_responses: int = 0
    documents: int = 0
    graph_entities: int = 0
    graph_facts: int = 0


@dataclass(frozen=True, slots=True)
class MemoryStats:
    """What a namespace remembers. `waiting` messages are to get vectors and have none yet."""

    conversations: int
    messages: int
    hidden: int
    deleted: int
    embedded: int
    waiting: int
    characters: int
    oldest_at: int | None
    newest_at: int | None


def storable(text: str) -> tuple[str, int]:
    """The text as it may be stored, and how many NUL characters were taken out.

    Split surrogate pairs are joined, lone halves become U+FFFD; nothing else changes.
    """
    whole = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return whole.replace("\x00", ""), whole.count("\x00")


def unknown_conversation(namespace: str, name: ConversationId | str) -> errors.NotFound:
    """The error for a conversation that the namespace does not have."""
    return errors.NotFound(
        f"namespace {namespace} has no conversation {name}: `zeph memory conversations` shows them"
    )


def _is_time(value: object) -> bool:
    return type(value) is int and EARLIEST <= value <= LATEST


def _sound_parts(parts: Sequence[Mapping[str, Any]]) -> tuple[Mapping[str, Any], ...]:
    if not parts:
        return ()
    if not all(isinstance(part, Mapping) for part in parts):
        raise errors.InputError("the parts of a message are a list of objects")
    try:
        return tuple(strict_json.sound(list(parts), depth=PARTS_DEPTH))
    except errors.InputError as error:
        raise errors.InputError(f"the parts of a message cannot be stored: {error}") from error


def carries_tools(parts: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a tool call or its result is among the parts of a message."""
    return any(part.get("kind") in _TOOL_PARTS for part in parts)


def _only_tools(parts: Sequence[Mapping[str, Any]]) -> bool:
    return bool(parts) and all(part.get("kind") in _TOOL_PARTS for part in parts)


def as_role(value: str) -> Role:
    """The role of that name. Raises InputError."""
    try:
        return Role(value)
    except ValueError:
        raise errors.InputError(f"role is {value!r}: use one of {', '.join(Role)}") from None
