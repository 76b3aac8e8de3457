"""Snapshots: a namespace's memory as one portable file, and back.

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
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Protocol, TypeAlias

from services import errors
from services.ids import ConversationId, MessageId, new_hasher
from services.jobs.store import JobRows
from services.memory import strict_json
from services.memory.models import NewMessage, Origin, Role
from services.memory.sessions import AcpEvent, AcpSessionInfo, SessionRows, check_session_id
from services.memory.store import MessageRows
from services.memory.vector_transfer import VectorTransfer, decode
from services.memory.vectors import block_jobs
from services.ports import EmbedderIdentity

if TYPE_CHECKING:
    from services.ports import Vector

Record: TypeAlias = dict[str, Any]

MAX_BYTES = 256 * 1024 * 1024
_FORMAT = "zeph-memory"
_VERSION = 2
_HEADER = b'{"format":"zeph-memory","version":2,"records":['
_PARTS_DEPTH = 64
_LARGEST = 2**63 - 1
# The years 1 to 9999, in microseconds: what a calendar can show.
_FIRST_TIME, _LAST_TIME = -62_135_596_800_000_000, 253_402_300_799_999_999
_SECOND = 1_000_000
_GZIP_MAGIC = b"\x1f\x8b"

# ---- what a record may hold --------------------------------------------------------------------------------------


def _time(value: Any) -> bool:
    return type(value) is int and _FIRST_TIME <= value <= _LAST_TIME


def _count(value: Any) -> bool:
    return type(value) is int and 0 <= value <= _LARGEST


def _id(value: Any) -> bool:
    return type(value) is int and 0 < value <= _LARGEST


def _flag(value: Any) -> bool:
    return type(value) is bool


def _share(value: Any) -> bool:
    return type(value) in {int, float} and 0 <= value <= 1


def _any_text(value: Any) -> bool:
    return isinstance(value, str)


def _text(value: Any) -> bool:
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
        "content": _text,
        "parts": _text,
        "agent_visible": _flag,
        "user_visible": _flag,
        "embeddable": _flag,
        "import_key": _or_null(_text),
        "created_at": _time,
        "compacted_at": _or_null(_time),
        "last_accessed_at": _or_null(_time),
        "access_count": _count,
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
        "session_id": _or_null(_text),
        "message_id": _or_null(_id),
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
    "event": {"event_type": _any_text, "payload": _any_text, "created_at": _time},
}
_EMBEDDER: Mapping[str, Callable[[Any], bool]] = {"provider": _text, "model": _text, "dimension": _id}
_VECTORS: Mapping[str, Callable[[Any], bool]] = {
    "message_id": _id,
    "vectors": lambda value: isinstance(value, list) and all(map(_any_text, value)),
}
KINDS: Mapping[str, Mapping[str, Callable[[Any], bool]]] = {
    **FIELDS,
    "embedder": _EMBEDDER,
    "vectors": _VECTORS,
}
_PARENT = {
    "message": "conversation",
    "summary": "conversation",
    "event": "session",
    "vectors": "embedder",
}


# ---- what it asks of the database --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """What a stored message is recognised by."""

    id: MessageId
    identity: tuple[Any, ...]
    import_key: str | None


class SnapshotRows(Protocol):
    """Whole rows, as a snapshot carries them: dicts with the names in `FIELDS`. Deleted messages do not exist."""

    def conversations(self, namespace: str) -> Iterator[Record]:
        """In order of id."""

    def messages(self, namespace: str, conversation_id: int) -> Iterator[Record]:
        """In order of id."""

    def summaries(self, namespace: str, conversation_id: int) -> list[Record]:
        """In order of id."""

    def corrections(self, namespace: str) -> Iterator[Record]:
        """In order of id."""

    def born_at(self, namespace: str, created_at: int) -> list[tuple[ConversationId, str | None]]:
        """(id, key) of the conversations created at that moment, in order of id."""

    def stored_messages(self, namespace: str, conversation_id: ConversationId) -> list[StoredMessage]:
        """What a conversation holds already, in order of id."""

    def add_conversation(self, namespace: str, conversation: Record) -> tuple[ConversationId, bool]:
        """Store a conversation under a new id; without its key, and True, where another has the key."""

    def restore(self, states: Sequence[tuple[MessageId, Record]]) -> None:
        """Give messages their `compacted_at`, `last_accessed_at` and `access_count`."""

    def add_summaries(
        self, namespace: str, conversation_id: ConversationId, summaries: Sequence[Record]
    ) -> None:
        """Store summaries with their key facts, their message ids being real ones."""

    def add_correction(self, namespace: str, correction: Record) -> bool:
        """Store a correction; False if it is there already."""


class SnapshotUnit(Protocol):
    """A unit of work for snapshots."""

    @property
    def jobs(self) -> JobRows:
        """The job ledger."""

    @property
    def messages(self) -> MessageRows:
        """Conversations and messages."""

    @property
    def sessions(self) -> SessionRows:
        """ACP sessions."""

    @property
    def snapshots(self) -> SnapshotRows:
        """Whole rows."""


class SnapshotDatabase(Protocol):
    """Opens units of work."""

    def write(self, *, durable: bool = True) -> AbstractContextManager[SnapshotUnit]:
        """One transaction."""

    def read(self) -> AbstractContextManager[SnapshotUnit]:
        """One consistent view."""


# ---- the service -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ExportReport:
    """What a snapshot holds, `vectors` being messages that have theirs with them. `parts_lost` messages had parts that nobody can read; their text is there."""

    conversations: int
    messages: int
    summaries: int
    corrections: int
    sessions: int
    events: int
    vectors: int
    parts_lost: int
    bytes: int


@dataclass(slots=True)
class ImportReport:
    """What an import added, and what it `skipped` because it was there already.

    `dangling` references pointed at nothing in the file and were dropped; `keys_taken` conversations lost their key
    to another one that has it here.
    """

    conversations: int = 0
    messages: int = 0
    summaries: int = 0
    corrections: int = 0
    sessions: int = 0
    events: int = 0
    vectors: int = 0
    skipped: int = 0
    dangling: int = 0
    keys_taken: int = 0


class MemorySnapshot:
    """Exports a namespace into one file and imports such files, twice as well as once."""

    def __init__(self, database: SnapshotDatabase, vectors: VectorTransfer) -> None:
        self._database = database
        self._vectors = vectors

    def export_to(
        self,
        path: Path,
        *,
        namespace: str,
        session_id: str | None = None,
        vectors: bool = False,
        overwrite: bool = False,
    ) -> ExportReport:
        """Write everything, or one session alone, as of one moment; compressed if the name ends in `.gz`.

        The file appears whole or not at all, mode 0600. Raises InputError, NotFound for an unknown session, and
        with `vectors` DimensionMismatch and VectorStoreUnavailable.
        """
        if path.exists() and not overwrite:
            raise errors.InputError(f"{path} exists already: choose another name, or say that it may go")
        export = _Export(self._database, self._vectors, namespace)
        records = export.everything(vectors=vectors) if session_id is None else export.one(session_id)
        with _new_file(path) as file:
            written = _write(file, records)
        return ExportReport(
            written["conversation"],
            written["message"],
            written["summary"],
            written["correction"],
            written["session"],
            written["event"],
            written["vectors"],
            export.parts_lost,
            path.stat().st_size,
        )

    def import_from(self, path: Path, *, namespace: str, max_bytes: int = MAX_BYTES) -> ImportReport:
        """Add what the namespace does not have yet: everything in one transaction, or nothing.

        A conversation is the same if it was created in the same microsecond, its key does not differ and it shares
        a message with ours; in it only new messages are added. Raises InputError for a file that is no sound
        snapshot, before anything is written.
        """
        kinds = {kind for kind, _ in read_records(path, max_bytes)}
        space = self._vectors.target() if "vectors" in kinds else None
        with self._database.write() as unit:
            # Read anew: a file that has changed since fails its checksum here, and all is rolled back.
            done = _Import(unit, namespace, None if space is None else space.embedder.identity)
            report = done.run(read_records(path, max_bytes))
        if space is not None and done.vectors:
            adopted = self._vectors.adopt(space, namespace, done.vectors)
            report.vectors = len(adopted)
            left = [message_id for message_id in done.vectors if message_id not in adopted]
            with self._database.write() as unit:
                unit.jobs.enqueue(block_jobs(namespace, left))
        return report


# ---- writing -----------------------------------------------------------------------------------------------------


class _Export:
    """The records of a namespace, numbered from 1."""

    def __init__(self, database: SnapshotDatabase, vectors: VectorTransfer, namespace: str) -> None:
        self._database = database
        self._vectors = vectors
        self._namespace = namespace
        # Ids here -> ids in the file.
        self._conversations: dict[int | None, int] = {}
        self._messages: dict[int | None, int] = {}
        self.parts_lost = 0

    def everything(self, *, vectors: bool) -> Iterator[tuple[str, Record]]:
        with self._database.read() as unit:
            for row in unit.snapshots.conversations(self._namespace):
                yield from self._conversation(unit, row)
            for row in unit.snapshots.corrections(self._namespace):
                yield "correction", row | {"message_id": self._messages.get(row["message_id"])}
            found = unit.sessions.all(self._namespace)
            # In an order of their own, which an import into another database keeps.
            for info in sorted(found, key=lambda info: (info.created_at, info.id)):
                yield from self._session(unit, info)
        # The vector store may be another server: nothing is held open while it answers.
        space = self._vectors.source() if vectors else None
        if space is not None:
            yield "embedder", asdict(space.collection.identity)
            for message_id, texts in self._vectors.stored(space, self._namespace):
                if message_id in self._messages:
                    yield "vectors", {"message_id": self._messages[message_id], "vectors": texts}

    def one(self, session_id: str) -> Iterator[tuple[str, Record]]:
        with self._database.read() as unit:
            found = unit.sessions.get(self._namespace, session_id)
            if found is None:
                raise errors.NotFound(f"there is no session {session_id}: `zeph sessions list` shows them")
            yield from self._session(unit, found)

    def _conversation(self, unit: SnapshotUnit, row: Record) -> Iterator[tuple[str, Record]]:
        conversation_id = row["id"]
        self._conversations[conversation_id] = number = len(self._conversations) + 1
        yield "conversation", row | {"id": number}
        for message in unit.snapshots.messages(self._namespace, conversation_id):
            self._messages[message["id"]] = number = len(self._messages) + 1
            yield "message", message | {"id": number, "parts": self._parts(message["parts"])}
        for summary in unit.snapshots.summaries(self._namespace, conversation_id):
            ends = {
                name: self._messages.get(summary[name]) for name in ("first_message_id", "last_message_id")
            }
            yield "summary", summary | ends

    def _session(self, unit: SnapshotUnit, info: AcpSessionInfo) -> Iterator[tuple[str, Record]]:
        known = self._conversations.get(info.conversation_id)
        facts = asdict(info) | {"conversation_id": known}
        yield "session", {name: facts[name] for name in FIELDS["session"]}
        for event in unit.sessions.events(self._namespace, info.id):
            yield "event", asdict(event)

    def _parts(self, text: str) -> str:
        try:
            read_parts(text)
        except errors.InputError:
            # Readers take them for empty as well.
            self.parts_lost += 1
            return "[]"
        return text


def _write(file: IO[bytes], records: Iterable[tuple[str, Record]]) -> dict[str, int]:
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
def _new_file(path: Path) -> Iterator[IO[bytes]]:
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
    parts = strict_json.parse(text, depth=_PARTS_DEPTH)
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
            raise errors.InputError("it is larger than what is accepted: raise the limit if you trust it")
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
                f"{path} is larger than {max_bytes} bytes: raise the limit if you trust it"
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
    seen: defaultdict[str, set[object]] = defaultdict(set)
    for kind, record in records:
        parent = _PARENT.get(kind)
        if parent is None:
            above = kind
            dimension = record.get("dimension", dimension)
        elif parent != above:
            raise errors.InputError(f"a {kind} belongs under a {parent}")
        if "id" in record:
            if record["id"] in seen[kind]:
                raise errors.InputError(f"{kind} {record['id']} comes twice")
            seen[kind].add(record["id"])
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
    if not times:
        # Without a message there is no time to know it by, and nothing to remember.
        return
    head = {
        "type": "conversation",
        "id": conversation["id"],
        "key": None,
        "title": None,
        "created_at": min(times),
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
            }
        )
    for summary in _objects(conversation["summaries"]):
        _exact(
            summary,
            "id conversation_id content first_message_id last_message_id token_estimate",
            "a summary",
        )
        kept = {name: summary[name] for name in FIELDS["summary"] if name in summary}
        yield _checked({"type": "summary", **kept, "created_at": max(times), "key_facts": []})


def _exact(value: Record, names: str, what: str) -> None:
    strange = value.keys() ^ set(names.split())
    if strange:
        raise errors.InputError(f"{what} has an unknown or missing field: {min(strange)[:40]}")


def _objects(value: Any) -> list[Record]:
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise errors.InputError("a list of objects is missing")
    return value


# ---- importing ---------------------------------------------------------------------------------------------------


class _Import:
    """One file on its way into a namespace, in one unit of work."""

    def __init__(self, unit: SnapshotUnit, namespace: str, wanted: EmbedderIdentity | None) -> None:
        self._unit = unit
        self._namespace = namespace
        self._wanted = wanted
        # Messages that are new here and are to have vectors; those that the file has for them.
        self._bare: set[MessageId] = set()
        self.vectors: dict[MessageId, list[Vector]] = {}
        self._report = ImportReport()
        # Ids in the file -> ids here.
        self._conversations: dict[int, ConversationId] = {}
        self._messages: dict[int, MessageId] = {}

    def run(self, records: Iterable[tuple[str, Record]]) -> ImportReport:
        take = {
            "conversation": self._conversation,
            "correction": self._correction,
            "session": self._session,
            "embedder": self._take_vectors,
        }
        for kind, head, members in _groups(records):
            take[kind](head, members)
        self._unit.jobs.enqueue(block_jobs(self._namespace, sorted(self._bare - self.vectors.keys())))
        return self._report

    def _conversation(self, head: Record, members: Sequence[tuple[str, Record]]) -> None:
        file_messages = [record for kind, record in members if kind == "message"]
        known = self._twin(head, file_messages)
        if known is None:
            conversation_id, key_taken = self._unit.snapshots.add_conversation(self._namespace, head)
            self._report.conversations += 1
            self._report.keys_taken += key_taken
        else:
            conversation_id = known
            self._report.skipped += 1
        self._conversations[head["id"]] = conversation_id
        self._add_messages(conversation_id, file_messages)
        self._add_summaries(conversation_id, [record for kind, record in members if kind == "summary"])

    def _twin(self, head: Record, messages: Sequence[Record]) -> ConversationId | None:
        """The conversation here that this one is, if any: no two of the file are the same one."""
        taken = set(self._conversations.values())
        wanted = Counter(map(message_identity, messages))
        best: tuple[int, int, ConversationId] | None = None
        for conversation_id, key in self._unit.snapshots.born_at(self._namespace, head["created_at"]):
            differs = None not in (key, head["key"]) and key != head["key"]
            if differs or conversation_id in taken:
                continue
            stored = self._unit.snapshots.stored_messages(self._namespace, conversation_id)
            shared = (wanted & Counter(message.identity for message in stored)).total()
            rank = (-shared, abs(len(stored) - len(messages)), conversation_id)
            if (shared or not stored or not messages) and (best is None or rank < best):
                best = rank
        return best[2] if best else None

    def _add_messages(self, conversation_id: ConversationId, messages: Sequence[Record]) -> None:
        stored = self._unit.snapshots.stored_messages(self._namespace, conversation_id)
        same: defaultdict[object, list[MessageId]] = defaultdict(list)
        for twin in reversed(stored):
            same[twin.identity].append(twin.id)
        keyed = {twin.import_key: twin.id for twin in stored if twin.import_key is not None}
        new = []
        for message in messages:
            twins = same[message_identity(message)]
            known = twins.pop() if twins else keyed.get(message["import_key"])
            if known is None:
                new.append(message)
            else:
                self._messages[message["id"]] = known
        ids = self._unit.messages.add(
            self._namespace, conversation_id, [_new_message(message) for message in new]
        )
        added = list(zip(ids, new, strict=True))
        self._messages |= {message["id"]: message_id for message_id, message in added}
        self._unit.snapshots.restore(added)
        self._bare |= {message_id for message_id, message in added if message["embeddable"]}
        self._report.messages += len(new)
        self._report.skipped += len(messages) - len(new)

    def _add_summaries(self, conversation_id: ConversationId, summaries: Sequence[Record]) -> None:
        stored = self._unit.snapshots.summaries(self._namespace, conversation_id)
        known = Counter((summary["content"], summary["created_at"]) for summary in stored)
        new = []
        for summary in summaries:
            identity = summary["content"], summary["created_at"]
            known[identity] -= 1
            if known[identity] < 0:
                new.append(summary | self._range(summary))
        self._unit.snapshots.add_summaries(self._namespace, conversation_id, new)
        self._report.summaries += len(new)
        self._report.skipped += len(summaries) - len(new)

    def _range(self, summary: Record) -> Record:
        first, last = (
            self._reference(self._messages, summary[name]) for name in ("first_message_id", "last_message_id")
        )
        if first is None or last is None or first > last:
            first = last = None
        return {"first_message_id": first, "last_message_id": last}

    def _correction(self, correction: Record, _: Sequence[tuple[str, Record]]) -> None:
        message_id = self._reference(self._messages, correction["message_id"])
        added = self._unit.snapshots.add_correction(self._namespace, correction | {"message_id": message_id})
        self._report.corrections += added
        self._report.skipped += not added

    def _session(self, head: Record, members: Sequence[tuple[str, Record]]) -> None:
        conversation_id = self._reference(self._conversations, head["conversation_id"])
        rows = self._unit.sessions
        session = AcpSessionInfo(
            head["id"], head["created_at"], head["updated_at"], head["title"], conversation_id, 0
        )
        created = rows.create(self._namespace, session)
        # An event is known by its moment, type and payload: of n equal ones, n are kept.
        known = Counter(rows.events(self._namespace, session.id))
        new = []
        for _, record in members:
            event = AcpEvent(**record)
            known[event] -= 1
            if known[event] < 0:
                new.append(event)
        rows.add(self._namespace, session.id, new)
        self._report.sessions += created
        self._report.events += len(new)
        self._report.skipped += (not created) + len(members) - len(new)

    def _take_vectors(self, head: Record, members: Sequence[tuple[str, Record]]) -> None:
        if self._wanted is None or EmbedderIdentity(**head).label != self._wanted.label:
            return
        for _, record in members:
            message_id = self._reference(self._messages, record["message_id"])
            if message_id in self._bare:
                self.vectors[message_id] = record["vectors"]

    def _reference(self, known: Mapping[int, Any], file_id: int | None) -> Any:
        if file_id is not None and file_id not in known:
            self._report.dangling += 1
        return None if file_id is None else known.get(file_id)


def message_identity(message: Mapping[str, Any]) -> tuple[Any, ...]:
    """What never changes about a message."""
    names = ("created_at", "role", "speaker", "origin", "content")
    return (*(message[name] for name in names), dump_parts(message["parts"]))


def dump_parts(parts: Any) -> str:
    """Parts as the database holds them."""
    return parts if isinstance(parts, str) else json.dumps(parts, ensure_ascii=False)


def _groups(
    records: Iterable[tuple[str, Record]],
) -> Iterator[tuple[str, Record, list[tuple[str, Record]]]]:
    """Each record that stands for itself, with those that belong to it."""
    current: tuple[str, Record, list[tuple[str, Record]]] | None = None
    for kind, record in records:
        if kind in _PARENT and current is not None:
            current[2].append((kind, record))
            continue
        if current is not None:
            yield current
        current = kind, record, []
    if current is not None:
        yield current


def _new_message(message: Record) -> NewMessage:
    names = ("content", "speaker", "parts", "agent_visible", "user_visible", "created_at", "import_key")
    kept = {name: message[name] for name in (*names, "embeddable")}
    return replace(NewMessage(Role(message["role"]), ""), origin=Origin(message["origin"]), **kept)
