"""The SQL of the graph in snapshots: whole rows, read in order and written under new ids."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

import sqlalchemy as sa
from sqlalchemy.dialects.sqlite import insert

from services.adapters import tables as t
from services.adapters.erasure import parts
from services.adapters.scopes import scope_token
from services.memory.snapshot_file import GRAPH_FIELDS, Record
from services.retrieval.query import segment

# Kind of record -> its table, and what tells the kind's namespace where the table does not.
_TABLES: dict[str, tuple[sa.Table, sa.Table | None]] = {
    "entity": (t.graph_entities, None),
    "alias": (t.graph_entity_aliases, None),
    "mention": (t.graph_entity_sources, t.graph_entities),
    "edge": (t.graph_edges, None),
    "edge_source": (t.graph_edge_sources, t.graph_edges),
    "edge_correction": (t.correction_facts, t.graph_edges),
    "community": (t.graph_communities, None),
    "graph_counter": (t.graph_metadata, None),
}


class SqlGraphSnapshotRows:
    """Implements `services.memory.snapshot_graph.GraphSnapshotRows` on one connection."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def graph(self, kind: str, namespace: str) -> Iterator[Record]:
        """See GraphSnapshotRows."""
        table, parent = _TABLES[kind]
        named = [
            name for name in (*GRAPH_FIELDS[kind], "entity_id", "edge_id", "chunk_id") if name in table.c
        ]
        home = table if parent is None else parent
        rows = sa.select(*(table.c[name] for name in named), *([table.c.id] if "id" in table.c else []))
        rows = rows.select_from(table if parent is None else table.join(parent))
        order = next(table.c[name] for name in ("id", "key", "correction_id") if name in table.c)
        members = self._members(namespace) if kind == "community" else {}
        for row in self._connection.execute(rows.where(home.c.namespace == namespace).order_by(order)):
            record = dict(zip(named, row, strict=False))
            yield record | ({"members": members.get(row.id, [])} if kind == "community" else {})

    def add_entity(self, namespace: str, entity: Record) -> tuple[int, bool]:
        """See GraphSnapshotRows."""
        n = t.graph_entities
        row = {name: entity[name] for name in GRAPH_FIELDS["entity"] if name != "id"}
        row |= {
            "namespace": namespace,
            "segmented": segment(entity["name"]),
            "scope": scope_token("entities", namespace),
        }
        new = insert(n).values(row).on_conflict_do_nothing().returning(n.c.id)
        added = self._connection.execute(new).scalar()
        if added is not None:
            return int(added), True
        key = ("namespace", "canonical_name", "entity_type")
        known = sa.select(n.c.id).where(*(n.c[name] == row[name] for name in key))
        return int(self._connection.execute(known).scalar_one()), False

    def find_edges(self, namespace: str, edge: Record) -> list[Record]:
        """See GraphSnapshotRows."""
        e = t.graph_edges
        key = ("source_entity_id", "target_entity_id", "relation")
        same = sa.select(e).where(e.c.namespace == namespace, *(e.c[name] == edge[name] for name in key))
        return [dict(row) for row in self._connection.execute(same.order_by(e.c.id)).mappings()]

    def add_edge(self, namespace: str, edge: Record) -> int:
        """See GraphSnapshotRows."""
        e = t.graph_edges
        row = {name: edge[name] for name in GRAPH_FIELDS["edge"] if name not in ("id", "superseded_by_id")}
        new = sa.insert(e).values(row | {"namespace": namespace}).returning(e.c.id)
        return int(self._connection.execute(new).scalar_one())

    def supersede(self, pairs: Sequence[tuple[int, int]]) -> None:
        """See GraphSnapshotRows."""
        e = t.graph_edges
        if pairs:
            link = sa.update(e).where(e.c.id == sa.bindparam("edge"))
            rows = [{"edge": edge, "by": by} for edge, by in pairs]
            self._connection.execute(link.values(superseded_by_id=sa.bindparam("by")), rows)

    def add_to_graph(self, kind: str, namespace: str, rows: Sequence[Record]) -> int:
        """See GraphSnapshotRows."""
        table, _ = _TABLES[kind]
        added = 0
        for record in rows:
            row = record | ({"namespace": namespace} if "namespace" in table.c else {})
            if "message_id" in row and row["message_id"] is None:
                # Equal NULLs are no conflict.
                same = [table.c[name].is_not_distinct_from(value) for name, value in row.items()]
                if self._connection.execute(sa.select(table.c.id).where(*same)).first() is not None:
                    continue
            new = insert(table).values(row).on_conflict_do_nothing()
            added += self._connection.execute(new).rowcount
        return added

    def add_community(self, namespace: str, community: Record) -> bool:
        """See GraphSnapshotRows."""
        c, m = t.graph_communities, t.graph_community_members
        row = {name: community[name] for name in GRAPH_FIELDS["community"] if name != "members"}
        row["namespace"] = namespace
        known = [sa.select(c.c.id).where(*(c.c[name] == value for name, value in row.items()))]
        known += [
            sa.select(m.c.entity_id).where(m.c.entity_id.in_(part)) for part in parts(community["members"])
        ]
        if any(self._connection.execute(query.limit(1)).first() for query in known):
            return False
        made = self._connection.execute(sa.insert(c).values(row).returning(c.c.id)).scalar_one()
        members = [{"community_id": made, "entity_id": member} for member in community["members"]]
        if members:
            self._connection.execute(insert(m).on_conflict_do_nothing(), members)
        return True

    def _members(self, namespace: str) -> dict[int, list[int]]:
        m, n = t.graph_community_members, t.graph_entities
        rows = sa.select(m.c.community_id, m.c.entity_id).join_from(m, n).where(n.c.namespace == namespace)
        found: defaultdict[int, list[int]] = defaultdict(list)
        for community_id, entity_id in self._connection.execute(rows.order_by(m.c.entity_id)):
            found[community_id].append(entity_id)
        return found
