import ast
import os
import shutil
import signal
import subprocess
import sys
from contextlib import closing

import pytest
import sqlalchemy as sa

from services import errors
from services.adapters import migrations
from services.adapters.sqlite import Sqlite, driver
from tests.builders import claim, enqueue, finish, in_processes, new_job


@pytest.fixture
def empty(tmp_path):
    made = Sqlite(tmp_path / "empty.db")
    yield made
    made.close()


@pytest.fixture
def head(tmp_path, migrated):
    shutil.copy(migrated, tmp_path / "head.db")
    made = Sqlite(tmp_path / "head.db")
    yield made
    made.close()


def names(database):
    with database.read() as connection:
        return {row[0] for row in connection.exec_driver_sql("SELECT name FROM sqlite_master")}


def test_an_empty_database_becomes_what_the_tables_describe(empty):
    assert migrations.current(empty) is None
    migrations.ensure(empty)
    assert migrations.current(empty) == migrations.HEAD
    assert migrations.differences(empty) == []
    assert migrations.damage(empty) == []


def test_the_way_down_and_up_again_ends_at_the_same_schema(head):
    migrations.downgrade(head)
    assert names(head) <= {"alembic_version", "sqlite_sequence"} | {
        name for name in names(head) if name.startswith("sqlite_autoindex")
    }
    migrations.upgrade(head)
    assert migrations.differences(head) == []


def test_a_key_fact_of_before_is_told_by_its_summary(empty):
    migrations.upgrade(empty, "0001")
    with empty.write() as connection:
        for sql in (
            "INSERT INTO conversations(id, namespace, created_at) VALUES (7, 'n', 1)",
            (
                "INSERT INTO summaries(id, namespace, conversation_id, content, token_estimate, scope, created_at) "
                "VALUES (5, 'n', 7, 's', 1, 'sn', 1)"
            ),
            (
                "INSERT INTO key_facts(id, namespace, conversation_id, summary_id, fact, scope, content_hash, created_at) "
                "VALUES (3, 'n', 7, 5, 'Ana has a dog.', 'sn', 'h', 1)"
            ),
        ):
            connection.exec_driver_sql(sql)
    migrations.ensure(empty)
    with empty.read() as connection:
        told = connection.exec_driver_sql("SELECT key_fact_id, summary_id, fact FROM key_fact_sources").all()
    assert told == [(3, 5, "Ana has a dog.")]


def test_the_head_that_the_code_knows_is_the_newest_script():
    from alembic.config import Config
    from alembic.script import ScriptDirectory

    config = Config()
    config.set_main_option("script_location", str(migrations.folder()))
    assert ScriptDirectory.from_config(config).get_heads() == [migrations.HEAD]


def test_a_difference_from_the_tables_is_found(head):
    with head.write() as connection:
        connection.exec_driver_sql("DROP INDEX ix_jobs_due")
        connection.exec_driver_sql("DROP TRIGGER chunks_fts_delete")
        connection.exec_driver_sql("ALTER TABLE documents ADD COLUMN stray TEXT")
    found = "\n".join(migrations.differences(head))
    assert "ix_jobs_due" in found
    assert "chunks_fts_delete" in found
    assert "stray" in found


def test_two_processes_that_migrate_at_once_both_succeed(tmp_path):
    path = tmp_path / "both.db"

    def migrate(_number):
        database = Sqlite(path)
        migrations.ensure(database)
        assert migrations.differences(database) == []

    in_processes(2, migrate)


@pytest.mark.slow
def test_a_failure_at_any_statement_leaves_the_database_as_it_was(tmp_path):
    statements = []
    database = Sqlite(tmp_path / "zeph.db")
    engine = database._engine("durable")

    @sa.event.listens_for(engine, "before_cursor_execute")
    def count(*facts):
        statements.append(facts[2])
        if len(statements) == fail_at:
            raise RuntimeError("power cut")

    fail_at = 0
    migrations.upgrade(database)
    migrations.downgrade(database)
    before = names(database)
    statements.clear()
    migrations.upgrade(database)
    total = len(statements)
    migrations.downgrade(database)
    assert total > 60

    for fail_at in range(1, total + 1, 7):
        statements.clear()
        with pytest.raises(RuntimeError, match="power cut"):
            migrations.upgrade(database)
        assert names(database) == before, f"after statement {fail_at}"

    fail_at = 0
    migrations.upgrade(database)
    assert migrations.differences(database) == []
    database.close()


