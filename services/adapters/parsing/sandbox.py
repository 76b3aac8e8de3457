"""Reading untrusted files: the parsers run in a child process that may be killed at any time."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any, Self

from services import errors
from services.adapters.parsing.child import ParserLimits, read_frame, write_frame
from services.documents.models import Document, DocumentMetadata, Page

__all__ = ["ParserLimits", "SandboxedParser"]

# A fresh process now and then gives back what libraries leak.
_DOCUMENTS_PER_CHILD = 200
_MAX_IDLE_BYTES = 600 * 1024 * 1024
_MAX_UTF8_BYTES_PER_CHAR = 4
_CLOSE_SECONDS = 2.0

# Where `services` is imported from, installed or not.
_IMPORT_ROOT = Path(__file__).parents[3]

# How the kernel and allocators end a process that wants too much.
_EXPENSIVE_SIGNALS = {signal.SIGXCPU, signal.SIGKILL, signal.SIGABRT, signal.SIGTRAP, signal.SIGILL}


class SandboxedParser:
    """Parses every readable type in a child process with limits on memory, time and output.

    The child is started at the first document and kept; after a crash or a limit the next document gets a fresh
    one. One document at a time: threads wait for each other. After a fork the copy starts a child of its own.
    """

    def __init__(self, limits: ParserLimits | None = None) -> None:
        self._limits = limits or ParserLimits()
        self._lock = threading.Lock()
        self._child: _Child | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def parse(self, data: bytes, *, source: str, name: str) -> Document:
        """The document in `data`; the extension of `name` says its type, unknown ones are read as text.

        Raises DocumentError; `too_expensive` names the limit that was reached.
        """
        self._forget_inherited()
        with self._lock:
            child = self._ready_child()
            reply = child.exchange({"source": source, "name": name}, data)
            if reply is None:
                raise self._death(child, name)
        header, content = reply
        if "error" in header:
            raise errors.DocumentError(header["error"], reason=header["reason"])
        return Document(
            content.decode(),
            DocumentMetadata(**header["metadata"]),
            tuple(Page(*page) for page in header["pages"]),
            tuple(header["warnings"]),
        )

    def close(self) -> None:
        """End the child; the next document starts another."""
        self._forget_inherited()
        with self._lock:
            self._discard()

    def _ready_child(self) -> _Child:
        if self._child and (self._child.worn_out() or not self._child.alive()):
            self._discard()
        if self._child is None:
            self._child = _Child(self._limits)
        return self._child

    def _discard(self) -> None:
        if self._child:
            self._child.close()
        self._child = None

    def _forget_inherited(self) -> None:
        # A forked copy must neither use the original's pipes nor wait for a lock that a lost thread holds.
        if self._child and self._child.owner != os.getpid():
            self._child.abandon()
            self._child = None
            self._lock = threading.Lock()

    def _death(self, child: _Child, name: str) -> errors.DocumentError:
        timed_out, code = child.timed_out, child.close()
        self._child = None
        limits = self._limits
        if timed_out:
            why = f"took longer than {limits.wall_seconds:g} s"
        elif -code == signal.SIGXCPU:
            why = f"took more than {limits.cpu_seconds} s of processor time"
        elif -code in _EXPENSIVE_SIGNALS:
            why = f"needed too much memory (limit {limits.memory_bytes >> 20} MiB)"
        else:
            return errors.DocumentError(
                f"{name} is damaged: it crashes its parser ({code})", reason="damaged"
            )
        return errors.DocumentError(f"{name} is too expensive to read: it {why}", reason="too_expensive")


class _Child:
    """One running child process."""

    def __init__(self, limits: ParserLimits) -> None:
        self.owner = os.getpid()
        self.timed_out = False
        self._limits = limits
        self._documents = 0
        # The folder is gone as soon as the child stands in it: nothing can be put there, nothing is left behind.
        with tempfile.TemporaryDirectory(prefix="zeph-parser-") as folder:
            self._process: subprocess.Popen[bytes] = subprocess.Popen(  # noqa: S603 - our own module, no shell
                [
                    *(sys.executable, "-P", "-m", "services.adapters.parsing.child"),
                    *(json.dumps(asdict(limits)), str(self.owner)),
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                cwd=folder,
                env=_environment(),
            )

    @property
    def _pipes(self) -> tuple[IO[bytes], IO[bytes]]:
        requests, replies = self._process.stdin, self._process.stdout
        if requests is None or replies is None:
            raise RuntimeError("the child was started without pipes")
        return requests, replies

    def alive(self) -> bool:
        return self._process.poll() is None

    def worn_out(self) -> bool:
        if self._documents >= _DOCUMENTS_PER_CHILD:
            return True
        try:
            resident = int(Path(f"/proc/{self._process.pid}/statm").read_text().split()[1])
        except (OSError, IndexError):
            return False
        return resident * os.sysconf("SC_PAGESIZE") > _MAX_IDLE_BYTES

    def exchange(self, header: dict[str, object], data: bytes) -> tuple[dict[str, Any], bytes] | None:
        """One document there and back; None if the child died or was killed for taking too long."""
        self._documents += 1
        requests, replies = self._pipes
        with self._deadline(), contextlib.suppress(BrokenPipeError):
            write_frame(requests, header, data)
            return read_frame(replies, _MAX_UTF8_BYTES_PER_CHAR * self._limits.output_chars)
        return None

    @contextlib.contextmanager
    def _deadline(self) -> Iterator[None]:
        timer = threading.Timer(self._limits.wall_seconds, self._expire)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def _expire(self) -> None:
        self.timed_out = True
        self._process.kill()

    def close(self) -> int:
        """End the process and return its exit code (negative: the signal)."""
        for pipe in self._pipes:
            with contextlib.suppress(BrokenPipeError):
                pipe.close()
        try:
            code = self._process.wait(_CLOSE_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait()
        return code

    def abandon(self) -> None:
        """Let go of another process's child without touching it."""
        with open(os.devnull, "r+b") as nothing:  # noqa: PTH123 - a descriptor is what is needed
            for pipe in self._pipes:
                # What is left in a buffer must not reach the child.
                os.dup2(nothing.fileno(), pipe.fileno(), inheritable=False)
                pipe.close()
        self._process.returncode = 0


def _environment() -> dict[str, str]:
    """What the child needs and no more: no keys, no proxies, one thread for each numeric library."""
    kept = {key: os.environ[key] for key in ("PATH", "HOME", "LANG", "LC_ALL") if key in os.environ}
    return {
        **kept,
        "PYTHONPATH": str(_IMPORT_ROOT),
        "PYTHONUTF8": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "MALLOC_ARENA_MAX": "1",
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }
