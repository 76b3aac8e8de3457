"""F25: migrations that are cut off, that meet one another, and versions of the program that meet the other's schema.

The next version is this one with one migration more.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from services import errors
from services.adapters import migrations
from services.adapters.sqlite import Sqlite
from services.bootstrap import Container
from services.jobs.models import EMBED_MESSAGES, JobState
from services.memory.models import Role
from tests.builders import ScriptedEmbedder, assert_healthy, claim, in_processes, job, rows, work
from tests.faults.harness import SEED, Tripwire, amount, in_child, sample
from tests.faults.scenarios import open_store
from tests.services.harness import Stack, wait_until
from workers.job import Runner
from workers.local import LocalWorker

pytestmark = [pytest.mark.faults, pytest.mark.timeout(1_800)]

PRESENT = migrations.HEAD
NEXT = f"""
import sqlalchemy as sa
from alembic import op

revision, down_revision = "next", "{PRESENT}"


def upgrade():
    op.add_column("conversations", sa.Column("mood", sa.Text))
    op.execute("UPDATE conversations SET mood = 'calm'")
    op.create_table("moods", sa.Column("id", sa.Integer, primary_key=True), sa.Column("name", sa.Text))
    op.execute("INSERT INTO moods(name) SELECT DISTINCT mood FROM conversations")
    op.drop_index("ix_jobs_finished", "jobs")
    op.create_index("ix_jobs_finished", "jobs", ["finished_at", "state"])


def downgrade():
    op.drop_index("ix_jobs_finished", "jobs")
    op.create_index("ix_jobs_finished", "jobs", ["state", "finished_at"])
    op.drop_table("moods")
    op.drop_column("conversations", "mood")
