"""What the parser's sandbox keeps and what it costs: `python -m tests.bench.bench_sandbox [FOLDER]`.

For each cap a document that breaks it: what is said of it, how soon, how large the child grew, and whether the next
document is read. Then what a sandboxed document costs beside one that is parsed in this process. With a folder, every
file of it goes through one sandbox. The caps on time are shorter than the usual ones, so as not to wait for minutes.
"""

from __future__ import annotations

import io
import os
import resource
import statistics
import subprocess
import sys
import time
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from services import errors
from services.adapters.parsing.sandbox import ParserLimits, SandboxedParser
from tests.builders import pdf_of

SHORT_SECONDS = 5
DOCUMENTS = 60
USUAL = ParserLimits()
_MIB = 2**20


def pdf(pages: int, content: bytes = b"BT /F1 12 Tf 72 720 Td (Some words about nothing.) Tj ET") -> bytes:
    """Pages that all show the same deflated content."""
    packed = zlib.compress(content, 9)
    kids = b" ".join(b"%d 0 R" % (number + 4) for number in range(pages))
    page = b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 3 0 R >>"
    return pdf_of(
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Count %d /Kids [%s] >>" % (pages, kids),
        b"<< /Length %d /Filter /FlateDecode >>\nstream\n%s\nendstream" % (len(packed), packed),
        *[page] * pages,
    )


def docx(paragraphs: int = 20) -> bytes:
    import docx as library

    document = library.Document()
    for number in range(paragraphs):
        document.add_paragraph(f"Some words about number {number}.")
    buffer = io.BytesIO()
    document.save(buffer)
    return buffer.getvalue()


def inflating_docx() -> bytes:
    buffer = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(docx())) as old,
        zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as new,
    ):
        for name in old.namelist():
            new.writestr(name, b"<a>" * 200 * _MIB if name == "word/document.xml" else old.read(name))
    return buffer.getvalue()


# What breaks which cap: (the limits, the name, its making).
CASES: dict[str, tuple[ParserLimits, str, Callable[[], bytes]]] = {
    f"memory {USUAL.memory_bytes // _MIB} MiB, text": (USUAL, "a.txt", lambda: "café ".encode() * 60 * _MIB),
    f"memory {USUAL.memory_bytes // _MIB} MiB, PDF that inflates": (
        USUAL,
        "a.pdf",
        lambda: pdf(1, b"BT (x) Tj ET " * 100 * _MIB),
    ),
    "archive that inflates to 600 MiB": (USUAL, "a.docx", inflating_docx),
    f"processor {SHORT_SECONDS} s": (
        ParserLimits(cpu_seconds=SHORT_SECONDS),
        "a.html",
        lambda: b"<p>words</p>" * 400_000,
    ),
    f"wall clock {SHORT_SECONDS} s": (
        ParserLimits(wall_seconds=SHORT_SECONDS),
        "a.html",
        lambda: b"<p>words</p>" * 400_000,
    ),
    f"output {USUAL.output_chars:,} characters": (USUAL, "a.txt", lambda: b"words " * 2_000_000),
    f"{USUAL.pages:,} pages": (USUAL, "a.pdf", lambda: pdf(USUAL.pages + 1)),
}
ATTEMPTS = (
    "socket.create_connection(('127.0.0.1', 9))",
    "socket.getaddrinfo('example.org', 80)",
    "subprocess.run(['true'])",
    "os.system('true')",
    "os.fork()",
    "pathlib.Path('/tmp/zeph-outside').write_text('x')",
    "os.remove('/tmp/zeph-outside')",
    "os.kill(os.getppid(), 9)",
)


def said(parser: SandboxedParser, data: bytes, name: str) -> str:
    try:
        document = parser.parse(data, source=name, name=name)
    except errors.DocumentError as error:
        return f"{error.reason}: {error}"
    return f"read, {len(document.content):,} characters"


def one_case(name: str) -> None:
    """In a process of its own, and the child begun while that was small: its peak is not that of anybody else."""
    limits, file, make = CASES[name]
    with SandboxedParser(limits) as parser:
        pid = pid_of(parser)
        data = make()
        began = time.perf_counter()
        answer = said(parser, data, file)
        seconds = time.perf_counter() - began
        peak = peak_mib(pid)
        after = said(parser, b"words", "b.txt")
    print(
        f"  {name}: {len(data) / 1e6:.1f} MB, after {seconds:.1f} s `{answer}`, child at most {peak} MiB; next: {after}"
    )


def pid_of(parser: SandboxedParser) -> int:
    said(parser, b"words", "b.txt")
    assert parser._child
    return parser._child._process.pid


