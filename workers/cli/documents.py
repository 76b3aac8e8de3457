"""`zeph documents`: what is stored, and taking it away."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from services import errors
from workers.cli.session import AsJson, Collection, Namespace, open_container, print_json, say, table

app = typer.Typer(no_args_is_help=True, help="List and remove stored documents.")


@app.command("list")
def list_documents(
    context: typer.Context,
    *,
    collection: Collection = None,
    namespace: Namespace = None,
    after: Annotated[str, typer.Option(help="Continue behind this source.")] = "",
    limit: Annotated[int, typer.Option("--limit", "-k", min=1, max=10_000, help="Documents at most.")] = 100,
    as_json: AsJson = False,
) -> None:
    """Stored documents by source, with chunks and how many of them have vectors."""
    with open_container(context) as container, container.database.read() as unit:
        mine = namespace or container.settings.namespace
        name = collection or container.settings.memory.documents.collection
        found = unit.documents.page(mine, name, after=after, limit=limit)
    if as_json:
        print_json([asdict(document) for document in found])
        return
    rows = [(item.source, item.collection, item.chunks, item.embedded, item.content_type) for item in found]
    table("source", "collection", "chunks", "embedded", "type", rows=rows)


@app.command()
def remove(
    context: typer.Context,
    sources: Annotated[list[str], typer.Argument(help="Sources as `zeph documents list` prints them.")],
    *,
    collection: Collection = None,
    namespace: Namespace = None,
) -> None:
    """Forget documents: their chunks, index entries and vectors. All of them, or none if one is not there."""
    with open_container(context) as container:
        mine = namespace or container.settings.namespace
        where = collection or container.settings.memory.documents.collection
        with container.database.read() as unit:
            unknown = [source for source in sources if unit.documents.find(mine, where, source) is None]
        if unknown:
            raise errors.NotFound(
                f"no document is called {unknown[0]}: `zeph documents list` shows them. Nothing was removed"
            )
        count = container.ingestion.remove(sources, collection=where, namespace=mine)
        if not container.settings.jobs.broker_url.get_secret_value():
            from workers.local import run_pending

            run_pending(container, ["maintenance"])
    say(f"{count} documents removed")
