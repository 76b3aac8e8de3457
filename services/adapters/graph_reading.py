"""The SQL behind graph recall: names by their parts, neighbours in bulk, and the whole graph for export."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from services.adapters.graph_rows import ACTIVE, true_as_of
from services.adapters.scopes import scope_token
from services.adapters.tables import graph_edges, graph_entities, graph_entity_aliases
from services.graph.models import AsOf
from services.graph.traversal import Link
from services.ports import Clock
from services.retrieval.query import match_expression, search_terms

# Behind every text that begins with the same characters.
_LAST = "\U0010ffff"
# A shorter beginning fits too many words.
_SHORTEST_BEGINNING = 3
_LINK = ("id", "source_entity_id", "target_entity_id", "relation", "confidence", "valid_from")


def _links(holds: Sequence[sa.ColumnElement[bool]]) -> list[sa.Select[Any]]:
    """Statements for the facts of the entities `ids` that pass these tests: outgoing ones, incoming ones.

    The index on (namespace, end, confidence) is read backwards, so that a hub costs no more than what is taken of it.
    """
    e, shown = graph_edges.c, graph_edges.alias()
    near = sa.func.json_each(sa.bindparam("ids")).table_valued("value", name="near")
    columns = [shown.c[name] for name in _LINK]
    statements = []
    for end in (e.source_entity_id, e.target_entity_id):
        surest = (
            sa.select(e.id)
            .where(e.namespace == sa.bindparam("of"), end == near.c.value, *holds)
            .order_by(e.confidence.desc(), e.id.desc())
            .limit(sa.bindparam("each", type_=sa.Integer))
            .correlate(near)
        )
        joined = near.join(shown, shown.c.id.in_(surest.scalar_subquery()))
        statements.append(sa.select(*columns).select_from(joined))
    return statements


_ACTIVE_LINKS = _links(ACTIVE)


class SqlGraphReading:
    """Implements `services.graph.recall.GraphReading` on one connection."""

    def __init__(self, connection: sa.Connection, clock: Clock) -> None:
        self._connection = connection
        self._clock = clock

    def search_names(self, namespace: str, text: str, *, prefix: bool, limit: int) -> list[int]:
        """See GraphReading."""
        return self._search(namespace, text, column="name", prefix=prefix, limit=limit)

    def search_summaries(self, namespace: str, text: str, *, limit: int) -> list[int]:
        """See GraphReading."""
        return self._search(namespace, text, column="summary", prefix=False, limit=limit)

    def search_aliases(self, namespace: str, beginnings: Sequence[str], *, limit: int) -> list[int]:
        """See GraphReading."""
        a = graph_entity_aliases.c
        ranges = [a.alias_name.between(begin, begin + _LAST) for begin in beginnings]
        rows = (
            sa.select(a.entity_id)
            .where(a.namespace == namespace, sa.or_(sa.false(), *ranges))
            .group_by(a.entity_id)
            .order_by(sa.func.min(sa.func.length(a.alias_name)), a.entity_id)
            .limit(limit)
        )
        return list(self._connection.execute(rows).scalars()) if ranges else []

    def links(
        self, namespace: str, entity_ids: Sequence[int], as_of: AsOf | None, *, each: int
    ) -> list[Link]:
        """See GraphReading."""
        holds = _ACTIVE_LINKS if as_of is None else _links(true_as_of(as_of, self._clock.now()))
        given = {"ids": json.dumps(list(entity_ids)), "of": namespace, "each": each}
        found: dict[int, Link] = {}
        for statement in holds:
            for row in self._connection.execute(statement, given).all():
                found[row[0]] = Link(*row)
        return sorted(found.values(), key=lambda link: (-link.confidence, -link.edge_id))

    def has_entities(self, namespace: str) -> bool:
        """See GraphReading."""
        mine = sa.select(graph_entities.c.id).where(graph_entities.c.namespace == namespace).limit(1)
        return self._connection.execute(mine).scalar() is not None

    def all_ids(self, namespace: str, *, history: bool) -> tuple[list[int], list[int]]:
        """See GraphReading."""
        n, e = graph_entities.c, graph_edges.c
        entities = sa.select(n.id).where(n.namespace == namespace).order_by(n.id)
        edges = sa.select(e.id).where(e.namespace == namespace, *(() if history else ACTIVE)).order_by(e.id)
        return (
            list(self._connection.execute(entities).scalars()),
            list(self._connection.execute(edges).scalars()),
        )

    def _search(self, namespace: str, text: str, *, column: str, prefix: bool, limit: int) -> list[int]:
        scope = scope_token("entities", namespace)
        expression = match_expression(text, scope=scope, columns=column)
        if prefix:
            expression = _beginnings(text, scope=scope, column=column)
        if expression is None:
            return []
        index = sa.table("graph_entities_fts", sa.column("rowid"))
        score: sa.ColumnElement[float] = sa.literal_column("bm25(graph_entities_fts, 10.0, 1.0, 0.0)")
        rows = (
            sa.select(graph_entities.c.id)
            .join_from(index, graph_entities, graph_entities.c.id == index.c.rowid)
            .where(sa.text("graph_entities_fts MATCH :expression").bindparams(expression=expression))
            .where(graph_entities.c.namespace == namespace)
            .order_by(score, graph_entities.c.id)
            .limit(limit)
        )
        return list(self._connection.execute(rows).scalars())


def _beginnings(text: str, *, scope: str, column: str) -> str | None:
    """An FTS5 expression for rows with a word that begins with one of the text; None when all are too short."""
    words = [
        term for term in search_terms(text) if term.endswith('"') and len(term) >= _SHORTEST_BEGINNING + 2
    ]
    return (
        f'scope : "{scope}" AND {{{column}}} : ({" OR ".join(f"{word} *" for word in words)})'
        if words
        else None
    )
