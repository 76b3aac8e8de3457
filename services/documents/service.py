"""Ingestion: files become documents, documents become chunks, chunks get vectors. Each step is a job.

A batch walks its folders and fans out one job per file; a file's vectors are one more job of the batch. Whatever dies
is run again: rows are replaced in one transaction, vectors have derived ids, and every file ends as exactly one
outcome of its batch.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from services import errors
from services.documents.loaders import DEFAULT_MAX_BYTES, DocumentParser, printable, read_file
from services.documents.models import Document, DocumentMetadata, Outcome, SplitterConfig
from services.documents.splitter import TextSplitter
from services.documents.store import (
    ChunkText,
    DocumentDatabase,
    DocumentUnit,
    DocumentVersion,
    splitter_label,
)
from services.documents.walk import FoundFile, RefusedFile, walk
from services.embedding.spaces import Space, VectorSpaces
from services.embedding.store import RESERVED_COLLECTIONS
from services.embedding.upkeep import VectorOwner
from services.embedding.writing import VectorWriter, Written, removal_job
from services.ids import content_hash
from services.jobs.models import EMBED_DOCUMENT, INGEST_BATCH, INGEST_FILE, NewJob
from services.jobs.run import JobRun, is_text

DEFAULT_COLLECTION = "zeph_documents"
_FILES_PER_UNIT = 500
_CHUNKS_PER_CALL = 32
# Refusals that say "not ours to read"; every other one is a failure.
_SKIPPED_REASONS = frozenset(
    {"unsupported_type", "outside", "duplicate", "symlink_loop", "not_a_file", "too_deep"}
)


@dataclass(frozen=True, slots=True)
class IngestRequest:
    """What to ingest and how. `paths` are files or folders, made absolute here."""

    paths: tuple[str, ...]
    collection: str = DEFAULT_COLLECTION
    namespace: str = "default"
    splitter: SplitterConfig = field(default_factory=SplitterConfig)
    prune: bool = False
    graph: bool = False

    def __post_init__(self) -> None:
        if not self.paths:
            raise errors.InputError("nothing to ingest: name at least one file or folder")
        if not self.collection or not self.namespace:
            raise errors.InputError("collection and namespace must not be empty")
        _check_collection(self.collection)
        object.__setattr__(self, "paths", tuple(os.path.abspath(path) for path in self.paths))  # noqa: PTH100 - keeps links


@dataclass(frozen=True, slots=True)
class Submission:
    """An accepted batch. `resumed`: it was begun before, so files that changed since may need another run."""

    batch_id: int
    resumed: bool


# Enqueues, in a unit, the jobs that read a document for the graph: (unit, namespace, document id, batch).
GraphJobs = Callable[[Any, str, int, int | None], None]


class IngestionPipeline:
    """Loads, splits, stores and embeds documents through the job ledger."""

    def __init__(
        self,
        database: DocumentDatabase,
        spaces: VectorSpaces,
        parser: DocumentParser,
        *,
        max_file_bytes: int = DEFAULT_MAX_BYTES,
        graph_jobs: GraphJobs | None = None,
    ) -> None:
        self._database = database
        self._spaces = spaces
        self._writer = VectorWriter[ChunkText](
            database,
            spaces,
            "chunk",
            lambda unit: unit.documents,
            lambda chunk: {"chunk_id": chunk.id, "document_id": chunk.document_id},
        )
        self._parser = parser
        self._max_file_bytes = max_file_bytes
        self._graph_jobs = graph_jobs

    # ---- for callers -----------------------------------------------------------------------------------------

    def submit(self, request: IngestRequest) -> Submission:
        """Accept a batch; workers do the rest. The same request again, while it is not finished, is the same batch.

        Raises BackPressure, InputError.
        """
        missing = [path for path in request.paths if not os.path.lexists(path)]
        if missing:
            raise errors.InputError(f"{printable(missing[0])} does not exist: check the path")
        payload = asdict(request) | {"paths": list(request.paths)}
        key = content_hash(json.dumps(payload, sort_keys=True))
        with self._database.write() as unit:
            batch_id = unit.jobs.enqueue([NewJob(INGEST_BATCH, payload, request.namespace, dedupe_key=key)])[
                0
            ]
            batch = unit.jobs.get(batch_id)
        return Submission(batch_id, resumed=batch is not None and batch.started_at is not None)

    def add_text(
        self,
        text: str,
        metadata: DocumentMetadata,
        *,
        collection: str = DEFAULT_COLLECTION,
        namespace: str = "default",
        splitter: SplitterConfig | None = None,
    ) -> Outcome:
        """Store a text as the document `metadata.source`, searchable by keyword at once and by meaning soon after."""
        texts = [(text, metadata)]
        return self.add_texts(texts, collection=collection, namespace=namespace, splitter=splitter)[0]

    def add_texts(
        self,
        texts: Sequence[tuple[str, DocumentMetadata]],
        *,
        collection: str = DEFAULT_COLLECTION,
        namespace: str = "default",
        splitter: SplitterConfig | None = None,
    ) -> list[Outcome]:
        """Store many texts in one transaction, which costs little more than one of them."""
        _check_collection(collection)
        config = splitter or SplitterConfig()
        versions = []
        for text, metadata in texts:
            document = Document(_storable(text), metadata)
            data = document.content.encode()
            versions.append(self._version(document, data, config, collection=collection, namespace=namespace))
        with self._database.write() as unit:
            return [Outcome(self._store(unit, version)["status"]) for version in versions]

    def remove(
        self, sources: Sequence[str], *, collection: str = DEFAULT_COLLECTION, namespace: str = "default"
    ) -> int:
        """Delete documents with chunks, index entries and vectors; how many there were."""
        with self._database.write() as unit:
            found = [unit.documents.find(namespace, collection, source) for source in sources]
            ids = [document.id for document in found if document is not None]
            self._delete(unit, namespace, ids)
        return len(ids)

    # ---- for workers -----------------------------------------------------------------------------------------

    def run_batch(self, run: JobRun) -> None:
        """Walk the batch's folders, enqueue a job per file, record what is not readable, prune if asked."""
        request = _request(run)
        parent = run.job.id
        with self._database.read() as unit:
            known = unit.jobs.child_keys(parent, INGEST_FILE.name)
        seen: set[str] = set()
        # Sources are real paths, and a root may be a link.
        roots = {printable(os.path.realpath(path)): False for path in request.paths}
        whole = True
        for part in _parts(walk([Path(path) for path in request.paths])):
            run.checkpoint()
            seen |= {item.source for item in part}
            roots |= {root: True for root in roots if _has_file(root, part)}
            whole = whole and not any(isinstance(it, RefusedFile) and it.reason == "too_many" for it in part)
            fresh = [item for item in part if _key(item.source, parent) not in known]
            with self._database.write(durable=False) as unit:
                jobs = [_file_job(item, request, parent) for item in fresh if isinstance(item, FoundFile)]
                unit.jobs.enqueue(jobs)
                refused = [item for item in fresh if isinstance(item, RefusedFile)]
                unit.jobs.record([_refusal(item, request, parent) for item in refused])
        # What a walk did not reach is not gone.
        if request.prune and whole:
            self._prune(request, parent, seen, roots)
        with self._database.write(durable=False) as unit:
            run.wait_for_children(unit)

    def ingest_file(self, run: JobRun) -> None:
        """Bring one file's stored version up to date; the outcome says what happened to it."""
        path = Path(run.text("path", encoding_errors="surrogateescape"))
        source, collection, config = run.text("source"), run.text("collection"), _splitter(run)
        try:
            before = _signature(path)
            data = read_file(path, self._max_file_bytes)
            version = self._read(run.job.namespace, collection, source, config, data, path.name)
        except errors.DocumentError as error:
            status = Outcome.SKIPPED if error.reason in _SKIPPED_REASONS else Outcome.FAILED
            outcome = {"status": status, "source": source, "reason": error.reason, "message": str(error)}
            with self._database.write(durable=False) as unit:
                run.finish(unit, outcome)
            return
        run.checkpoint()
        with self._database.write(durable=False) as unit:
            # Another batch may have stored what the file says by now: an older reading must not replace it.
            if _signature(path) != before:
                raise errors.TransientError(f"{source} changed while it was read", retry_after_seconds=0.5)
            outcome = self._store(unit, version, parent=run.job.parent_id) if version else _unchanged(source)
            if run.payload.get("graph"):
                self._ask_for_graph(unit, run)
            run.finish(unit, outcome | {"source": source})

    def embed_document(self, run: JobRun) -> None:
        """Give every chunk of one document its vectors."""
        document_id = run.number("document_id")
        space = self._space(document_id)
        if space is None:
            with self._database.write(durable=False) as unit:
                run.finish(unit, {"vectors": 0})
            return
        written = Written()
        while True:
            written += self._embed(space, document_id, run)
            with self._database.write(durable=False) as unit:
                # Chunks that came in meanwhile were promised to this job.
                if not unit.documents.unembedded(document_id, space.collection.physical, limit=1):
                    run.finish(unit, written.outcome)
                    return

    def embed_into(self, space: Space, document_id: int, run: JobRun) -> int:
        """Embed the document's chunks that this space lacks, a few at a time, each durable when done; vectors made."""
        return self._embed(space, document_id, run).vectors

    @property
    def owner(self) -> VectorOwner:
        """Chunks, as upkeep sees them."""
        return VectorOwner(
            "chunk",
            "chunk_id",
            lambda unit: unit.documents,
            lambda space, _namespace, document_id, run: self.embed_into(space, document_id, run),
            _embed_job,
        )

    # ---- steps -----------------------------------------------------------------------------------------------

    def _embed(self, space: Space, document_id: int, run: JobRun) -> Written:
        written = Written()
        while True:
            run.checkpoint()
            with self._database.read() as unit:
                chunks = unit.documents.unembedded(
                    document_id, space.collection.physical, limit=_CHUNKS_PER_CALL
                )
            if chunks:
                embedded = self._writer.embed(space, chunks)
                written += self._writer.write(space, chunks[0].namespace, embedded)
            if len(chunks) < _CHUNKS_PER_CALL:
                return written

    def _read(
        self, namespace: str, collection: str, source: str, config: SplitterConfig, data: bytes, name: str
    ) -> DocumentVersion | None:
        """The new version, or None when the stored one is of the same bytes, cut the same way and embedded."""
        with self._database.read() as unit:
            stored = unit.documents.find(namespace, collection, source)
        same = (
            stored is not None
            and stored.content_hash == content_hash(data)
            and stored.splitter == splitter_label(config)
        )
        if (
            stored is not None
            and same
            and (self._spaces.embedder is None or stored.embedded == stored.chunks)
        ):
            return None
        document = self._parser.parse(data, source=source, name=name)
        return self._version(document, data, config, collection=collection, namespace=namespace)

    def _version(
        self, document: Document, data: bytes, config: SplitterConfig, *, collection: str, namespace: str
    ) -> DocumentVersion:
        return DocumentVersion(
            namespace=namespace,
            collection=collection,
            document=document,
            content_hash=content_hash(data),
            size_bytes=len(data),
            splitter=splitter_label(config),
            chunks=TextSplitter(config).split(document),
        )

    def _store(
        self, unit: DocumentUnit, version: DocumentVersion, *, parent: int | None = None
    ) -> dict[str, Any]:
        metadata = version.document.metadata
        if not version.chunks:
            stored = unit.documents.find(version.namespace, version.collection, metadata.source)
            self._delete(unit, version.namespace, [stored.id] if stored else [])
            return {"status": Outcome.EMPTY, "warnings": list(version.document.warnings)}
        changes = unit.documents.store(version)
        if changes.removed:
            unit.jobs.enqueue([removal_job(version.namespace)])
        if self._spaces.embedder is not None:
            unit.jobs.enqueue([_embed_job(version.namespace, changes.document_id, parent)])
        status = Outcome.STORED if changes.added or changes.removed else Outcome.UNCHANGED
        counts = {"chunks": len(version.chunks), "added": changes.added, "kept": changes.kept}
        return {
            "status": status,
            **counts,
            "removed": changes.removed,
            "warnings": list(version.document.warnings),
        }

    def _ask_for_graph(self, unit: DocumentUnit, run: JobRun) -> None:
        namespace, payload = run.job.namespace, run.payload
        stored = unit.documents.find(namespace, payload["collection"], payload["source"])
        if stored is not None and self._graph_jobs is not None:
            self._graph_jobs(unit, namespace, stored.id, run.job.parent_id)

    def _space(self, document_id: int) -> Space | None:
        with self._database.read() as unit:
            collection = unit.documents.collection_of(document_id)
        return None if collection is None else self._spaces.for_writing(collection)

    def _prune(self, request: IngestRequest, parent: int, seen: set[str], roots: Mapping[str, bool]) -> None:
        """Forget what is gone from the folders of which the walk found a file."""
        with self._database.write(durable=False) as unit:
            for root, has_files in roots.items():
                stored = unit.documents.sources_below(request.namespace, request.collection, root)
                gone = {
                    source: found
                    for source, found in stored.items()
                    # Files come while others are walked.
                    if _is_gone(source, seen) and not Path(source).is_file()
                }
                if not has_files:
                    # More likely an unmounted disk than a wish to forget everything.
                    unit.jobs.record([_spared(root, len(gone), request, parent)] if gone else [])
                    continue
                self._delete(unit, request.namespace, list(gone.values()))
                outcome = {"status": Outcome.REMOVED}
                unit.jobs.record(
                    [(_child(source, request, parent), outcome | {"source": source}) for source in gone]
                )

    def _delete(self, unit: DocumentUnit, namespace: str, ids: Sequence[int]) -> None:
        if unit.documents.remove(ids):
            unit.jobs.enqueue([removal_job(namespace)])


