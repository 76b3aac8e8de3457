from services.adapters import migrations
from services.adapters.sqlite import Sqlite


def test_upgrade_makes_a_database_from_nothing_and_says_where(zeph, data_dir):
    (data_dir / "zeph.db").unlink()
    result = zeph("db", "upgrade")
    assert result.out == f"{data_dir / 'zeph.db'} is at revision {migrations.HEAD}\n"
    assert zeph("db", "upgrade").code == 0


def test_check_finds_nothing_wrong_with_a_good_database(zeph):
    result = zeph("db", "check")
    assert (result.code, result.out) == (0, "the database is as it should be\n")


def test_check_names_what_is_wrong_and_fails(zeph, opened):
    with opened.sqlite.write() as connection:
        connection.exec_driver_sql("DROP INDEX ix_jobs_due")
        connection.exec_driver_sql("INSERT INTO chunks_fts(rowid, text) VALUES (77, 'ghost')")
    result = zeph("db", "check")
    assert result.code == 1
    assert "ix_jobs_due" in result.out
    assert "full-text index chunks_fts" in result.out


def test_a_backup_is_a_whole_database_and_never_overwrites(zeph, tmp_path):
    target = tmp_path / "copy.db"
    assert zeph("db", "backup", target).code == 0
    copy = Sqlite(target)
    assert migrations.current(copy) == migrations.HEAD
    copy.close()
    assert "exists already" in zeph("db", "backup", target).err


def test_without_a_database_there_is_nothing_to_back_up(zeph, data_dir, tmp_path):
    (data_dir / "zeph.db").unlink()
    result = zeph("db", "backup", tmp_path / "copy.db")
    assert result.code == 2
    assert "nothing to back up" in result.err
    assert not (tmp_path / "copy.db").exists()


def test_a_database_of_a_newer_version_is_refused_by_every_command(zeph, opened):
    with opened.sqlite.write() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")
    for command in (["status"], ["search", "x"], ["db", "upgrade"], ["jobs", "list"]):
        result = zeph(*command)
        assert result.code == 2
        assert "has a schema that this version does not know" in result.err
