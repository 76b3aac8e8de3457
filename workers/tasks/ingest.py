"""Jobs of the ingestion queue."""

from __future__ import annotations

from services.bootstrap import Container
from services.jobs.models import INGEST_BATCH, INGEST_FILE
from services.jobs.run import JobRun
from workers.job import job


@job(INGEST_BATCH, soft_limit_seconds=840, hard_limit_seconds=900)
def ingest_batch(container: Container, run: JobRun) -> None:
    """Walk the folders of a batch and enqueue its files."""
    container.ingestion.run_batch(run)


@job(INGEST_FILE, soft_limit_seconds=840, hard_limit_seconds=900)
def ingest_file(container: Container, run: JobRun) -> None:
    """Read, split and store one file."""
    container.ingestion.ingest_file(run)
