"""The text layer of PDF files, page by page: PDFium first, pypdf where PDFium refuses the file."""

from __future__ import annotations

import io
import re
import threading
import zlib
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from services import errors
from services.adapters.parsing.decoding import clean
from services.documents.loaders import DEFAULT_MAX_BYTES, printable, read_file
from services.documents.models import Document, DocumentMetadata, Page

if TYPE_CHECKING:
    import pypdfium2

MAX_PAGES = 2_000
MAX_CHARS = 10_000_000
_CONTENT_TYPE = "application/pdf"
_MAX_WARNINGS = 20

# PDFium's marks: a hyphen that ended a line, and (in unbounded text) that or a glyph without a letter.
_HYPHEN, _HYPHEN_OR_UNKNOWN = "\x02", "\ufffe"
_UNKNOWN = "\ufffd"
_CONTROL = re.compile("[\x00-\x08\x0b\x0e-\x1f\x7f-\x84\x86-\x9f]")
# A font without a Unicode map yields glyph numbers: a page with more control characters than this share is noise.
_MAX_CONTROL_SHARE = 0.3

# PDFium keeps global state and must not run in two threads.
_PDFIUM = threading.Lock()

# What pypdf raises on damaged files besides its own errors.
_DAMAGE = (
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    ArithmeticError,
    AssertionError,
    RecursionError,
)


class _Refused(Exception):
    """An engine gets nothing out of the file; `reason` is what it looks like to this one."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def parse_pdf(
    data: bytes, *, source: str, name: str, max_pages: int = MAX_PAGES, max_chars: int = MAX_CHARS
) -> Document:
    """The text of all pages with their offsets; pages that cannot be read are named in the warnings.

    Raises DocumentError: `encrypted` (needs a password), `no_text_layer`, `damaged`, `too_large`, `wrong_type`.
    """
    metadata = DocumentMetadata(source, _CONTENT_TYPE)
    if not data:
        return Document("", metadata)
    reasons = set()
    for engine in (_pdfium_pages, _pypdf_pages):
        try:
            with _PDFIUM:
                return _assembled(engine(data, name, max_pages), metadata, name, max_chars)
        except _Refused as refusal:
            reasons.add(refusal.reason)
            if refusal.reason == "no_text_layer":
                break
    raise _unreadable(data, name, reasons)


class PdfLoader:
    """Reads PDF files in this process. Scans without a text layer are refused: there is no OCR.

    `max_bytes` is the largest size that is accepted (default 50 MiB).
    """

    def __init__(self, max_bytes: int = DEFAULT_MAX_BYTES) -> None:
        self._max_bytes = max_bytes

    def load(self, path: Path) -> Document:
        """The file as one document, its absolute path as source. Raises DocumentError."""
        resolved = Path(path).resolve()
        source = printable(resolved)
        return parse_pdf(read_file(resolved, self._max_bytes), source=source, name=source)


def _assembled(
    texts: Iterator[str | None], metadata: DocumentMetadata, name: str, max_chars: int
) -> Document:
    """Join the pages; None stands for a page that could not be read."""
    pages: list[Page] = []
    parts: list[str] = []
    warnings: list[str] = []
    length = unread = total = 0
    for total, raw in enumerate(texts, 1):
        text, changes = _page_text(raw)
        warnings += [f"page {total}: {change}" for change in changes]
        if text is None:
            unread += 1
            continue
        if text and parts:
            parts.append("\n\n")
            length += 2
        pages.append(Page(total, length, length + len(text)))
        parts.append(text)
        length += len(text)
        if length > max_chars:
            raise errors.DocumentError(
                f"{name} has more than {max_chars:,} characters of text", reason="too_large"
            )
    if length == 0:
        raise _Refused("damaged" if unread == total else "no_text_layer")
    if len(warnings) > _MAX_WARNINGS:
        warnings[_MAX_WARNINGS:] = [f"and {len(warnings) - _MAX_WARNINGS} more such pages"]
    return Document("".join(parts), metadata, tuple(pages), tuple(warnings))


def _page_text(raw: str | None) -> tuple[str | None, tuple[str, ...]]:
    if raw is None:
        return None, ("skipped, it is damaged",)
    raw = raw.replace(_HYPHEN, "-")
    if len(_CONTROL.findall(raw)) > _MAX_CONTROL_SHARE * len("".join(raw.split())):
        return "", ("skipped, its fonts do not say which letters they draw",)
    text, changes = clean(raw)
    if not changes and _UNKNOWN in text:
        changes = (
            f"{text.count(_UNKNOWN)} characters are unknown: the font does not say which letters they are",
        )
    return text.strip("\n"), changes


def _pdfium_pages(data: bytes, name: str, max_pages: int) -> Iterator[str | None]:
    import pypdfium2

    try:
        document = pypdfium2.PdfDocument(data)
    except pypdfium2.PdfiumError as error:
        raise _Refused("encrypted" if "password" in str(error).lower() else "damaged") from error
    try:
        _check_page_count(len(document), name, max_pages)
        document.init_forms()
        for index in range(len(document)):
            yield _pdfium_page(document, index)
    finally:
        document.close()


def _pdfium_page(document: pypdfium2.PdfDocument, index: int) -> str | None:
    import pypdfium2
    from pypdfium2 import raw

    try:
        with closing(document[index]) as page:
            # Filled-in form fields become part of the page, which has to be opened anew then.
            if not page.formenv or page.flatten() != raw.FLATTEN_SUCCESS:
                return _bounded_text(page)
        with closing(document[index]) as page:
            return _bounded_text(page)
    except pypdfium2.PdfiumError:
        return None


def _bounded_text(page: pypdfium2.PdfPage) -> str:
    """What is drawn inside the page's box: a cropped half of a spread gives its own half only."""
    with closing(page.get_textpage()) as text_page:
        text: str = text_page.get_text_bounded(errors="replace")
        unbounded: str = text_page.get_text_range(errors="replace")
    if unbounded.count(_HYPHEN_OR_UNKNOWN) > text.count(_HYPHEN):
        return _with_unknown_glyphs(text, unbounded)
    return text