def peak_mib(pid: int) -> int:
    """The most memory that a child has had; of one that has died, the most that any has had."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except FileNotFoundError:
        return resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024
    return next(int(line.split()[1]) // 1024 for line in lines if line.startswith("VmHWM"))


def attempts() -> None:
    """What a parser that has been taken over tries."""
    for attempt in ATTEMPTS:
        code = (
            "import os, socket, subprocess, sys, pathlib\nfrom services.adapters.parsing import child\n"
            f"child._confine({os.getpid()})\ntry:\n    {attempt}\nexcept OSError as error:\n    os.write(1, str(error).encode())\n"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        print(f"  {attempt}: {done.stdout or 'NOT REFUSED'}")


def costs() -> None:
    """Spawning, and documents one after the other, beside the same in this process."""
    from services.adapters.parsing.office import parse_office
    from services.adapters.parsing.pdf import parse_pdf
    from services.adapters.parsing.text import parse_text

    def bare_pdf(data: bytes) -> object:
        return parse_pdf(data, source="a", name="a.pdf", max_pages=USUAL.pages, max_chars=USUAL.output_chars)

    kinds: list[tuple[str, bytes, Callable[[bytes], object]]] = [
        (
            "a.txt",
            b"Some words about nothing. " * 80,
            lambda data: parse_text(data, source="a", name="a.txt"),
        ),
        ("a.pdf", pdf(3), bare_pdf),
        ("a.docx", docx(), lambda data: parse_office(data, source="a", name="a.docx")),
    ]
    for kind in kinds:
        cost(*kind)


def cost(name: str, data: bytes, bare: Callable[[bytes], object]) -> None:
    """Of the first document and of those after it; processor time is that of both processes."""
    first, one, other = [], [], []
    for _ in range(3):
        with SandboxedParser() as parser:
            first.append(timed(parser, data, name))
    bare(data)
    busy_one = busy_other = 0.0
    with SandboxedParser() as parser:
        pid = pid_of(parser)
        timed(parser, data, name)
        # In turn, so that what else the machine does meets both.
        for _ in range(DOCUMENTS):
            before = processor_seconds(pid)
            one.append(timed(parser, data, name))
            between, began = processor_seconds(pid), time.perf_counter()
            bare(data)
            other.append(time.perf_counter() - began)
            busy_one += between - before
            busy_other += processor_seconds(pid) - between
    each = 1_000 / DOCUMENTS
    print(
        f"  {name}, {len(data):,} bytes: first document {min(first):.2f} s with a fresh child; then "
        f"{1_000 * statistics.median(one):.2f} ms each, {1_000 * statistics.median(other):.2f} ms without a sandbox; "
        f"processor time {each * busy_one:.2f} and {each * busy_other:.2f} ms, {busy_one / busy_other:.2f} times",
        flush=True,
    )


def processor_seconds(pid: int) -> float:
    return time.process_time() + int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9


def timed(parser: SandboxedParser, data: bytes, name: str) -> float:
    began = time.perf_counter()
    parser.parse(data, source=name, name=name)
    return time.perf_counter() - began


def folder(path: Path) -> None:
    """Every file of a folder, links left out."""
    outcomes: Counter[str] = Counter()
    slowest, peak = (0.0, ""), 0
    with SandboxedParser() as parser:
        for file in sorted(path.rglob("*")):
            if file.is_symlink() or not file.is_file():
                continue
            name = os.fsencode(file.name).decode(errors="replace")
            pid, data = pid_of(parser), file.read_bytes()
            began = time.perf_counter()
            answer = said(parser, data, name)
            slowest = max(slowest, (time.perf_counter() - began, name))
            peak = max(peak, peak_mib(pid))
            outcomes[answer.split(":")[0].split(",")[0]] += 1
        after = said(parser, b"words", "b.txt")
    print(f"  {outcomes.total()} files: {dict(outcomes.most_common())}; next: {after}")
    print(f"  slowest {slowest[1]}, {slowest[0]:.1f} s; child at most {peak} MiB")


def main() -> None:
    if sys.argv[1:2] == ["--case"]:
        one_case(sys.argv[2])
        return
    print(f"limits: {USUAL}; load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores", flush=True)
    if len(sys.argv) > 1:
        folder(Path(sys.argv[1]))
        return
    for name in CASES:
        subprocess.run([sys.executable, "-m", "tests.bench.bench_sandbox", "--case", name], check=True)
    attempts()
    costs()


if __name__ == "__main__":
    main()
