"""From what a model wrote to values that can be trusted in form. Pure.

A reply is read as a whole, then its fenced blocks, then the first object in it that looks like an answer, then what
is complete of a cut-off one. What none of these can read is an error with a sample, never an empty answer.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from services import errors
from services.language.prompts import redacted, unescaped

MAX_REPLY_CHARACTERS = 300_000
_SAMPLE_CHARACTERS = 200
# More than is shown, so that no key is cut in half before it is recognised.
_SAMPLE_SOURCE = 5_000
# Prose with more braces than this is no answer, and an answer nested deeper neither.
_MAX_STARTS = 20
_MAX_DEPTH = 64

_THOUGHT = re.compile(r"</(?:think|thinking|reasoning)>", re.IGNORECASE)
_FENCE = re.compile(r"```[\w+-]*[ \t]*\n(.*?)```", re.DOTALL)
_START = re.compile(r'\{\s*"|\[\s*[{"]')
_STRING = re.compile(r'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
_CLOSING = str.maketrans("{[", "}]")
_UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\u202a-\u202e\u2066-\u2069]")


@dataclass(frozen=True, slots=True)
class Parsed:
    """An answer; `partial` when it was cut off and only its complete items are here."""

    value: dict[str, Any]
    partial: bool = False


def parse_object(text: str, *, fields: Collection[str], list_field: str | None = None) -> Parsed:
    """The first JSON object of the reply with at least one of these fields. NaN and infinity read as null.

    A bare list is taken for the object with this list as `list_field`. Raises ReplyUnusable.
    """
    if len(text) > MAX_REPLY_CHARACTERS:
        raise unusable(f"it has {len(text)} characters", text)
    whole = text.strip("\ufeff \t\r\n")
    cleaned = without_thinking(whole)
    for candidate in (whole, cleaned, *(match[1].strip() for match in _FENCE.finditer(cleaned))):
        found = _answer(_loaded(candidate), fields, list_field)
        if found is not None:
            return Parsed(found)
    for count, start in enumerate(match.start() for match in _START.finditer(cleaned)):
        if count == _MAX_STARTS:
            break
        found = _answer(_first_value(cleaned, start), fields, list_field)
        if found is not None:
            return Parsed(found)
        # Before the next start, or an item of a cut-off answer would pass for the answer.
        found = _answer(_loaded(_completed(cleaned, start)), fields, list_field)
        if found is not None:
            return Parsed(found, partial=True)
    raise unusable("it holds no JSON object with the fields asked for", text)


def without_thinking(text: str) -> str:
    """The reply behind what a reasoning model thought aloud, which often holds drafts of the answer."""
    return _THOUGHT.split(text)[-1].strip()


def texts(value: Any, *, max_items: int, max_length: int) -> list[str]:
    """The usable texts of a list, in order: cleaned, cut to length, without repeats; anything else is left out.

    One text counts as a list of one; an object counts by its first text.
    """
    items = value if isinstance(value, list) else [value]
    found: dict[str, str] = {}
    for item in items:
        text = (
            next((each for each in item.values() if isinstance(each, str)), None)
            if isinstance(item, dict)
            else item
        )
        if not isinstance(text, str):
            continue
        shown = " ".join(cut(clean(text), max_length).split())
        if any(char.isalnum() for char in shown):
            found.setdefault(shown.casefold(), shown)
        if len(found) == max_items:
            break
    return list(found.values())


def clean(text: str) -> str:
    """The text as it may be stored and shown: no control characters, direction marks or halves of pairs."""
    return _UNPRINTABLE.sub("", unescaped(text)).strip()


def cut(text: str, length: int) -> str:
    """At most `length` characters, ended between two words where that loses little."""
    if len(text) <= length:
        return text
    kept = text[: length - 1]
    word = kept.rfind(" ")
    return (kept[:word] if word > length // 2 else kept).rstrip() + "\u2026"


def unusable(reason: str, text: str) -> errors.ReplyUnusable:
    """The error for a reply, with its start for people, keys and passwords taken out."""
    sample = " ".join(_UNPRINTABLE.sub("?", redacted(text[:_SAMPLE_SOURCE])).split())[:_SAMPLE_CHARACTERS]
    return errors.ReplyUnusable(f"the model's reply cannot be used: {reason}; it starts: {sample!r}")


def _loaded(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=lambda _name: None)
    except (ValueError, RecursionError):
        return None


def _first_value(text: str, start: int) -> Any:
    try:
        return json.JSONDecoder(parse_constant=lambda _name: None).raw_decode(text, start)[0]
    except (ValueError, RecursionError):
        return None


def _answer(value: Any, fields: Collection[str], list_field: str | None) -> dict[str, Any] | None:
    """The value if it answers the question."""
    if isinstance(value, list):
        if len(value) == 1 and isinstance(value[0], dict) and any(field in value[0] for field in fields):
            return dict(value[0])
        return {list_field: value} if list_field and value else None
    return value if isinstance(value, dict) and any(field in value for field in fields) else None


def _completed(text: str, start: int) -> str:
    """The JSON value that starts here, cut behind its last complete item and closed; an object in a list is one item."""
    brackets = ""
    end, closing = start, ""
    at = start
    while at < len(text) and len(brackets) <= _MAX_DEPTH:
        char = text[at]
        if char == '"':
            string = _STRING.match(text, at)
            if string is None:
                break
            at = string.end()
            continue
        if char in "{[":
            brackets += char
        elif char in "}]":
            brackets = brackets[:-1]
        # A field of an object that is one item of a list does not stand on its own.
        if char in ",}]" and "[" not in brackets.rstrip("["):
            end = at if char == "," else at + 1
            closing = brackets[::-1].translate(_CLOSING)
        if not brackets:
            break
        at += 1
    return text[start:end] + closing
