"""What documents ask of the database, inside one unit of work."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from services.documents.models import Chunk, Document, SplitterConfig
from services.embedding.store import CollectionRows, EmbeddedRows
from services.jobs.store import JobRows


@dataclass(frozen=True, slots=True)
class StoredDocument:
    """A document row. Times are microseconds."""

    id: int
    namespace: str
    collection: str
    source: str
    title: str
    content_type: str
    content_hash: str
    size_bytes: int
    splitter: str
    warnings: tuple[str, ...]
    chunks: int
    embedded: int
    updated_at: int


@dataclass(frozen=True, slots=True)
class DocumentVersion:
    """One version of a file, ready to be stored."""

    namespace: str
    collection: str
    document: Document
    content_hash: str
    size_bytes: int
    splitter: str
    chunks: Sequence[Chunk]


@dataclass(frozen=True, slots=True)
class ChunkChanges:
    """What storing a version changed: chunks written anew, kept as they were, taken away."""

    document_id: int
    added: int
    kept: int
    removed: int


@dataclass(frozen=True, slots=True)
class ChunkText:
    """A chunk as the embedder sees it."""

    id: int
    namespace: str
    document_id: int
    text: str


@dataclass(frozen=True, slots=True)
class Passage:
    """A chunk with its place: offsets are characters into the document's text.

    `updated_at` is when that text was ingested, microseconds.
    """

    chunk_id: int
    document_id: int
    source: str
    title: str
    heading: tuple[str, ...]
    page: int | None
    start: int
    end: int
    text: str
    updated_at: int


class DocumentRows(EmbeddedRows, Protocol):
    """The documents and chunks tables; the rows with vectors are chunks, in groups of one document."""

    def find(self, namespace: str, collection: str, source: str) -> StoredDocument | None:
        """The stored version of a source, if any."""

    def get(self, document_id: int) -> StoredDocument | None:
        """One document, or None."""

    def collection_of(self, document_id: int) -> str | None:
        """The logical collection of a document, or None."""

    def page(
        self, namespace: str, collection: str | None, *, after: str = "", limit: int = 1_000
    ) -> list[StoredDocument]:
        """A page in order of source."""

    def store(self, version: DocumentVersion) -> ChunkChanges:
        """Make this the version of its source: same chunks are kept with their vectors, the rest replaced."""

    def remove(self, document_ids: Sequence[int]) -> int:
        """Delete documents with their chunks, index entries and (through tombstones) vectors; the chunks removed."""

    def chunks_without_vectors(self, namespace: str, collection: str) -> int:
        """How many chunks the active vector collection of this name lacks; 0 when there is none yet."""

    def totals(self, namespace: str) -> Sequence[tuple[str, int, int]]:
        """(collection, documents, chunks) of a namespace."""

    def sources_below(self, namespace: str, collection: str, root: str) -> dict[str, int]:
        """Document ids by source, of everything stored from below a folder."""

    def unembedded(self, document_id: int, physical: str, *, limit: int) -> list[ChunkText]:
        """Chunks of the document that have no vectors in this collection, in order."""

    def search(self, namespace: str, collection: str, query: str, *, limit: int) -> dict[int, float]:
        """Keyword search: chunk id -> BM25 score, higher is better; any query is valid."""

    def passages(self, namespace: str, chunk_ids: Sequence[int]) -> dict[int, Passage]:
        """The chunks of this namespace among the ids."""


class DocumentUnit(Protocol):
    """A unit of work for documents."""

    @property
    def jobs(self) -> JobRows:
        """The job ledger."""

    @property
    def documents(self) -> DocumentRows:
        """Documents and chunks."""

    @property
    def collections(self) -> CollectionRows:
        """Vector collections."""


class DocumentDatabase(Protocol):
    """Opens units of work."""

    def write(self, *, durable: bool = True) -> AbstractContextManager[DocumentUnit]:
        """One transaction."""

    def read(self) -> AbstractContextManager[DocumentUnit]:
        """One consistent view."""


def splitter_label(config: SplitterConfig) -> str:
    """Names the way a document was cut: another label means that it must be cut again."""
    return (
        f"v1/{config.chunk_size}/{config.chunk_overlap}/{'sentences' if config.sentence_aware else 'windows'}"
    )
