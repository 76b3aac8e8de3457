"""The doctor's checks of the database file: pages, schema, foreign keys, full-text indexes, natural keys, rules."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import sqlalchemy as sa

from services import errors
from services.adapters import migrations, tables
from services.adapters.database import Database
from services.adapters.sqlite import Sqlite
from services.adapters.store_rules import rules
from services.doctor.models import EXAMPLES, Finding
from services.jobs.models import RetryPolicy
from services.ports import Clock

_RESTORE = "stop all workers and restore a backup (`zeph db backup` writes them)"
_INDEX_DAMAGE = ("missing from index", "wrong # of entries in index", "non-unique entry in index")
# What was said in a lost conversation is still there: the conversation is made anew. And a child whose batch is gone is
# work all the same. Everywhere else the schema says what becomes of a row whose parent goes.
_CONVERSATIONS_LOST = frozenset({"messages", "summaries", "key_facts"})
_KEPT_WITHOUT_PARENT = frozenset({"jobs"})


class FileCheck:
    """SQLite's own check of its pages and indexes."""

    name = "database file"

    def __init__(self, sqlite: Sqlite) -> None:
        self._sqlite = sqlite

    def find(self) -> Iterator[Finding]:
        """See Check."""
        where = self._sqlite.path.name
        try:
            lines = migrations.page_damage(self._sqlite)
        except errors.SchemaError as error:
            yield Finding("file_unreadable", where, str(error), 1, remedy=_RESTORE)
            return
        indexes = [line for line in lines if any(mark in line for mark in _INDEX_DAMAGE)]
        pages = [line for line in lines if line not in indexes]
        if indexes:
            what, remedy = "entries of indexes differ from their tables", "builds the indexes anew"
            yield Finding(
                "index_damaged", where, what, len(indexes), _first(indexes), repairable=True, remedy=remedy
            )
        if pages:
            yield Finding(
                "file_damaged", where, "pages are damaged", len(pages), _first(pages), remedy=_RESTORE
            )

    def repair(self, finding: Finding) -> str:  # noqa: ARG002 - there is one repair
        """See Check."""
        try:
            with self._sqlite.write() as connection:
                connection.exec_driver_sql("REINDEX")
        except sa.exc.IntegrityError as error:
            return f"the indexes cannot be built: {error.orig}"
        return "built all indexes anew"


class SchemaCheck:
    """The tables, indexes and triggers of this version, no others."""

    name = "schema"

    def __init__(self, sqlite: Sqlite) -> None:
        self._sqlite = sqlite

    def find(self) -> Iterator[Finding]:
        """See Check."""
        found = migrations.current(self._sqlite)
        where = self._sqlite.path.name
        if found != migrations.HEAD:
            what = f"the schema is at revision {found}, this version needs {migrations.HEAD}"
            yield Finding(
                "schema_revision", where, what, 1, remedy="`zeph db upgrade`, or the version that wrote it"
            )
            return
        differences = migrations.differences(self._sqlite)
        if differences:
            what, remedy = (
                "tables, indexes or triggers differ from this version's",
                "makes missing indexes and triggers",
            )
            yield Finding(
                "schema_differs",
                where,
                what,
                len(differences),
                _first([line[:100] for line in differences]),
                repairable=True,
                remedy=f"{remedy}; for the rest {_RESTORE}",
            )

    def repair(self, finding: Finding) -> str:  # noqa: ARG002 - there is one repair
        """See Check."""
        return f"made {migrations.restore(self._sqlite)} anew"


class ForeignKeyCheck:
    """Every row's parent exists."""

    name = "foreign keys"

    def __init__(self, sqlite: Sqlite) -> None:
        self._sqlite = sqlite

    def find(self) -> Iterator[Finding]:
        """See Check."""
        broken: dict[tuple[str, str], list[str]] = {}
        with self._sqlite.read() as connection:
            for table, row, parent, _key in _broken_keys(connection):
                broken.setdefault((table, parent), []).append(f"row {row}")
        for (table, parent), rows in broken.items():
            remedy = "removes them, as when the parent is deleted"
            if table in _CONVERSATIONS_LOST and parent == "conversations":
                remedy = "makes the conversation anew, without its key and title"
            elif table in _KEPT_WITHOUT_PARENT:
                remedy = "keeps them without it"
            what = f"rows whose row in {parent} does not exist"
            yield Finding("foreign_key", table, what, len(rows), _first(rows), repairable=True, remedy=remedy)

    def repair(self, finding: Finding) -> str:
        """See Check."""
        mended = 0
        with self._sqlite.write() as connection:
            for table, row, parent, key in _broken_keys(connection):
                if table == finding.where:
                    _mend_key(connection, table, row, parent, key)
                    mended += 1
        return f"mended {mended} rows"


