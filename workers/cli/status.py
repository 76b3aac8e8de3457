"""`zeph status`: what is stored, what waits, and whether everything answers."""

from __future__ import annotations

from dataclasses import asdict

import typer

from workers.cli.session import AsJson, Namespace, open_container, print_json, say, table


def status(context: typer.Context, *, namespace: Namespace = None, as_json: AsJson = False) -> None:
    """Queue depths with the age of the oldest job and an estimate, stored documents, the state of the stores."""
    with open_container(context) as container:
        with container.database.read() as unit:
            depths = unit.jobs.depths(now=container.clock.now(), namespace=namespace)
            totals = unit.documents.totals(namespace or container.settings.namespace)
        facts = {
            "database": str(container.sqlite.path),
            "vector_store": container.settings.memory.vector_backend,
            "vector_store_healthy": container.vectors.healthy(),
            "embedder": container.settings.embedding.provider,
        }
    if as_json:
        stored = [dict(zip(("collection", "documents", "chunks"), row, strict=True)) for row in totals]
        print_json(facts | {"queues": [asdict(depth) for depth in depths], "documents": stored})
        return
    for name, value in facts.items():
        say(f"{name.replace('_', ' ')}: {value}")
    table("collection", "documents", "chunks", rows=list(totals))
    rows = [
        (
            item.queue,
            item.pending,
            item.delayed,
            item.running,
            item.dead,
            _seconds(item.oldest_seconds),
            _eta(item.eta_seconds),
        )
        for item in depths
    ]
    table("queue", "pending", "delayed", "running", "dead", "oldest", "eta", rows=rows)


def _seconds(value: float) -> str:
    return f"{value:.0f} s" if value else "-"


def _eta(value: float | None) -> str:
    return "unknown" if value is None else _seconds(value)
