"""What became of a batch: every file as exactly one outcome, and how far the vectors are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from services import errors
from services.documents.models import Outcome
from services.documents.store import DocumentDatabase
from services.jobs.models import EMBED_DOCUMENT, INGEST_BATCH, INGEST_FILE, Job, JobState

_PAGE = 1_000
_OPEN = frozenset({JobState.PENDING, JobState.RUNNING, JobState.WAITING})


@dataclass(frozen=True, slots=True)
class BatchProgress:
    """Counts of one batch. `files` grows while folders are still walked (`walking`).

    `outcomes` counts finished files; `chunks` are those of the batch's files, `added` the new ones among them.
    `dead_jobs` are documents whose vectors or facts were given up.
    """

    batch_id: int
    state: JobState
    walking: bool
    files: int
    outcomes: dict[str, int]
    chunks: int
    added: int
    vectors: int
    open_jobs: int
    dead_jobs: int
    chunks_without_vectors: int
    error: str | None = None

    @property
    def finished(self) -> bool:
        """Whether nothing of the batch is left to do."""
        return self.state not in _OPEN

    @property
    def files_done(self) -> int:
        """Files with an outcome, the dead ones included."""
        return sum(self.outcomes.values())

    @property
    def failures(self) -> int:
        """Files that could not be read or stored, and what could not be made of the others."""
        return self.outcomes.get(Outcome.FAILED, 0) + self.dead_jobs


@dataclass(frozen=True, slots=True)
class FileReport:
    """One file's end. `reason` is a stable code, `message` is for people; both are empty for good ones."""

    source: str
    status: str
    reason: str = ""
    message: str = ""
    chunks: int = 0
    warnings: tuple[str, ...] = field(default=())


def batch_progress(database: DocumentDatabase, batch_id: int, namespace: str) -> BatchProgress:
    """How far a batch is. Raises NotFound."""
    with database.read() as unit:
        batch = unit.jobs.get(batch_id, namespace)
        if batch is None or batch.kind != INGEST_BATCH.name:
            raise errors.NotFound(
                f"{batch_id} is no batch of namespace {namespace}: `zeph jobs list` shows them"
            )
        tallies = unit.jobs.tally(batch_id)
        collection = str(batch.payload.get("collection", ""))
        waiting = unit.documents.chunks_without_vectors(namespace, collection)
    files = [row for row in tallies if row.kind == INGEST_FILE.name]
    outcomes: dict[str, int] = {}
    for row in files:
        if row.state in (JobState.DONE, JobState.DEAD):
            status = row.status or Outcome.FAILED
            outcomes[status] = outcomes.get(status, 0) + row.jobs
    return BatchProgress(
        batch_id=batch_id,
        state=batch.state,
        walking=batch.state in (JobState.PENDING, JobState.RUNNING),
        files=sum(row.jobs for row in files),
        outcomes=outcomes,
        chunks=sum(row.chunks for row in files),
        added=sum(row.added for row in files),
        vectors=sum(row.vectors for row in tallies if row.kind == EMBED_DOCUMENT.name),
        open_jobs=sum(row.jobs for row in tallies if row.state in _OPEN),
        dead_jobs=sum(
            row.jobs for row in tallies if row.state == JobState.DEAD and row.kind != INGEST_FILE.name
        ),
        chunks_without_vectors=waiting,
        error=batch.error_message,
    )


def waits_for(database: DocumentDatabase, batch_id: int) -> str | None:
    """Why a job of the batch that failed is to be tried again; None when there is none."""
    with database.read() as unit:
        pending = unit.jobs.select(parent_id=batch_id, states=[JobState.PENDING], limit=_PAGE)
    return next((job.error_message for job in pending if job.error_message), None)


def batch_files(database: DocumentDatabase, batch_id: int) -> Iterator[FileReport]:
    """Every finished file of a batch, the latest first; then vectors that were given up."""
    before: int | None = None
    while True:
        with database.read() as unit:
            final = (JobState.DONE, JobState.DEAD)
            page = unit.jobs.select(parent_id=batch_id, states=final, before_id=before, limit=_PAGE)
        yield from (report for job in page if (report := _file_report(job)) is not None)
        if len(page) < _PAGE:
            return
        before = page[-1].id


def _file_report(job: Job) -> FileReport | None:
    if job.state is JobState.DEAD:
        source = str(job.payload.get("source") or f"{job.kind} {dict(job.payload)}")
        return FileReport(source, Outcome.FAILED, job.error_type or "", job.error_message or "")
    if job.kind != INGEST_FILE.name:
        return None
    outcome = job.outcome or {}
    return FileReport(
        source=str(outcome.get("source", "")),
        status=str(outcome.get("status", "")),
        reason=str(outcome.get("reason", "")),
        message=str(outcome.get("message", "")),
        chunks=int(outcome.get("chunks", 0)),
        warnings=tuple(outcome.get("warnings", ())),
    )
