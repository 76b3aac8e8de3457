"""HTML, office formats and mail: every word, no network, no bombs. Read in the child, as in production."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable

import pytest

from services import errors
from services.adapters.parsing.archive import check_office_archive
from services.adapters.parsing.sandbox import SandboxedParser
from services.documents.models import Document


@pytest.fixture
def read(sandbox: SandboxedParser) -> Callable[[bytes, str], Document]:
    return lambda data, name: sandbox.parse(data, source=f"/{name}", name=name)


Read = Callable[[bytes, str], Document]


def docx(paragraphs: list[str], table: list[list[str]] = []) -> bytes:  # noqa: B006 - never changed
    import docx as library

    document = library.Document()
    for text in paragraphs:
        document.add_paragraph(text)
    if table:
        grid = document.add_table(len(table), len(table[0]))
        for row, cells in zip(grid.rows, table, strict=True):
            for cell, text in zip(row.cells, cells, strict=True):
                cell.text = text
    buffer = io.BytesIO()
    document.save(buffer)
    return buffer.getvalue()


def archive(parts: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as zipped:
        for name, data in parts.items():
            zipped.writestr(name, data)
    return buffer.getvalue()


def reason_of(data: bytes) -> str:
    with pytest.raises(errors.DocumentError, match=r"x\.docx") as caught:
        check_office_archive(data, "x.docx")
    return caught.value.reason


def test_html_is_read_as_its_text(read: Read) -> None:
    page = (
        "<html><head><meta charset='iso-8859-1'><title>T</title><script>var no = 1;</script></head><body>"
        "<h1>Bäume</h1><p>Some <b>bold</b> words.</p><ul><li>one<li>two</ul>"
        "<table><tr><th>a</th><th>b</th></tr><tr><td>1</td><td>2</td></tr></table></body></html>"
    )
    document = read(page.encode("latin-1"), "a.html")
    assert document.content == "Bäume\n\nSome bold words.\n\none\n\ntwo\n\na | b\n1 | 2"
    assert document.metadata.content_type == "text/html"


def test_xhtml_with_a_declaration_is_read(read: Read) -> None:
    page = b'<?xml version="1.0" encoding="utf-8"?>\n<html><body><p>Words.</p></body></html>'
    assert read(page, "a.htm").content == "Words."


def test_read_11_every_cell_of_a_word_table_is_in_the_text(read: Read) -> None:
    document = read(docx(["Before the table."], [["fruit", "price"], ["red apple", "3"]]), "a.docx")
    assert document.content == "Before the table.\n\nfruit | price\nred apple | 3"


def test_slides_are_pages(read: Read) -> None:
    import pptx

    presentation = pptx.Presentation()
    for title in ("First slide", "Second slide"):
        presentation.slides.add_slide(presentation.slide_layouts[0]).shapes.title.text = title
    buffer = io.BytesIO()
    presentation.save(buffer)
    document = read(buffer.getvalue(), "a.pptx")
    assert document.content == "First slide\n\nSecond slide"
    assert [document.content[page.start : page.end] for page in document.pages] == [
        "First slide",
        "Second slide",
    ]
    assert [page.number for page in document.pages] == [1, 2]


def test_each_sheet_is_named(read: Read) -> None:
    import openpyxl

    book = openpyxl.Workbook()
    for name in ("Fruit", "Wood"):
        sheet = book.create_sheet(name)
        sheet.append(["kind", "price"])
        sheet.append([f"{name} one", 3])
    del book["Sheet"]
    buffer = io.BytesIO()
    book.save(buffer)
    content = read(buffer.getvalue(), "a.xlsx").content
    assert content == "Fruit\n\nkind | price\nFruit one | 3\n\nWood\n\nkind | price\nWood one | 3"


def test_mail_has_its_subject_and_body_but_no_attachments(read: Read) -> None:
    from email.message import EmailMessage

    mail = EmailMessage()
    mail["Subject"] = "The harvest"
    mail["From"] = "a@example.org"
    mail.set_content("It was good this year.")
    mail.add_attachment(b"../../etc words", maintype="text", subtype="plain", filename="../../x.txt")
    content = read(bytes(mail), "a.eml").content
    assert content.startswith("Subject: The harvest\n\nIt was good this year.")
    assert "etc words" not in content


@pytest.mark.parametrize("name", ["a.html", "a.docx", "a.pptx", "a.xlsx", "a.eml"])
def test_an_empty_file_is_an_empty_document(read: Read, name: str) -> None:
    assert read(b"", name).content == ""


@pytest.mark.parametrize("name", ["a.docx", "a.pptx", "a.xlsx"])
def test_an_archive_without_a_document_is_damaged(read: Read, name: str) -> None:
    with pytest.raises(errors.DocumentError, match=f"{name} is damaged") as caught:
        read(archive({"[Content_Types].xml": b"<Types/>"}), name)
    assert caught.value.reason == "damaged"


def test_an_archive_that_unpacks_to_too_much_is_refused() -> None:
    assert reason_of(archive({"word/document.xml": bytes(5_000_000)})) == "too_expensive"


def test_an_archive_that_lies_about_its_size_is_refused() -> None:
    packed = archive({"word/document.xml": bytes(5_000_000)})
    honest = (5_000_000).to_bytes(4, "little")
    assert packed.count(honest) == 2
    assert reason_of(packed.replace(honest, (100).to_bytes(4, "little"))) in ("too_expensive", "damaged")


def test_an_archive_with_too_many_entries_is_refused() -> None:
    assert reason_of(archive({f"{n}.xml": b"" for n in range(1_001)})) == "too_expensive"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16-le", "utf-16-be"])
def test_an_xml_part_with_a_doctype_is_refused(encoding: str) -> None:
    part = '<?xml version="1.0"?><!DOCTYPE x [<!ENTITY e "a">]><x>&e;</x>'.encode(encoding)
    assert reason_of(archive({"word/document.xml": part})) == "dangerous"
    # Across the border of two blocks too.
    assert reason_of(
        archive({"a.bin": b"", "word/d.xml": bytes((1 << 20) - 5).replace(b"\0", b" ") + part})
    ) in (
        "dangerous",
        "too_expensive",
    )


def test_an_encrypted_office_file_says_so() -> None:
    ole2 = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
    assert reason_of(ole2 + "EncryptedPackage".encode("utf-16-le")) == "encrypted"
    assert reason_of(ole2 + b"WordDocument") == "wrong_type"


def test_a_truncated_archive_is_damaged() -> None:
    assert reason_of(docx(["Words."])[:2_000]) == "damaged"


def test_a_sound_archive_passes() -> None:
    check_office_archive(docx(["Words."]), "x.docx")
