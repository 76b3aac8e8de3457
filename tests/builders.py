"""Small builders that tests share: jobs, files, and stand-ins for the world outside."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import workers.tasks  # noqa: F401 - declares the handlers
from services import errors
from services.adapters.in_memory import HashEmbedder, InMemoryVectorStore
from services.bootstrap import Container
from services.documents.loaders import content_type
from services.documents.models import Document, DocumentMetadata
from services.documents.report import BatchProgress, FileReport, batch_files, batch_progress
from services.documents.service import IngestRequest
from services.jobs.models import EMBED_DOCUMENT, Job, JobKind, NewJob, Queue
from services.jobs.run import JobRun
from services.ports import EmbedderIdentity, EmbeddingKind
from workers.job import Runner

# ---- jobs ------------------------------------------------------------------------------------------------------


def new_job(kind: JobKind = EMBED_DOCUMENT, **fields: Any) -> NewJob:
    """A job that nobody runs unless a test does."""
    return NewJob(kind, **fields)


def pdf_of(*objects: bytes) -> bytes:
    """A PDF made of the bodies of its objects, numbered from 1; the first is the catalogue."""
    out, offsets = b"%PDF-1.4\n", []
    for number, body in enumerate(objects, 1):
        offsets.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    table = b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    size = len(objects) + 1
    trailer = b"trailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (size, len(out))
    return out + b"xref\n0 %d\n0000000000 65535 f \n" % size + table + trailer


def enqueue(container: Container, *jobs: NewJob) -> list[int]:
    """Accept jobs in one unit."""
    with container.database.write() as unit:
        return unit.jobs.enqueue(jobs)


def job(container: Container, job_id: int) -> Job:
    """The row as it is now."""
    with container.database.read() as unit:
        found = unit.jobs.get(job_id)
    assert found is not None
    return found


def claim(container: Container, job_id: int) -> JobRun:
    """Take this job, which must be free."""
    run = container.ledger.claim(job_id)
    assert run is not None
    return run


def finish(container: Container, run: JobRun) -> None:
    """End a run well."""
    with container.database.write() as unit:
        run.finish(unit)


def work(container: Container, queues: Sequence[str] = tuple(Queue)) -> None:
    """Run everything that is due now."""
    Runner(container).drain(queues, seconds=3_600)


def in_processes(count: int, task: Callable[[int], object], *, seconds: float = 60) -> None:
    """Run `task(number)` in that many forked processes at once; each must end well, and in time."""
    context = multiprocessing.get_context("fork")
    started = [context.Process(target=task, args=(number,)) for number in range(count)]
    for process in started:
        process.start()
    for process in started:
        process.join(seconds)
    assert [process.exitcode for process in started] == [0] * count


# ---- documents -------------------------------------------------------------------------------------------------


def write_files(folder: Path, files: Mapping[str, str | bytes]) -> Path:
    """Write files by relative name, folders included."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        # Times of two writes in one test may fall into one tick of the file system's clock.
        os.utime(path)
    return folder


def submit(container: Container, *paths: Path, **request: Any) -> int:
    """Accept a batch."""
    return container.ingestion.submit(IngestRequest(tuple(map(str, paths)), **request)).batch_id


def ingest(container: Container, *paths: Path, **request: Any) -> BatchProgress:
    """Accept a batch and run everything that is due."""
    batch_id = submit(container, *paths, **request)
    work(container)
    return batch_progress(container.database, batch_id, request.get("namespace", "default"))


def outcomes(container: Container, batch: BatchProgress) -> dict[str, FileReport]:
    """The reports of a batch by file name."""
    reports = list(batch_files(container.database, batch.batch_id))
    found = {Path(report.source).name: report for report in reports}
    assert len(found) == len(reports)
    return found


def found_texts(
    container: Container, query: str, collection: str = "zeph_documents", **options: Any
) -> list[str]:
    """The texts of the passages that a search finds."""
    answer = container.documents.search(query, collection=collection, **options)
    return [hit.passage.text for hit in answer.hits]


def rows(container: Container, statement: str) -> list[tuple[Any, ...]]:
    """What SQL says."""
    with container.sqlite.read() as connection:
        return [tuple(row) for row in connection.exec_driver_sql(statement)]


# ---- the world outside -----------------------------------------------------------------------------------------


class PlainParser:
    """Reads UTF-8 in this process, and counts."""

    def __init__(self) -> None:
        self.parsed: list[str] = []
        self.before_return: Callable[[], object] = lambda: None

    def parse(self, data: bytes, *, source: str, name: str) -> Document:
        self.parsed.append(name)
        try:
            text = data.decode()
        except UnicodeDecodeError as error:
            raise errors.DocumentError(f"{source} is no text", reason="corrupt") from error
        self.before_return()
        return Document(text, DocumentMetadata(source, content_type(name)))

    def close(self) -> None:
        pass


class ScriptedEmbedder:
    """The hashing embedder under another name: it counts, and fails or does something else when told to."""

    def __init__(self, model: str = "hash", dimension: int = 64) -> None:
        self._inner = HashEmbedder(dimension)
        self.identity = EmbedderIdentity("fake", model, dimension)
        self.texts: list[str] = []
        self.error: Exception | None = None
        self.before_embed: Callable[[], object] = lambda: None

    def windows(self, text: str) -> list[str]:
        return self._inner.windows(text)

    def embed(self, texts: Sequence[str], *, kind: EmbeddingKind) -> Any:
        self.before_embed()
        if self.error is not None:
            raise self.error
        if kind == "document":
            self.texts += texts
        return self._inner.embed(texts, kind=kind)


class PickyEmbedder(ScriptedEmbedder):
    """A model that refuses some texts for good."""

    refused = "poison"

    def embed(self, texts: Sequence[str], *, kind: EmbeddingKind) -> Any:
        if any(self.refused in text for text in texts):
            raise errors.ModelRejected("400: the input is invalid")
        return super().embed(texts, kind=kind)


class FallibleStore(InMemoryVectorStore):
    """A vector store that can be down."""

    down = False

    def upsert(self, *args: Any, **options: Any) -> None:
        self._answer()
        super().upsert(*args, **options)

    def search(self, *args: Any, **options: Any) -> Any:
        self._answer()
        return super().search(*args, **options)

    def scroll(self, *args: Any, **options: Any) -> Any:
        self._answer()
        return super().scroll(*args, **options)

    def count(self, *args: Any, **options: Any) -> int:
        self._answer()
        return super().count(*args, **options)

    def healthy(self) -> bool:
        return not self.down

    def _answer(self) -> None:
        if self.down:
            raise errors.VectorStoreUnavailable("the vector store does not answer")


class Bells:
    """A publisher that remembers, or a broker that is away."""

    def __init__(self) -> None:
        self.rung: list[tuple[str, str, int]] = []
        self.away = False

    def publish(self, queue: str, task: str, job_id: int) -> None:
        if self.away:
            raise errors.TransientError("the broker does not answer")
        self.rung.append((queue, task, job_id))


# ---- health ----------------------------------------------------------------------------------------------------


def assert_healthy(container: Container) -> None:
    """Everything stored is as it should be: what `zeph doctor` looks at, all of it."""
    report = container.doctor.examine()
    assert report.healthy, report
