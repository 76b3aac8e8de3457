"""Finding files: each once, in order, with a reason for each that is left out."""

from __future__ import annotations

import os
from pathlib import Path

from services.documents.walk import FoundFile, RefusedFile, walk


def make(root: Path, *names: str) -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)


def found(*paths: Path, max_depth: int = 20, max_files: int = 1_000) -> list[str]:
    walked = walk(paths, max_depth=max_depth, max_files=max_files)
    return [item.path.name for item in walked if isinstance(item, FoundFile)]


def refused(*paths: Path, max_depth: int = 20, max_files: int = 1_000) -> dict[str, str]:
    walked = walk(paths, max_depth=max_depth, max_files=max_files)
    return {item.path.name: item.reason for item in walked if isinstance(item, RefusedFile)}


def test_files_come_in_sorted_order_with_absolute_sources(tmp_path: Path) -> None:
    make(tmp_path, "b.txt", "a.md", "a/z.pdf", "UPPER.TXT", "dir.md/inner.txt")
    items = list(walk([tmp_path]))
    assert [item.source for item in items] == [
        str(tmp_path / name) for name in ("UPPER.TXT", "a/z.pdf", "a.md", "b.txt", "dir.md/inner.txt")
    ]
    assert list(walk([tmp_path])) == items


def test_hidden_and_foreign_folders_are_passed_over_in_silence(tmp_path: Path) -> None:
    make(
        tmp_path, ".git/a.txt", ".venv/a.txt", "node_modules/a.md", "__pycache__/a.txt", ".hidden.md", "a.txt"
    )
    assert [item.source for item in walk([tmp_path])] == [str(tmp_path / "a.txt")]


def test_a_hidden_path_that_is_named_is_accepted(tmp_path: Path) -> None:
    make(tmp_path, ".hidden.md", ".notes/a.txt")
    assert found(tmp_path / ".hidden.md", tmp_path / ".notes") == [".hidden.md", "a.txt"]


def test_an_unknown_extension_is_refused_inside_a_folder_and_read_when_named(tmp_path: Path) -> None:
    make(tmp_path, "a.xyz", "README")
    assert refused(tmp_path) == {"a.xyz": "unsupported_type", "README": "unsupported_type"}
    assert found(tmp_path / "a.xyz", tmp_path / "README") == ["a.xyz", "README"]


def test_read_09_an_old_office_file_is_refused_even_when_named(tmp_path: Path) -> None:
    make(tmp_path, "fake.doc")
    assert refused(tmp_path / "fake.doc") == {"fake.doc": "unsupported_type"}


def test_a_missing_path_is_refused_and_the_others_go_on(tmp_path: Path) -> None:
    make(tmp_path, "a.txt")
    (tmp_path / "dangling.txt").symlink_to("nowhere")
    assert refused(tmp_path / "none", tmp_path) == {"none": "missing", "dangling.txt": "missing"}
    assert found(tmp_path / "none", tmp_path) == ["a.txt"]


def test_a_loop_of_folders_ends_and_is_named(tmp_path: Path) -> None:
    make(tmp_path, "a/b/a.txt")
    (tmp_path / "a/b/loop").symlink_to(tmp_path / "a")
    assert found(tmp_path) == ["a.txt"]
    assert refused(tmp_path) == {"loop": "symlink_loop"}


def test_a_link_to_itself_is_named(tmp_path: Path) -> None:
    (tmp_path / "self.txt").symlink_to("self.txt")
    assert refused(tmp_path) == {"self.txt": "symlink_loop"}


def test_a_link_out_of_the_folder_is_refused(tmp_path: Path) -> None:
    make(tmp_path, "secret/key.txt", "docs/a.txt")
    (tmp_path / "docs/key.txt").symlink_to(tmp_path / "secret/key.txt")
    (tmp_path / "docs/more").symlink_to(tmp_path / "secret")
    assert found(tmp_path / "docs") == ["a.txt"]
    assert refused(tmp_path / "docs") == {"key.txt": "outside", "more": "outside"}


def test_a_link_inside_the_folder_leads_to_its_file_once(tmp_path: Path) -> None:
    make(tmp_path, "z/real.txt")
    (tmp_path / "a.txt").symlink_to("z/real.txt")
    (tmp_path / "b").symlink_to("z")
    assert [item.source for item in walk([tmp_path])] == [str(tmp_path / "z/real.txt")]


def test_a_hard_link_is_the_same_file(tmp_path: Path) -> None:
    make(tmp_path, "a.txt")
    os.link(tmp_path / "a.txt", tmp_path / "b.txt")
    assert found(tmp_path) == ["a.txt"]
    assert refused(tmp_path) == {"b.txt": "duplicate"}


def test_a_path_that_is_named_twice_is_found_once(tmp_path: Path) -> None:
    make(tmp_path, "a/a.txt")
    assert [item.source for item in walk([tmp_path / "a/a.txt", tmp_path / "a", tmp_path])] == [
        str(tmp_path / "a/a.txt")
    ]


def test_named_pipes_and_devices_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.txt")
    assert refused(tmp_path) == {"pipe.txt": "not_a_file"}
    assert refused(Path("/dev/zero")) == {"zero": "not_a_file"}


def test_depth_and_number_are_limited(tmp_path: Path) -> None:
    make(tmp_path, "1/2/3/deep.txt", "1/2/a.txt", "b.txt", "c.txt")
    assert found(tmp_path, max_depth=2) == ["a.txt", "b.txt", "c.txt"]
    assert refused(tmp_path, max_depth=2) == {"3": "too_deep"}
    assert found(tmp_path, max_files=2) == ["deep.txt", "a.txt"]
    assert refused(tmp_path, max_files=2) == {"b.txt": "too_many"}


def test_a_name_that_is_not_utf8_has_a_printable_source(tmp_path: Path) -> None:
    (tmp_path / os.fsdecode(b"bad_\xff.txt")).write_bytes(b"text")
    (item,) = walk([tmp_path])
    assert isinstance(item, FoundFile)
    assert item.source == str(tmp_path / r"bad_\xff.txt")
    assert item.source.encode()
    assert item.path.read_bytes() == b"text"
