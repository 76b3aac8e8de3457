import multiprocessing
import os
import resource
import stat
import threading

import pytest
import sqlalchemy as sa

from services import errors
from services.adapters import sqlite
from services.adapters.sqlite import Sqlite, check_file_system, check_version
from tests.builders import in_processes


@pytest.fixture
def database(tmp_path):
    made = Sqlite(tmp_path / "zeph.db")
    with made.write() as connection:
        connection.exec_driver_sql("CREATE TABLE counter (id INTEGER PRIMARY KEY, value INTEGER NOT NULL)")
        connection.exec_driver_sql("INSERT INTO counter VALUES (1, 0)")
    yield made
    made.close()


def value(database):
    with database.read() as connection:
        return connection.exec_driver_sql("SELECT value FROM counter").scalar()


def set_value(connection, value):
    connection.exec_driver_sql("UPDATE counter SET value = ?", (value,))


def test_whoever_listens_hears_of_the_commits_of_others_and_of_nothing_else(database):
    def count(_number):
        with Sqlite(database.path).write() as connection:
            set_value(connection, 7)

    with database.changes() as news:
        seen = news()
        assert news() == seen
        assert value(database) == 0
        assert news() == seen
        with database.write(durable=False) as connection:
            set_value(connection, 1)
            assert news() == seen
        after_one = news()
        assert after_one != seen
        in_processes(1, count)
        assert news() not in (seen, after_one)


def test_processes_that_open_a_new_database_at_once_all_can(tmp_path):
    """Rarely one was told that another had held the database for 30 s, at once."""

    def open_all(_number):
        for path in paths:
            together.wait(30)
            made = Sqlite(path)
            with made.read() as connection:
                assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"
            made.close()

    paths = [tmp_path / f"{number}.db" for number in range(40)]
    together = multiprocessing.get_context("fork").Barrier(4)
    in_processes(4, open_all)


def test_four_processes_that_read_before_they_write_lose_no_update(database):
    def count(_number):
        for _ in range(100):
            with database.write(durable=False) as connection:
                seen = connection.exec_driver_sql("SELECT value FROM counter").scalar()
                set_value(connection, seen + 1)

    in_processes(4, count)

    assert value(database) == 400


def test_a_read_unit_cannot_write(database):
    with pytest.raises(errors.StorageBusy, match="readonly"), database.read() as connection:
        set_value(connection, 7)
    assert value(database) == 0


def test_a_read_unit_keeps_its_view_while_others_write(database):
    with database.read() as connection:
        before = connection.exec_driver_sql("SELECT value FROM counter").scalar()
        with database.write() as other:
            set_value(other, 5)
        assert connection.exec_driver_sql("SELECT value FROM counter").scalar() == before
    assert value(database) == 5


def test_ctrl_c_in_the_middle_of_a_statement_stays_a_ctrl_c(database, monkeypatch):
    with database.read() as connection:
        dialect = connection.dialect

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(dialect, "do_execute", interrupted)
    with pytest.raises(KeyboardInterrupt), database.read() as connection:
        connection.execute(sa.text("SELECT 1"))

    monkeypatch.undo()
    with database.read() as connection:
        assert connection.execute(sa.text("SELECT 1")).scalar() == 1


def test_a_commit_that_fails_leaves_no_transaction_open(database):
    with database.write() as connection:
        connection.exec_driver_sql("CREATE TABLE parent (id INTEGER PRIMARY KEY)")
        connection.exec_driver_sql(
            "CREATE TABLE child (parent INTEGER REFERENCES parent(id) DEFERRABLE INITIALLY DEFERRED)"
        )
    # A deferred foreign key is checked by COMMIT itself.
    with pytest.raises(sqlite.driver().IntegrityError), database.write() as connection:
        connection.exec_driver_sql("INSERT INTO child VALUES (7)")
    with database.write() as connection:
        assert connection.exec_driver_sql("SELECT count(*) FROM child").scalar() == 0


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_any_error_rolls_the_write_unit_back(database, error):
    def fail():
        with database.write() as connection:
            set_value(connection, 9)
            raise error

    with pytest.raises(error):
        fail()
    assert value(database) == 0
    with database.write() as connection:
        set_value(connection, 1)
    assert value(database) == 1


