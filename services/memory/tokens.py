"""How long a text, a message or a tool's description is for a language model, counted offline."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Literal, TypeAlias

Encoding: TypeAlias = Literal["cl100k_base", "o200k_base"]

_SURROGATE = re.compile("[\ud800-\udfff]")
# English prose has 4.1 to 4.2 ASCII characters per token; other scripts about one character.
_ASCII_PER_TOKEN = 4
_CACHED_TEXTS = 10_000
# Longer texts are rarely counted twice, and counting takes less than a second per ten million characters.
_CACHED_CHARACTERS = 2_000

# What providers add to the text of a part, and to a tool's description.
_IMAGE = 1_050
_TOOL_OUTPUT = 8
_TOOL_USE = 20
_TOOL_RESULT = 15
_THINKING = 10
_ENCRYPTED_PER_TOKEN = 4
_SCHEMA_PER_OBJECT = 3
_SCHEMA_PER_KEY = 3
_SCHEMA_FRAME = -3 + 7 + 12


class TokenCounter:
    """Counts tokens of one encoding; never raises, whatever it is given.

    `exact` is False when the token tables are not installed: counts are then an estimate, ASCII characters / 4
    plus one for each other character. Names of special tokens such as `<|endoftext|>` count as ordinary text. Every
    result is multiplied by `safety_margin` and rounded up. Safe to share between threads.
    """

    def __init__(self, encoding: Encoding = "cl100k_base", *, safety_margin: float = 1.0) -> None:
        self.encoding = encoding
        self.exact = _tables_installed()
        self._margin = safety_margin
        self._remembered = lru_cache(maxsize=_CACHED_TEXTS)(self._count)

    def count(self, text: str) -> int:
        """Tokens in the text; 0 for the empty string."""
        return self._with_margin(self._raw(text))

    def count_batch(self, texts: Sequence[str]) -> list[int]:
        """Tokens in each text, much faster than one call for each."""
        counts = self._count_all(texts)
        return counts if self._margin == 1 else [self._with_margin(tokens) for tokens in counts]

    def count_message(self, content: str, parts: Sequence[Mapping[str, Any]] = ()) -> int:
        """Tokens of a message: of its parts alone if it has any, since `content` repeats them, else of the content."""
        if not parts:
            return self.count(content)
        return self._with_margin(sum(self._part(part) for part in parts))

    def count_tool_schema(self, schema: Any) -> int:
        """Tokens of a tool's JSON description as providers charge for it; at least 0."""
        total = _SCHEMA_FRAME
        waiting = [schema]
        while waiting:
            value = waiting.pop()
            if isinstance(value, Mapping):
                total += _SCHEMA_PER_OBJECT + sum(_SCHEMA_PER_KEY + self._raw(_as_text(key)) for key in value)
                waiting += value.values()
            elif isinstance(value, list | tuple):
                total += _SCHEMA_PER_OBJECT
                waiting += value
            else:
                total += self._raw(value) if isinstance(value, str) else 1
        return self._with_margin(max(total, 0))

    def _part(self, part: Mapping[str, Any]) -> int:
        def tokens(*names: str) -> int:
            return sum(self._raw(_as_text(part.get(name))) for name in names)

        kind = part.get("kind")
        if kind == "image":
            return _IMAGE
        if kind == "tool_output":
            return _TOOL_OUTPUT + tokens("tool_name", "body")
        if kind == "tool_use":
            return _TOOL_USE + tokens("id", "name", "input")
        if kind == "tool_result":
            return _TOOL_RESULT + tokens("tool_use_id", "content")
        if kind == "thinking":
            return _THINKING + tokens("thinking", "text", "signature")
        if kind == "redacted_thinking":
            return _THINKING + len(_as_text(part.get("data"))) // _ENCRYPTED_PER_TOKEN
        text = _as_text(part.get("text") or part.get("content"))
        return self._raw(text) if text.strip() else 0

    def _with_margin(self, tokens: int) -> int:
        # Rounded first, so that 10 * 1.1 is 11 and not 12.
        return math.ceil(round(tokens * self._margin, 6))

    def _raw(self, text: str) -> int:
        return self._remembered(text) if len(text) <= _CACHED_CHARACTERS else self._count(text)

    def _count(self, text: str) -> int:
        return self._count_all((text,))[0]

    def _count_all(self, texts: Sequence[str]) -> list[int]:
        if not self.exact:
            return [_estimate(text) for text in texts]
        import toktok

        encoding: str = self.encoding
        try:
            # One thread: a pool started here would be dead in the children of a forking worker.
            return list(toktok.batch_count(texts, encoding, threads=1))
        except UnicodeEncodeError:
            sound = [_SURROGATE.sub("\ufffd", text) for text in texts]
            return list(toktok.batch_count(sound, encoding, threads=1))


def _tables_installed() -> bool:
    from importlib.util import find_spec

    return find_spec("toktok") is not None


def _estimate(text: str) -> int:
    ascii_length = len(text.encode("ascii", "ignore"))
    return -(-ascii_length // _ASCII_PER_TOKEN) + len(text) - ascii_length


def _as_text(value: Any) -> str:
    """A field of a part as the model reads it: text as it is, anything else as JSON."""
    if value is None or isinstance(value, str):
        return value or ""
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)
    except (ValueError, TypeError, RecursionError):
        return str(type(value))