class FullTextCheck:
    """Every full-text index holds what its table holds, row by row."""

    name = "full-text indexes"

    def __init__(self, sqlite: Sqlite) -> None:
        self._sqlite = sqlite

    def find(self) -> Iterator[Finding]:
        """See Check."""
        with self._sqlite.read() as connection:
            # Of what is no database, nothing can be said of its indexes.
            connection.exec_driver_sql("SELECT count(*) FROM sqlite_master")
        for name in tables.FULL_TEXT_TABLES:
            if line := migrations.index_damage(self._sqlite, name):
                yield Finding("full_text", name, line, 1, repairable=True, remedy="builds the index anew")

    def repair(self, finding: Finding) -> str:
        """See Check."""
        with self._sqlite.write() as connection:
            name = finding.where
            connection.exec_driver_sql(f"INSERT INTO {name}({name}) VALUES ('rebuild')")  # noqa: S608 - our own names
        return "built anew"


class DuplicateCheck:
    """No two rows under one natural key: what unique indexes see to, seen without trusting that they are there."""

    name = "natural keys"

    def __init__(self, sqlite: Sqlite) -> None:
        self._sqlite = sqlite

    def find(self) -> Iterator[Finding]:
        """See Check."""
        with self._sqlite.read() as connection:
            for table in tables.metadata.sorted_tables:
                for columns, only in _unique_keys(table):
                    same: sa.Select[Any] = sa.select(sa.func.min(sa.literal_column("rowid")).label("row"))
                    same = same.select_from(table).where(*(column.is_not(None) for column in columns), *only)
                    same = same.group_by(*columns).having(sa.func.count() > 1)
                    rows = connection.execute(same).scalars().all()
                    if rows:
                        key = ", ".join(column.name for column in columns)
                        what = f"several rows with one ({key})"
                        remedy = "delete what is one too many: which of them is right cannot be told"
                        yield Finding(
                            "duplicate",
                            table.name,
                            what,
                            len(rows),
                            _first([f"row {row}" for row in rows]),
                            remedy=remedy,
                        )

    def repair(self, finding: Finding) -> str:
        """See Check."""
        raise errors.InputError(f"which of the rows of {finding.where} is right cannot be told")


class RulesCheck:
    """The rules of `store_rules`. The database is opened when they are looked at: an old schema is migrated then."""

    name = "rows"

    def __init__(self, database: Callable[[], Database], clock: Clock, policy: RetryPolicy) -> None:
        self._database = database
        self._clock = clock
        self._rules = {(rule.code, rule.table): rule for rule in rules(policy, clock)}

    def find(self) -> Iterator[Finding]:
        """See Check."""
        for rule in self._rules.values():
            with self._database().read() as unit:
                ids = rule.broken(unit.connection, self._clock.now())
            if ids:
                yield Finding(
                    rule.code,
                    rule.table,
                    rule.what,
                    len(ids),
                    _first([str(each) for each in ids]),
                    repairable=rule.mend is not None,
                    remedy=rule.remedy,
                )

    def repair(self, finding: Finding) -> str:
        """See Check."""
        rule = self._rules[finding.code, finding.where]
        if rule.mend is None:
            raise errors.InputError(f"{finding.code} cannot be repaired: {finding.remedy}")
        with self._database().write() as unit:
            now = self._clock.now()
            ids = rule.broken(unit.connection, now)
            rule.mend(unit, ids, now)
        return f"mended {len(ids)}"


def _first(lines: list[str]) -> tuple[str, ...]:
    return tuple(lines[:EXAMPLES])


def _broken_keys(connection: sa.Connection) -> list[tuple[str, int, str, int]]:
    """(table, row, parent table, number of the key) of every row without its parent."""
    return [tuple(row) for row in connection.exec_driver_sql("PRAGMA foreign_key_check")]


def _mend_key(connection: sa.Connection, table: str, row: int, parent: str, key: int) -> None:
    # Names come from the schema, never from outside.
    listed = connection.exec_driver_sql(f"PRAGMA foreign_key_list({table})").mappings()
    column, on_delete = next((it["from"], it["on_delete"]) for it in listed if it["id"] == key)
    if table in _CONVERSATIONS_LOST and parent == "conversations":
        lost = f"SELECT {column}, namespace, created_at FROM {table} WHERE rowid = ?"  # noqa: S608
        sql = f"INSERT OR IGNORE INTO conversations(id, namespace, created_at) {lost}"
    elif on_delete == "SET NULL" or table in _KEPT_WITHOUT_PARENT:
        sql = f"UPDATE {table} SET {column} = NULL WHERE rowid = ?"  # noqa: S608
    else:
        sql = f"DELETE FROM {table} WHERE rowid = ?"  # noqa: S608
    connection.exec_driver_sql(sql, (row,))


def _unique_keys(table: sa.Table) -> Iterator[tuple[list[sa.Column[Any]], list[sa.ColumnElement[bool]]]]:
    """The columns of every unique key but the primary one, and the rows it is about."""
    for constraint in table.constraints:
        if isinstance(constraint, sa.UniqueConstraint):
            yield list(constraint.columns), []
    for index in table.indexes:
        if index.unique:
            only = index.dialect_options["sqlite"]["where"]
            yield list(index.columns), [] if only is None else [only]