def _check_collection(name: str) -> None:
    if name in RESERVED_COLLECTIONS:
        raise errors.InputError(f"collection {name} is not for documents: choose another name")


def _request(run: JobRun) -> IngestRequest:
    paths = run.payload.get("paths")
    if not isinstance(paths, list) or not all(is_text(path, "surrogateescape") for path in paths):
        raise run.unreadable("paths")
    return IngestRequest(
        tuple(paths),
        run.text("collection"),
        run.text("namespace"),
        _splitter(run),
        prune=run.payload.get("prune") is True,
        graph=run.payload.get("graph") is True,
    )


def _splitter(run: JobRun) -> SplitterConfig:
    fields = run.payload.get("splitter")
    if not isinstance(fields, dict) or not all(isinstance(value, int) for value in fields.values()):
        raise run.unreadable("splitter")
    try:
        return SplitterConfig(**fields)
    except (TypeError, errors.InputError) as error:
        raise run.unreadable("splitter") from error


def _key(source: str, parent: int) -> str:
    # Batches that share a file each account for it: their collections and chunk sizes may differ.
    return f"{parent}/{source}"


def _has_file(root: str, part: Sequence[FoundFile | RefusedFile]) -> bool:
    """Whether one of the files lies below that folder."""
    below = root.rstrip("/") + "/"
    return any(isinstance(item, FoundFile) and item.source.startswith(below) for item in part)


