"""The SQLite database: driver, pragmas, write units, read units, and the guards that keep a file whole.

A write unit is one BEGIN IMMEDIATE transaction. The driver's own habit of opening a transaction at the first write
loses updates silently when two processes read before they write, and a deferred transaction that reads first fails
at once with "database is locked" whatever the timeout.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import sqlalchemy as sa

from services import errors

try:
    import pysqlite3.dbapi2 as _driver
except ImportError:  # no wheel for this platform: the version guard below decides
    _driver = sqlite3

BUSY_TIMEOUT_MILLISECONDS = 30_000
_PRAGMAS = (
    f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MILLISECONDS}",
    "PRAGMA journal_mode = WAL",
    "PRAGMA foreign_keys = ON",
    "PRAGMA synchronous = FULL",
    "PRAGMA journal_size_limit = 67108864",
    "PRAGMA trusted_schema = OFF",
)
# Write-ahead logs need shared memory between processes, which these file systems do not give.
_UNSAFE_FILE_SYSTEMS = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "9p", "virtiofs", "fuse.sshfs", "fuse.s3fs", "vboxsf"}
)


def driver() -> ModuleType:
    """The DB-API module in use."""
    return _driver  # type: ignore[no-any-return]


def check_version(version: tuple[int, ...] | None = None) -> None:
    """Refuse SQLite libraries whose write-ahead log can corrupt the file (sqlite.org/wal.html, fixed in 3.51.3).

    Raises SchemaError.
    """
    found = version or tuple(_driver.sqlite_version_info)
    backported = (found[:2] == (3, 50) and found >= (3, 50, 7)) or (
        found[:2] == (3, 44) and found >= (3, 44, 6)
    )
    if found >= (3, 51, 3) or backported:
        return
    name = ".".join(map(str, found))
    raise errors.SchemaError(
        f"SQLite {name} can corrupt a database that several processes write (fixed in 3.51.3). "
        "Install the pysqlite3 wheel, or set memory.allow_unsafe_sqlite = true to run at your own risk."
    )


def check_file_system(path: Path, mounts: str | None = None) -> None:
    """Refuse network and shared-folder file systems, on which write-ahead logs corrupt. Raises SchemaError."""
    if mounts is None:
        table = Path("/proc/mounts")
        mounts = table.read_text(encoding="utf-8", errors="replace") if table.exists() else ""
    rows = [line.split()[1:3] for line in mounts.splitlines() if len(line.split()) > 2]
    inside = [(len(where), kind) for where, kind in rows if path.resolve().is_relative_to(where)]
    kind = max(inside, default=(0, ""))[1]
    if kind in _UNSAFE_FILE_SYSTEMS:
        raise errors.SchemaError(
            f"{path} is on a {kind} file system, where SQLite databases corrupt. "
            "Move data_dir to a local disk, or set memory.allow_unsafe_sqlite = true to run at your own risk."
        )


class Sqlite:
    """Connections to one database file, safe to share between threads and to carry across a fork."""

    def __init__(self, path: Path, *, pool_size: int = 5, allow_unsafe: bool = False) -> None:
        if not allow_unsafe:
            check_version()
            check_file_system(path)
        self.path = path
        self._pool_size = pool_size
        self._lock = threading.Lock()
        self._owner = 0
        self._engine: sa.Engine | None = None

    @contextmanager
    def write(self, *, durable: bool = True) -> Iterator[sa.Connection]:
        """One BEGIN IMMEDIATE transaction: committed on exit, rolled back on any error.

        `durable` commits survive power loss; the others only process death, at a fraction of the cost.
        Never call a model, a network or a parser inside. Raises StorageBusy.
        """
        with _translated(), self._connect() as connection:
            self._set_pragma(connection, "synchronous", "FULL" if durable else "NORMAL")
            self._set_pragma(connection, "query_only", "OFF")
            connection.exec_driver_sql("BEGIN IMMEDIATE")
            yield from _finished(connection)

    @contextmanager
    def read(self) -> Iterator[sa.Connection]:
        """One read transaction: a consistent view, in which any write fails."""
        with _translated(), self._connect() as connection:
            self._set_pragma(connection, "query_only", "ON")
            connection.exec_driver_sql("BEGIN")
            yield from _finished(connection)

    @contextmanager
    def raw(self) -> Iterator[sa.Connection]:
        """A connection outside any transaction, for migrations and backups."""
        with _translated(), self._connect() as connection:
            self._set_pragma(connection, "query_only", "OFF")
            yield connection

    def backup(self, target: Path) -> None:
        """Write a consistent copy to a new file, mode 0600, while others read and write."""
        if target.exists():
            raise errors.InputError(f"{target} exists already: choose another name or remove it first")
        target.touch(mode=0o600)
        with self.raw() as connection, _closing(_driver.connect(str(target))) as copy:
            connection.connection.driver_connection.backup(copy)  # type: ignore[union-attr]

    def close(self) -> None:
        """Close the connections of this process."""
        with self._lock:
            if self._engine is not None and self._owner == os.getpid():
                self._engine.dispose()
            self._engine = None

    def _connect(self) -> sa.Connection:
        return self._engine_of_this_process().connect()

    def _engine_of_this_process(self) -> sa.Engine:
        # A connection that crosses a fork corrupts the file: a child starts with an engine of its own.
        with self._lock:
            if self._engine is None or self._owner != os.getpid():
                if self._engine is not None:
                    self._engine.dispose(close=False)
                self._engine, self._owner = self._create_engine(), os.getpid()
            return self._engine

    def _create_engine(self) -> sa.Engine:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        if not self.path.exists():
            self.path.touch(mode=0o600)
        engine = sa.create_engine(
            f"sqlite:///{self.path}",
            module=_driver,
            pool_size=self._pool_size,
            max_overflow=10,
            pool_reset_on_return=None,
            connect_args={"timeout": BUSY_TIMEOUT_MILLISECONDS / 1000, "check_same_thread": False},
        )
        sa.event.listen(engine, "connect", _prepare)
        return engine

    @staticmethod
    def _set_pragma(connection: sa.Connection, name: str, value: str) -> None:
        if connection.info.get(name) != value:
            connection.exec_driver_sql(f"PRAGMA {name} = {value}")
            connection.info[name] = value


def _prepare(connection: Any, _record: object) -> None:
    # The driver must not open transactions by itself: write units do.
    connection.isolation_level = None
    for pragma in _PRAGMAS:
        connection.execute(pragma)


def _finished(connection: sa.Connection) -> Iterator[sa.Connection]:
    """Yield the connection, then end its transaction the way the block ended."""
    try:
        yield connection
    except BaseException:
        if connection.connection.driver_connection.in_transaction:  # type: ignore[union-attr]
            connection.exec_driver_sql("ROLLBACK")
        raise
    connection.exec_driver_sql("COMMIT")


@contextmanager
def _closing(connection: Any) -> Iterator[Any]:
    try:
        yield connection
    finally:
        connection.close()


@contextmanager
def _translated() -> Iterator[None]:
    """Turn the driver's errors into ours, once, with the original as cause."""
    try:
        yield
    except sa.exc.OperationalError as error:
        raise _explained(str(error.orig)) from error
    except sa.exc.TimeoutError as error:
        raise errors.StorageBusy(
            "all database connections are busy: raise memory.sqlite_pool_size"
        ) from error


def _explained(reason: str) -> errors.MemoryError:
    if "no such table" in reason or "no such column" in reason:
        return errors.SchemaError(f"the database has another schema ({reason}): run `zeph db upgrade`")
    if "locked" in reason or "busy" in reason:
        return errors.StorageBusy(f"another process has held the database for more than 30 s ({reason})")
    if "full" in reason:
        return errors.StorageBusy(
            f"the disk of the database is full ({reason}): free some space, nothing is lost"
        )
    if "unable to open" in reason:
        return errors.StorageBusy(f"the database cannot be opened ({reason}): check memory.sqlite_path")
    return errors.StorageBusy(reason)
