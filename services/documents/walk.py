"""Finding the files below the paths that somebody named, each once, with a reason for each that is left out."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from services.documents.loaders import READABLE_EXTENSIONS, UNSUPPORTED, printable

# Folders that hold other people's files; hidden ones are skipped by their dot.
_SKIPPED_FOLDERS = frozenset({"node_modules", "__pycache__", "venv", "site-packages"})
MAX_DEPTH = 20
MAX_FILES = 100_000


@dataclass(frozen=True, slots=True)
class FoundFile:
    r"""A file to read. `source` is its absolute path as text; bytes that are not UTF-8 are shown as `\xNN`."""

    path: Path
    source: str


@dataclass(frozen=True, slots=True)
class RefusedFile:
    """A file or folder that is left out; `reason` is a stable code, `message` is for people."""

    path: Path
    source: str
    reason: str
    message: str


Found: TypeAlias = FoundFile | RefusedFile


def walk(
    paths: Sequence[Path],
    *,
    extensions: Collection[str] = READABLE_EXTENSIONS,
    max_depth: int = MAX_DEPTH,
    max_files: int = MAX_FILES,
) -> Iterator[Found]:
    """Everything readable below the paths, in sorted order, each (device, inode) once.

    Inside a folder hidden entries are passed over in silence and unknown extensions are refused; a file that is
    named itself is accepted whatever its name, unless its type is known to be unsupported. Reasons: `missing`,
    `unreadable`, `not_a_file`, `unsupported_type`, `duplicate`, `symlink_loop`, `outside`, `too_deep`, `too_many`.
    """
    walker = _Walker(frozenset(extensions), max_depth)
    files = 0
    for path in paths:
        for found in walker.named(Path(os.path.abspath(path))):  # noqa: PTH100 - links are resolved one by one below
            files += isinstance(found, FoundFile)
            if files > max_files:
                message = f"more than {max_files:,} files: ingest fewer folders at a time"
                yield RefusedFile(found.path, found.source, "too_many", message)
                return
            yield found


class _Walker:
    def __init__(self, extensions: frozenset[str], max_depth: int) -> None:
        self._extensions = extensions
        self._max_depth = max_depth
        self._seen: dict[tuple[int, int], Path] = {}
        self._found: set[Path] = set()
        self._open_folders: set[tuple[int, int]] = set()

    def named(self, path: Path) -> Iterator[Found]:
        """What a path that somebody typed stands for."""
        try:
            facts = path.stat()
            real = path.resolve(strict=True)
        except (OSError, RuntimeError) as error:
            yield _cannot_stat(path, error)
            return
        if stat.S_ISDIR(facts.st_mode):
            yield from self._folder(real, facts, root=real, depth=0)
        elif not stat.S_ISREG(facts.st_mode):
            yield _refused(path, "not_a_file", f"is a {_kind(facts.st_mode)}, not a file")
        elif (extension := path.suffix.lower()) in UNSUPPORTED:
            yield _refused(
                path, "unsupported_type", f"has the unsupported type {extension}: {UNSUPPORTED[extension]}"
            )
        else:
            yield from self._once(real, facts)

    def _folder(self, folder: Path, facts: os.stat_result, *, root: Path, depth: int) -> Iterator[Found]:
        identity = (facts.st_dev, facts.st_ino)
        if identity in self._open_folders:
            yield _refused(folder, "symlink_loop", "is a folder that contains itself through a symbolic link")
            return
        if identity in self._seen:
            return
        if depth > self._max_depth:
            yield _refused(folder, "too_deep", f"lies more than {self._max_depth} folders deep")
            return
        self._seen[identity] = folder
        try:
            entries = sorted(folder.iterdir())
        except OSError as error:
            yield _cannot_stat(folder, error)
            return
        self._open_folders.add(identity)
        for entry in entries:
            if not entry.name.startswith(".") and entry.name not in _SKIPPED_FOLDERS:
                yield from self._entry(entry, root=root, depth=depth + 1)
        self._open_folders.discard(identity)

    def _entry(self, path: Path, *, root: Path, depth: int) -> Iterator[Found]:
        try:
            facts = path.stat()
            real = path.resolve(strict=True)
        except (OSError, RuntimeError) as error:
            yield _cannot_stat(path, error)
            return
        if not real.is_relative_to(root):
            yield _refused(path, "outside", f"is a symbolic link to {printable(real)}, outside of the folder")
        elif stat.S_ISDIR(facts.st_mode):
            # The link's own path is named when it closes a loop.
            shown = path if (facts.st_dev, facts.st_ino) in self._open_folders else real
            yield from self._folder(shown, facts, root=root, depth=depth)
        elif not stat.S_ISREG(facts.st_mode):
            yield _refused(path, "not_a_file", f"is a {_kind(facts.st_mode)}, not a file")
        elif path.suffix.lower() not in self._extensions:
            kind = f"has the unsupported type {path.suffix}" if path.suffix else "has no extension"
            yield _refused(path, "unsupported_type", f"{kind}; name the file itself to read it as text")
        else:
            yield from self._once(real, facts)

    def _once(self, path: Path, facts: os.stat_result) -> Iterator[Found]:
        known = self._seen.setdefault((facts.st_dev, facts.st_ino), path)
        if known != path:
            yield _refused(path, "duplicate", f"is the same file as {printable(known)}")
        elif path not in self._found:
            self._found.add(path)
            yield FoundFile(path, printable(path))


def _refused(path: Path, reason: str, why: str) -> RefusedFile:
    source = printable(path)
    return RefusedFile(path, source, reason, f"{source} {why}")


def _cannot_stat(path: Path, error: Exception) -> RefusedFile:
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        why = "is a symbolic link to nothing" if path.is_symlink() else "does not exist"
        return _refused(path, "missing", why)
    if isinstance(error, PermissionError):
        return _refused(path, "unreadable", "cannot be read: permission denied")
    if isinstance(error, RuntimeError) or path.is_symlink():
        return _refused(path, "symlink_loop", "is a symbolic link that leads back to itself")
    return _refused(path, "unreadable", f"cannot be read: {error}")


def _kind(mode: int) -> str:
    for test, kind in ((stat.S_ISFIFO, "named pipe"), (stat.S_ISSOCK, "socket"), (stat.S_ISCHR, "device")):
        if test(mode):
            return kind
    return "device"
