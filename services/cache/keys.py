"""What makes two requests equal: a canonical form and a hash of it. Pure."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any

from services import errors
from services.cache.models import CacheRequest
from services.ids import fields_hash

# Changes when the canonical form does, so that no answer is found under a key of another meaning.
_VERSION = "1"

_WITH_DIGITS = re.compile(r"\S*\d\S*")
_NEGATION = re.compile(r"\b(?:no|not|never|none|nor|neither|without|except|cannot)\b|n['’]t\b", re.IGNORECASE)


def cache_key(namespace: str, request: CacheRequest) -> str:
    """BLAKE3 over the length-prefixed canonical fields of the request and its namespace. Raises InputError."""
    return fields_hash(
        _VERSION,
        namespace,
        request.model,
        request.system,
        canonical(request.messages),
        canonical(_given(request.sampling)),
        canonical(request.tools),
    )


def frame_key(request: CacheRequest) -> str | None:
    """What must be equal for the answer to a similar question to do: everything but the question's wording.

    Numbers, names with digits and negations of the question belong to the frame, because vectors hardly tell them
    apart. None for what only its exact repetition may answer: tools are involved, or there is no question in words.
    """
    question = question_of(request)
    if question is None or request.tools or any(_uses_tools(message) for message in request.messages):
        return None
    details = sorted(word.casefold() for word in _WITH_DIGITS.findall(question))
    beside = {name: value for name, value in request.messages[-1].items() if name != "content"}
    return fields_hash(
        _VERSION,
        request.model,
        request.system,
        canonical([*request.messages[:-1], beside]),
        canonical(_given(request.sampling)),
        canonical(details),
        str(len(_NEGATION.findall(question))),
    )


def question_of(request: CacheRequest) -> str | None:
    """The last message, if it is a text of the user."""
    last = request.messages[-1] if request.messages else {}
    content = last.get("content")
    return content if last.get("role") == "user" and isinstance(content, str) and content.strip() else None


def canonical(value: Any) -> str:
    """JSON with sorted names and no blanks, in which equal values look equal. Raises InputError for what is no JSON."""
    try:
        return json.dumps(_plain(value), sort_keys=True, separators=(",", ":"))
    except RecursionError as error:
        raise errors.InputError("a request nests too deeply to be cached") from error


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        if not all(isinstance(name, str) for name in value):
            raise errors.InputError("a request holds an object whose names are not all text")
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float):
        if not math.isfinite(value):
            raise errors.InputError(f"a request holds {value}, which is no JSON number")
        return int(value) if value.is_integer() else value
    if value is None or isinstance(value, str | bool | int):
        return value
    raise errors.InputError(f"a request holds a {type(value).__name__}, which is no JSON value")


def _given(sampling: Mapping[str, Any]) -> Mapping[str, Any]:
    return {name: value for name, value in sampling.items() if value is not None}


def _uses_tools(message: Mapping[str, Any]) -> bool:
    return message.get("role") in ("tool", "function") or bool(
        message.get("tool_calls") or message.get("function_call")
    )
