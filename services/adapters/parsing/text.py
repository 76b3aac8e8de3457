"""Plain text, Markdown and CSV: the stored text is the decoded source, so offsets point into the file's own words.

CSV stays as it is, too: a row is a line, whatever its length, and no parser can trip over it.
"""

from __future__ import annotations

from pathlib import Path

from services.adapters.parsing.decoding import decode
from services.documents.loaders import DEFAULT_MAX_BYTES, content_type, printable, read_file
from services.documents.models import Document, DocumentMetadata


def parse_text(data: bytes, *, source: str, name: str) -> Document:
    """The text in `data`; blank text becomes an empty document. Raises DocumentError."""
    content, warnings = decode(data, name)
    return Document(content, DocumentMetadata(source, content_type(name)), warnings=warnings)


class TextLoader:
    """Reads text, Markdown and CSV files; an unknown extension is read as plain text.

    `max_bytes` is the largest size that is accepted (default 50 MiB).
    """

    def __init__(self, max_bytes: int = DEFAULT_MAX_BYTES) -> None:
        self._max_bytes = max_bytes

    def load(self, path: Path) -> Document:
        """The file as one document, its absolute path as source. Raises DocumentError."""
        resolved = Path(path).resolve()
        source = printable(resolved)
        return parse_text(read_file(resolved, self._max_bytes), source=source, name=source)
