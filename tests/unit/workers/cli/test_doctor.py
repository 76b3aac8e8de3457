from services.memory.models import Role
from tests.builders import work


def test_a_healthy_store_is_exit_code_0_and_one_line(zeph, opened):
    opened.memory.remember(Role.USER, "The winch was repaired.", conversation="ops")
    work(opened)
    result = zeph("doctor")
    assert (result.code, result.err) == (0, "")
    assert result.out.startswith("all is well (")
    assert zeph("doctor", "--json").json["healthy"] is True


def test_damage_is_exit_code_1_named_and_mended_on_request(zeph, opened):
    opened.memory.remember(Role.USER, "The winch was repaired.", conversation="ops")
    work(opened)
    with opened.sqlite.write() as connection:
        connection.exec_driver_sql("UPDATE messages SET scope = '1'")
        connection.exec_driver_sql("DELETE FROM vector_points")
    result = zeph("doctor")
    assert result.code == 1
    assert "zeph doctor --repair" in result.out
    found = zeph("doctor", "--json")
    assert (found.code, found.json["healthy"]) == (1, False)
    assert {(it["code"], it["where"], it["count"]) for it in found.json["findings"]} == {
        ("scope", "messages", 1),
        ("vector_lost", "zeph_conversations__fake-hash-64__1", 1),
    }

    mended = zeph("doctor", "--repair")
    assert mended.code == 0
    assert mended.out.count("done:") == 2
    work(opened)
    assert zeph("doctor").code == 0
    assert zeph("recall", "winch", "--json").json["hits"]


def test_what_nobody_can_repair_is_exit_code_1_with_what_to_do(zeph, opened):
    opened.memory.remember(Role.USER, "The winch was repaired.", conversation="ops")
    work(opened)
    with opened.sqlite.write() as connection:
        connection.exec_driver_sql("UPDATE messages SET parts = '['")
    result = zeph("doctor", "--repair")
    assert result.code == 1
    assert "by hand: restore a backup if the parts matter" in result.out


def test_a_vector_store_that_is_away_is_exit_code_3(zeph, opened, monkeypatch):
    opened.memory.remember(Role.USER, "The winch was repaired.", conversation="ops")
    work(opened)
    monkeypatch.setenv("ZEPH_MEMORY__VECTOR_BACKEND", "qdrant")
    monkeypatch.setenv("ZEPH_MEMORY__QDRANT_URL", "http://127.0.0.1:9")
    result = zeph("doctor")
    assert result.code == 3
    assert "not checked: rows and vectors, rows without vectors: Qdrant at http://127.0.0.1:9" in result.out


def test_a_file_that_is_no_database_is_named(zeph, data_dir):
    (data_dir / "zeph.db").write_text("This is a letter. " * 500)
    result = zeph("doctor")
    assert result.code == 1
    assert "file_unreadable" in result.out
    assert "full_text" not in result.out
    assert "--repair" not in result.out


def test_a_database_of_a_newer_version_is_named_and_left_alone(zeph, opened):
    opened.database.sqlite.close()
    with opened.sqlite.write() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")
    result = zeph("doctor", "--repair")
    assert result.code == 1
    assert "schema_revision" in result.out
    assert "was written by another version of zeph" in result.out
