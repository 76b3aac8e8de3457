"""Jobs of graph memory."""

from __future__ import annotations

from services.bootstrap import Container
from services.jobs.models import EMBED_ENTITIES, EVICT_GRAPH
from services.jobs.run import JobRun
from workers.job import job


@job(EMBED_ENTITIES, soft_limit_seconds=3_540, hard_limit_seconds=3_600)
def embed_entities(container: Container, run: JobRun) -> None:
    """Give the entities of one block their vectors, and make one of those that are the same."""
    container.entity_vectors.embed_block(run)


@job(EVICT_GRAPH, soft_limit_seconds=3_540, hard_limit_seconds=3_600)
def evict_graph(container: Container, run: JobRun) -> None:
    """Keep the graph within its size."""
    container.graph_eviction.sweep(run)
