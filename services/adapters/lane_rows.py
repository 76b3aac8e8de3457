"""The SQL behind the graph's part in searching texts."""

from __future__ import annotations

import json
from collections.abc import Sequence

import sqlalchemy as sa

from services.adapters.erasure import parts
from services.adapters.scopes import scope_token
from services.adapters.tables import chunks, documents, graph_entity_aliases, graph_entity_sources
from services.graph.lane import Titled
from services.retrieval.query import phrase_expression


class SqlLaneRows:
    """Implements `services.graph.lane.LaneRows` on one connection."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def names_in(self, namespace: str, chunk_ids: Sequence[int]) -> dict[int, dict[int, list[str]]]:
        """See LaneRows."""
        w, a = graph_entity_sources.c, graph_entity_aliases.c
        found: dict[int, dict[int, list[str]]] = {}
        for part in parts(chunk_ids):
            rows = (
                sa.select(w.chunk_id, w.entity_id, a.alias_name)
                .join(graph_entity_aliases, a.entity_id == w.entity_id)
                # As in `with_ids`: the namespace must not be what is looked up.
                .where(w.chunk_id.in_(part), sa.func.likely(a.namespace == namespace))
                .order_by(w.id, a.id)
            )
            for chunk, entity, name in self._connection.execute(rows):
                known_as = found.setdefault(chunk, {}).setdefault(entity, [])
                if name not in known_as:
                    known_as.append(name)
        return found

    def under_titles(
        self, namespace: str, collection: str, names: Sequence[str], *, limit: int
    ) -> list[Titled]:
        """See LaneRows."""
        phrases = phrase_expression(names, columns="context")
        if phrases is None:
            return []
        expression = f'scope : "{scope_token(namespace, collection)}" AND {phrases}'
        index = sa.table("chunks_fts", sa.column("rowid"))
        score: sa.ColumnElement[float] = sa.literal_column("bm25(chunks_fts)")
        rows = (
            sa.select(chunks.c.id, chunks.c.document_id, documents.c.title, chunks.c.heading)
            .join_from(index, chunks, chunks.c.id == index.c.rowid)
            .join(documents, documents.c.id == chunks.c.document_id)
            .where(sa.text("chunks_fts MATCH :expression").bindparams(expression=expression))
            .order_by(score, chunks.c.id)
            .limit(limit)
        )
        return [
            Titled(row.id, row.document_id, (row.title, *json.loads(row.heading)))
            for row in self._connection.execute(rows)
        ]
