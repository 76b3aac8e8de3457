"""An OpenAI-compatible client whose chat completions go through the cache. Knows the client by its shape alone."""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping, Sequence
from importlib import import_module
from types import SimpleNamespace
from typing import Any

from services import errors
from services.cache.models import CacheRequest, Source, checked_ttl
from services.cache.service import ResponseCache

# What does not shape the reply.
_NOT_IN_KEY = frozenset({"model", "messages", "tools", "stream", "timeout"})
# How clients say that an argument was not given.
_ABSENT = frozenset({"NotGiven", "Omit"})
_FINISHED = frozenset({"stop", "tool_calls", "function_call"})


def cached_client(
    client: Any,
    cache: ResponseCache,
    *,
    ttl_seconds: float | None = None,
    sources: Sequence[Source] = (),
    namespace: str | None = None,
) -> Any:
    """The client, with `chat.completions.create` answered from the cache where it can be.

    Everything else of the client works as before. Streams go past the cache, and so do requests that are no JSON; errors,
    refusals and replies that were cut off or filtered are never stored. A stored reply comes back as the client's own type
    where that can be had, else as an object with the same attributes. `sources` are the rows that the prompts are made
    of: an answer goes when one of them changes. The client is a synchronous one (use it through `asyncio.to_thread`).
    """
    if ttl_seconds is not None:
        checked_ttl(ttl_seconds)
    return _Chatting(client, _Create(client, cache, ttl_seconds, tuple(sources), namespace))


class _Passing:
    """Another object, but for what a subclass replaces."""

    def __init__(self, inner: Any, create: _Create) -> None:
        self._inner = inner
        self._create = create

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


class _Chatting(_Passing):
    @property
    def chat(self) -> Any:
        return _Completing(self._inner.chat, self._create)


class _Completing(_Passing):
    @property
    def completions(self) -> Any:
        return _Creating(self._inner.completions, self._create)


class _Creating(_Passing):
    def create(self, **arguments: Any) -> Any:
        return self._create(self._inner.create, arguments)


class _Create:
    """Calls `create`, or answers in its place."""

    def __init__(
        self,
        client: Any,
        cache: ResponseCache,
        ttl_seconds: float | None,
        sources: Sequence[Source],
        namespace: str | None,
    ) -> None:
        self._client = client
        self._cache = cache
        self._ttl_seconds = ttl_seconds
        self._sources = sources
        self._namespace = namespace

    def __call__(self, create: Any, arguments: Mapping[str, Any]) -> Any:
        if arguments.get("stream"):
            return create(**arguments)
        replies: list[Any] = []

        def ask() -> str:
            replies.append(_synchronous(create(**arguments)))
            return _dumped(replies[0])

        try:
            text = self._cache.through(
                self._request(arguments),
                ask,
                keep=_is_whole,
                ttl_seconds=self._ttl_seconds,
                sources=self._sources,
                namespace=self._namespace,
            )
        except errors.InputError:
            if replies:
                raise
            return _synchronous(create(**arguments))
        return replies[0] if replies else _restored(text, self._client)

    def _request(self, arguments: Mapping[str, Any]) -> CacheRequest:
        given = {name: value for name, value in arguments.items() if type(value).__name__ not in _ABSENT}
        server = str(getattr(self._client, "base_url", ""))
        return CacheRequest(
            f"{server} {given.get('model', '')}".strip(),
            [_plain(message) for message in given.get("messages", ())],
            sampling={name: value for name, value in given.items() if name not in _NOT_IN_KEY},
            tools=[_plain(tool) for tool in given.get("tools") or ()],
        )


def _synchronous(reply: Any) -> Any:
    if inspect.isawaitable(reply):
        if inspect.iscoroutine(reply):
            reply.close()
        raise errors.InputError(
            "the client is asynchronous: give a synchronous one, and call it through asyncio.to_thread"
        )
    return reply


def _plain(value: Any) -> Any:
    """A message or reply as JSON values; clients take and give objects as well."""
    dump = getattr(value, "model_dump", None)
    return value if dump is None else dump(mode="json", exclude_unset=True)


def _dumped(reply: Any) -> str:
    """The reply as JSON, with its form; nothing for what is none."""
    try:
        return json.dumps({"form": "dict" if isinstance(reply, dict) else "object", "reply": _plain(reply)})
    except (TypeError, ValueError):
        return ""


def _is_whole(text: str) -> bool:
    """Whether this is a chat completion that came to its end with something to say."""
    reply = json.loads(text)["reply"] if text else None
    choices = reply.get("choices") if isinstance(reply, dict) else None
    return isinstance(choices, list) and bool(choices) and all(map(_says_something, choices))


def _says_something(choice: Any) -> bool:
    message = choice.get("message") if isinstance(choice, dict) else None
    if (
        not isinstance(message, dict)
        or choice.get("finish_reason") not in _FINISHED
        or message.get("refusal")
    ):
        return False
    content = message.get("content")
    said = content.strip() if isinstance(content, str) else content
    return bool(said or message.get("tool_calls") or message.get("function_call"))


def _restored(text: str, client: Any) -> Any:
    stored = json.loads(text)
    if stored["form"] == "dict":
        return stored["reply"]
    package = type(client).__module__.partition(".")[0]
    try:
        # Where the OpenAI client and those generated like it keep this type, made as they make it: without validation.
        return import_module(f"{package}.types.chat").ChatCompletion.model_construct(**stored["reply"])
    except (ImportError, AttributeError):
        return json.loads(json.dumps(stored["reply"]), object_hook=lambda found: SimpleNamespace(**found))
