"""The SQLite database: driver, pragmas, write units, read units, and the guards that keep a file whole.

A write unit is one BEGIN IMMEDIATE transaction. The driver's own habit of opening a transaction at the first write
loses updates silently when two processes read before they write, and a deferred transaction that reads first fails
at once with "database is locked" whatever the timeout.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
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
_TRY_AGAIN_SECONDS = 0.005
_PRAGMAS = (
    f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MILLISECONDS}",
    "PRAGMA foreign_keys = ON",
    "PRAGMA journal_size_limit = 67108864",
    "PRAGMA trusted_schema = OFF",
)
# One pool per way of working: switching a connection back and forth costs more than a transaction.
_DURABLE, _QUICK, _READING = "durable", "quick", "reading"
_MODE_PRAGMAS = {
    _DURABLE: ("PRAGMA synchronous = FULL",),
    _QUICK: ("PRAGMA synchronous = NORMAL",),
    # 16 MB of pages for each reader: what a search looks at is spread over the whole file.
    _READING: ("PRAGMA query_only = ON", "PRAGMA cache_size = -16384"),
}
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
        self._owner = os.getpid()
        self._engines: dict[str, sa.Engine] = {}

    @contextmanager
    def write(self, *, durable: bool = True) -> Iterator[sa.Connection]:
        """One BEGIN IMMEDIATE transaction: committed on exit, rolled back on any error.

        `durable` commits survive power loss; the others only process death, at a fraction of the cost. Accepting
        work is durable. Doing it need not be: what a power loss undoes is a suffix of commits, so a job and its
        effects go together, and the job is done again.
        Never call a model, a network or a parser inside. Raises StorageBusy, SchemaError.
        """
        with _translated(self.path), self._engine(_DURABLE if durable else _QUICK).connect() as connection:
            yield from _transaction(connection, "BEGIN IMMEDIATE")

    @contextmanager
    def read(self) -> Iterator[sa.Connection]:
        """One read transaction: a consistent view, in which any write fails."""
        with _translated(self.path), self._engine(_READING).connect() as connection:
            yield from _transaction(connection, "BEGIN")

    @contextmanager
    def changes(self) -> Iterator[Callable[[], int]]:
        """Tells when others have committed: a number that differs from the last one told if somebody has.

        It looks at no table (PRAGMA data_version). On an idle machine, whose caches are cold, that takes a tenth of a
        look at a small one, so it is what those should ask who only wait. Raises what `read` raises.
        """
        with _translated(self.path), self._engine(_READING).connect() as connection:
            driver_connection: Any = connection.connection.driver_connection
            yield lambda: int(driver_connection.execute("PRAGMA data_version").fetchone()[0])

    def backup(self, target: Path) -> None:
        """Write a consistent copy to a new file, mode 0600, while others read and write."""
        if target.exists():
            raise errors.InputError(f"{target} exists already: choose another name or remove it first")
        try:
            target.touch(mode=0o600, exist_ok=False)
        except OSError as error:
            raise errors.InputError(f"{target} cannot be written: {error.strerror}") from error
        with (
            _translated(self.path),
            self._engine(_READING).connect() as connection,
            _closing(_driver.connect(str(target))) as copy,
        ):
            connection.connection.driver_connection.backup(copy)  # type: ignore[union-attr]

    def close(self) -> None:
        """Close the connections of this process."""
        with self._lock:
            for engine in self._engines.values():
                engine.dispose(close=self._owner == os.getpid())
            self._engines.clear()

    def _engine(self, mode: str) -> sa.Engine:
        # A connection that crosses a fork corrupts the file: a child starts with engines of its own.
        with self._lock:
            if self._owner != os.getpid():
                for engine in self._engines.values():
                    engine.dispose(close=False)
                self._engines, self._owner = {}, os.getpid()
            if mode not in self._engines:
                self._engines[mode] = self._create_engine(mode)
            return self._engines[mode]

    def _create_engine(self, mode: str) -> sa.Engine:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.path.touch(mode=0o600)
        except OSError as error:
            raise errors.SettingsError(
                f"{self.path} cannot be created: {error.strerror}. Check data_dir and memory.sqlite_path"
            ) from error
        engine = sa.create_engine(
            f"sqlite:///{self.path}",
            module=_driver,
            pool_size=self._pool_size,
            max_overflow=10,
            # The connection used last has the warmest cache of pages.
            pool_use_lifo=True,
            pool_reset_on_return=None,
            connect_args={"timeout": BUSY_TIMEOUT_MILLISECONDS / 1000, "check_same_thread": False},
        )

        @sa.event.listens_for(engine, "connect")
        def prepare(connection: Any, _record: object) -> None:
            # The driver must not open transactions by itself: units of work do.
            connection.isolation_level = None
            for pragma in _PRAGMAS:
                connection.execute(pragma)
            _write_ahead(connection)
            for pragma in _MODE_PRAGMAS[mode]:
                connection.execute(pragma)

        return engine


def _write_ahead(connection: Any) -> None:
    """Keep a write-ahead log from now on.

    Of two processes that both do so with a new file, each could wait for the other for ever: SQLite tells one of them at
    once that the file is locked, without the wait that it was asked for.
    """
    deadline = time.monotonic() + BUSY_TIMEOUT_MILLISECONDS / 1000
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except _driver.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() >= deadline:
                raise
            time.sleep(_TRY_AGAIN_SECONDS)
        else:
            return


def _transaction(connection: sa.Connection, begin: str) -> Iterator[sa.Connection]:
    """Open a transaction, yield the connection, and end it the way the block ended."""
    # Straight to the driver: SQLAlchemy's way costs three times as much and decides nothing here.
    driver_connection: Any = connection.connection.driver_connection
    try:
        driver_connection.execute(begin)
        # So that SQLAlchemy and Alembic see that a transaction is open, and do not end it themselves.
        connection.begin()
        yield connection
        driver_connection.execute("COMMIT")
    except BaseException:
        # An interrupt in the middle of a statement makes SQLAlchemy close the connection, which rolls back as well.
        if not connection.invalidated and driver_connection.in_transaction:
            driver_connection.execute("ROLLBACK")
        raise


@contextmanager
def _closing(connection: Any) -> Iterator[Any]:
    try:
        yield connection
    finally:
        connection.close()


@contextmanager
def _translated(path: Path) -> Iterator[None]:
    """Turn the driver's errors into ours, once, with the original as cause."""
    try:
        yield
    except sa.exc.OperationalError as error:
        raise _explained(str(error.orig)) from error
    except _driver.OperationalError as error:
        raise _explained(str(error)) from error
    except (UnicodeEncodeError, OverflowError) as error:
        raise errors.InputError(f"a value cannot be stored or looked for: {error}") from error
    except sa.exc.TimeoutError as error:
        raise errors.StorageBusy(
            "all database connections are busy: raise memory.sqlite_pool_size"
        ) from error
    except sa.exc.DatabaseError as error:
        # Its subclasses, such as a broken constraint, are the caller's to understand.
        if type(error.orig) is _driver.DatabaseError:
            raise _damaged(path, str(error.orig)) from error
        raise


def _damaged(path: Path, reason: str) -> errors.SchemaError:
    return errors.SchemaError(
        f"{path} is damaged or no SQLite database ({reason}): restore a backup, or choose another data_dir"
    )


def _explained(reason: str) -> errors.MemoryError:
    if "no such table" in reason or "no such column" in reason or "no column named" in reason:
        return errors.SchemaError(f"the database has another schema ({reason}): run `zeph db upgrade`")
    if "locked" in reason or "busy" in reason:
        return errors.StorageBusy(f"another process has held the database for more than 30 s ({reason})")
    if "full" in reason:
        return errors.StorageBusy(
            f"the disk of the database is full ({reason}): free some space, nothing is lost"
        )
    if "I/O error" in reason:
        # What a full disk is called where SQLite needs room for more than its own pages, and a quota that is used up.
        return errors.StorageBusy(
            f"the disk of the database refuses to work ({reason}): if it is full free some space, if it fails restore "
            "a backup to another one"
        )
    if "unable to open" in reason:
        return errors.StorageBusy(f"the database cannot be opened ({reason}): check memory.sqlite_path")
    return errors.StorageBusy(reason)
