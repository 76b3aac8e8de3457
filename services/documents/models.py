"""The values that documents are made of: frozen, checked where they are made, the same everywhere."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from services import errors


class Outcome(StrEnum):
    """How one file of a batch ends: exactly one of these."""

    STORED = "stored"
    UNCHANGED = "unchanged"
    EMPTY = "empty"
    SKIPPED = "skipped"
    FAILED = "failed"
    REMOVED = "removed"


@dataclass(frozen=True, slots=True)
class DocumentMetadata:
    """Where a document came from. `source` identifies it within its collection."""

    source: str
    content_type: str
    title: str = ""
    extra: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Page:
    """One page of a paginated source: `number` counts from 1, `start` and `end` are offsets into the text."""

    number: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Document:
    """Readable text with its origin. `warnings` say what was lost on the way, for people."""

    content: str
    metadata: DocumentMetadata
    pages: tuple[Page, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SplitterConfig:
    """Chunk size and overlap in tokens (cl100k). Raises InputError when they cannot work together."""

    chunk_size: int = 512
    chunk_overlap: int = 64
    sentence_aware: bool = True

    def __post_init__(self) -> None:
        if not 1 <= self.chunk_size <= 8_192:
            raise errors.InputError(f"chunk_size is {self.chunk_size}: use 1 to 8192 tokens")
        if not 0 <= self.chunk_overlap < self.chunk_size:
            raise errors.InputError(
                f"chunk_overlap is {self.chunk_overlap}: use 0 to {self.chunk_size - 1}, less than chunk_size"
            )


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of a document: `text == document.content[start:end]`.

    `index` counts from 0, `heading` is the path of enclosing headings from the top, `page` the page on which
    the chunk starts (None without pages), `tokens` its length.
    """

    index: int
    text: str
    start: int
    end: int
    tokens: int
    heading: tuple[str, ...] = ()
    page: int | None = None
