"""Alembic's entry: migrates the connection it is handed, else the configured database."""

from __future__ import annotations

from pathlib import Path

from alembic import context

from services.adapters.migrations import include_name
from services.adapters.tables import metadata


def migrate(connection: object) -> None:
    """Run the migrations on this connection, inside the transaction that its owner opened."""
    context.configure(
        connection=connection,
        target_metadata=metadata,
        include_name=include_name,
        transactional_ddl=False,
        render_as_batch=False,
    )
    context.run_migrations()


def main() -> None:
    """Take the connection from our own command, else open the configured database."""
    connection = context.config.attributes.get("connection")
    if connection is not None:
        migrate(connection)
        return
    from services.adapters.sqlite import Sqlite
    from services.settings import load_settings

    settings = load_settings()
    with Sqlite(Path(settings.memory.sqlite_path)).write() as opened:
        migrate(opened)


main()
