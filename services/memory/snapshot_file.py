"""The file of a snapshot: how its records look, and how they are written, read and checked.

Version 2 is one JSON document with one record a line, so that neither side holds it in memory:

    {"format":"zeph-memory","version":2,"records":[
    {"type":"conversation","id":1,"key":null,"title":null,"created_at":1750000000000000},
    {"type":"message","id":1,...},
    {"type":"summary",...},
    {"type":"correction",...},
    {"type":"session","id":"s","title":null,"conversation_id":1,...},
    {"type":"event",...}
    {"type":"embedder","provider":"local","model":"...","dimension":384}
    {"type":"vectors","message_id":1,"vectors":["<Base64 of little-endian float32>",...]}
    ],"counts":{"conversation":1,...},"blake3":"<hash of every byte before this line>"}

Messages and summaries belong to the conversation above them, events to the session above them. The last
two are there on request only, and are taken in where the same model is configured. Ids count from 1 in the
order of the file and mean nothing outside it; times are microseconds; `parts` is JSON in a string. The file names no
time and no namespace of its own: equal memories give equal files. Version 1 (one object, conversations with their
messages and summaries) can be read.
"""

from __future__ import annotations

import gzip
import json
import os
import tempfile
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, TypeAlias

from services import errors
from services.graph.models import EntityType
from services.ids import new_hasher
from services.memory import strict_json
from services.memory.models import EARLIEST, LATEST, PARTS_DEPTH, Origin, Role
from services.memory.sessions import check_session_id
from services.memory.vector_transfer import decode

Record: TypeAlias = dict[str, Any]

MAX_BYTES = 256 * 1024 * 1024
_VERSION = 2
_HEADER = b'{"format":"zeph-memory","version":2,"records":['
_LARGEST = 2**63 - 1
_SECOND = 1_000_000
# With room to grow: what is counted on must still be a number that a database holds.
_MOST_ACCESSES = 2**53
_GZIP_MAGIC = b"\x1f\x8b"

# ---- what a record may hold --------------------------------------------------------------------------------------


def _time(value: Any) -> bool:
    return type(value) is int and EARLIEST <= value <= LATEST


def _count(value: Any) -> bool:
    return type(value) is int and 0 <= value <= _LARGEST


def _id(value: Any) -> bool:
    return type(value) is int and 0 < value <= _LARGEST


def _flag(value: Any) -> bool:
    return type(value) is bool


def _share(value: Any) -> bool:
    return type(value) in {int, float} and 0 <= value <= 1


def _text(value: Any) -> bool:
    return isinstance(value, str)


def _content(value: Any) -> bool:
    # Messages refuse NUL wherever they come from.
    return isinstance(value, str) and "\x00" not in value


