"""`zeph collections`: vector collections, and moving them to another embedder."""

from __future__ import annotations

from typing import Annotated

import typer

from workers.cli.session import AsJson, open_container, print_json, say, table

app = typer.Typer(no_args_is_help=True, help="See vector collections and move them to another embedder.")


@app.command("list")
def list_collections(context: typer.Context, *, as_json: AsJson = False) -> None:
    """Every vector collection with its model, dimension, state and number of vectors."""
    with open_container(context) as container:
        with container.database.read() as unit:
            found = unit.collections.all()
        rows = [
            (
                item.name,
                item.identity.label,
                item.state.value,
                container.vectors.count(item.physical),
                item.physical,
            )
            for item in found
        ]
    if as_json:
        names = ("name", "embedder", "state", "vectors", "physical")
        print_json([dict(zip(names, row, strict=True)) for row in rows])
        return
    table("name", "embedder", "state", "vectors", "physical", rows=rows)


@app.command()
def reembed(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="The collection.")],
    *,
    detach: Annotated[
        bool, typer.Option("--detach", help="Accept the work and return; workers do it.")
    ] = False,
) -> None:
    """Fill a new collection with the configured embedder while the old one answers, then switch."""
    from workers.local import run_job

    with open_container(context) as container:
        job_id = container.upkeep.submit_reembed(name)
        if detach or container.settings.jobs.broker_url.get_secret_value():
            say(f"accepted as job {job_id}: follow it with `zeph jobs show {job_id}`")
            return
        run_job(container, job_id)
    say(f"{name} now answers from the configured embedder")