def test_every_connection_has_foreign_keys_wal_and_the_sync_of_its_promise(database):
    def pragma(connection, name):
        return connection.exec_driver_sql(f"PRAGMA {name}").scalar()

    with database.write() as connection:
        assert pragma(connection, "foreign_keys") == 1
        assert pragma(connection, "journal_mode") == "wal"
        assert pragma(connection, "busy_timeout") == 30_000
        assert pragma(connection, "synchronous") == 2
    with database.write(durable=False) as connection:
        assert pragma(connection, "foreign_keys") == 1
        assert pragma(connection, "synchronous") == 1
    with database.read() as connection:
        assert pragma(connection, "query_only") == 1


def test_a_row_without_its_parent_is_refused(database):
    with database.write() as connection:
        connection.exec_driver_sql("CREATE TABLE child (id INTEGER REFERENCES counter(id))")
    with pytest.raises(sa.exc.IntegrityError, match="FOREIGN KEY"), database.write() as connection:
        connection.exec_driver_sql("INSERT INTO child VALUES (99)")


def test_the_file_is_private_and_its_folders_are_made(tmp_path):
    path = tmp_path / "some" / "where" / "zeph.db"
    database = Sqlite(path)
    with database.read():
        pass
    database.close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").touch()
    database = Sqlite(tmp_path / "file" / "zeph.db")
    with pytest.raises(errors.SettingsError, match=r"file/zeph\.db cannot be created"), database.read():
        pass


@pytest.mark.parametrize(
    "content", [b"This is a letter, not a database. " * 100, b"SQLite format 3\0" + b"\1" * 4096]
)
def test_a_file_that_is_no_database_is_named(tmp_path, content):
    path = tmp_path / "letter.db"
    path.write_bytes(content)
    database = Sqlite(path)
    with (
        pytest.raises(errors.SchemaError, match=r"letter\.db is damaged or no SQLite database"),
        database.read() as it,
    ):
        it.exec_driver_sql("SELECT * FROM sqlite_master").all()
    assert path.read_bytes() == content


@pytest.mark.parametrize("version", [(3, 51, 3), (3, 52, 0), (3, 50, 7), (3, 50, 9), (3, 44, 6), (4, 0, 0)])
def test_versions_with_the_wal_fix_are_accepted(version):
    check_version(version)


@pytest.mark.parametrize("version", [(3, 40, 1), (3, 44, 5), (3, 45, 0), (3, 50, 6), (3, 51, 0), (3, 51, 2)])
def test_versions_that_can_corrupt_the_file_are_refused_with_the_way_out(version):
    with pytest.raises(errors.SchemaError, match=r"fixed in 3\.51\.3.*allow_unsafe_sqlite"):
        check_version(version)


def test_the_driver_in_use_has_the_wal_fix():
    check_version()
    assert sqlite.driver().sqlite_version_info >= (3, 44, 6)


MOUNTS = """\
/dev/sda1 / ext4 rw 0 0
server:/home /home nfs4 rw 0 0
/dev/sdb1 /home/local ext4 rw 0 0
host /shared virtiofs rw 0 0
broken line
"""


@pytest.mark.parametrize(
    "path", ["/var/lib/zeph.db", "/home/local/zeph.db", "/homes/zeph.db", "/sharedfiles/zeph.db"]
)
def test_local_file_systems_are_accepted(path, tmp_path):
    check_file_system(tmp_path.__class__(path), MOUNTS)


@pytest.mark.parametrize(("path", "kind"), [("/home/me/zeph.db", "nfs4"), ("/shared/zeph.db", "virtiofs")])
def test_network_and_shared_file_systems_are_refused(path, kind, tmp_path):
    with pytest.raises(errors.SchemaError, match=rf"{path} is on a {kind} file system.*Move data_dir"):
        check_file_system(tmp_path.__class__(path), MOUNTS)


def test_a_forked_child_works_on_connections_of_its_own(database):
    with database.read() as held:
        child = os.fork()
        if child == 0:
            try:
                with database.write() as connection:
                    set_value(connection, 42)
                with database.read() as connection:
                    mine = connection.connection.driver_connection
                os._exit(0 if mine is not held.connection.driver_connection else 3)
            finally:
                os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert held.exec_driver_sql("SELECT 1").scalar() == 1
    assert value(database) == 42
    with database.write() as connection:
        set_value(connection, 43)
    assert value(database) == 43


