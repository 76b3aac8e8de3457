"""`zeph cache`: the stored answers of language models."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from workers.cli.session import AsJson, Namespace, open_container, print_json, say, say_facts

app = typer.Typer(no_args_is_help=True, help="See and remove cached answers of language models.")


@app.command()
def stats(context: typer.Context, *, namespace: Namespace = None, as_json: AsJson = False) -> None:
    """How many answers are stored, their size, and how often they were of use."""
    with open_container(context) as container:
        facts = asdict(container.response_cache.stats(namespace=namespace))
    if as_json:
        print_json(facts)
        return
    say_facts(facts)


@app.command()
def clear(context: typer.Context, *, namespace: Namespace = None, as_json: AsJson = False) -> None:
    """Remove every cached answer of the namespace."""
    with open_container(context) as container:
        removed = container.response_cache.clear(namespace=namespace)
    _report(removed, as_json=as_json)


@app.command()
def invalidate(
    context: typer.Context,
    sources: Annotated[
        list[str],
        typer.Argument(
            help="Rows as a context cites them: message:12, chunk:7, document:3, correction:5 ..."
        ),
    ],
    *,
    namespace: Namespace = None,
    as_json: AsJson = False,
) -> None:
    """Remove the answers made of these rows. Changed and deleted rows do that by themselves."""
    from services.cache.models import Source

    named = [Source.parse(text) for text in sources]
    with open_container(context) as container:
        removed = container.response_cache.invalidate_sources(*named, namespace=namespace)
    _report(removed, as_json=as_json)


def _report(removed: int, *, as_json: bool) -> None:
    if as_json:
        print_json({"removed": removed})
    else:
        say(f"removed {removed} cached answer{'' if removed == 1 else 's'}")
