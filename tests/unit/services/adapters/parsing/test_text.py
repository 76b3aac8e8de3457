"""TextLoader: a file as one document."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from services import errors
from services.adapters.parsing.text import TextLoader


def test_the_content_is_the_decoded_source(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_bytes(b"\xef\xbb\xbf# Title\r\n\r\n    code\r\n")
    document = TextLoader().load(tmp_path / "a.md")
    assert document.content == "# Title\n\n    code\n"
    assert document.metadata.content_type == "text/markdown"
    assert document.metadata.source == str(tmp_path / "a.md")


def test_a_link_leads_to_the_path_of_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.txt").write_text("text")
    (tmp_path / "link.md").symlink_to("a.txt")
    monkeypatch.chdir(tmp_path)
    document = TextLoader().load(Path("link.md"))
    assert document.metadata.source == str(tmp_path / "a.txt")
    assert document.metadata.content_type == "text/plain"


@pytest.mark.parametrize("data", [b"", b" \n\t\n", b"\xef\xbb\xbf"])
def test_an_empty_file_is_an_empty_document(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "a.txt").write_bytes(data)
    assert TextLoader().load(tmp_path / "a.txt").content == ""


def test_csv_with_uneven_rows_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes("Stadt,Zahl\r\nMünchen,1\r\nKöln,2,3\r\nTübingen\r\n".encode("cp1252"))
    document = TextLoader().load(tmp_path / "a.csv")
    assert document.content == "Stadt,Zahl\nMünchen,1\nKöln,2,3\nTübingen\n"
    assert document.metadata.content_type == "text/csv"


def test_an_unknown_extension_is_plain_text(tmp_path: Path) -> None:
    (tmp_path / "a.xyz").write_text("text")
    assert TextLoader().load(tmp_path / "a.xyz").metadata.content_type == "text/plain"


def test_the_size_limit_is_the_callers(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("12345")
    assert TextLoader(max_bytes=5).load(tmp_path / "a.txt").content == "12345"
    with pytest.raises(errors.DocumentError, match="5 bytes, more than the limit of 4"):
        TextLoader(max_bytes=4).load(tmp_path / "a.txt")


def test_read_05_the_locale_does_not_matter(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes("Grüße 世界".encode())
    code = (
        "import sys; from pathlib import Path; from services.adapters.parsing.text import TextLoader;"
        "print(ascii(TextLoader().load(Path(sys.argv[1])).content))"
    )
    environment = {**os.environ, "LANG": "C", "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    command = [sys.executable, "-c", code, str(tmp_path / "a.txt")]
    printed = subprocess.run(command, env=environment, check=True, timeout=60, capture_output=True, text=True)
    assert printed.stdout.strip() == ascii("Grüße 世界")
