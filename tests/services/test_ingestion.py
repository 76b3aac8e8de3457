"""Ingestion through real processes that are killed, stopped and cut off: the result is always the undisturbed one."""

from __future__ import annotations

import json
import random
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import sqlalchemy as sa

from services.bootstrap import Container
from services.documents.models import DocumentMetadata, Outcome
from services.documents.report import batch_progress
from services.embedding.points import chunk_point_ids
from services.embedding.store import CollectionState
from services.jobs.models import EMBED_DOCUMENT, Job, JobState
from tests.fake_openai import FakeOpenAi, hashed
from tests.services.harness import Stack, wait_until

pytestmark = [pytest.mark.services, pytest.mark.timeout(60)]

FILES = 60
WORDS = "harbour lantern gravel orchard violin compass ferry meadow anvil thistle copper walnut".split()


class Content(NamedTuple):
    """What a data folder holds, without its row ids."""

    chunks: list[tuple[str, str, int]]
    marked: int
    windows: int
    vectors: int


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Notes of a few to a few hundred lines, the same in every run."""
    dice = random.Random(11)
    folder = tmp_path_factory.mktemp("notes")
    for number in range(FILES):
        lines = [f"# Note {number}", ""]
        for part in range(dice.randint(1, 12)):
            lines += [f"## Part {part}", ""]
            lines += [" ".join(dice.choices(WORDS, k=12)) + "." for _ in range(dice.randint(3, 25))]
        (folder / f"note-{number:03}.md").write_text("\n".join(lines), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def slow_model() -> Iterator[dict[str, Any]]:
    """The settings for an embedding server that takes its time, so that what happens meanwhile hits the middle."""

    def embed(text: str) -> list[float]:
        time.sleep(0.001)
        return hashed(text)

    with FakeOpenAi() as server:
        server.embed = embed
        yield {
            "embedding__provider": "openai",
            "embedding__base_url": server.base_url,
            "embedding__model": "slow",
        }


@pytest.fixture(scope="module")
def undisturbed(files: Path, slow_model: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Content:
    """The content after one embedded run that nobody disturbs."""
    with Stack(tmp_path_factory.mktemp("undisturbed") / "stack", broker=False, **slow_model) as stack:
        stack.run_zeph("ingest", "--json", *OPTIONS, str(files))
        found = content(stack)
        assert found.vectors > FILES
        return found


# So that every file has many chunks.
OPTIONS = ("--chunk-size", "48", "--chunk-overlap", "8")


_CHUNKS = sa.text(
    "SELECT d.source, c.content_hash, c.position FROM chunks c JOIN documents d ON d.id = c.document_id "
    "WHERE d.collection = :collection ORDER BY 1, 3, 2"
)
_MARKS = sa.text("SELECT chunk_id, windows FROM chunk_embeddings WHERE collection = :physical")


def content(stack: Stack, collection: str = "zeph_documents") -> Content:
    """Read it, and check that rows and vectors agree to the last id."""
    container = stack.container
    with container.database.read() as unit:
        active = unit.collections.find(collection, CollectionState.ACTIVE)
    assert active is not None
    values = {"collection": collection, "physical": active.physical}
    with container.sqlite.read() as connection:
        chunks = [
            (Path(source).name, digest, position)
            for source, digest, position in connection.execute(_CHUNKS, values)
        ]
        marks = list(connection.execute(_MARKS, values))
    expected = {
        point
        for chunk_id, windows in marks
        for point in chunk_point_ids("default", active.physical, chunk_id, windows)
    }
    assert {point for point, _ in _points(container, active.physical)} == expected
    assert len(chunks) == len(set(chunks)) == len(marks)
    vectors = container.vectors.count(active.physical)
    return Content(chunks, len(marks), sum(windows for _, windows in marks), vectors)


def _points(container: Container, physical: str) -> list[Any]:
    found: list[Any] = []
    while page := container.vectors.scroll(physical, "default", after=found[-1][0] if found else None):
        found += page
    return found


def submit(stack: Stack, files: Path) -> int:
    """Hand the folder to the workers; the batch's id."""
    return int(
        json.loads(stack.run_zeph("ingest", "--detach", "--json", *OPTIONS, str(files)).stdout)["batch"]
    )


def embedded_files(stack: Stack) -> int:
    """How many files are stored with all their vectors."""
    with stack.container.database.read() as unit:
        done = unit.jobs.select(kind=EMBED_DOCUMENT.name, states=(JobState.DONE,), limit=1_000)
    # Two batches that met in one file may each have asked for its vectors.
    return len({job.payload["document_id"] for job in done})


def children(stack: Stack, batch: int) -> list[Job]:
    with stack.container.database.read() as unit:
        return unit.jobs.select(parent_id=batch, limit=10_000)


def wait_for(stack: Stack, batch: int, *, seconds: float = 45) -> None:
    """Until the batch is done; then every job of it ended well, and every file as stored."""
    wait_until(lambda: job_state(stack, batch) is JobState.DONE, "the batch is done", seconds=seconds)
    progress = batch_progress(stack.container.database, batch, "default")
    assert progress.outcomes == {Outcome.STORED: FILES}
    assert (progress.open_jobs, progress.dead_jobs, progress.chunks_without_vectors) == (0, 0, 0)
    assert {job.state for job in children(stack, batch)} == {JobState.DONE}


