"""The handlers: a few lines each, one service function per job. Importing this package declares them all."""

from __future__ import annotations

from workers.tasks import (
    cache,
    corrections,
    embed,
    eviction,
    graph,
    graph_communities,
    graph_extraction,
    ingest,
    maintenance,
    memory,
    summaries,
)

__all__ = [
    "cache",
    "corrections",
    "embed",
    "eviction",
    "graph",
    "graph_communities",
    "graph_extraction",
    "ingest",
    "maintenance",
    "memory",
    "summaries",
]