def _is_gone(source: str, seen: set[str]) -> bool:
    """Whether a walk that saw these did not come by it. A folder is seen only when it could not be walked."""
    return seen.isdisjoint([source, *map(str, PurePosixPath(source).parents)])


def _child(source: str, request: IngestRequest, parent: int) -> NewJob:
    return NewJob(INGEST_FILE, {"source": source}, request.namespace, _key(source, parent), parent)


def _file_job(found: FoundFile, request: IngestRequest, parent: int) -> NewJob:
    payload = {
        "path": str(found.path),
        "source": found.source,
        "collection": request.collection,
        "splitter": asdict(request.splitter),
        "graph": request.graph,
    }
    return NewJob(INGEST_FILE, payload, request.namespace, _key(found.source, parent), parent)


def _refusal(refused: RefusedFile, request: IngestRequest, parent: int) -> tuple[NewJob, dict[str, Any]]:
    status = Outcome.SKIPPED if refused.reason in _SKIPPED_REASONS else Outcome.FAILED
    outcome = {
        "status": status,
        "source": refused.source,
        "reason": refused.reason,
        "message": refused.message,
    }
    return _child(refused.source, request, parent), outcome


def _spared(root: str, count: int, request: IngestRequest, parent: int) -> tuple[NewJob, dict[str, Any]]:
    message = (
        f"no file is left here, as when a disk is not mounted: its {count} documents stay. "
        "`zeph documents remove` forgets them"
    )
    outcome = {"status": Outcome.SKIPPED, "source": root, "reason": "nothing_left", "message": message}
    return _child(root, request, parent), outcome


def _embed_job(namespace: str, document_id: int, parent: int | None = None) -> NewJob:
    return NewJob(EMBED_DOCUMENT, {"document_id": document_id}, namespace, str(document_id), parent)


def _unchanged(source: str) -> dict[str, Any]:
    return {"status": Outcome.UNCHANGED, "source": source}


def _signature(path: Path) -> tuple[int, int, int]:
    try:
        facts = os.lstat(path)
    except OSError as error:
        raise errors.DocumentError(
            f"{printable(path)} cannot be read: {error.strerror}", reason="missing"
        ) from error
    return facts.st_ino, facts.st_size, facts.st_mtime_ns


def _parts(items: Iterator[FoundFile | RefusedFile]) -> Iterator[list[FoundFile | RefusedFile]]:
    part: list[FoundFile | RefusedFile] = []
    for item in items:
        part.append(item)
        if len(part) == _FILES_PER_UNIT:
            yield part
            part = []
    yield part


def _storable(text: str) -> str:
    """The text as it may be stored: no NUL, no lone surrogates, line ends as newlines."""
    whole = text.encode("utf-8", "replace").decode("utf-8")
    return whole.replace("\x00", "\ufffd").replace("\r\n", "\n").replace("\r", "\n")
