"""The values of conversation memory: frozen, checked where they are made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from services import errors
from services.ids import ConversationId, MessageId


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

    Raises InputError for text that cannot be stored as it is (NUL, lone surrogates).
    """

    role: Role
    content: str
    speaker: str | None = None
    origin: Origin | None = None
    parts: Sequence[Mapping[str, Any]] = field(default_factory=tuple)
    agent_visible: bool = True
    user_visible: bool = True
    created_at: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "role", _role(self.role))
        if "\x00" in self.content:
            raise errors.InputError("a message holds a NUL character, which no text may: remove it")
        try:
            self.content.encode()
        except UnicodeEncodeError as error:
            raise errors.InputError(
                f"a message holds half of a surrogate pair at {error.start}: repair it"
            ) from error


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
    """Which messages may be recalled; None means any. Times are microseconds: since <= created_at < before."""

    conversation_id: ConversationId | None = None
    roles: tuple[Role, ...] = ()
    since: int | None = None
    before: int | None = None
    agent_visible: bool | None = True
    user_visible: bool | None = None


def _role(value: str) -> Role:
    try:
        return Role(value)
    except ValueError:
        raise errors.InputError(f"role is {value!r}: use one of {', '.join(Role)}") from None
