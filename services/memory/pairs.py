"""Tool calls and their results: a model refuses a history in which one of the two is missing. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from services.memory.models import Message


def paired(messages: Sequence[Message]) -> list[Message]:
    """The messages, oldest first, without tool calls that have no result behind them and results without their call.

    An interrupted call leaves such halves, and so does the edge of a page. The rows are not touched: a result that
    comes in later makes its call whole. A message of which nothing is left is left out.
    """
    calls = {part.get("id"): at for at, part in _parts(messages, "tool_use")}
    results = {part.get("tool_use_id"): at for at, part in _parts(messages, "tool_result")}
    whole = {call for call, at in calls.items() if results.get(call, -1) >= at}
    kept = []
    for message in messages:
        parts = tuple(part for part in message.parts if _is_whole(part, whole))
        if parts or message.content or not message.parts:
            kept.append(message if len(parts) == len(message.parts) else replace(message, parts=parts))
    return kept


def _parts(messages: Sequence[Message], kind: str) -> list[tuple[int, Mapping[str, Any]]]:
    return [
        (at, part)
        for at, message in enumerate(messages)
        for part in message.parts
        if part.get("kind") == kind
    ]


def _is_whole(part: Mapping[str, Any], whole: set[Any]) -> bool:
    if part.get("kind") == "tool_use":
        return part.get("id") in whole
    if part.get("kind") == "tool_result":
        return part.get("tool_use_id") in whole
    return True
