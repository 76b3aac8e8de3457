"""F11, F12 and F13: a database that others hold, read for long, or have no room for, and what was accepted meanwhile."""

from __future__ import annotations

import multiprocessing
import random
import resource
import shutil
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from services import errors
from services.adapters import migrations
from services.adapters.sqlite import driver
from services.bootstrap import Container
from services.jobs.models import Job, JobState, NewJob
from services.memory.models import NewMessage, Role
from tests.builders import assert_healthy, enqueue, job, rows, work
from tests.faults.harness import PROFILE, SEED, amount, quantile
from tests.faults.scenarios import open_store
from tests.services.harness import JOBS_APP, PATIENT, SCHEDULED, Stack, wait_until

pytestmark = [pytest.mark.faults, pytest.mark.timeout(1_800)]

# ---- F11: the write lock -----------------------------------------------------------------------------------------

HOLD = """
import sys, time
from services.adapters.sqlite import driver

connection = driver().connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
print("held", flush=True)
time.sleep(float(sys.argv[2]))
connection.execute("ROLLBACK")
"""


@contextmanager
def write_lock(path: Path, seconds: float) -> Iterator[None]:
    """Another process holds the write lock for that long; the block runs meanwhile, and until it is over."""
    command = [sys.executable, "-c", HOLD, str(path), str(seconds)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        yield
    assert holder.returncode == 0


class Writer(threading.Thread):
    """Remembers one message after the other until it is told to stop."""

    def __init__(self, container: Container, name: str) -> None:
        super().__init__(daemon=True)
        self._container = container
        self._name = name
        self._enough = threading.Event()
        self.accepted: dict[int, str] = {}
        self.refused: list[errors.TransientError] = []
        self.longest = 0.0

    def run(self) -> None:
        number = 0
        while not self._enough.wait(0.2):
            number += 1
            text, began = f"{self._name} said {number} of the winch", time.monotonic()
            try:
                message_id = self._container.memory.remember(Role.USER, text, conversation="ops")
                self.accepted[message_id] = text
            except errors.TransientError as error:
                self.refused.append(error)
            self.longest = max(self.longest, time.monotonic() - began)

    def stop(self) -> None:
        self._enough.set()
        self.join()


def read_for(container: Container, seconds: float) -> list[float]:
    """Recall and look through history again and again; how long each took."""
    end, took = time.monotonic() + seconds, []
    while time.monotonic() < end:
        for read in (
            lambda: container.memory.recall("the winch of dome 7"),
            lambda: container.memory.history(conversation="ops"),
        ):
            began = time.monotonic()
            read()
            took.append(time.monotonic() - began)
        time.sleep(0.02)
    return took


def test_a_write_lock_held_for_as_long_as_a_lease_costs_time_alone_f11(start: Callable[..., Stack]) -> None:
    lease = amount(commit=6, nightly=30)
    stack = start(
        jobs__lease_secs=float(lease),
        jobs__heartbeat_secs=lease / 3,
        jobs__sweep_interval_secs=lease / 6,
    )
    container = stack.container
    container.memory.remember(Role.USER, "Hanne repaired the winch of dome 7.", conversation="ops")
    processes = [stack.worker(app=JOBS_APP, concurrency=3), stack.embedded_worker()]
    writers = [Writer(container, f"writer {number}") for number in range(2)]
    for writer in writers:
        writer.start()
    took: list[float] = []
    patient: list[int] = []
    for _ in range(amount(commit=1, nightly=10)):
        # More than a worker can take at once, so that both have some.
        mine = enqueue(
            container, *(NewJob(PATIENT, {"seconds": lease + max(3, lease / 3)}) for _ in range(4))
        )
        patient += mine
        wait_until(lambda mine=mine: _running(container, mine) >= 2, "some are running")
        with write_lock(container.sqlite.path, lease):
            took += read_for(container, lease)
        time.sleep(lease / 6)
    for writer in writers:
        writer.stop()

    with suppress(AssertionError):
        wait_until(lambda: not _unended(container), "everything has ended", seconds=300)
    assert _unended(container) == []
    accepted = writers[0].accepted | writers[1].accepted
    refused = [error for writer in writers for error in writer.refused]
    stored = dict(rows(container, "SELECT id, content FROM messages WHERE content LIKE '% said %'"))
    p99 = quantile(took, 0.99)
    stolen = [(found.kind, found.id) for found in _jobs(container) if found.lost_leases]
    print(
        f"F11: {len(accepted)} accepted, {len(refused)} refused, {len(accepted.keys() - stored.keys())} lost, "
        f"{len(stolen)} leases stolen, longest write {max(w.longest for w in writers):.1f} s, "
        f"{len(took)} reads p99 {p99 * 1000:.1f} ms"
    )
    assert stolen == []
    assert {job(container, job_id).attempts for job_id in patient} == {1}
    assert not rows(container, "SELECT id FROM jobs WHERE state = 'dead'")
    # What was refused may be stored, if the lock was given back between the refusal and the commit; nothing else.
    assert accepted.items() <= stored.items()
    assert {type(error) for error in refused} <= {errors.StorageBusy}
    assert p99 <= (0.05 if PROFILE == "nightly" else 1.0)
    assert all(process.alive() for process in processes)


def _unended(container: Container) -> list[tuple[Any, ...]]:
    """What is live, but for what the schedule of the workers asks for again and again."""
    live = f"state NOT IN ('done', 'dead') AND kind <> '{SCHEDULED.name}'"
    return rows(
        container, f"SELECT id, kind, state, attempts, lost_leases, error_message FROM jobs WHERE {live}"
    )


def _running(container: Container, ids: list[int]) -> int:
    return sum(job(container, each).state is JobState.RUNNING for each in ids)


def _jobs(container: Container) -> list[Job]:
    with container.database.read() as unit:
        return unit.jobs.select(limit=10_000)


# ---- F12: long readers -------------------------------------------------------------------------------------------

WAL_LIMIT_BYTES = 64 * 2**20


def test_the_log_that_a_long_reader_made_grow_is_small_again_soon_f12(tmp_path: Path, migrated: Path) -> None:
    shutil.copy(migrated, tmp_path / "zeph.db")
    log, stop, accepted = tmp_path / "zeph.db-wal", tmp_path / "stop", tmp_path / "accepted"
    highest, waited = 0, []

    def load(number: int) -> None:
        """Remember, and write over large rows again and again, so that the log grows and the database does not."""
        ids, turn = [], 0
        with open_store(tmp_path, real_entropy=True) as container:
            while not stop.exists():
                turn += 1
                ids.append(_remember(container, f"{number} said {turn}"))
                row = (f"{number}-{turn % 20}", "x" * amount(commit=200_000, nightly=30_000))
                with container.database.write() as unit:
                    unit.connection.exec_driver_sql(OVERWRITE, row)
                time.sleep(0.02)
        (accepted / str(number)).write_text(" ".join(map(str, ids)))

    accepted.mkdir()
    context = multiprocessing.get_context("fork")
    writers = [context.Process(target=load, args=(number,)) for number in range(2)]
    for writer in writers:
        writer.start()
    with open_store(tmp_path) as container:
        for _ in range(amount(commit=1, nightly=3)):
            began = time.monotonic()
            with container.database.read() as unit:
                before = unit.connection.exec_driver_sql("SELECT count(*) FROM messages").scalar()
                while (
                    time.monotonic() < began + amount(commit=2, nightly=60) or _size(log) <= WAL_LIMIT_BYTES
                ):
                    time.sleep(0.2)
                assert unit.connection.exec_driver_sql("SELECT count(*) FROM messages").scalar() == before
                highest = max(highest, _size(log))
            freed = time.monotonic()
            # The load goes on.
            wait_until(lambda: _size(log) <= WAL_LIMIT_BYTES, "the log is small again", seconds=30)
            waited.append(time.monotonic() - freed)
        stop.touch()
        for writer in writers:
            writer.join(60)
        assert [writer.exitcode for writer in writers] == [0, 0]
        ids = {int(each) for file in accepted.iterdir() for each in file.read_text().split()}
        assert {row[0] for row in rows(container, "SELECT id FROM messages")} == ids
        assert_healthy(container)
    print(
        f"F12: {len(ids)} accepted, none lost; log at most {highest / 2**20:.0f} MiB while the reader was there, "
        f"at most 64 MiB {max(waited):.1f} s after it"
    )


OVERWRITE = (
    "INSERT OR REPLACE INTO response_cache(namespace, cache_key, model, response, created_at, expires_at) "
    f"VALUES ('default', ?, 'm', ?, 1, {2**60})"
)


def _remember(container: Container, text: str) -> int:
    return int(container.memory.remember(Role.USER, text, conversation="ops"))


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


# ---- F13: no room ------------------------------------------------------------------------------------------------


_SENTENCES = "The winch of the dome was repaired again. " * 20


class SmallDisk:
    """A tmpfs of 32 MiB, to be filled up."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def remove_store(self) -> None:
        """Make room for another one."""
        for file in self.folder.glob("zeph.db*"):
            file.unlink()

    @contextmanager
    def full(self, left: int) -> Iterator[None]:
        """No more than so many bytes are free, to the next page."""
        ballast = self.folder / "ballast"
        ballast.write_bytes(b"x" * max(0, shutil.disk_usage(self.folder).free - left))
        try:
            yield
        finally:
            ballast.unlink()


class LimitedFiles(SmallDisk):
    """Files that cannot become longer than the database is: what there is where nothing may be mounted."""

    @contextmanager
    def full(self, left: int) -> Iterator[None]:
        before, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (_size(self.folder / "zeph.db") + left, hard))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (before, hard))


@pytest.fixture(params=["tmpfs", "file size"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SmallDisk]:
    folder = tmp_path / "disk"
    folder.mkdir()
    if request.param == "file size":
        yield LimitedFiles(folder)
        return
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=32m", "tmpfs", folder], check=False, capture_output=True
    )
    if mounted.returncode:
        pytest.skip(f"nothing can be mounted here: {mounted.stderr.decode().strip()}")
    yield SmallDisk(folder)
    subprocess.run(["umount", "--lazy", folder], check=True)


def _amounts_left(most: int) -> list[int]:
    """How much room there may be when it gets short, so that it ends at another point every time."""
    dice = random.Random(SEED)
    return [dice.randrange(most) for _ in range(amount(commit=1, nightly=20))]


def _fill(container: Container, accepted: dict[int, str]) -> errors.TransientError:
    """Remember until there is no room; with what words that is said."""
    for number in range(20_000):
        text = f"{number}: {_SENTENCES}"
        try:
            accepted[_remember(container, text)] = text
        except errors.TransientError as error:
            return error
    raise AssertionError("there was room for everything")


def _stored(container: Container) -> dict[int, str]:
    return dict(rows(container, "SELECT id, content FROM messages"))


def test_a_disk_that_is_full_when_work_is_accepted_or_finished_loses_nothing_f13(
    disk: SmallDisk, migrated: Path
) -> None:
    said: Counter[str] = Counter()
    unfinished = 0
    for left in _amounts_left(400_000):
        # Another store each time: the room in which one may grow would be used up.
        disk.remove_store()
        shutil.copy(migrated, disk.folder / "zeph.db")
        with open_store(disk.folder, real_entropy=True) as container:
            accepted = _one(container)
            with disk.full(left):
                said[_named(_fill(container, accepted))] += 1
                assert len(container.memory.history(limit=1, conversation="ops")) == 1
                assert container.memory.recall("which winch was repaired?").hits
                try:
                    work(container)
                except errors.TransientError as error:
                    said[_named(error)] += 1
                    unfinished += 1
                assert migrations.page_damage(container.sqlite) == []
                assert _stored(container) == accepted
            container.clock.advance(3_600)
            container.ledger.sweep()
            work(container)
            assert not rows(container, "SELECT id FROM jobs WHERE state <> 'done'"), SEED
            assert _stored(container) == accepted
            container.memory.forget(everything=True)
            work(container)
            assert_healthy(container)
    print(
        f"F13: accepting and finishing, {sum(said.values())} times without room, {unfinished} in jobs: {said}"
    )


def test_a_disk_that_is_full_when_the_log_is_moved_into_the_database_loses_nothing_f13(
    disk: SmallDisk, migrated: Path
) -> None:
    shutil.copy(migrated, disk.folder / "zeph.db")
    accepted: dict[int, str] = {}
    said: Counter[str] = Counter()
    for left in _amounts_left(30_000):
        with open_store(disk.folder, real_entropy=True) as container, ExitStack() as filled:
            said_now = [
                NewMessage(Role.USER, f"{len(accepted) + number}: {_SENTENCES}") for number in range(50)
            ]
            ids = container.memory.remember_many("ops", said_now)
            accepted |= dict(zip(map(int, ids), (each.content for each in said_now), strict=True))
            filled.enter_context(disk.full(left))
            try:
                with container.sqlite.read() as connection:
                    connection.connection.driver_connection.execute("COMMIT")
                    connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
                    connection.connection.driver_connection.execute("BEGIN")
                said["enough room"] += 1
            except errors.TransientError as error:
                said[_named(error)] += 1
            assert _stored(container) == accepted
            # Closing moves what it can.
            container.close()
        with open_store(disk.folder, real_entropy=True) as container:
            assert _stored(container) == accepted
            accepted |= _one(container)
            work(container)
            assert migrations.damage(container.sqlite) == []
    print(f"F13: checkpoint, {sum(said.values())} times: {said}")


def test_a_disk_that_is_full_when_the_schema_is_made_leaves_the_one_before_f13(disk: SmallDisk) -> None:
    said: Counter[str] = Counter()
    for left in _amounts_left(300_000):
        disk.remove_store()
        failed: errors.TransientError | None = None
        with disk.full(left):
            try:
                with open_store(disk.folder) as container:
                    container.database  # noqa: B018 - opening it migrates
            except errors.TransientError as error:
                failed = error
        said["enough room" if failed is None else _named(failed)] += 1
        if failed is not None:
            # Where there is no room at all, nobody can look before there is some again.
            with closing(driver().connect(disk.folder / "zeph.db")) as raw:
                assert raw.execute("SELECT count(*) FROM sqlite_master").fetchone() == (0,)
        with open_store(disk.folder) as container:
            _remember(container, "There is room again.")
            work(container)
            assert_healthy(container)
    print(f"F13: migration, {sum(said.values())} times: {said}")


def _one(container: Container) -> dict[int, str]:
    return {_remember(container, _SENTENCES): _SENTENCES}


def _named(error: errors.TransientError) -> str:
    """The kind of error, whose message must say what to do."""
    assert "free some space" in str(error), error
    return type(error).__name__
