"""The parser's child process: limits, confinement, recovery."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path

import pytest

from services import errors
from services.adapters.parsing import child, sandbox
from services.adapters.parsing.sandbox import ParserLimits, SandboxedParser


def parse(parser: SandboxedParser, data: bytes = b"words", name: str = "a.txt") -> str:
    return parser.parse(data, source=f"/{name}", name=name).content


def pid_of(parser: SandboxedParser) -> int:
    parse(parser)
    assert parser._child is not None
    return parser._child._process.pid


def expense(limits: ParserLimits, data: bytes, name: str) -> str:
    """The message about a document that is too expensive, after which the next one is read."""
    with SandboxedParser(limits) as parser:
        with pytest.raises(errors.DocumentError, match=name) as caught:
            parse(parser, data, name)
        assert caught.value.reason == "too_expensive"
        assert parse(parser) == "words"
    return str(caught.value)


def run_child(body: str, *documents: bytes) -> list[tuple[dict[str, object], bytes]]:
    """Serve the documents by a child whose parser is this function body; `data` holds the document."""
    lines = "\n".join(f"    {line}" for line in body.splitlines())
    code = (
        "import os, socket, subprocess, sys, pathlib\n"
        "from services.adapters.parsing import child\n"
        "from services.documents.models import Document, DocumentMetadata\n"
        f"def parse(data, *, source, name, limits):\n{lines}\n"
        "    return Document(text, DocumentMetadata(source, 'text/plain'))\n"
        "child.parse = parse\n"
        "child.main()\n"
    )
    command = [sys.executable, "-c", code, json.dumps(asdict(ParserLimits())), str(os.getpid())]
    with (
        tempfile.TemporaryDirectory() as folder,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=folder) as process,
    ):
        assert process.stdin
        assert process.stdout
        replies = []
        for document in documents:
            child.write_frame(process.stdin, {"source": "s", "name": "n.txt"}, document)
            reply = child.read_frame(process.stdout, 1 << 20)
            assert reply is not None
            replies.append(reply)
    return replies


def test_a_document_comes_back_whole(sandbox: SandboxedParser) -> None:
    document = sandbox.parse("a\r\nb\x00 世界".encode(), source="/x/a.md", name="a.md")
    assert document.content == "a\nb\ufffd 世界"
    assert document.metadata.source == "/x/a.md"
    assert document.metadata.content_type == "text/markdown"
    assert document.warnings == ("1 control characters replaced by U+FFFD",)


def test_a_refusal_keeps_its_reason_and_the_child(sandbox: SandboxedParser) -> None:
    pid = pid_of(sandbox)
    with pytest.raises(errors.DocumentError, match=r"x\.txt is not text") as caught:
        parse(sandbox, b"\x89PNG\r\n\x1a\n", "x.txt")
    assert caught.value.reason == "binary"
    assert pid_of(sandbox) == pid


def test_read_09_an_old_office_file_is_unsupported_at_once(sandbox: SandboxedParser) -> None:
    with pytest.raises(errors.DocumentError, match=r"unsupported type \.doc") as caught:
        parse(sandbox, b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "fake.doc")
    assert caught.value.reason == "unsupported_type"


def test_read_07_the_report_names_the_file_and_the_cause_and_the_next_file_is_read(
    sandbox: SandboxedParser,
) -> None:
    with pytest.raises(errors.DocumentError, match=r"broken\.docx is damaged"):
        parse(sandbox, b"PK\x03\x04 nothing else", "broken.docx")
    assert parse(sandbox) == "words"


def test_a_document_that_takes_too_long_is_named_with_the_limit() -> None:
    limits = ParserLimits(wall_seconds=1.0)
    assert "took longer than 1 s" in expense(limits, b"<p>words</p>" * 60_000, "a.html")


def test_a_document_that_takes_too_much_processor_time_is_named_with_the_limit() -> None:
    limits = ParserLimits(cpu_seconds=0)
    assert "more than 0 s of processor time" in expense(limits, b"<p>words</p>" * 60_000, "a.html")


def test_a_document_that_needs_too_much_memory_is_named_with_the_limit() -> None:
    limits = ParserLimits(memory_bytes=4 << 20)
    assert "more than 4 MiB of memory" in expense(limits, b"caf\xc3\xa9 " * 2_000_000, "a.txt")


def test_too_much_text_is_refused() -> None:
    with SandboxedParser(ParserLimits(output_chars=4)) as parser:
        assert parse(parser, "世界世界".encode()) == "世界世界"
        with pytest.raises(errors.DocumentError, match="more than 4 characters") as caught:
            parse(parser, b"words")
        assert caught.value.reason == "too_large"


def test_a_crash_is_the_documents_fault_and_the_next_one_is_read() -> None:
    with SandboxedParser(ParserLimits(wall_seconds=20)) as parser:
        pid = pid_of(parser)
        os.kill(pid, signal.SIGSTOP)
        with ThreadPoolExecutor(1) as pool:
            future = pool.submit(parse, parser)
            time.sleep(0.2)
            os.kill(pid, signal.SIGSEGV)
            os.kill(pid, signal.SIGCONT)
            with pytest.raises(errors.DocumentError, match="crashes its parser") as caught:
                future.result()
        assert caught.value.reason == "damaged"
        assert pid_of(parser) != pid


def test_a_child_that_died_between_documents_is_replaced() -> None:
    with SandboxedParser() as parser:
        pid = pid_of(parser)
        os.kill(pid, signal.SIGKILL)
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        assert pid_of(parser) != pid


def test_the_child_is_replaced_after_so_many_documents(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "_DOCUMENTS_PER_CHILD", 2)
    with SandboxedParser() as parser:
        pids = [pid_of(parser) for _ in range(4)]
    assert pids[0] == pids[1] != pids[2] == pids[3]


def test_close_ends_the_child_and_the_next_document_starts_another() -> None:
    parser = SandboxedParser()
    pid = pid_of(parser)
    parser.close()
    parser.close()
    assert not Path(f"/proc/{pid}").exists()
    assert pid_of(parser) != pid
    parser.close()


def test_threads_get_their_own_documents_back(sandbox: SandboxedParser) -> None:
    texts = [f"words {n} " * n for n in range(1, 60)]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda text: parse(sandbox, text.encode()), texts)) == texts


def test_a_forked_process_uses_a_child_of_its_own(sandbox: SandboxedParser) -> None:
    pid = pid_of(sandbox)
    forked = os.fork()
    if forked == 0:
        own = pid_of(sandbox)
        sandbox.close()
        os._exit(0 if own != pid else 1)
    assert os.waitpid(forked, 0)[1] == 0
    assert pid_of(sandbox) == pid


def test_interrupts_are_the_parents_business(sandbox: SandboxedParser) -> None:
    pid = pid_of(sandbox)
    os.kill(pid, signal.SIGINT)
    assert pid_of(sandbox) == pid


def test_the_child_ends_with_its_parent() -> None:
    code = (
        "import os, signal; from services.adapters.parsing.sandbox import SandboxedParser; parser = SandboxedParser();"
        "parser.parse(b'x', source='x', name='x.txt'); print(parser._child._process.pid, flush=True);"
        "os.dup(parser._child._process.stdin.fileno()); os.kill(os.getpid(), signal.SIGKILL)"
    )
    parent = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=False
    )
    pid = int(parent.stdout)
    deadline = time.monotonic() + 10
    while Path(f"/proc/{pid}").exists() and "State:\tZ" not in Path(f"/proc/{pid}/status").read_text():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_what_a_library_prints_does_not_disturb_the_protocol() -> None:
    body = "print('noise', flush=True); os.write(1, b'noise'); os.system\ntext = data.decode()"
    assert [content for _, content in run_child(body, b"one", b"two")] == [b"one", b"two"]


@pytest.mark.parametrize(
    "attempt",
    [
        "os.kill(os.getppid(), 0)",
        "pathlib.Path('made').touch()",
        "os.open('made', os.O_CREAT)",
        "os.mkdir('made')",
        "os.symlink('a', 'made')",
        "socket.create_connection(('127.0.0.1', 9))",
        "socket.getaddrinfo('example.org', 80)",
        "socket.socket()",
        "subprocess.run(['true'])",
        "os.system('true')",
        "os.fork()",
        "os.execv('/bin/true', ['true'])",
        "pathlib.Path('file').write_text('x')",
    ],
)
def test_a_parser_can_neither_connect_nor_start_programs_nor_write(attempt: str) -> None:
    body = f"text = 'done'\ntry:\n    {attempt}\nexcept OSError as error:\n    text = 'refused'"
    ((_, content),) = run_child(body, b"x")
    assert content == b"refused"


@pytest.mark.parametrize(
    "attempt",
    ["open({0!r}, 'w')", "os.remove({0!r})", "os.truncate({0!r}, 0)", "os.rename({0!r}, {0!r} + '2')"],
)
def test_a_parser_cannot_empty_or_take_away_what_is_there(attempt: str, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.write_text("words")
    body = f"try:\n    {attempt.format(str(kept))}\nexcept OSError:\n    text = 'refused'"
    assert run_child(body, b"x")[0][1] == b"refused"
    assert kept.read_text() == "words"
    assert list(tmp_path.iterdir()) == [kept]


def test_any_error_of_a_parser_is_the_documents(sandbox: SandboxedParser) -> None:
    ((header, _), (after, _)) = run_child("text = {b'ok': 'fine'}[data]", b"x", b"ok")
    assert header == {"error": "n.txt is damaged and cannot be read: KeyError: b'x'", "reason": "damaged"}
    assert "error" not in after


def test_the_child_gets_no_secrets(monkeypatch: pytest.MonkeyPatch, sandbox: SandboxedParser) -> None:
    monkeypatch.setenv("ZEPH_LLM__API_KEY", "secret")
    with SandboxedParser() as parser:
        environment = Path(f"/proc/{pid_of(parser)}/environ").read_bytes()
    assert b"secret" not in environment


def test_the_child_stands_in_a_folder_that_is_gone(sandbox: SandboxedParser) -> None:
    folder = os.readlink(f"/proc/{pid_of(sandbox)}/cwd")  # noqa: PTH115 - the link of a deleted folder has no path
    assert folder.endswith(" (deleted)")


def test_a_frame_that_is_cut_short_or_too_long_is_none(tmp_path: Path) -> None:
    with (tmp_path / "frame").open("wb") as file:
        child.write_frame(file, {"a": 1}, b"12345")
    whole = (tmp_path / "frame").read_bytes()
    for data, limit in ((whole[:-1], 100), (whole[:5], 100), (b"", 100), (whole, 4)):
        (tmp_path / "frame").write_bytes(data)
        with (tmp_path / "frame").open("rb") as file:
            assert child.read_frame(file, limit) is None


def test_the_child_starts_without_heavy_libraries() -> None:
    heavy = {
        "numpy",
        "sqlalchemy",
        "pydantic",
        "chardet",
        "pypdfium2",
        "pypdf",
        "lxml",
        "unstructured",
        "pandas",
    }
    code = f"import services.adapters.parsing.child, sys; print(sorted({heavy!r} & set(sys.modules)))"
    printed = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True
    )
    assert printed.stdout.strip() == "[]"


def test_office_libraries_neither_connect_nor_load_language_models() -> None:
    code = (
        "import sys; events = []\n"
        "watched = ('socket.connect', 'socket.getaddrinfo', 'subprocess.Popen', 'os.system', 'os.posix_spawn')\n"
        "sys.addaudithook(lambda event, args: events.append(event) if event in watched else None)\n"
        "from services.adapters.parsing.office import parse_office\n"
        "for name, data in (('a.html', b'<h1>Head</h1><p>Some words.</p>'), ('a.eml', b'Subject: x\\n\\nbody text')):\n"
        "    assert parse_office(data, source='x', name=name).content\n"
        "print(events, 'spacy' in sys.modules, 'nltk' in sys.modules)\n"
    )
    printed = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert printed.stdout.strip() == "[] False False"
