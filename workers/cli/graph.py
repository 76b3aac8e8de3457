"""`zeph graph`: what is known of people and things, and how it hangs together."""

from __future__ import annotations

import typer

from workers.cli import graph_extraction

app = typer.Typer(no_args_is_help=True, help="Entities and facts: find them, look at them, look after them.")
app.command("extract")(graph_extraction.extract)
app.command("backfill")(graph_extraction.backfill)
