"""Safe file access and types by extension."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from services import errors
from services.documents import loaders


def reason_of(path: Path, max_bytes: int = 100) -> str:
    with pytest.raises(errors.DocumentError) as caught:
        loaders.read_file(path, max_bytes)
    assert path.name in str(caught.value)
    return caught.value.reason


def test_a_file_is_read_whole(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"x" * 100)
    assert loaders.read_file(tmp_path / "a.txt", 100) == b"x" * 100


def test_only_a_strictly_larger_file_is_too_large(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"x" * 101)
    with pytest.raises(errors.DocumentError, match="101 bytes, more than the limit of 100") as caught:
        loaders.read_file(tmp_path / "a.txt", 100)
    assert caught.value.reason == "too_large"


def test_what_is_no_regular_file_is_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo.txt")
    assert reason_of(tmp_path / "fifo.txt") == "not_a_file"
    assert reason_of(tmp_path) == "not_a_file"
    assert reason_of(Path("/dev/null")) == "not_a_file"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(os.path.relpath(tmp_path / "s.txt"))
        assert reason_of(tmp_path / "s.txt") == "unreadable"


def test_a_symbolic_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("text")
    (tmp_path / "link.txt").symlink_to("a.txt")
    assert reason_of(tmp_path / "link.txt") == "symlink"


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    assert reason_of(tmp_path / "none.txt") == "missing"
    (tmp_path / "a.txt").write_text("text")
    assert reason_of(tmp_path / "a.txt" / "below.txt") == "missing"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_permission_is_unreadable(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("text")
    (tmp_path / "a.txt").chmod(0)
    assert reason_of(tmp_path / "a.txt") == "unreadable"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a.md", "text/markdown"),
        ("A.MARKDOWN", "text/markdown"),
        ("a.txt", "text/plain"),
        ("a.PDF", "application/pdf"),
        ("a.xyz", "text/plain"),
        ("README", "text/plain"),
    ],
)
def test_the_extension_says_the_type(name: str, expected: str) -> None:
    assert loaders.content_type(name) == expected


@pytest.mark.parametrize("extension", loaders.UNSUPPORTED)
def test_read_09_a_known_but_unsupported_type_is_refused_at_once(extension: str) -> None:
    with pytest.raises(errors.DocumentError, match=f"unsupported type {extension}: save it as") as caught:
        loaders.refuse_unsupported(f"a{extension}")
    assert caught.value.reason == "unsupported_type"


def test_a_name_that_is_not_utf8_is_printable() -> None:
    assert loaders.printable(Path(os.fsdecode(b"bad_\xff.txt"))) == r"bad_\xff.txt"
