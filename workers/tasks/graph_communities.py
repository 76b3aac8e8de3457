"""Jobs that keep communities."""

from __future__ import annotations

from services.bootstrap import Container
from services.jobs.models import GRAPH_REFRESH
from services.jobs.run import JobRun
from workers.job import job


@job(GRAPH_REFRESH, soft_limit_seconds=3_540, hard_limit_seconds=3_600)
def refresh(container: Container, run: JobRun) -> None:
    """Bring the communities in step with the graph."""
    container.communities.sweep(run)
