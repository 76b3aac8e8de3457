"""What all tests share: a wired container on a fresh database, and a guard against real networks."""

from __future__ import annotations

import atexit
import ipaddress
import shutil
import signal
import socket
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import configuration

from services.adapters import migrations, sqlite
from services.adapters.in_memory import FixedEntropy, ManualClock
from services.adapters.sqlite import Sqlite
from services.bootstrap import Container
from services.settings import load_settings

Build = Callable[..., Container]


# What Hypothesis keeps for itself would otherwise stay behind in the folder from which the tests are run.
_hypothesis_home = tempfile.mkdtemp(prefix="hypothesis-")
configuration.set_hypothesis_home_dir(_hypothesis_home)
atexit.register(shutil.rmtree, _hypothesis_home, ignore_errors=True)

# A script that runs the tests in the background lets them ignore Ctrl-C, and whatever they start would ignore it too.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def migrated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database of the newest schema, to be copied: migrating takes half a second."""
    path = tmp_path_factory.mktemp("migrated") / "zeph.db"
    database = Sqlite(path)
    migrations.ensure(database)
    database.close()
    return path


@pytest.fixture
def build(tmp_path: Path, migrated: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Build]:
    """Make containers: embedded profile, hashing embedder, manual clock; keyword arguments override settings."""
    made: list[Container] = []
    monkeypatch.setenv("ZEPH_CONFIG", "")
    # No test cuts the power, and waiting for the disk costs a third of their time.
    monkeypatch.setitem(sqlite._MODE_PRAGMAS, "durable", ("PRAGMA synchronous = OFF",))

    def make(
        data_dir: Path | None = None, *, real_time: bool = False, publisher: Any = None, **overrides: Any
    ) -> Container:
        folder = data_dir or tmp_path / "data"
        folder.mkdir(exist_ok=True)
        if not (folder / "zeph.db").exists():
            shutil.copy(migrated, folder / "zeph.db")
        wanted = {"data_dir": str(folder), "embedding.provider": "fake", "jobs.min_free_disk_bytes": 0}
        settings = load_settings(
            None, wanted | {key.replace("__", "."): value for key, value in overrides.items()}
        )
        fixed = {} if real_time else {"clock": ManualClock(), "entropy": FixedEntropy()}
        made.append(Container(settings, publisher=publisher, **fixed))
        return made[-1]

    yield make
    for container in made:
        container.close()


@pytest.fixture
def container(build: Build) -> Container:
    """One container with the defaults of `build`."""
    return build()


@pytest.fixture(autouse=True)
def _only_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test may talk to another machine."""
    connect = socket.socket.connect

    def guarded(self: socket.socket, address: Any) -> None:
        if isinstance(address, tuple) and not _is_loopback(str(address[0])):
            raise AssertionError(f"a test tried to reach {address[0]}")
        connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", guarded)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
