"""Jobs that read texts for the graph."""

from __future__ import annotations

from services.bootstrap import Container
from services.jobs.models import BACKFILL_GRAPH, EXTRACT_GRAPH
from services.jobs.run import JobRun
from workers.job import job


@job(EXTRACT_GRAPH, soft_limit_seconds=3_540, hard_limit_seconds=3_600)
def extract_graph(container: Container, run: JobRun) -> None:
    """Read a few messages or chunks, and store what they state."""
    container.graph_extraction.extract(run)


@job(BACKFILL_GRAPH, soft_limit_seconds=3_540, hard_limit_seconds=3_600)
def backfill_graph(container: Container, run: JobRun) -> None:
    """Have everything read that nobody has read yet."""
    container.graph_extraction.backfill(run)
