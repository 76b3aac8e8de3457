"""Jobs that summarise conversations."""

from __future__ import annotations

from services.bootstrap import Container
from services.jobs.models import EMBED_SUMMARY, SUMMARIZE
from services.jobs.run import JobRun
from workers.job import job


@job(SUMMARIZE, soft_limit_seconds=840, hard_limit_seconds=900)
def summarize(container: Container, run: JobRun) -> None:
    """Write the next summary of a conversation."""
    container.summarizer.summarize(run)


@job(EMBED_SUMMARY)
def embed_summary(container: Container, run: JobRun) -> None:
    """Give a summary and its facts their vectors."""
    container.summary_vectors.embed(run)
