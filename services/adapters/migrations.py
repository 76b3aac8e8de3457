"""Bringing a database to the schema of this version, safely when several processes start at once."""

from __future__ import annotations

from contextlib import suppress
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from services import errors
from services.adapters import tables

if TYPE_CHECKING:
    from alembic.config import Config

    from services.adapters.sqlite import Sqlite

# The newest migration. Kept here so that an up-to-date database costs one query and no import of Alembic.
HEAD = "0003"


def folder() -> Path:
    """Where the migrations are: inside the installed package, or beside it in a checkout."""
    package = Path(str(files("services")))
    inside, beside = package / "migrations", package.parent / "alembic"
    found = inside if (inside / "env.py").is_file() else beside
    if not (found / "env.py").is_file():
        raise errors.SchemaError(f"the migrations are missing from this installation: no env.py in {found}")
    return found


def current(database: Sqlite) -> str | None:
    """The revision of the database, None for an empty one."""
    with database.read() as connection:
        return _revision(connection)


def _revision(connection: sa.Connection) -> str | None:
    known = connection.exec_driver_sql("SELECT 1 FROM sqlite_master WHERE name = 'alembic_version'").first()
    row = known and connection.exec_driver_sql("SELECT version_num FROM alembic_version").first()
    return str(row[0]) if row else None


def ensure(database: Sqlite) -> None:
    """Migrate to HEAD if needed. Raises SchemaError for a database of a newer version."""
    if current(database) != HEAD:
        upgrade(database)


class SchemaGuard:
    """Notices when another process has migrated the database that this one has open."""

    def __init__(self) -> None:
        self._seen: int | None = None

    def check(self, connection: sa.Connection) -> None:
        """Call at the beginning of a transaction; it costs some microseconds. Raises SchemaError."""
        raw: Any = connection.connection.driver_connection
        # SQLite counts every change of the schema.
        (count,) = raw.execute("PRAGMA schema_version").fetchone()
        if count == self._seen:
            return
        found = _revision(connection)
        if found != HEAD:
            raise errors.SchemaError(
                f"the schema of the database is now {found}, and this process knows {HEAD}: another version of zeph "
                "has migrated it. Restart this process with that version; nothing is lost"
            )
        self._seen = count


def upgrade(database: Sqlite, target: str = "head") -> None:
    """Run the missing migrations in one transaction: after a crash the schema is before or after, never between.

    Others wait for the write lock and then find nothing to do.
    """
    from alembic import command
    from alembic.util.exc import CommandError

    try:
        with database.write() as connection:
            command.upgrade(_config(connection), target)
    except CommandError as error:
        raise errors.SchemaError(
            f"{database.path} has a schema that this version does not know ({error}). "
            "It was written by another version of zeph: use that one, or restore a backup."
        ) from error


def downgrade(database: Sqlite, target: str = "base") -> None:
    """Undo migrations down to `target`, in one transaction. Data of removed tables is lost."""
    from alembic import command

    with database.write() as connection:
        command.downgrade(_config(connection), target)


def differences(database: Sqlite) -> list[str]:
    """How the database differs from the tables this version describes; [] when it does not."""
    from alembic.autogenerate import compare_metadata
    from alembic.migration import MigrationContext

    with database.read() as connection:
        context = MigrationContext.configure(
            connection, opts={"include_name": include_name, "compare_type": True}
        )
        found = [str(difference) for difference in compare_metadata(context, tables.metadata)]
        stored = {sql for _, sql in _stored_sql(connection)}
    wanted = (" ".join(sql.split()) for sql in tables.FULL_TEXT_SQL)
    return found + [f"missing or different: {sql}" for sql in wanted if sql not in stored]


def include_name(name: str | None, kind: str, _parents: object) -> bool:
    """Leave the full-text tables to `FULL_TEXT_SQL`: Alembic knows no virtual tables."""
    return kind != "table" or not (name or "").startswith(tables.FULL_TEXT_TABLES)


def _config(connection: sa.Connection) -> Config:
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(folder()))
    config.attributes["connection"] = connection
    return config


def restore(database: Sqlite) -> int:
    """Make missing indexes, and full-text tables, views and triggers that are missing or different; how many."""
    made = 0
    with database.write() as connection:
        stored = _stored_sql(connection)
        known = {name for name, _ in stored}
        for sql in tables.FULL_TEXT_SQL:
            kind, name = _object(sql)
            if (name, " ".join(sql.split())) not in stored:
                connection.exec_driver_sql(f"DROP {kind} IF EXISTS {name}")
                connection.exec_driver_sql(sql)
                made += 1
        for table in tables.metadata.sorted_tables:
            for index in table.indexes:
                if index.name not in known and table.name in known:
                    # A key that is no key any more cannot have an index: the rows must be put right first.
                    with suppress(sa.exc.IntegrityError):
                        index.create(connection)
                        made += 1
    return made


def damage(database: Sqlite) -> list[str]:
    """What is broken inside the file: pages, foreign keys, full-text indexes; [] when nothing is."""
    with database.read() as connection:
        keys = [
            f"foreign key broken: {tuple(row)}"
            for row in connection.exec_driver_sql("PRAGMA foreign_key_check")
        ]
    indexes = [line for name in tables.FULL_TEXT_TABLES if (line := index_damage(database, name))]
    return page_damage(database) + keys + indexes


def page_damage(database: Sqlite) -> list[str]:
    """What SQLite's own check says of the file's pages and indexes; [] when it is whole. Raises SchemaError."""
    with database.read() as connection:
        lines = [str(row[0]) for row in connection.exec_driver_sql("PRAGMA integrity_check")]
    # Full-text indexes have a check of their own, which compares them with their tables as well. What is said of them
    # here may come from what this connection remembers of an index that was built anew since.
    return [line for line in lines if line != "ok" and "fts5" not in line.casefold()]


def index_damage(database: Sqlite, name: str) -> str | None:
    """How a full-text index differs from its base table; None when it does not."""
    # The check is written as an insert, and compares the index with its base table.
    check = f"INSERT INTO {name}({name}, rank) VALUES ('integrity-check', 1)"  # noqa: S608 - our own table names
    try:
        with database.write(durable=False) as connection:
            connection.exec_driver_sql(check)
    except errors.SchemaError:
        return f"full-text index {name} is missing or differs from its table"
    return None


def _object(sql: str) -> tuple[str, str]:
    """(kind, name) of what a CREATE statement makes."""
    words = sql.replace("VIRTUAL ", "").replace("(", " ").split()
    return words[1], words[2]


def _stored_sql(connection: sa.Connection) -> set[tuple[str, str]]:
    rows = connection.exec_driver_sql("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL")
    return {(name, " ".join(sql.split())) for name, sql in rows}
