"""Jobs of the maintenance queue."""

from __future__ import annotations

from services.bootstrap import Container
from services.jobs.models import PURGE_JOBS, RECONCILE, REEMBED, REMOVE_VECTORS, JobState
from services.jobs.run import JobRun
from workers.job import job

_DAY_MICROSECONDS = 86_400_000_000


@job(REMOVE_VECTORS)
def remove_vectors(container: Container, run: JobRun) -> None:
    """Remove the vectors of deleted rows."""
    container.upkeep.remove_deleted(run)


@job(REEMBED, soft_limit_seconds=86_340, hard_limit_seconds=86_400)
def reembed(container: Container, run: JobRun) -> None:
    """Move a collection to the configured embedder."""
    container.upkeep.reembed(run)


@job(RECONCILE, soft_limit_seconds=3_540, hard_limit_seconds=3_600)
def reconcile(container: Container, run: JobRun) -> None:
    """Compare rows with vectors and have differences repaired."""
    container.upkeep.reconcile(run)


@job(PURGE_JOBS)
def purge_jobs(container: Container, run: JobRun) -> None:
    """Forget jobs that were done long ago, and model replies nobody used. Dead jobs stay until somebody purges them."""
    kept = container.settings.jobs.retention_days * _DAY_MICROSECONDS
    before = container.clock.now() - kept
    with container.database.write(durable=False) as unit:
        count = unit.jobs.purge(finished_before=before, states=(JobState.DONE,))
        unit.replies.purge(before=before)
        run.finish(unit, {"purged": count})