def in_the_middle(stack: Stack) -> None:
    """Return when some files are done and most are not."""
    wait_until(lambda: embedded_files(stack) >= FILES // 6, "a sixth of the files is done")
    assert embedded_files(stack) < FILES * 2 // 3


def test_two_workers_store_what_one_undisturbed_process_stores(start, slow_model, files, undisturbed):
    stack = start(**slow_model)
    stack.worker(wait=False)
    stack.worker()
    wait_for(stack, submit(stack, files))
    assert content(stack) == undisturbed


def test_nothing_is_lost_when_a_worker_and_its_children_are_killed(start, slow_model, files, undisturbed):
    stack = start(**slow_model)
    first = stack.worker(wait=False)
    stack.worker()
    batch = submit(stack, files)
    in_the_middle(stack)
    first.kill()
    wait_for(stack, batch)
    assert content(stack) == undisturbed


def test_nothing_is_lost_when_all_workers_are_killed_and_others_come(start, slow_model, files, undisturbed):
    stack = start(**slow_model)
    first = stack.worker()
    batch = submit(stack, files)
    in_the_middle(stack)
    first.kill()
    wait_until(lambda: not stack.left_behind(), "no parser is left behind")
    stack.worker()
    wait_for(stack, batch)
    assert content(stack) == undisturbed


def test_nothing_is_lost_when_redis_is_flushed(start, slow_model, files, undisturbed):
    stack = start(**slow_model)
    stack.worker(wait=False)
    stack.worker()
    batch = submit(stack, files)
    in_the_middle(stack)
    stack.redis.flush()
    wait_for(stack, batch)
    assert content(stack) == undisturbed


def test_nothing_is_lost_when_redis_comes_back_empty(start, slow_model, files, undisturbed):
    stack = start(**slow_model)
    stack.worker(wait=False)
    stack.worker()
    batch = submit(stack, files)
    in_the_middle(stack)
    stack.redis.kill()
    time.sleep(1)
    stack.redis.start()
    wait_for(stack, batch)
    assert content(stack) == undisturbed


def test_a_worker_that_is_asked_to_stop_fails_no_job(start, slow_model, files, undisturbed):
    stack = start(**slow_model)
    first = stack.worker()
    batch = submit(stack, files)
    in_the_middle(stack)
    first.signal(signal.SIGTERM)
    assert first.wait(30) == 0
    jobs = children(stack, batch)
    assert {job.state for job in jobs} == {JobState.DONE, JobState.PENDING}
    assert {job.error_type for job in jobs} == {None}
    stack.worker()
    wait_for(stack, batch)
    assert {(job.attempts, job.lost_leases) for job in children(stack, batch)} == {(1, 0)}
    assert content(stack) == undisturbed


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGKILL, -signal.SIGKILL)])
def test_an_embedded_run_that_is_cut_off_is_finished_by_the_same_command(
    start, slow_model, files, undisturbed, number, code
):
    stack = start(broker=False, **slow_model)
    command = ("ingest", "--json", *OPTIONS, str(files))
    cut = stack.zeph(*command)
    in_the_middle(stack)
    cut.signal(number)
    assert cut.wait(30) == code
    wait_until(lambda: not stack.left_behind(), "no parser is left behind")
    again = json.loads(stack.run_zeph(*command).stdout)
    assert again["dead_jobs"] == 0
    assert sum(again["outcomes"].values()) == FILES
    assert content(stack) == undisturbed


def test_accepting_work_takes_a_moment_while_redis_is_away_and_it_is_done_later(
    start, slow_model, files, undisturbed
):
    stack = start(**slow_model)
    stack.worker()
    usual = seconds_of(lambda: submit(stack, files / "note-000.md"))
    add_note(stack, "A first note loads what later ones need.", "first")
    stack.redis.kill()
    batches: list[int] = []
    assert seconds_of(lambda: batches.append(submit(stack, files))) < usual + 2
    assert seconds_of(lambda: add_note(stack, "The quince blossoms in May.", "second")) < 2
    stack.redis.start()
    wait_until(lambda: embedded_files(stack) == FILES + 2, "everything has its vectors", seconds=45)
    wait_until(lambda: job_state(stack, batches[0]) is JobState.DONE, "the batch is done")
    assert content(stack) == undisturbed
    answer = stack.container.documents.search("quince", collection="other", mode="vector")
    assert answer.hits[0].passage.source == "second"


def add_note(stack: Stack, text: str, source: str) -> None:
    metadata = DocumentMetadata(source=source, content_type="text/plain")
    stack.container.ingestion.add_text(text, metadata, collection="other")


def job_state(stack: Stack, job_id: int) -> JobState:
    return batch_progress(stack.container.database, job_id, "default").state


def seconds_of(action: Callable[[], object]) -> float:
    began = time.monotonic()
    action()
    return time.monotonic() - began
