"""B5 to B7: any bytes under any name are a document or a DocumentError, and the parser is there for the next file."""

from __future__ import annotations

import contextlib
import io
import random
import time
import zipfile
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services import errors
from services.adapters.parsing.sandbox import SandboxedParser
from services.adapters.parsing.text import parse_text
from services.documents.splitter import TextSplitter
from tests.fuzz.amounts import MARKS, amount, fuzz

pytestmark = MARKS

BYTES = st.sampled_from(
    [
        b"\x00",
        b"\xff\xfe",
        b"\xef\xbb\xbf",
        b"\xfe\xff",
        b"\xc3\x28",
        b"\xed\xa0\x80",
        b"\x1b[0m",
        b"\r\n",
        b"\r",
        b"\x85",
        b"# ",
        b"```\n",
        b"---\n",
        b"|",
        b"> " * 50,
        b"[" * 100,
        b"(" * 100,
        b"*" * 100,
        b"<!--",
        b"&#0;",
        b"\t- ",
        b"1. ",
        b"a" * 3_000,
        "漢字。".encode(),
        "é".encode("latin-1"),
        "привет ".encode("cp1251"),
        b"[a]: <b>\n",
        b"$$",
        b"\\",
    ]
)


@pytest.fixture(scope="module")
def _detector_loaded() -> None:
    """What is loaded when the first text of an unknown encoding comes is no cost of that text."""
    with contextlib.suppress(errors.DocumentError):
        parse_text("Le café était fermé. ".encode("latin-1") * 20, source="a", name="a.txt")


@pytest.mark.usefixtures("_detector_loaded")
@fuzz(commit=300, nightly=20_000)
@given(
    st.binary(max_size=200) | st.lists(BYTES | st.binary(max_size=6), max_size=25).map(b"".join),
    st.sampled_from(["a.txt", "a.md", "a.markdown", "a.log", "a", "a.rst"]),
)
def test_any_bytes_are_a_text_or_refused_b5(data, name):
    began = time.process_time()
    try:
        document = parse_text(data, source=name, name=name)
    except errors.DocumentError as error:
        assert error.reason  # noqa: PT017 - both outcomes are right
        return
    document.content.encode()
    for chunk in TextSplitter().split(document):
        assert chunk.text == document.content[chunk.start : chunk.end]
    # Fixed costs aside, a second for a megabyte.
    assert time.process_time() - began < 0.5 + len(data) / 1e6


@pytest.fixture(scope="module")
def sandbox() -> Iterator[SandboxedParser]:
    with SandboxedParser() as parser:
        yield parser


def pdf() -> bytes:
    from reportlab.pdfgen.canvas import Canvas

    buffer = io.BytesIO()
    canvas = Canvas(buffer, pageCompression=0)
    for number in range(3):
        canvas.drawString(72, 720, f"The page of number {number}")
        canvas.showPage()
    canvas.save()
    return buffer.getvalue()


def docx() -> bytes:
    import docx as library

    document = library.Document()
    document.add_heading("A heading")
    document.add_paragraph("Some words about nothing.")
    buffer = io.BytesIO()
    document.save(buffer)
    return buffer.getvalue()


def xlsx() -> bytes:
    import openpyxl

    book = openpyxl.Workbook()
    book.active.append(["a", 1, None])
    buffer = io.BytesIO()
    book.save(buffer)
    return buffer.getvalue()


def pptx() -> bytes:
    import pptx as library

    deck = library.Presentation()
    deck.slides.add_slide(deck.slide_layouts[5]).shapes.title.text = "A title"
    buffer = io.BytesIO()
    deck.save(buffer)
    return buffer.getvalue()


PDF_WORDS = [
    b"/Length 0",
    b"/Count 999999999",
    b"0 R",
    b"1 0 R",
    b"endobj",
    b"stream",
    b"<<" * 50,
    b"[" * 200,
    b"(",
    b"/Kids",
]
NUMBERS = [b"0", b"-1", b"4294967296", b"99999999999999999999"]


def damaged(data: bytes, dice: random.Random) -> bytes:
    """The file with a few bytes changed, dropped, repeated or moved."""
    changed = bytearray(data)
    for _ in range(dice.randint(1, 6)):
        at = dice.randrange(len(changed))
        act = dice.randrange(6)
        if act == 0:
            changed[at] = dice.randrange(256)
        elif act == 1:
            del changed[at : at + dice.randint(1, 200)]
        elif act == 2:
            changed[at:at] = dice.choice(PDF_WORDS)
        elif act == 3:
            changed[at:at] = changed[: dice.randint(1, 500)]
        elif act == 4:
            changed[at : at + 1] = dice.choice(NUMBERS)
        elif len(changed) > 200:
            del changed[max(100, at) :]
    return bytes(changed)


def repacked(data: bytes, dice: random.Random) -> bytes:
    """The archive with one part damaged, dropped, doubled or blown up; the archive itself is sound."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as new:
        names = old.namelist()
        chosen = dice.choice(names)
        for name in names:
            part = old.read(name)
            if name != chosen:
                new.writestr(name, part)
                continue
            act = dice.randrange(4)
            if act == 0 and part:
                new.writestr(name, damaged(part, dice))
            elif act == 1:
                new.writestr(f"../../{name}", part)
            elif act == 2:
                new.writestr(name, part + b"<a>" * 200_000)
    return buffer.getvalue()


def read_or_refused(sandbox: SandboxedParser, data: bytes, name: str) -> str:
    try:
        document = sandbox.parse(data, source=f"/{name}", name=name)
    except errors.DocumentError as error:
        return error.reason
    document.content.encode()
    return "read"


def test_a_damaged_pdf_is_read_or_refused_and_the_next_one_is_read_b6(sandbox):
    good, dice = pdf(), random.Random(6)
    outcomes = [
        read_or_refused(sandbox, damaged(good, dice), "x.pdf")
        for _ in range(amount(commit=40, nightly=1_000))
    ]
    assert read_or_refused(sandbox, good, "x.pdf") == "read"
    assert outcomes.count("read") > 0
    assert outcomes.count("read") < len(outcomes)


@pytest.mark.parametrize("make", [docx, xlsx, pptx])
def test_a_damaged_office_file_is_read_or_refused_and_the_next_one_is_read_b7(sandbox, make):
    good, dice, name = make(), random.Random(7), f"x.{make.__name__}"
    outcomes = []
    for number in range(amount(commit=14, nightly=340)):
        data = repacked(good, dice) if number % 2 else damaged(good, dice)
        outcomes.append(read_or_refused(sandbox, data, name))
    assert read_or_refused(sandbox, good, name) == "read"
    assert outcomes.count("read") < len(outcomes)
