"""Jobs of the embedding queue."""

from __future__ import annotations

from services.bootstrap import Container
from services.jobs.models import EMBED_DOCUMENT
from services.jobs.run import JobRun
from workers.job import job


@job(EMBED_DOCUMENT, soft_limit_seconds=3_540, hard_limit_seconds=3_600)
def embed_document(container: Container, run: JobRun) -> None:
    """Give the chunks of one document their vectors."""
    container.ingestion.embed_document(run)
