"""Snapshots: a namespace's memory as one portable file, and back. The file is described in `snapshot_file`."""

from __future__ import annotations

import json
import pickle
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, TYPE_CHECKING, Any, Protocol, TypeAlias

from services import errors
from services.ids import ConversationId, MessageId
from services.jobs.models import RECONCILE, scheduled
from services.jobs.store import JobRows
from services.memory.models import NewMessage, Origin, Role
from services.memory.sessions import AcpEvent, AcpSessionInfo, SessionRows
from services.memory.snapshot_file import (
    CORRECTION_LINKS,
    FIELDS,
    MAX_BYTES,
    PARENTS,
    Record,
    new_file,
    read_parts,
    read_records,
    write_records,
)
from services.memory.snapshot_graph import GraphExport, GraphImport, GraphSnapshotRows
from services.memory.store import MessageRows
from services.memory.vector_transfer import VectorTransfer
from services.memory.vectors import block_jobs
from services.ports import EmbedderIdentity

if TYPE_CHECKING:
    from services.ports import Vector

# A record that stands for itself, its kind, and the records that belong to it with theirs.
Group: TypeAlias = tuple[str, Record, list[tuple[str, Record]]]

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
        """Give messages their `compacted_at`, `last_accessed_at`, `access_count` and `graph_extractor`."""

    def add_summaries(
        self, namespace: str, conversation_id: ConversationId, summaries: Sequence[Record]
    ) -> None:
        """Store summaries with their key facts, their message ids being real ones."""

    def add_correction(self, namespace: str, correction: Record) -> tuple[int, bool]:
        """The id of this correction here, and whether it is new."""


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

    @property
    def graph_snapshots(self) -> GraphSnapshotRows:
        """Whole rows of the graph."""


class SnapshotDatabase(Protocol):
    """Opens units of work."""

    def write(self, *, durable: bool = True) -> AbstractContextManager[SnapshotUnit]:
        """One transaction."""

    def read(self) -> AbstractContextManager[SnapshotUnit]:
        """One consistent view."""


