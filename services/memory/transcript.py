"""Importing conversations from JSON Lines: one object a line with role and content; whatever is wrong is named."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from services import errors
from services.ids import ConversationId
from services.memory.models import NewMessage, as_role, storable
from services.memory.service import SemanticMemory, import_key
from services.times import stored

_LINES_PER_STEP = 5_000
# Numbers from here on are milliseconds, and from the next on microseconds: seconds would be the year 5138.
_MILLISECONDS_FROM = 100_000_000_000
_MICROSECONDS_FROM = 100_000_000_000_000
_ERAS = ((_MICROSECONDS_FROM, 1), (_MILLISECONDS_FROM, 1_000), (0, 1_000_000))


@dataclass(frozen=True, slots=True)
class BadLine:
    """A line that was not imported; `number` counts from 1."""

    number: int
    reason: str


@dataclass(frozen=True, slots=True)
class ImportReport:
    """Every line that is not blank counts once as added, known or bad. `nuls` NUL characters were left out."""

    added: int
    known: int
    nuls: int
    bad: tuple[BadLine, ...]


@dataclass(frozen=True, slots=True)
class _Line:
    conversation: ConversationId | str
    message: NewMessage
    nuls: int


def import_transcript(
    memory: SemanticMemory,
    lines: Iterable[bytes],
    *,
    conversation: ConversationId | str,
    namespace: str | None = None,
) -> ImportReport:
    """Store the messages of a JSON Lines file; `conversation` takes those that name none.

    A line is an object with `role` and `content`, and perhaps `conversation` (a key), `speaker`, `created_at` (ISO 8601,
    UTC unless it says otherwise, or seconds, milliseconds or microseconds since 1970) and `parts`. Other fields are
    ignored. The same line again, in this file or another, is known by what it says, who says it and when: importing
    twice adds nothing, and an interrupted import is repeated as a whole.
    """
    seen: Counter[tuple[ConversationId | str, str]] = Counter()
    bad: list[BadLine] = []
    added = known = nuls = 0
    for step in _steps(lines):
        waiting: dict[ConversationId | str, list[NewMessage]] = defaultdict(list)
        for number, raw in step:
            try:
                line = _read(raw, conversation)
            except errors.InputError as error:
                bad.append(BadLine(number, str(error)))
                continue
            nuls += line.nuls
            message = replace(line.message, import_key=_key_of(line, seen))
            waiting[line.conversation].append(message)
        for name, messages in waiting.items():
            new = len(memory.remember_many(name, messages, namespace=namespace))
            added, known = added + new, known + len(messages) - new
    return ImportReport(added, known, nuls, tuple(bad))


def check_origin(
    memory: SemanticMemory, lines: Iterable[bytes], *, conversation: str, namespace: str | None = None
) -> None:
    """Raise InputError when a conversation that was named after a file was filled from another file than this one.

    The same file, grown or cut short, has all that was imported, or nothing else. Only lines that name no conversation
    count.
    """
    imported = memory.count_imported(conversation, namespace=namespace)
    if not imported:
        return
    seen: Counter[tuple[ConversationId | str, str]] = Counter()
    keys = set()
    for raw in lines:
        with suppress(errors.InputError):
            line = _read(raw, "")
            if not line.conversation:
                keys.add(_key_of(line, seen))
    if memory.count_imported(conversation, keys, namespace=namespace) < min(imported, len(keys)):
        raise errors.InputError(
            f"conversation {conversation} holds messages of another file of that name, or of an older state of this "
            f"one: name the one that this file belongs to with --conversation ({conversation} adds to what is there)"
        )


def _key_of(line: _Line, seen: Counter[tuple[ConversationId | str, str]]) -> str:
    """What the import knows the line by; counts it, so that the next equal one has another key."""
    same = (line.conversation, import_key(line.message, 0))
    key = import_key(line.message, seen[same])
    seen[same] += 1
    return key


def _steps(lines: Iterable[bytes]) -> Iterator[list[tuple[int, bytes]]]:
    step: list[tuple[int, bytes]] = []
    for number, line in enumerate(lines, start=1):
        if line.strip():
            step.append((number, line))
        if len(step) == _LINES_PER_STEP:
            yield step
            step = []
    yield step


def _read(raw: bytes, conversation: ConversationId | str) -> _Line:
    try:
        # The first line of a file from Windows begins with a byte order mark.
        found = json.loads(raw.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise errors.InputError(f"not UTF-8 at byte {error.start}") from error
    except (ValueError, RecursionError) as error:
        raise errors.InputError(f"not JSON: {error}") from error
    if not isinstance(found, dict):
        raise errors.InputError("not a JSON object")
    content, nuls = storable(_text(found, "content"))
    speaker, more = storable(_text(found, "speaker", ""))
    name, _ = storable(_text(found, "conversation", ""))
    message = NewMessage(
        as_role(_text(found, "role")),
        content,
        speaker=speaker or None,
        parts=_parts(found.get("parts")),
        created_at=_time(found.get("created_at")),
    )
    return _Line(name or conversation, message, nuls + more)


def _text(found: Mapping[str, Any], field: str, default: str | None = None) -> str:
    value = found.get(field)
    if value is None and default is not None:
        return default
    if not isinstance(value, str):
        raise errors.InputError(f"{field} is {'missing' if value is None else 'no text'}")
    return value


def _parts(value: Any) -> Sequence[Mapping[str, Any]]:
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(part, dict) for part in value):
        raise errors.InputError("parts is no list of objects")
    return value


def _time(value: Any) -> int | None:
    """Microseconds since 1970 UTC."""
    if value is None:
        return None
    try:
        if isinstance(value, str):
            return stored(datetime.fromisoformat(value))
        if isinstance(value, int | float) and not isinstance(value, bool):
            factor = next((factor for least, factor in _ERAS if value >= least), 1_000_000)
            return round(value * factor)
    except (ValueError, OverflowError):
        pass
    raise errors.InputError(f"created_at is {str(value)[:40]!r}: use ISO 8601 or a number since 1970")
