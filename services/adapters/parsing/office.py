"""HTML, Word, PowerPoint, Excel and mail through `unstructured`, kept offline.

`unstructured` reports usage at import and downloads a language model at first use. Environment variables stop the
first; a module of regular expressions takes the place of its tokenizer before it is imported, which stops the second.
Import costs seconds and 150 MB, so only the parser's child process does it, at the first such document.
"""

from __future__ import annotations

import io
import os
import re
import sys
import types
from collections.abc import Iterable
from html.parser import HTMLParser
from typing import TYPE_CHECKING

from services.adapters.parsing.archive import check_office_archive
from services.adapters.parsing.decoding import clean, decode
from services.documents.loaders import content_type
from services.documents.models import Document, DocumentMetadata, Page

if TYPE_CHECKING:
    from unstructured.documents.elements import Element

_TOKENIZER = "unstructured.nlp.tokenize"
# Detecting the language of each element costs more than reading it, and nobody uses the answer.
_LANGUAGES = ["eng"]


def parse_office(data: bytes, *, source: str, name: str) -> Document:
    """The text of the document's elements, one paragraph each; tables as lines of `cell | cell`.

    Raises DocumentError for archives that are encrypted, damaged or dangerous, and whatever a parser raises on
    damaged contents.
    """
    kind = content_type(name)
    metadata = DocumentMetadata(source, kind)
    if not data.strip():
        return Document("", metadata)
    prepare()
    elements, warnings = _READERS[kind](data, name)
    # Slides are the only pages whose numbers an office file itself knows.
    content, pages = _joined(elements, paged=kind.endswith("presentation"))
    return Document(content, metadata, pages, warnings)


def prepare() -> None:
    """Make `unstructured` importable without network access. Idempotent."""
    if _TOKENIZER in sys.modules:
        return
    os.environ.update(DO_NOT_TRACK="1", SCARF_NO_ANALYTICS="true", UNSTRUCTURED_DISABLE_NOTICE="1")
    tokenizer = types.ModuleType(_TOKENIZER)
    vars(tokenizer).update(sent_tokenize=_sentences, word_tokenize=_words, pos_tag=_tagged)
    sys.modules[_TOKENIZER] = tokenizer


def _sentences(text: str) -> list[str]:
    return re.split(r"(?<=[.!?])\s+", text)


def _words(text: str) -> list[str]:
    return re.findall(r"\w+|[^\w\s]", text)


def _tagged(text: str) -> list[tuple[str, str]]:
    # Only decides between the labels Title and NarrativeText, which are not used here.
    return [(word, "NN") for word in _words(text)]


def _html(data: bytes, name: str) -> tuple[Iterable[Element], tuple[str, ...]]:
    from unstructured.partition.html import partition_html

    text, warnings = decode(data, name)
    # An encoding declared inside text that is decoded already confuses the parser.
    text = re.sub(r"\A\s*<\?xml[^>]*\?>", "", text)
    return (partition_html(text=text, languages=_LANGUAGES) if text.strip() else ()), warnings


def _docx(data: bytes, name: str) -> tuple[Iterable[Element], tuple[str, ...]]:
    check_office_archive(data, name)
    from unstructured.partition.docx import partition_docx

    return partition_docx(file=io.BytesIO(data), languages=_LANGUAGES), ()


def _pptx(data: bytes, name: str) -> tuple[Iterable[Element], tuple[str, ...]]:
    check_office_archive(data, name)
    from unstructured.partition.pptx import partition_pptx

    return partition_pptx(file=io.BytesIO(data), languages=_LANGUAGES), ()


def _xlsx(data: bytes, name: str) -> tuple[Iterable[Element], tuple[str, ...]]:
    check_office_archive(data, name)
    from unstructured.documents.elements import Text
    from unstructured.partition.xlsx import partition_xlsx

    elements: list[Element] = []
    for sheet in partition_xlsx(file=io.BytesIO(data), find_subtable=False, languages=_LANGUAGES):
        elements += [Text(sheet.metadata.page_name or ""), sheet]
    return elements, ()


def _mail(data: bytes, _name: str) -> tuple[Iterable[Element], tuple[str, ...]]:
    from unstructured.documents.elements import Text
    from unstructured.partition.email import partition_email

    # Attachments are not opened: their names are the sender's, and their types anything.
    elements = partition_email(file=io.BytesIO(data), process_attachments=False, languages=_LANGUAGES)
    subject = elements[0].metadata.subject if elements else None
    return [Text(f"Subject: {subject}"), *elements] if subject else elements, ()


_READERS = {
    content_type("x.html"): _html,
    content_type("x.docx"): _docx,
    content_type("x.pptx"): _pptx,
    content_type("x.xlsx"): _xlsx,
    content_type("x.eml"): _mail,
}


def _joined(elements: Iterable[Element], *, paged: bool) -> tuple[str, tuple[Page, ...]]:
    parts: list[str] = []
    pages: list[Page] = []
    length = 0
    for element in elements:
        text = clean(_text_of(element))[0].strip("\n")
        if not text:
            continue
        start = length + 2 if parts else 0
        length = start + len(text)
        parts.append(text)
        number = element.metadata.page_number
        if paged and number:
            if pages and pages[-1].number == number:
                pages[-1] = Page(number, pages[-1].start, length)
            else:
                pages.append(Page(number, start, length))
    return "\n\n".join(parts), tuple(pages)


def _text_of(element: Element) -> str:
    table = element.metadata.text_as_html
    return _rows(table) if table else element.text or ""


def _rows(table: str) -> str:
    reader = _TableReader()
    reader.feed(table)
    reader.close()
    return "\n".join(" | ".join(row) for row in reader.rows if any(row))


class _TableReader(HTMLParser):
    """Collects the cells of a table, row by row; a table inside a cell becomes rows of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[list[str]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:  # noqa: ARG002 - the base's signature
        if tag == "tr" or not self.rows:
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_data(self, data: str) -> None:
        words = " ".join(data.split())
        if words and self.rows:
            row = self.rows[-1]
            if row:
                row[-1] = f"{row[-1]} {words}".strip()
            else:
                row.append(words)