# ---- the service -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ExportReport:
    """What a snapshot holds; `vectors` counts the messages that have theirs in it.

    `parts_lost` messages had parts that nobody can read: their text is there. `sources_left_out` mentions and sources
    of facts are in documents, which do not travel.
    """

    conversations: int
    messages: int
    summaries: int
    corrections: int
    entities: int
    edges: int
    communities: int
    sessions: int
    events: int
    vectors: int
    parts_lost: int
    sources_left_out: int
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
    entities: int = 0
    edges: int = 0
    communities: int = 0
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
            raise errors.InputError(f"{path} exists already: choose another name, or overwrite it (--force)")
        export = _Export(self._database, self._vectors, namespace)
        records = export.everything(vectors=vectors) if session_id is None else export.one(session_id)
        with new_file(path) as file:
            written = write_records(file, records)
        return ExportReport(
            written["conversation"],
            written["message"],
            written["summary"],
            written["correction"],
            written["entity"],
            written["edge"],
            written["community"],
            written["session"],
            written["event"],
            written["vectors"],
            export.parts_lost,
            export.sources_left_out,
            path.stat().st_size,
        )

    def import_from(self, path: Path, *, namespace: str, max_bytes: int = MAX_BYTES) -> ImportReport:
        """Add what the namespace does not have yet: everything in one transaction, or nothing.

        A conversation is the same if it was created in the same microsecond, its key does not differ and it shares
        a message with ours; in it only new messages are added. Raises InputError for a file that is no sound
        snapshot, before anything is written.
        """
        with TemporaryFile() as spool:
            # Read, checked and prepared before the lock is taken, so that others wait for the writing alone.
            kinds = _spool(_groups(read_records(path, max_bytes)), spool)
            space = self._vectors.target() if "embedder" in kinds else None
            with self._database.write() as unit:
                done = _Import(unit, namespace, None if space is None else space.embedder.identity)
                report = done.run(_spooled(spool))
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
        self._corrections: dict[int, int] = {}
        self.parts_lost = self.sources_left_out = 0

    def everything(self, *, vectors: bool) -> Iterator[tuple[str, Record]]:
        with self._database.read() as unit:
            for row in unit.snapshots.conversations(self._namespace):
                yield from self._conversation(unit, row)
            for row in unit.snapshots.corrections(self._namespace):
                self._corrections[row["id"]] = number = len(self._corrections) + 1
                links = {name: self._messages.get(row[name]) for name in CORRECTION_LINKS}
                yield "correction", row | links | {"id": number}
            graph = GraphExport(unit, self._namespace, self._messages, self._corrections)
            yield from graph.records()
            self.sources_left_out = graph.left_out
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
        self._corrections: dict[int, int] = {}
        self._graph = GraphImport(unit, namespace, self._messages, self._corrections, self._report)

    def run(self, groups: Iterable[Group]) -> ImportReport:
        take = {
            "conversation": self._conversation,
            "correction": self._correction,
            "entity": self._graph.entity,
            "edge": self._graph.edge,
            "community": self._graph.community,
            "graph_counter": self._graph.counter,
            "session": self._session,
            "embedder": self._take_vectors,
        }
        for kind, head, members in groups:
            take[kind](head, members)
        self._graph.finish()
        self._unit.jobs.enqueue(block_jobs(self._namespace, sorted(self._bare - self.vectors.keys())))
        if self._report.summaries or self._report.corrections or self._report.entities:
            # It finds whatever else is to have vectors.
            self._unit.jobs.enqueue([scheduled(RECONCILE)])
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
        numbers = sorted(message["id"] for message in file_messages)
        file_summaries = [record for kind, record in members if kind == "summary"]
        self._add_summaries(conversation_id, file_summaries, numbers)

    def _twin(self, head: Record, messages: Sequence[Record]) -> ConversationId | None:
        """The conversation here that this one is, if any: no two of the file are the same one."""
        born = self._unit.snapshots.born_at(self._namespace, head["created_at"])
        taken = set(self._conversations.values())
        wanted = Counter(map(message_identity, messages)) if born else Counter()
        best: tuple[int, int, ConversationId] | None = None
        for conversation_id, key in born:
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
            twins = same[message_identity(message)] if same else []
            known = twins.pop() if twins else keyed.get(message["import_key"])
            if known is None:
                new.append(message)
            else:
                self._messages[message["id"]] = known
        ids = self._unit.messages.add(
            self._namespace, conversation_id, [message["prepared"] for message in new]
        )
        added = list(zip(ids, new, strict=True))
        self._messages |= {message["id"]: message_id for message_id, message in added}
        self._unit.snapshots.restore(added)
        self._bare |= {message_id for message_id, message in added if message["embeddable"]}
        self._report.messages += len(new)
        self._report.skipped += len(messages) - len(new)

    def _add_summaries(
        self, conversation_id: ConversationId, summaries: Sequence[Record], numbers: Sequence[int]
    ) -> None:
        stored = self._unit.snapshots.summaries(self._namespace, conversation_id)
        known = Counter((summary["content"], summary["created_at"]) for summary in stored)
        new = []
        for summary in summaries:
            identity = summary["content"], summary["created_at"]
            known[identity] -= 1
            if known[identity] < 0:
                new.append(summary | self._range(summary, numbers))
        self._unit.snapshots.add_summaries(self._namespace, conversation_id, new)
        self._report.summaries += len(new)
        self._report.skipped += len(summaries) - len(new)

    def _range(self, summary: Record, numbers: Sequence[int]) -> Record:
        """Where a summary begins and ends here; `numbers` are those of its conversation's messages in the file, sorted.

        Unknown where a message that it tells of does not lie between: what was forgotten here came back behind others.
        """
        ends = [summary[name] for name in ("first_message_id", "last_message_id")]
        first, last = (self._reference(self._messages, end) for end in ends)
        if first is not None and last is not None:
            told = numbers[bisect_left(numbers, ends[0]) : bisect_right(numbers, ends[1])]
            if told and all(first <= self._messages[number] <= last for number in told):
                return {"first_message_id": first, "last_message_id": last}
        return {"first_message_id": None, "last_message_id": None}

    def _correction(self, correction: Record, _: Sequence[tuple[str, Record]]) -> None:
        links = {name: self._reference(self._messages, correction[name]) for name in CORRECTION_LINKS}
        known, added = self._unit.snapshots.add_correction(self._namespace, correction | links)
        self._corrections[correction["id"]] = known
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
    return (*(message[name] for name in names), _spelt_alike(message["parts"]))


def _spelt_alike(parts: Any) -> str:
    """Parts of a file or of a row in one spelling of the many that JSON has; damaged ones as they are."""
    try:
        return json.dumps(json.loads(parts) if isinstance(parts, str) else parts, sort_keys=True)
    except ValueError:
        return str(parts)


def _groups(records: Iterable[tuple[str, Record]]) -> Iterator[Group]:
    """Each record that stands for itself, with those that belong to it."""
    current: Group | None = None
    for kind, record in records:
        if kind in PARENTS and current is not None:
            current[2].append((kind, record))
            continue
        if current is not None:
            yield current
        current = kind, record, []
    if current is not None:
        yield current


def _spool(groups: Iterable[Group], spool: IO[bytes]) -> set[str]:
    """Write the groups down, each message with the value that is to be stored; the kinds that lead a group."""
    kinds = set()
    for kind, head, members in groups:
        kinds.add(kind)
        for member, record in members:
            if member == "message":
                record["prepared"] = _new_message(record)
        pickle.dump((kind, head, members), spool, protocol=pickle.HIGHEST_PROTOCOL)
    spool.seek(0)
    return kinds


def _spooled(spool: IO[bytes]) -> Iterator[Group]:
    """The groups that were written down."""
    while True:
        try:
            # Written a moment ago by this process, into a file that has no name.
            group: Group = pickle.load(spool)  # noqa: S301
        except EOFError:
            return
        yield group


def _new_message(message: Record) -> NewMessage:
    names = ("content", "speaker", "parts", "agent_visible", "user_visible", "created_at", "import_key")
    kept = {name: message[name] for name in (*names, "embeddable")}
    return replace(NewMessage(Role(message["role"]), ""), origin=Origin(message["origin"]), **kept)
