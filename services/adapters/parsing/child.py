"""The parser's child process: reads frames from a pipe, parses under hard limits, writes frames back.

Started by `sandbox.SandboxedParser`, never by hand. It gets bytes, not paths; it cannot open connections, start
programs or write files; it ends with its parent. Heavy libraries are imported when a document first needs them.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import struct
import sys
import threading
import time
from dataclasses import asdict, dataclass
from typing import IO, TYPE_CHECKING, NoReturn

from services import errors

if TYPE_CHECKING:
    from services.documents.models import Document

# A frame is a JSON header and a body of raw bytes, each with its length in front.
_LENGTHS = struct.Struct("!IQ")
_MAX_HEADER_BYTES = 4 * 1024 * 1024
_FORBIDDEN = (
    "socket.",
    "subprocess.",
    "os.system",
    "os.exec",
    "os.fork",
    "os.posix_spawn",
    "os.spawn",
    "os.kill",
    "pty.",
    # Whatever changes a folder or what is known of a file.
    "os.remove",
    "os.rename",
    "os.mkdir",
    "os.rmdir",
    "os.link",
    "os.symlink",
    "os.truncate",
    "os.chmod",
    "os.chown",
    "os.utime",
    "os.setxattr",
    "os.removexattr",
)
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_OPEN_FILES = 64
_PARENT_CHECK_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class ParserLimits:
    """What one document may cost. Memory is on top of what the idle process has mapped; CPU seconds are whole."""

    memory_bytes: int = 512 * 1024 * 1024
    cpu_seconds: int = 60
    wall_seconds: float = 90.0
    output_chars: int = 10_000_000
    pages: int = 2_000


def write_frame(stream: IO[bytes], header: dict[str, object], body: bytes) -> None:
    """Send one frame."""
    encoded = json.dumps(header).encode()
    stream.write(_LENGTHS.pack(len(encoded), len(body)))
    stream.write(encoded)
    stream.write(body)
    stream.flush()


def read_frame(stream: IO[bytes], max_body: int) -> tuple[dict[str, object], bytes] | None:
    """Receive one frame; None at the end of the stream or when it is cut short or longer than allowed."""
    lengths = stream.read(_LENGTHS.size)
    if len(lengths) < _LENGTHS.size:
        return None
    header_length, body_length = _LENGTHS.unpack(lengths)
    if header_length > _MAX_HEADER_BYTES or body_length > max_body:
        return None
    encoded, body = stream.read(header_length), stream.read(body_length)
    if len(encoded) < header_length or len(body) < body_length:
        return None
    header: dict[str, object] = json.loads(encoded)
    return header, body


def parse(data: bytes, *, source: str, name: str, limits: ParserLimits) -> Document:
    """The document in `data`, read by the parser for the type of `name`. Raises DocumentError and parsers' errors."""
    from services.documents.loaders import content_type, refuse_unsupported

    refuse_unsupported(name)
    kind = content_type(name)
    if kind == "application/pdf":
        from services.adapters.parsing.pdf import parse_pdf

        _limit_memory(limits.memory_bytes)
        return parse_pdf(
            data, source=source, name=name, max_pages=limits.pages, max_chars=limits.output_chars
        )
    if kind.startswith("text/") and kind != "text/html":
        from services.adapters.parsing.text import parse_text

        _limit_memory(limits.memory_bytes)
        return parse_text(data, source=source, name=name)
    from services.adapters.parsing.office import parse_office, prepare

    prepare()
    _limit_memory(limits.memory_bytes)
    return parse_office(data, source=source, name=name)


def main() -> None:
    """Serve until the parent closes the pipe or dies."""
    limits = ParserLimits(**json.loads(sys.argv[1]))
    requests, replies = _private_pipes()
    _confine(parent=int(sys.argv[2]))
    while (frame := read_frame(requests, sys.maxsize)) is not None:
        header, data = frame
        _limit_cpu(limits.cpu_seconds)
        reply, content = _answer(data, str(header["source"]), str(header["name"]), limits)
        _unlimit_memory()
        write_frame(replies, reply, content)


def _answer(data: bytes, source: str, name: str, limits: ParserLimits) -> tuple[dict[str, object], bytes]:
    try:
        document = parse(data, source=source, name=name, limits=limits)
        if len(document.content) > limits.output_chars:
            raise errors.DocumentError(
                f"{name} has more than {limits.output_chars:,} characters of text: split it",
                reason="too_large",
            )
        content = document.content.encode()
    except errors.DocumentError as error:
        return {"error": str(error), "reason": error.reason}, b""
    except MemoryError:
        message = f"{name} needs more than {limits.memory_bytes >> 20} MiB of memory to be read"
        return {"error": message, "reason": "too_expensive"}, b""
    except Exception as error:  # noqa: BLE001 - parsers raise anything on damaged files, and none of it may end the batch
        message = f"{name} is damaged and cannot be read: {type(error).__name__}: {str(error)[:200]}"
        return {"error": message, "reason": "damaged"}, b""
    header: dict[str, object] = {
        "metadata": asdict(document.metadata),
        "pages": [(page.number, page.start, page.end) for page in document.pages],
        "warnings": document.warnings,
    }
    return header, content


def _private_pipes() -> tuple[IO[bytes], IO[bytes]]:
    """The two pipes under numbers of our own: what a library prints must not end up between frames."""
    requests, replies = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nothing, descriptor)
    os.close(nothing)
    return os.fdopen(requests, "rb"), os.fdopen(replies, "wb")


def _confine(parent: int) -> None:
    # Ctrl-C is the parent's to handle; it closes the pipe when it wants to stop.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_NOFILE, (_OPEN_FILES, _OPEN_FILES))
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    sys.addaudithook(_forbid)


def _forbid(event: str, arguments: tuple[object, ...]) -> None:
    if event.startswith(_FORBIDDEN) or (event == "open" and _may_write(*arguments)):
        raise PermissionError(f"parsers may not do this: {event}")


def _may_write(path: object, _mode: object, flags: object) -> bool:
    """Whether opening this could make a file or empty one, which no limit on sizes prevents."""
    # What has a number is open already.
    return isinstance(flags, int) and bool(flags & _WRITING) and path != os.devnull and type(path) is not int


def _end_with(parent: int) -> NoReturn:
    # The kernel's parent-death signal would come when the *thread* that started us ends, so we look ourselves.
    while os.getppid() == parent:
        time.sleep(_PARENT_CHECK_SECONDS)
    os._exit(1)


def _limit_cpu(seconds: int) -> None:
    used = resource.getrusage(resource.RUSAGE_SELF)
    soft = int(used.ru_utime + used.ru_stime) + 1 + seconds
    resource.setrlimit(resource.RLIMIT_CPU, (soft, resource.getrlimit(resource.RLIMIT_CPU)[1]))


def _limit_memory(more: int) -> None:
    with open("/proc/self/statm", "rb") as statm:  # noqa: PTH123 - pathlib is not worth its import here
        mapped = int(statm.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (mapped + more, resource.getrlimit(resource.RLIMIT_AS)[1]))


def _unlimit_memory() -> None:
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(resource.RLIMIT_AS, (hard, hard))


if __name__ == "__main__":
    main()
