"""`zeph db`: the database file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from services import errors
from workers.cli.session import EXIT_FAILURES, open_container, say

app = typer.Typer(no_args_is_help=True, help="Migrate, check and back up the database.")


@app.command()
def upgrade(context: typer.Context) -> None:
    """Bring the database to this version's schema. Other commands do this by themselves when needed."""
    from services.adapters import migrations

    with open_container(context) as container:
        migrations.ensure(container.sqlite)
        say(f"{container.sqlite.path} is at revision {migrations.current(container.sqlite)}")


@app.command()
def check(context: typer.Context) -> None:
    """Compare the schema with this version and check the file, foreign keys and full-text indexes."""
    from services.adapters import migrations

    with open_container(context) as container:
        migrations.ensure(container.sqlite)
        found = migrations.differences(container.sqlite) + migrations.damage(container.sqlite)
    for line in found:
        say(line)
    if found:
        raise typer.Exit(EXIT_FAILURES)
    say("the database is as it should be")


@app.command()
def backup(context: typer.Context, target: Annotated[Path, typer.Argument(help="A new file.")]) -> None:
    """Write a consistent copy while others read and write."""
    with open_container(context) as container:
        if not container.sqlite.path.exists():
            raise errors.NotFound(f"there is no database at {container.sqlite.path}: nothing to back up")
        container.sqlite.backup(target.expanduser().absolute())
    say(f"wrote {target}")