KILLED = """
import sys, time
from pathlib import Path
import sqlalchemy as sa
from services.adapters import migrations
from services.adapters.sqlite import Sqlite

database = Sqlite(Path(sys.argv[1]))
done = []

@sa.event.listens_for(database._engine("durable"), "before_cursor_execute")
def halt(*_):
    done.append(1)
    if len(done) == 40:
        print("halfway", flush=True)
        time.sleep(60)

migrations.upgrade(database)
"""


def test_a_kill_in_the_middle_of_a_migration_leaves_the_schema_before(tmp_path):
    path = tmp_path / "killed.db"
    process = subprocess.Popen([sys.executable, "-c", KILLED, str(path)], stdout=subprocess.PIPE, text=True)
    with process:
        assert process.stdout.readline() == "halfway\n"
        os.kill(process.pid, signal.SIGKILL)

    database = Sqlite(path)
    assert names(database) == set()
    migrations.ensure(database)
    assert migrations.differences(database) == []
    database.close()


def test_a_database_of_a_newer_version_is_refused_and_left_alone(head):
    with head.write() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")
    before = names(head)
    with pytest.raises(errors.SchemaError, match=r"head\.db has a schema that this version does not know"):
        migrations.ensure(head)
    assert migrations.current(head) == "9999"
    assert names(head) == before


def test_an_up_to_date_database_costs_no_import_of_alembic(head):
    code = (
        "import sys; from pathlib import Path; from services.adapters import migrations; "
        "from services.adapters.sqlite import Sqlite; migrations.ensure(Sqlite(Path(sys.argv[1]))); "
        "sys.exit('alembic' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code, str(head.path)], check=False).returncode == 0


def test_the_folder_of_migrations_does_not_hide_the_library():
    from alembic import command

    assert callable(command.upgrade)
    assert not (migrations.folder() / "__init__.py").exists()


def test_migration_files_stand_alone():
    # What a migration did must not change when the code moves on.
    for path in (migrations.folder() / "versions").glob("*.py"):
        tree = ast.parse(path.read_text())
        imported = [
            name
            for node in ast.walk(tree)
            if isinstance(node, ast.Import | ast.ImportFrom)
            for name in (
                [node.module or ""] if isinstance(node, ast.ImportFrom) else [it.name for it in node.names]
            )
        ]
        assert imported
        assert not [name for name in imported if name.split(".")[0] in ("services", "workers")]


def test_an_installation_without_migrations_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(migrations, "files", lambda _package: tmp_path / "services")
    with pytest.raises(errors.SchemaError, match=r"no env\.py in"):
        migrations.folder()


def test_a_broken_foreign_key_is_found(head):
    # A connection of its own, because ours refuse such rows.
    with closing(driver().connect(str(head.path))) as raw:
        raw.execute("INSERT INTO chunk_embeddings VALUES (4711, 'c', 1, 0)")
        raw.commit()
    assert [line for line in migrations.damage(head) if "chunk_embeddings" in line]


def test_a_full_text_index_that_drifted_from_its_table_is_found(head):
    with head.write() as connection:
        connection.exec_driver_sql("INSERT INTO chunks_fts(rowid, text) VALUES (77, 'ghost')")
    assert migrations.damage(head) == ["full-text index chunks_fts is missing or differs from its table"]


def test_a_process_that_runs_while_another_version_migrates_works_no_more_until_it_is_undone(container):
    def become(revision, statement):
        with container.sqlite.write() as connection:
            connection.exec_driver_sql(statement)
            connection.exec_driver_sql(f"UPDATE alembic_version SET version_num = '{revision}'")

    (job_id,) = enqueue(container, new_job())
    run = claim(container, job_id)
    become("9999", "CREATE TABLE moods (id INTEGER)")
    for unit_of_work in (container.database.read, container.database.write):
        with (
            pytest.raises(errors.SchemaError, match=r"now 9999, and this process knows .* Restart"),
            unit_of_work(),
        ):
            pass
    with pytest.raises(errors.SchemaError):
        finish(container, run)
    become(migrations.HEAD, "DROP TABLE moods")
    finish(container, run)
