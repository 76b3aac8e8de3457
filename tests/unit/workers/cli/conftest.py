"""The `zeph` program, run in this process through its real entry point."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from services.adapters import sqlite
from services.bootstrap import Container
from services.settings import load_settings
from workers.cli.main import main


@dataclass(frozen=True, slots=True)
class Result:
    """What a run of the program ended with."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The one JSON document on standard output."""
        return json.loads(self.out)


Zeph = Callable[..., Result]


@pytest.fixture
def data_dir(tmp_path: Path, migrated: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data folder with an empty database, named by the environment."""
    folder = tmp_path / "data"
    folder.mkdir()
    shutil.copy(migrated, folder / "zeph.db")
    monkeypatch.setenv("ZEPH_CONFIG", "")
    monkeypatch.setenv("ZEPH_DATA_DIR", str(folder))
    monkeypatch.setenv("ZEPH_EMBEDDING__PROVIDER", "fake")
    monkeypatch.setenv("ZEPH_JOBS__MIN_FREE_DISK_BYTES", "0")
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setitem(sqlite._MODE_PRAGMAS, "durable", ("PRAGMA synchronous = OFF",))
    return folder


@pytest.fixture
def zeph(data_dir: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Zeph:
    """Run a command; errors must have been turned into exit codes and lines."""

    def run(*arguments: object) -> Result:
        monkeypatch.setattr(sys, "argv", ["zeph", *map(str, arguments)])
        capsys.readouterr()
        code: Any = 0
        try:
            main()
        except SystemExit as end:
            code = end.code or 0
        output = capsys.readouterr()
        return Result(code, output.out, output.err)

    return run


@pytest.fixture
def opened(data_dir: Path) -> Any:
    """A container on the program's data, to prepare and to look."""
    with Container(load_settings()) as container:
        yield container
