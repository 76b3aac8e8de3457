"""What reading a document means: the contracts of loaders and parsers, known types, and safe file access."""

from __future__ import annotations

import os
import stat
from pathlib import Path, PurePath
from typing import Protocol

from services import errors
from services.documents.models import Document

DEFAULT_MAX_BYTES = 50 * 1024 * 1024

CONTENT_TYPES = {
    ".txt": "text/plain",
    ".text": "text/plain",
    ".md": "text/markdown",
    ".markdown": "text/markdown",
    ".pdf": "application/pdf",
    ".html": "text/html",
    ".htm": "text/html",
    ".csv": "text/csv",
    ".tsv": "text/tab-separated-values",
    ".eml": "message/rfc822",
    ".docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    ".pptx": "application/vnd.openxmlformats-officedocument.presentationml.presentation",
    ".xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
}
READABLE_EXTENSIONS = frozenset(CONTENT_TYPES)

# Known, not readable, and never to be taken for text.
UNSUPPORTED = {
    ".doc": "save it as .docx",
    ".xls": "save it as .xlsx",
    ".ppt": "save it as .pptx",
    ".msg": "save it as .eml",
    ".odt": "save it as .docx",
    ".ods": "save it as .xlsx",
    ".odp": "save it as .pptx",
    ".rtf": "save it as .docx",
    ".epub": "save it as .html",
}


class DocumentLoader(Protocol):
    """Reads one file."""

    def load(self, path: Path) -> Document:
        """The document in the file. Raises DocumentError."""


class DocumentParser(Protocol):
    """Turns the bytes of one file into text."""

    def parse(self, data: bytes, *, source: str, name: str) -> Document:
        """The document in `data`; the extension of `name` says its type. Raises DocumentError."""


def content_type(name: str) -> str:
    """The type that the extension stands for; unknown extensions are plain text."""
    return CONTENT_TYPES.get(PurePath(name).suffix.lower(), "text/plain")


def refuse_unsupported(name: str) -> None:
    """Raise DocumentError `unsupported_type` for a type that is known and cannot be read."""
    extension = PurePath(name).suffix.lower()
    if extension in UNSUPPORTED:
        raise errors.DocumentError(
            f"{name}: unsupported type {extension}: {UNSUPPORTED[extension]}", reason="unsupported_type"
        )


def read_file(path: Path, max_bytes: int = DEFAULT_MAX_BYTES) -> bytes:
    """The bytes of a regular file; never waits for a FIFO, never follows a symbolic link at `path`.

    Raises DocumentError with reason `missing`, `not_a_file`, `symlink`, `unreadable` or `too_large` (strictly
    larger than `max_bytes`).
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise _cannot_open(path, error) from error
    try:
        facts = os.fstat(descriptor)
        if not stat.S_ISREG(facts.st_mode):
            raise errors.DocumentError(f"{printable(path)} is not a regular file", reason="not_a_file")
        if facts.st_size > max_bytes:
            raise _too_large(path, facts.st_size, max_bytes)
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            # One byte more than allowed: the file may grow between the check and the read.
            data = file.read(max_bytes + 1)
    except OSError as error:
        raise _cannot_open(path, error) from error
    finally:
        os.close(descriptor)
    if len(data) > max_bytes:
        raise _too_large(path, len(data), max_bytes)
    return data


def printable(path: Path | str) -> str:
    r"""The path as text that can be stored and shown: bytes that are not UTF-8 become `\xNN`."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def _too_large(path: Path, size: int, limit: int) -> errors.DocumentError:
    return errors.DocumentError(
        f"{printable(path)} has {size:,} bytes, more than the limit of {limit:,}: split it or raise the limit",
        reason="too_large",
    )


def _cannot_open(path: Path, error: OSError) -> errors.DocumentError:
    reason, why = {
        "FileNotFoundError": ("missing", "does not exist"),
        "NotADirectoryError": ("missing", "does not exist"),
        "PermissionError": ("unreadable", "cannot be read: permission denied"),
        "IsADirectoryError": ("not_a_file", "is a folder"),
    }.get(type(error).__name__, ("unreadable", f"cannot be read: {error.strerror}"))
    if path.is_symlink():
        reason, why = "symlink", "is a symbolic link, which is not followed"
    return errors.DocumentError(f"{printable(path)} {why}", reason=reason)
