"""Jobs of conversation memory."""

from __future__ import annotations

from services.bootstrap import Container
from services.jobs.models import EMBED_MESSAGES, EMBED_MISSING
from services.jobs.run import JobRun
from workers.job import job


@job(EMBED_MESSAGES, soft_limit_seconds=3_540, hard_limit_seconds=3_600)
def embed_messages(container: Container, run: JobRun) -> None:
    """Give the messages of one block their vectors."""
    container.message_vectors.embed_block(run)


@job(EMBED_MISSING)
def embed_missing(container: Container, run: JobRun) -> None:
    """Enqueue what has no vectors although it should."""
    waiting, jobs = container.message_vectors.embed_missing()
    with container.database.write() as unit:
        run.finish(unit, {"waiting": waiting, "jobs": jobs})
