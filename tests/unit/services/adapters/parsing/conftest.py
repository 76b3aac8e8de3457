"""Documents made in code: nothing binary is kept in the repository."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator

import pytest

from services.adapters.parsing.sandbox import SandboxedParser
from tests.builders import pdf_of

PdfMaker = Callable[..., bytes]


@pytest.fixture
def pdf() -> PdfMaker:
    """Make a PDF with one page for each text; `\n` starts a line, an empty text a blank page."""
    from reportlab.lib.pdfencrypt import StandardEncryption
    from reportlab.pdfgen.canvas import Canvas

    def make(*pages: str, user_password: str | None = None) -> bytes:
        # A user password of "" encrypts the file so that everybody may open it.
        lock = None if user_password is None else StandardEncryption(user_password, "owner", strength=128)
        buffer = io.BytesIO()
        canvas = Canvas(buffer, encrypt=lock)
        for page in pages:
            for line, text in enumerate(page.split("\n")):
                canvas.drawString(72, 720 - 14 * line, text)
            canvas.showPage()
        canvas.save()
        return buffer.getvalue()

    return make


@pytest.fixture
def raw_pdf() -> Callable[..., bytes]:
    """Make a PDF from the bodies of its objects, numbered from 1; the first is the catalogue."""
    return pdf_of


@pytest.fixture
def one_page(raw_pdf: Callable[..., bytes]) -> Callable[..., bytes]:
    """Make a PDF of one page with this text operand, font and further objects from number 6 on."""

    def make(text: bytes, font: bytes, *more: bytes, pages: bytes = b"/Kids [3 0 R] /Count 1") -> bytes:
        stream = b"BT /F1 18 Tf 20 100 Td " + text + b" Tj ET"
        return raw_pdf(
            b"<< /Type /Catalog /Pages 2 0 R >>",
            b"<< /Type /Pages %s >>" % pages,
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 300 200] /Contents 4 0 R "
            b"/Resources << /Font << /F1 5 0 R >> >> >>",
            b"<< /Length %d >>\nstream\n%s\nendstream" % (len(stream), stream),
            font,
            *more,
        )

    return make


@pytest.fixture(scope="module")
def sandbox() -> Iterator[SandboxedParser]:
    """One child process for all tests of a module."""
    with SandboxedParser() as parser:
        yield parser
