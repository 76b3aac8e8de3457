"""Jobs of the response cache."""

from __future__ import annotations

from services.bootstrap import Container
from services.jobs.models import EVICT_RESPONSES
from services.jobs.run import JobRun
from workers.job import job


@job(EVICT_RESPONSES, soft_limit_seconds=840, hard_limit_seconds=900)
def evict_responses(container: Container, run: JobRun) -> None:
    """Remove responses that have expired, and the oldest beyond the limits."""
    container.response_cache.evict(run)
