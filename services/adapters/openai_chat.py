"""Language models on any OpenAI-compatible server, over plain HTTP."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from services import errors
from services.adapters.openai_http import OpenAiEndpoint
from services.embedding.windows import utf8
from services.ports import ChatReply, ChatRequest

if TYPE_CHECKING:
    import httpx

log = logging.getLogger(__name__)

_MAX_RESPONSE_BYTES = 256 * 1024
_SHOWN_BYTES = 300
# A reply that was cut off gets one more try with this much more room.
_MORE_ROOM = 4
# What servers answer to a parameter that they do not know.
_UNKNOWN_PARAMETER = frozenset({400, 415, 422, 501})

Format = Literal["json_schema", "json_object", "prompt"]
_LESS_DEMANDING: Mapping[Format, Format] = {"json_schema": "json_object", "json_object": "prompt"}


@dataclass(frozen=True, slots=True)
class _Dialect:
    """What this server understands of the protocol."""

    format: Format = "json_schema"
    limit: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    temperature: bool = True


class OpenAiChat:
    """POST {base_url}/chat/completions. Nothing is sent before the first call.

    A server that refuses JSON schemas is asked for JSON objects, and one that refuses these for plain text; what it
    understands is remembered for the life of this object. `client` replaces the HTTP client, and is not closed. Safe
    to share between threads and to carry across a fork.
    """

    def __init__(
        self,
        base_url: str,
        api_key: str,
        model: str,
        *,
        timeout_seconds: float = 60.0,
        connect_seconds: float = 5.0,
        client: httpx.Client | None = None,
    ) -> None:
        self._model = model
        self._dialect = _Dialect()
        self._endpoint = OpenAiEndpoint(
            base_url,
            "chat/completions",
            api_key,
            section="llm",
            timeout_seconds=timeout_seconds,
            connect_seconds=connect_seconds,
            max_bytes=_MAX_RESPONSE_BYTES,
            oversize=errors.ReplyUnusable,
            client=client,
        )

    @property
    def identity(self) -> str:
        """`openai/` and the model."""
        return f"openai/{self._model}"

    def complete(self, request: ChatRequest) -> ChatReply:
        """See LanguageModel. A reply that was cut off is asked for once more with room for four times as much.

        A fresh request has that room at once.
        """
        roomy = replace(request, max_tokens=request.max_tokens * _MORE_ROOM)
        reply, finished = self._asked(roomy if request.fresh else request)
        if finished:
            return reply
        endless = f"{self._model} did not come to an end in {roomy.max_tokens} tokens"
        if request.fresh:
            raise errors.ReplyUnusable(endless)
        longer, finished = self._asked(roomy)
        if not finished:
            raise errors.ReplyUnusable(endless, replies=2)
        paid = (
            reply.prompt_tokens + longer.prompt_tokens,
            reply.completion_tokens + longer.completion_tokens,
        )
        return ChatReply(longer.text, *paid)

    def close(self) -> None:
        """Close the connections of this process."""
        self._endpoint.close()

    def _asked(self, request: ChatRequest) -> tuple[ChatReply, bool]:
        """The reply, and whether it came to its end."""
        known, refusal = self._dialect, errors.ModelRejected(f"{self._model} refuses every form of request")
        dialect: _Dialect | None = known
        while dialect is not None:
            try:
                content = self._endpoint.post(
                    self._body(request, dialect), timeout_seconds=request.timeout_seconds
                )
            except errors.ModelRejected as error:
                if error.status not in _UNKNOWN_PARAMETER:
                    raise
                # The first refusal names what the caller asked for; later ones may be about our substitutes.
                refusal = error if dialect == known else refusal
                dialect = _simpler(dialect, str(error), schema=request.schema is not None)
                continue
            if dialect != known:
                log.info("chat_dialect model=%s %s", self._model, dialect)
                self._dialect = dialect
            return self._read(content)
        raise refusal

    def _body(self, request: ChatRequest, dialect: _Dialect) -> dict[str, Any]:
        system = request.system
        body: dict[str, Any] = {"model": self._model, dialect.limit: request.max_tokens}
        if dialect.temperature:
            body["temperature"] = 0
        if request.schema is not None:
            if dialect.format == "json_schema":
                schema = {"name": "reply", "schema": request.schema}
                body["response_format"] = {"type": "json_schema", "json_schema": schema}
            else:
                system += f"\n\nReply with one JSON object of this schema:\n{json.dumps(request.schema)}"
            if dialect.format == "json_object":
                body["response_format"] = {"type": "json_object"}
        messages = (("system", system), ("user", request.user))
        body["messages"] = [{"role": role, "content": utf8(text)} for role, text in messages]
        return body

    def _read(self, content: bytes) -> tuple[ChatReply, bool]:
        try:
            reply = json.loads(content)
            choice = reply["choices"][0]
            message = choice["message"]
            text, refusal = _text(message.get("content")), message.get("refusal")
            usage = reply.get("usage") or {}
            paid = (_count(usage, "prompt_tokens"), _count(usage, "completion_tokens"))
            reason = choice.get("finish_reason")
        except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
            shown = self._endpoint.scrubbed(content[:_SHOWN_BYTES].decode("utf-8", "replace"))
            raise errors.ReplyUnusable(f"{self._endpoint.url} sent no chat completion: {shown}") from error
        if refusal or reason == "content_filter":
            shown = self._endpoint.scrubbed(str(refusal or "content filter"))
            raise errors.ModelRejected(f"{self._model} declines to answer: {shown}")
        if reason != "length" and not text.strip():
            raise errors.ReplyUnusable(f"{self._model} sent an empty reply")
        return ChatReply(text, *paid), reason != "length"


def _simpler(dialect: _Dialect, refusal: str, *, schema: bool) -> _Dialect | None:
    """How to ask again after this refusal; None when there is no other way."""
    if "max_completion_tokens" in refusal and dialect.limit == "max_tokens":
        return replace(dialect, limit="max_completion_tokens")
    if "temperature" in refusal and dialect.temperature:
        return replace(dialect, temperature=False)
    if schema and dialect.format in _LESS_DEMANDING:
        return replace(dialect, format=_LESS_DEMANDING[dialect.format])
    return None


def _text(content: Any) -> str:
    """The text of a message: a string, or the text parts of a list."""
    if isinstance(content, list):
        return "".join(_parts(content))
    return content if isinstance(content, str) else ""


def _parts(content: list[Any]) -> Iterator[str]:
    for part in content:
        if isinstance(part, dict) and isinstance(part.get("text"), str):
            yield part["text"]


def _count(usage: Any, name: str) -> int:
    found = usage.get(name)
    return found if isinstance(found, int) and 0 <= found < 2**53 else 0
