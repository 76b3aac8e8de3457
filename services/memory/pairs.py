"""Tool calls and their results: a model refuses a history in which one of the two is missing. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from services.memory.models import Message

_CALL, _RESULT = "tool_use", "tool_result"


def paired(messages: Sequence[Message]) -> list[Message]:
    """The messages, oldest first, without tool calls that have no result behind them and results without their call.

    An interrupted call leaves such halves, and so does the edge of a page. The rows are not touched: a result that
    comes in later makes its call whole. A message of which nothing is left is left out.
    """
    whole = _whole(messages)
    kept = []
    for at, message in enumerate(messages):
        parts = tuple(
            part
            for number, part in enumerate(message.parts)
            if part.get("kind") not in (_CALL, _RESULT) or (at, number) in whole
        )
        if parts or message.content or not message.parts:
            kept.append(message if len(parts) == len(message.parts) else replace(message, parts=parts))
    return kept


def _whole(messages: Sequence[Message]) -> set[tuple[int, int]]:
    """Where calls and their results are, by message and part: a result belongs to the latest open call of its id.

    Ids come again: some servers count calls anew in every turn.
    """
    calls: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
    whole = set()
    for at, message in enumerate(messages):
        for number, part in enumerate(message.parts):
            if part.get("kind") == _CALL:
                calls[repr(part.get("id"))].append((at, number))
            elif part.get("kind") == _RESULT and (waiting := calls[repr(part.get("tool_use_id"))]):
                whole |= {waiting.pop(), (at, number)}
    return whole