def _with_unknown_glyphs(text: str, unbounded: str) -> str:
    """The bounded text with U+FFFD for each glyph that it leaves out silently; as it is where the two differ."""
    if unbounded.replace(_HYPHEN_OR_UNKNOWN, "") != text.replace(_HYPHEN, ""):
        return text
    merged: list[str] = []
    position = 0
    for char in unbounded:
        if char == _HYPHEN_OR_UNKNOWN and text[position : position + 1] != _HYPHEN:
            merged.append(_UNKNOWN)
        else:
            merged.append(text[position])
            position += 1
    return "".join(merged)


def _pypdf_pages(data: bytes, name: str, max_pages: int) -> Iterator[str | None]:
    import pypdf
    from pypdf.errors import DependencyError, DeprecationError, PyPdfError

    damage = (PyPdfError, DeprecationError, zlib.error, NotImplementedError, *_DAMAGE)
    try:
        reader = pypdf.PdfReader(io.BytesIO(data))
        if reader.is_encrypted and not reader.decrypt(""):
            raise _Refused("encrypted")
        count = len(reader.pages)
    except DependencyError as error:
        raise _Refused("encrypted") from error
    except damage as error:
        raise _Refused("damaged") from error
    _check_page_count(count, name, max_pages)
    if count == 0:
        raise _Refused("damaged")
    for index in range(count):
        try:
            text: str | None = reader.pages[index].extract_text()
        except damage:
            text = None
        yield text


def _check_page_count(count: int, name: str, limit: int) -> None:
    if count > limit:
        raise errors.DocumentError(
            f"{name} has {count:,} pages, more than the limit of {limit:,}: split it", reason="too_large"
        )


def _unreadable(data: bytes, name: str, reasons: set[str]) -> errors.DocumentError:
    if "no_text_layer" in reasons:
        return errors.DocumentError(
            f"{name} has no text layer: its pages are blank or scanned, and OCR is not built in; "
            "run a scan through an OCR program first",
            reason="no_text_layer",
        )
    if "encrypted" in reasons:
        return errors.DocumentError(
            f"{name} needs a password: save it without one and try again", reason="encrypted"
        )
    head = data[:1024].lstrip().lower()
    if b"%pdf-" in head:
        return errors.DocumentError(f"{name} is a damaged PDF that no reader here can open", reason="damaged")
    kind = "HTML" if head.startswith((b"<!doctype html", b"<html")) else "another type of file"
    return errors.DocumentError(f"{name} is not a PDF: it looks like {kind}; rename it", reason="wrong_type")
