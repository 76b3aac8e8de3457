"""PDF files: text by page, and a clear reason where there is none."""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from services import errors
from services.adapters.parsing.pdf import PdfLoader, parse_pdf
from services.documents.models import Document, Page

HELVETICA = b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>"
Maker = Callable[..., bytes]


def read(data: bytes, **limits: int) -> Document:
    return parse_pdf(data, source="x", name="x.pdf", **limits)


def reason_of(data: bytes, **limits: int) -> str:
    with pytest.raises(errors.DocumentError, match=r"x\.pdf") as caught:
        read(data, **limits)
    return caught.value.reason


def test_pages_keep_their_numbers_and_offsets(pdf: Maker) -> None:
    document = read(pdf("First line\nsecond line", "", "Third page"))
    assert document.content == "First line\nsecond line\n\nThird page"
    assert document.pages == (Page(1, 0, 22), Page(2, 22, 22), Page(3, 24, 34))
    assert document.content[24:34] == "Third page"
    assert document.warnings == ()


def test_the_loader_reads_a_file_by_itself(pdf: Maker, tmp_path: Path) -> None:
    (tmp_path / "a.pdf").write_bytes(pdf("Words on a page"))
    document = PdfLoader().load(tmp_path / "a.pdf")
    assert document.content == "Words on a page"
    assert document.metadata.source == str(tmp_path / "a.pdf")
    assert document.metadata.content_type == "application/pdf"


def test_an_empty_file_is_an_empty_document() -> None:
    assert read(b"").content == ""


def test_pdf_03_a_file_encrypted_for_everybody_is_read(pdf: Maker) -> None:
    assert read(pdf("Open to all", user_password="")).content == "Open to all"


def test_a_file_with_a_password_says_so(pdf: Maker) -> None:
    assert reason_of(pdf("Secret", user_password="secret")) == "encrypted"


def test_a_scan_says_that_there_is_no_text_layer(pdf: Maker) -> None:
    with pytest.raises(errors.DocumentError, match="OCR is not built in") as caught:
        read(pdf("", ""))
    assert caught.value.reason == "no_text_layer"


def test_a_damaged_file_says_so(pdf: Maker) -> None:
    assert reason_of(pdf("Words")[:200]) == "damaged"


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"<html><body>An error page</body></html>", "HTML"),
        (b"Plain text under a wrong name.\n", "another type"),
    ],
)
def test_another_type_under_a_pdf_name_says_what_it_looks_like(data: bytes, kind: str) -> None:
    with pytest.raises(errors.DocumentError, match=f"is not a PDF: it looks like {kind}") as caught:
        read(data)
    assert caught.value.reason == "wrong_type"


def test_a_single_bad_page_is_skipped_and_named(raw_pdf: Maker) -> None:
    stream = b"BT /F1 18 Tf 20 100 Td (Good page) Tj ET"
    page = b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 300 200] /Contents 4 0 R /Resources << /Font << /F1 5 0 R >> >> >>"
    document = read(
        raw_pdf(
            b"<< /Type /Catalog /Pages 2 0 R >>",
            b"<< /Type /Pages /Kids [3 0 R 6 0 R 3 0 R] /Count 3 >>",
            page,
            b"<< /Length %d >>\nstream\n%s\nendstream" % (len(stream), stream),
            HELVETICA,
            b"(not a page)",
        )
    )
    assert "Good page" in document.content
    assert any("page 2: skipped" in warning for warning in document.warnings)


def test_pdf_01_a_glyph_without_a_letter_is_not_deleted_silently(one_page: Maker) -> None:
    cmap = (
        b"/CIDInit /ProcSet findresource begin 12 dict begin begincmap /CMapName /X def 1 begincodespacerange <00> <FF> "
        b"endcodespacerange 1 beginbfchar <2D> <0000> endbfchar 1 beginbfrange <30> <7D> <0030> endbfrange "
        b"endcmap end end"
    )
    document = read(
        one_page(
            b"(F-13)",
            b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /ToUnicode 6 0 R >>",
            b"<< /Length %d >>\nstream\n%s\nendstream" % (len(cmap), cmap),
        )
    )
    assert document.content == "F\ufffd13"
    assert "page 1: 1 characters are unknown" in document.warnings[0]


def test_control_characters_of_a_font_without_letters_are_never_stored(one_page: Maker) -> None:
    font = b"<< /Type /Font /Subtype /Type0 /BaseFont /X /Encoding /Identity-H /DescendantFonts [6 0 R] >>"
    descendant = (
        b"<< /Type /Font /Subtype /CIDFontType2 /BaseFont /X "
        b"/CIDSystemInfo << /Registry (Adobe) /Ordering (Identity) /Supplement 0 >> >>"
    )
    document = read(one_page(b"<0001002500260027>", font, descendant))
    assert document.content == "\ufffd%&'"
    assert document.warnings == ("page 1: 1 control characters replaced by U+FFFD",)
    assert reason_of(one_page(b"<00010003000400050027>", font, descendant)) == "no_text_layer"


def test_a_form_is_read_with_what_was_filled_in() -> None:
    import io

    from reportlab.pdfgen.canvas import Canvas

    buffer = io.BytesIO()
    canvas = Canvas(buffer)
    canvas.drawString(72, 720, "Name:")
    canvas.acroForm.textfield(name="name", value="Ada Lovelace", x=120, y=710, width=200, height=20)
    canvas.save()
    assert "Ada Lovelace" in read(buffer.getvalue()).content


@pytest.mark.parametrize(
    "pages", [b"/Kids [3 0 R] /Count 1000000", b"/Kids [2 0 R] /Count 1", b"/Kids [] /Count 0"]
)
def test_pdf_05_a_page_tree_that_lies_ends_soon(one_page: Maker, pages: bytes) -> None:
    started = time.process_time()
    assert reason_of(one_page(b"(Words)", HELVETICA, pages=pages)) in ("too_large", "damaged")
    assert time.process_time() - started < 5


def test_pdf_05_a_page_that_inflates_ends_soon(raw_pdf: Maker) -> None:
    bomb = zlib.compress(b" " * 20_000_000, 9)
    data = raw_pdf(
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 300 200] /Contents 4 0 R >>",
        b"<< /Length %d /Filter /FlateDecode >>\nstream\n%s\nendstream" % (len(bomb), bomb),
    )
    assert reason_of(data) == "no_text_layer"


def test_pages_and_characters_are_limited(pdf: Maker) -> None:
    data = pdf("One", "Two", "Three")
    assert read(data, max_pages=3).pages[-1].number == 3
    assert reason_of(data, max_pages=2) == "too_large"
    assert reason_of(data, max_chars=8) == "too_large"


def test_pypdf_reads_what_pdfium_refuses(one_page: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    import pypdfium2

    def refuse(_data: bytes) -> None:
        raise pypdfium2.PdfiumError("Failed to load document (PDFium: Data format error).")

    monkeypatch.setattr(pypdfium2, "PdfDocument", refuse)
    assert read(one_page(b"(Second reader)", HELVETICA)).content == "Second reader"