def test_a_backup_is_consistent_while_others_write_and_private(database, tmp_path):
    with database.write() as connection:
        connection.exec_driver_sql("CREATE TABLE twin AS SELECT value FROM counter")
    stop = threading.Event()

    def write():
        number = 0
        while not stop.is_set():
            number += 1
            with database.write(durable=False) as connection:
                set_value(connection, number)
                connection.exec_driver_sql("UPDATE twin SET value = ?", (number,))

    writer = threading.Thread(target=write)
    writer.start()
    try:
        targets = [tmp_path / f"copy-{number}.db" for number in range(3)]
        for target in targets:
            database.backup(target)
    finally:
        stop.set()
        writer.join()

    for target in targets:
        assert stat.S_IMODE(target.stat().st_mode) == 0o600
        copy = Sqlite(target)
        with copy.read() as connection:
            counter, twin = connection.exec_driver_sql("SELECT c.value, t.value FROM counter c, twin t").one()
            assert counter == twin
            assert connection.exec_driver_sql("PRAGMA integrity_check").scalar() == "ok"
        copy.close()


def test_a_backup_never_overwrites(database, tmp_path):
    target = tmp_path / "precious.db"
    target.write_text("precious")
    with pytest.raises(errors.InputError, match=r"precious\.db exists already"):
        database.backup(target)
    assert target.read_text() == "precious"


def test_a_backup_into_a_missing_folder_is_refused(database, tmp_path):
    with pytest.raises(errors.InputError, match=r"nowhere/copy\.db cannot be written"):
        database.backup(tmp_path / "nowhere" / "copy.db")


def test_a_database_that_another_holds_is_busy(database, monkeypatch):
    monkeypatch.setattr(sqlite, "_PRAGMAS", ("PRAGMA busy_timeout = 20", *sqlite._PRAGMAS[1:]))
    other = Sqlite(database.path)
    with (
        database.write(),
        pytest.raises(errors.StorageBusy, match="another process has held the database"),
        other.write(),
    ):
        pass
    other.close()


def test_a_full_disk_is_named_and_loses_nothing(database):
    def fill():
        with database.write() as connection:
            pages = connection.exec_driver_sql("PRAGMA page_count").scalar()
            connection.exec_driver_sql(f"PRAGMA max_page_count = {pages + 2}")
            connection.exec_driver_sql("CREATE TABLE big AS SELECT zeroblob(100000)")

    with pytest.raises(errors.StorageBusy, match=r"full.*nothing is lost"):
        fill()
    assert value(database) == 0


def test_a_disk_that_refuses_a_write_is_named_with_the_way_out(database):
    # What is left where a quota is used up, or a full disk has no room for the files beside the database.
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (database.path.stat().st_size + 4_096, before[1]))
        with (
            pytest.raises(errors.StorageBusy, match=r"disk.*free some space"),
            database.write() as connection,
        ):
            connection.exec_driver_sql("CREATE TABLE big AS SELECT zeroblob(10000000)")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert value(database) == 0


@pytest.mark.parametrize("impossible", ["\udcff", 2**63])
def test_a_value_that_sqlite_cannot_hold_is_the_caller_s_mistake(database, impossible):
    with (
        pytest.raises(errors.InputError, match="cannot be stored or looked for"),
        database.read() as connection,
    ):
        connection.exec_driver_sql("SELECT * FROM counter WHERE value = ?", (impossible,))


def test_a_missing_table_is_another_schema(database):
    with pytest.raises(errors.SchemaError, match="zeph db upgrade"), database.read() as connection:
        connection.exec_driver_sql("SELECT * FROM elsewhere")


def test_more_readers_than_connections_are_told_why(tmp_path, monkeypatch):
    database = Sqlite(tmp_path / "zeph.db", pool_size=1)
    opened = [database.read() for _ in range(11)]
    for unit in opened:
        unit.__enter__()
    database._engines["reading"].pool._timeout = 0.05
    with pytest.raises(errors.StorageBusy, match="sqlite_pool_size"), database.read():
        pass
    for unit in opened:
        unit.__exit__(None, None, None)
    database.close()
