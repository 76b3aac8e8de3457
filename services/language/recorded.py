"""Asking a language model so that a retry pays nothing: each reply is stored before anybody tries to read it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Generic, Protocol, TypeVar

from services import errors
from services.ids import fields_hash
from services.ports import ChatReply, ChatRequest, LanguageModel

T = TypeVar("T")

# Replies to one request that could not be read, after which nobody asks again.
_MAX_UNUSABLE = 3


class ReplyRows(Protocol):
    """The model_replies table."""

    def find(self, namespace: str, key: str) -> ChatReply | None:
        """The stored reply, unless it was found unusable."""

    def keep(self, namespace: str, key: str, model: str, reply: ChatReply) -> None:
        """Store a reply, in place of an unusable one."""

    def reject(self, namespace: str, key: str, model: str) -> int:
        """Note that the latest reply is unusable; how many have been so far."""

    def rejected(self, namespace: str, key: str) -> bool:
        """Whether the latest reply was found unusable."""

    def forget(self, namespace: str, key: str) -> None:
        """It is of no use any more."""

    def purge(self, *, before: int) -> int:
        """Delete replies from before that time (microseconds); how many."""


class ReplyUnit(Protocol):
    """A unit of work that reaches the replies."""

    @property
    def replies(self) -> ReplyRows:
        """Kept replies."""


class ReplyDatabase(Protocol):
    """Opens units of work."""

    def write(self, *, durable: bool = True) -> AbstractContextManager[ReplyUnit]:
        """One transaction."""

    def read(self) -> AbstractContextManager[ReplyUnit]:
        """One consistent view."""


@dataclass(frozen=True, slots=True)
class Answer(Generic[T]):
    """A reply as it was read, the key under which it is kept, and what was paid for it in this run (0: kept one)."""

    value: T
    key: str
    prompt_tokens: int
    completion_tokens: int


class RecordedModel:
    """A language model whose replies are kept."""

    def __init__(self, database: ReplyDatabase, model: LanguageModel) -> None:
        self._database = database
        self._model = model

    def ask(self, request: ChatRequest, read: Callable[[str], T], *, namespace: str) -> Answer[T]:
        """The reply to this request as `read` understands it: the kept one, or a new one that is kept first.

        `read` raises ReplyUnusable. So does this, or ModelRejected after the third reply that nobody could read; and
        all that the model raises. Whoever stores what came of it calls `replies.forget` in the same unit.
        """
        key = self.key(request)
        with self._database.read() as unit:
            kept = unit.replies.find(namespace, key)
            fresh = unit.replies.rejected(namespace, key)
        try:
            reply = kept or self._model.complete(replace(request, namespace=namespace, fresh=fresh))
            if kept is None:
                with self._database.write() as unit:
                    unit.replies.keep(namespace, key, self._model.identity, reply)
            value = read(reply.text)
        except errors.ReplyUnusable as error:
            with self._database.write() as unit:
                count = unit.replies.reject(namespace, key, self._model.identity)
            if count >= _MAX_UNUSABLE:
                raise errors.ModelRejected(
                    f"{count} replies could not be used, the last one: {error}"
                ) from error
            raise
        paid = (reply.prompt_tokens, reply.completion_tokens) if kept is None else (0, 0)
        return Answer(value, key, *paid)

    def key(self, request: ChatRequest) -> str:
        """Under which the reply to this request is kept."""
        structured = "structured" if request.schema else "plain"
        return fields_hash(self._model.identity, structured, request.system, request.user)