"""


@pytest.fixture
def next_version(tmp_path: Path) -> Callable[[Callable[[], object]], Callable[[], None]]:
    """Makes a task one that the next version of the program does; to be run in a process of its own."""
    folder = tmp_path / "alembic"
    shutil.copytree(migrations.folder(), folder, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "versions" / "add_moods.py").write_text(NEXT)

    def make(task: Callable[[], object]) -> Callable[[], None]:
        def as_next() -> None:
            migrations.folder = lambda: folder
            migrations.HEAD = "next"
            task()

        return as_next

    return make


@pytest.fixture
def old(tmp_path: Path, migrated: Path) -> Path:
    """A data folder of this version with something in it, and a job that waits."""
    folder = tmp_path / "old"
    folder.mkdir()
    shutil.copy(migrated, folder / "zeph.db")
    with open_store(folder) as container:
        _remember(container)
    return folder


def _remember(container: Container, text: str = "The winch was repaired.") -> int:
    return container.memory.remember(Role.USER, text, conversation="ops")


def schema(path: Path) -> set[tuple[Any, ...]]:
    """Every object of the schema, the revision that the database says it has, and what is stored."""
    database = Sqlite(path)
    try:
        with database.read() as connection:
            objects = connection.exec_driver_sql("SELECT type, name, sql FROM sqlite_master").all()
            found = {tuple(row) for row in objects}
            for name in {"alembic_version", "messages", "conversations", "moods"} & {row[1] for row in found}:
                found |= {(name, *row) for row in connection.exec_driver_sql(f"SELECT * FROM {name}")}
        assert migrations.page_damage(database) == []
        return found
    finally:
        database.close()


def upgrade(path: Path, tripwire: Tripwire | None = None) -> int:
    """Migrate as a program does that starts; how many points it passed."""
    wire = tripwire or Tripwire()
    database = Sqlite(path)
    with wire.armed():
        migrations.ensure(database)
    database.close()
    return wire.count


@pytest.mark.parametrize("begun", ["empty", "old"])
def test_a_migration_that_is_killed_at_any_statement_is_done_whole_or_not_at_all_f25(
    begun: str, tmp_path: Path, old: Path, next_version: Callable[..., Callable[[], None]]
) -> None:
    version = next_version if begun == "old" else lambda task: task
    path = tmp_path / "zeph.db"

    def fresh() -> None:
        for left in tmp_path.glob("zeph.db*"):
            left.unlink()
        if begun == "old":
            shutil.copy(old / "zeph.db", path)

    fresh()
    before = schema(path)
    counted = tmp_path / "count"
    assert in_child(version(lambda: counted.write_text(str(upgrade(path))))) == 0
    after, points = schema(path), int(counted.read_text())
    assert before != after
    ends = {"before": 0, "after": 0}
    for point in sample(range(1, points + 1), commit=2):
        fresh()
        assert in_child(version(lambda point=point: upgrade(path, Tripwire(point)))) is None
        found = schema(path)
        assert found in (before, after), f"point {point} of {points}, seed {SEED}"
        ends["before" if found == before else "after"] += 1
        assert in_child(version(lambda: upgrade(path))) == 0
        assert schema(path) == after
    print(f"F25: {begun} database, {points} points, killed at {sum(ends.values())}: {ends}")


def test_two_that_migrate_at_once_leave_one_whole_schema_f25(
    tmp_path: Path, old: Path, next_version: Callable[..., Callable[[], None]]
) -> None:
    counts = {}
    for start in ("empty", "old"):
        finals = []
        for number in range(amount(commit=1, nightly=20)):
            path = tmp_path / f"{start}-{number}.db"
            if start == "old":
                shutil.copy(old / "zeph.db", path)
            version = next_version if start == "old" else lambda task: task
            in_processes(2, lambda _number, path=path, version=version: version(lambda: upgrade(path))())
            finals.append(schema(path))
        assert all(final == finals[0] for final in finals)
        counts[start] = len(finals)
    print(f"F25: two migrators at once, {counts}: one schema")


# ---- versions that meet ------------------------------------------------------------------------------------------


def test_an_old_worker_stores_nothing_once_the_schema_is_new_and_ends_saying_so_f25(
    old: Path, next_version: Callable[..., Callable[[], None]]
) -> None:
    with open_store(old, real_entropy=True) as container:
        ((job_id,),) = rows(container, f"SELECT id FROM jobs WHERE kind = '{EMBED_MESSAGES.name}'")
        embedder = ScriptedEmbedder()
        embedder.before_embed = lambda: migrated.append(
            in_child(next_version(lambda: upgrade(old / "zeph.db")))
        )
        container.embedder = embedder  # type: ignore[assignment]
        migrated: list[int | None] = []
        with pytest.raises(errors.SchemaError, match="Restart this process"):
            Runner(container).run(claim(container, job_id))
        assert migrated == [0]
        with (
            LocalWorker(container) as worker,
            pytest.raises(errors.SchemaError, match="Restart this process"),
        ):
            worker.run_until(lambda: False)
        with pytest.raises(errors.SchemaError, match="Restart this process"):
            _remember(container, "The old one says so.")
        assert rows(container, f"SELECT state FROM jobs WHERE id = {job_id}") == [("running",)]
        assert rows(container, "SELECT count(*) FROM message_embeddings") == [(0,)]

    # One that starts now refuses at once.
    with open_store(old) as container, pytest.raises(errors.SchemaError, match="does not know"):
        _remember(container)

    def go_on_with_it() -> None:
        with open_store(old, hours=1) as container:
            container.ledger.sweep()
            work(container)
            assert job(container, job_id).state is JobState.DONE
            assert rows(container, "SELECT content FROM messages") == [("The winch was repaired.",)]

    assert in_child(next_version(go_on_with_it)) == 0


def test_old_celery_workers_refuse_work_once_the_schema_is_new_and_do_it_when_it_is_theirs_again_f25(
    start: Callable[..., Stack], next_version: Callable[..., Callable[[], None]]
) -> None:
    stack = start()
    container = stack.container
    _remember(container, "The old one says so.")
    worker = stack.worker()
    wait_until(lambda: not _unfinished(container), "the first is done", worker)
    path = container.sqlite.path

    def accept() -> None:
        settings = stack.settings
        with Container(settings) as newer:
            _remember(newer, "The new one says so.")

    # The new version migrates as it starts, while the old worker runs.
    assert in_child(next_version(accept)) == 0
    wait_until(lambda: "Restart this process with that version" in worker.output, "it says why", worker)
    assert _unfinished(container)
    assert worker.alive()

    def back() -> None:
        database = Sqlite(path)
        migrations.downgrade(database, PRESENT)
        database.close()

    assert in_child(next_version(back)) == 0
    wait_until(lambda: not _unfinished(container), "the second is done", worker)


def test_a_new_version_migrates_what_it_finds_and_goes_on_with_the_old_ones_jobs_f25(
    old: Path, next_version: Callable[..., Callable[[], None]]
) -> None:
    def run() -> None:
        with open_store(old) as container:
            work(container)
            _remember(container, "The rope is new.")
            work(container)
            assert not _unfinished(container)
            assert migrations.current(container.sqlite) == "next"
            assert rows(container, "SELECT mood FROM conversations") == [("calm",)]
            assert len(container.memory.recall("the winch").hits) >= 1

    assert in_child(next_version(run)) == 0

    def back() -> None:
        database = Sqlite(old / "zeph.db")
        migrations.downgrade(database, PRESENT)
        database.close()

    # An old version finds everything again when its schema is back.
    assert in_child(next_version(back)) == 0
    with open_store(old) as container:
        assert_healthy(container)
        assert rows(container, "SELECT count(*) FROM messages") == [(2,)]


def _unfinished(container: Container) -> list[tuple[Any, ...]]:
    return rows(container, "SELECT id FROM jobs WHERE state NOT IN ('done', 'dead')")
