"""Jobs that forget."""

from __future__ import annotations

from services.bootstrap import Container
from services.jobs.models import EVICT_MESSAGES
from services.jobs.run import JobRun
from workers.job import job


@job(EVICT_MESSAGES, soft_limit_seconds=3_540, hard_limit_seconds=3_600)
def evict_messages(container: Container, run: JobRun) -> None:
    """Keep every namespace within its size, and erase what has left it."""
    container.eviction.sweep(run)
