"""Asking a language model so that a retry pays nothing: each reply is stored before anybody tries to read it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Generic, Protocol, TypeVar

from services import errors
from services.ids import fields_hash
from services.ports import ChatReply, ChatRequest, Clock, LanguageModel

log = logging.getLogger(__name__)

T = TypeVar("T")

# Replies to one question, in whatever form it was asked, that could not be read, after which nobody asks again.
_MAX_UNUSABLE = 3
# Of the time for a question; the rest is for asking it in plain words when the structured one fails.
_STRUCTURED_SHARE = 2 / 3
_LEAST_SECONDS = 1.0


class ReplyRows(Protocol):
    """The model_replies table."""

    def find(self, namespace: str, key: str) -> ChatReply | None:
        """The stored reply, unless it was found unusable."""

    def keep(self, namespace: str, key: str, model: str, reply: ChatReply) -> None:
        """Store a reply, in place of an unusable one."""

    def reject(self, namespace: str, key: str, model: str, replies: int = 1) -> None:
        """Note that the latest reply is unusable, or the latest ones."""

    def unusable(self, namespace: str, keys: Sequence[str]) -> int:
        """How many replies to these requests have been unusable; those with a usable one do not count."""

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


@dataclass(frozen=True, slots=True)
class Form(Generic[T]):
    """One way to ask a question, and how the reply is read: `read` raises ReplyUnusable."""

    request: ChatRequest
    read: Callable[[str], T]


class RecordedModel:
    """A language model whose replies are kept."""

    def __init__(self, database: ReplyDatabase, model: LanguageModel) -> None:
        self._database = database
        self._model = model

    def ask_both_ways(
        self, structured: Form[T], plain: Form[T], *, namespace: str, seconds: float, clock: Clock
    ) -> tuple[Answer[T], tuple[str, ...]]:
        """The answer to the structured question or, when that fails, to the plain one; and the keys of kept replies.

        Both together take no longer than `seconds`. Raises as `ask` does: the third reply that nobody can read, to
        either of them, is the last one.
        """
        deadline = clock.monotonic() + seconds
        keys = (self.key(structured.request), self.key(plain.request))
        request = replace(structured.request, timeout_seconds=seconds * _STRUCTURED_SHARE)
        try:
            return self.ask(request, structured.read, namespace=namespace, beside=keys[1:]), keys[:1]
        except (errors.ModelTimeout, errors.ReplyUnusable, errors.ModelRejected) as error:
            left = deadline - clock.monotonic()
            # What a server refuses in every form of request, plain words do not change.
            refused = isinstance(error, errors.ModelRejected) and error.status is not None
            if left < _LEAST_SECONDS or refused or self._is_spent(namespace, keys):
                raise
            log.warning("structured_question_failed reason=%s", error)
        request = replace(plain.request, timeout_seconds=left)
        return self.ask(request, plain.read, namespace=namespace, beside=keys[:1]), keys

    def ask(
        self,
        request: ChatRequest,
        read: Callable[[str], T],
        *,
        namespace: str,
        beside: Sequence[str] = (),
    ) -> Answer[T]:
        """The reply to this request as `read` understands it: the kept one, or a new one that is kept first.

        `read` raises ReplyUnusable. So does this, or ModelRejected after the third reply that nobody could read, those
        to requests `beside` this one included; and all that the model raises. Whoever stores what came of it calls
        `replies.forget` in the same unit.
        """
        key = self.key(request)
        keys = [key, *beside]
        with self._database.read() as unit:
            kept = unit.replies.find(namespace, key)
            fresh = unit.replies.unusable(namespace, keys) > 0
        try:
            reply = kept or self._model.complete(replace(request, namespace=namespace, fresh=fresh))
            if kept is None:
                with self._database.write() as unit:
                    unit.replies.keep(namespace, key, self._model.identity, reply)
            value = read(reply.text)
        except errors.ReplyUnusable as error:
            with self._database.write() as unit:
                unit.replies.reject(namespace, key, self._model.identity, error.replies)
                count = unit.replies.unusable(namespace, keys)
            if count >= _MAX_UNUSABLE:
                raise errors.ModelRejected(
                    f"{count} replies could not be used, the last one: {error}"
                ) from error
            raise
        paid = (reply.prompt_tokens, reply.completion_tokens) if kept is None else (0, 0)
        return Answer(value, key, *paid)

    def _is_spent(self, namespace: str, keys: Sequence[str]) -> bool:
        with self._database.read() as unit:
            return unit.replies.unusable(namespace, keys) >= _MAX_UNUSABLE

    def key(self, request: ChatRequest) -> str:
        """Under which the reply to this request is kept."""
        structured = "structured" if request.schema else "plain"
        return fields_hash(self._model.identity, structured, request.system, request.user)