def _or_null(test: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: value is None or test(value)


# The columns of each table that a snapshot carries, in their order, with what each may hold.
FIELDS: Mapping[str, Mapping[str, Callable[[Any], bool]]] = {
    "conversation": {"id": _id, "key": _or_null(_text), "title": _or_null(_text), "created_at": _time},
    "message": {
        "id": _id,
        "role": lambda value: _text(value) and value in set(Role),
        "speaker": _or_null(_text),
        "origin": lambda value: _text(value) and value in set(Origin),
        "content": _content,
        "parts": _text,
        "agent_visible": _flag,
        "user_visible": _flag,
        "embeddable": _flag,
        "import_key": _or_null(_text),
        "created_at": _time,
        "compacted_at": _or_null(_time),
        "last_accessed_at": _or_null(_time),
        "access_count": lambda value: _count(value) and value <= _MOST_ACCESSES,
        "graph_extractor": _or_null(_text),
    },
    "summary": {
        "content": _text,
        "first_message_id": _or_null(_id),
        "last_message_id": _or_null(_id),
        "token_estimate": _count,
        "created_at": _time,
        # In this place, because a fact lives and dies with the summary that it was drawn from.
        "key_facts": lambda value: isinstance(value, list) and all(map(_text, value)),
    },
    "correction": {
        "id": _id,
        "session_id": _or_null(_text),
        "message_id": _or_null(_id),
        "target_message_id": _or_null(_id),
        "lowers": _flag,
        "standing": _flag,
        "request_message_id": _or_null(_id),
        "request": _text,
        "original_output": _text,
        "correction_text": _text,
        "skill_name": _or_null(_text),
        "kind": _text,
        "confidence": _share,
        "created_at": _time,
        "retired_at": _or_null(_time),
    },
    "session": {
        "id": _text,
        "title": _or_null(_text),
        "conversation_id": _or_null(_id),
        "created_at": _time,
        "updated_at": _time,
    },
    "event": {"event_type": _text, "payload": _text, "created_at": _time},
}
# The fields of a correction that name messages.
CORRECTION_LINKS = ("message_id", "target_message_id", "request_message_id")
# The same of the graph; in a community, the members' ids.
GRAPH_FIELDS: Mapping[str, Mapping[str, Callable[[Any], bool]]] = {
    "entity": {
        "id": _id,
        "name": _text,
        "canonical_name": _text,
        "entity_type": lambda value: _text(value) and value in set(EntityType),
        "summary": _or_null(_text),
        "first_seen_at": _time,
        "last_seen_at": _time,
    },
    "alias": {"alias_name": _text, "created_at": _time},
    "mention": {
        "message_id": _or_null(_id),
        "extractor": _text,
        "summary": _or_null(_text),
        "created_at": _time,
    },
    "edge": {
        "id": _id,
        "source_entity_id": _id,
        "target_entity_id": _id,
        "relation": _text,
        "fact": _text,
        "confidence": _share,
        "valid_from": _time,
        "valid_to": _or_null(_time),
        "created_at": _time,
        "expired_at": _or_null(_time),
        "superseded_by_id": _or_null(_id),
    },
    "edge_source": {
        "message_id": _or_null(_id),
        "extractor": _text,
        "evidence": _text,
        "stated_at": _time,
        "created_at": _time,
    },
    # A correction that takes the edge back as long as it is in force.
    "edge_correction": {"correction_id": _id},
    "community": {
        "name": _text,
        "summary": _text,
        "fingerprint": _text,
        "created_at": _time,
        "updated_at": _time,
        "members": lambda value: isinstance(value, list) and all(map(_id, value)),
    },
    "graph_counter": {"key": _text, "value": _text},
}
_EMBEDDER: Mapping[str, Callable[[Any], bool]] = {"provider": _text, "model": _text, "dimension": _id}
_VECTORS: Mapping[str, Callable[[Any], bool]] = {
    "message_id": _id,
    "vectors": lambda value: isinstance(value, list) and all(map(_text, value)),
}
KINDS: Mapping[str, Mapping[str, Callable[[Any], bool]]] = {
    **FIELDS,
    **GRAPH_FIELDS,
    "embedder": _EMBEDDER,
    "vectors": _VECTORS,
}
PARENTS = {
    "message": "conversation",
    "summary": "conversation",
    "event": "session",
    "alias": "entity",
    "mention": "entity",
    "edge_source": "edge",
    "edge_correction": "edge",
    "vectors": "embedder",
}


# ---- writing -----------------------------------------------------------------------------------------------------


def write_records(file: IO[bytes], records: Iterable[tuple[str, Record]]) -> dict[str, int]:
    """Write a whole snapshot of version 2; how many records of each kind."""
    written = dict.fromkeys(KINDS, 0)
    hasher = new_hasher()

    def put(data: bytes) -> None:
        hasher.update(data)
        file.write(data)

    put(_HEADER)
    separator = "\n"
    for kind, record in records:
        put(f"{separator}{_compact({'type': kind} | record)}".encode())
        written[kind] += 1
        separator = ",\n"
    put(b"\n")
    trailer = _compact({"counts": written, "blake3": hasher.hexdigest()})
    file.write(f"],{trailer[1:]}\n".encode())
    return written


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


@contextmanager
def new_file(path: Path) -> Iterator[IO[bytes]]:
    """A file that takes its name only when it is complete and on the disk."""
    try:
        descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        try:
            with os.fdopen(descriptor, "wb") as raw:
                if path.suffix == ".gz":
                    # Neither name nor time, so that equal memories give equal files.
                    with gzip.GzipFile(filename="", fileobj=raw, mode="wb", mtime=0) as file:
                        yield file  # type: ignore[misc]
                else:
                    yield raw
                raw.flush()
                os.fsync(raw.fileno())
            Path(name).replace(path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise errors.InputError(f"{path} cannot be written: {error.strerror}") from error


# ---- reading -----------------------------------------------------------------------------------------------------


def read_records(path: Path, max_bytes: int = MAX_BYTES) -> Iterator[tuple[str, Record]]:
    """(type, record) of a snapshot of version 1 or 2, each checked; the whole is sound when this ends.

    Raises InputError with the file, the line and the reason.
    """
    with _opened(path, max_bytes) as lines:
        first = lines.next()
        try:
            found = _records_2(first, lines) if first.startswith(_HEADER[:23]) else _records_1(first, lines)
            yield from _arranged(found)
        except errors.InputError as error:
            raise errors.InputError(
                f"{path} is no snapshot that can be imported: line {max(1, lines.number)}: {error}"
            ) from error


def read_parts(text: str) -> list[Record]:
    """The parts of a message. Raises InputError unless the text is a JSON array of objects."""
    parts = strict_json.parse(text, depth=PARTS_DEPTH)
    if not isinstance(parts, list) or not all(isinstance(part, dict) for part in parts):
        raise errors.InputError("the parts of a message are a list of objects")
    return parts


class _Lines:
    """Lines of a file, with an end to how much of it is read."""

    def __init__(self, file: IO[bytes], max_bytes: int) -> None:
        self._file = file
        self._left = max_bytes
        self.number = 0

    def next(self) -> bytes:
        """The next line, b"" at the end."""
        line = self._file.readline(self._left + 1)
        self._left -= len(line)
        if self._left < 0:
            raise errors.InputError(
                "it is larger than what is accepted: if you trust it, `--max-mib` accepts more"
            )
        self.number += bool(line)
        return line

    def rest(self) -> bytes:
        """Everything that is left."""
        found = []
        while line := self.next():
            found.append(line)
        return b"".join(found)


@contextmanager
def _opened(path: Path, max_bytes: int) -> Iterator[_Lines]:
    if not path.is_file():
        raise errors.NotFound(f"{path} is no file")
    try:
        if path.stat().st_size > max_bytes:
            raise errors.InputError(
                f"{path} is larger than what is accepted: if you trust it, `--max-mib` accepts more"
            )
        with path.open("rb") as raw:
            packed = raw.read(2) == _GZIP_MAGIC
            raw.seek(0)
            yield _Lines(gzip.GzipFile(fileobj=raw) if packed else raw, max_bytes)  # type: ignore[arg-type]
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise errors.InputError(f"{path} is damaged or cut short: {error}") from error
    except OSError as error:
        raise errors.InputError(f"{path} cannot be read: {error.strerror}") from error


def _records_2(first: bytes, lines: _Lines) -> Iterator[tuple[str, Record]]:
    head = strict_json.parse(first.rstrip() + b"]}")
    if not isinstance(head, dict) or head.get("version") != _VERSION or type(head["version"]) is not int:
        version = head.get("version") if isinstance(head, dict) else None
        raise errors.InputError(f"version {version!r} is unknown: this program reads 1 and {_VERSION}")
    if first != _HEADER + b"\n":
        raise errors.InputError("the first line is not as it was written")
    hasher = new_hasher()
    counted = dict.fromkeys(KINDS, 0)
    line = first
    while not line.startswith(b"]"):
        hasher.update(line)
        line = lines.next()
        if not line:
            raise errors.InputError("the end is missing: the file was cut short")
        if not line.startswith(b"]"):
            kind, record = _checked(strict_json.parse(line.rstrip(b"\n").removesuffix(b",")))
            counted[kind] += 1
            yield kind, record
    trailer = strict_json.parse(b'{"records":[' + line)
    if trailer != {"records": [], "counts": counted, "blake3": hasher.hexdigest()}:
        raise errors.InputError("counts or checksum do not match: the file was changed or damaged")
    if lines.next():
        raise errors.InputError("something follows after the end")


def _checked(record: Any) -> tuple[str, Record]:
    kind = record.pop("type", None) if isinstance(record, dict) else None
    fields = KINDS.get(kind) if isinstance(kind, str) else None
    if fields is None:
        raise errors.InputError(f"{str(kind)[:40]!r} is no type of record")
    strange = record.keys() ^ fields.keys()
    if strange:
        raise errors.InputError(f"a {kind} has an unknown or missing field: {min(strange)[:40]}")
    for name, test in fields.items():
        if not test(record[name]):
            raise errors.InputError(f"{name} of a {kind} cannot be {str(record[name])[:40]!r}")
    if kind == "session":
        check_session_id(record["id"])
    if kind == "message":
        record["parts"] = read_parts(record["parts"])
    return str(kind), record


def _arranged(records: Iterable[tuple[str, Record]]) -> Iterator[tuple[str, Record]]:
    """The records themselves, if each has its parent above it and no id comes twice."""
    above = None
    dimension = 0
    import_keys: set[str] = set()
    seen: defaultdict[str, set[object]] = defaultdict(set)
    for kind, record in records:
        parent = PARENTS.get(kind)
        if parent is None:
            above = kind
            dimension = record.get("dimension", dimension)
        elif parent != above:
            raise errors.InputError(f"a {kind} belongs under a {parent}")
        if "id" in record:
            if record["id"] in seen[kind]:
                raise errors.InputError(f"{kind} {record['id']} comes twice")
            seen[kind].add(record["id"])
        if kind == "conversation":
            import_keys.clear()
        if kind == "message" and (key := record["import_key"]) is not None:
            if key in import_keys:
                raise errors.InputError(f"import_key {key[:40]!r} comes twice in one conversation")
            import_keys.add(key)
        if kind == "vectors":
            record["vectors"] = [decode(text, dimension) for text in record["vectors"]]
        yield kind, record


def _records_1(first: bytes, lines: _Lines) -> Iterator[tuple[str, Record]]:
    """Version 1 as records of version 2. It knows neither visibility nor provenance: its messages are imported ones."""
    document = strict_json.parse(first + lines.rest())
    version = document.get("version") if isinstance(document, dict) else None
    if version == _VERSION and type(version) is int:
        raise errors.InputError("its lines were rearranged: import the file as it was exported")
    if version != 1 or type(version) is not int:
        raise errors.InputError(
            f"version {str(version)[:40]} is unknown: this program reads 1 and {_VERSION}"
        )
    _exact(document, "version exported_at conversations", "the snapshot")
    for conversation in _objects(document["conversations"]):
        _exact(conversation, "id messages summaries", "a conversation")
        yield from _conversation_1(conversation)


def _conversation_1(conversation: Record) -> Iterator[tuple[str, Record]]:
    messages = _objects(conversation["messages"])
    for message in messages:
        _exact(message, "id conversation_id role content parts_json created_at", "a message")
        if not _time(message["created_at"]):
            raise errors.InputError(f"created_at of a message cannot be {str(message['created_at'])[:40]}")
    times = [message["created_at"] * _SECOND for message in messages]
    summaries = _objects(conversation["summaries"])
    if not times and not summaries:
        return
    # Of what is left of a conversation without its messages nobody knows the time.
    began, ended = min(times, default=0), max(times, default=0)
    head = {
        "type": "conversation",
        "id": conversation["id"],
        "key": None,
        "title": None,
        "created_at": began,
    }
    yield _checked(head)
    for message, created_at in zip(messages, times, strict=True):
        yield _checked(
            {
                "type": "message",
                "id": message["id"],
                "role": message["role"],
                "speaker": None,
                "origin": Origin.IMPORT.value,
                "content": message["content"],
                "parts": message["parts_json"],
                "agent_visible": True,
                "user_visible": True,
                "embeddable": message["role"] != Role.SYSTEM.value,
                "import_key": None,
                "created_at": created_at,
                "compacted_at": None,
                "last_accessed_at": None,
                "access_count": 0,
                "graph_extractor": None,
            }
        )
    for summary in summaries:
        _exact(
            summary,
            "id conversation_id content first_message_id last_message_id token_estimate",
            "a summary",
        )
        kept = {name: summary[name] for name in FIELDS["summary"] if name in summary}
        yield _checked({"type": "summary", **kept, "created_at": ended, "key_facts": []})


def _exact(value: Record, names: str, what: str) -> None:
    strange = value.keys() ^ set(names.split())
    if strange:
        raise errors.InputError(f"{what} has an unknown or missing field: {min(strange)[:40]}")


def _objects(value: Any) -> list[Record]:
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise errors.InputError("a list of objects is missing")
    return value
