"""The graph in a snapshot: entities with their names and mentions, facts with what tells them, communities, counters.

Chunks of documents do not travel, so what only they tell loses its source and stays.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from services.memory.snapshot_file import GRAPH_FIELDS, Record


class GraphSnapshotRows(Protocol):
    """Whole rows of the graph, as a snapshot carries them: dicts with the names in `GRAPH_FIELDS`."""

    def graph(self, kind: str, namespace: str) -> Iterator[Record]:
        """Rows of one kind in order of id; `entity_id` or `edge_id` and `chunk_id` come with those that have one."""

    def add_entity(self, namespace: str, entity: Record) -> tuple[int, bool]:
        """The entity of that name and type here, and whether it is new."""

    def find_edges(self, namespace: str, edge: Record) -> list[Record]:
        """Edges here of the same ends and relation, in order of id."""

    def add_edge(self, namespace: str, edge: Record) -> int:
        """Store an edge, superseded by none; its id."""

    def supersede(self, pairs: Sequence[tuple[int, int]]) -> None:
        """Note (edge, the edge that took its place)."""

    def add_to_graph(self, kind: str, namespace: str, rows: Sequence[Record]) -> int:
        """Store names, mentions, sources or counters that are not here yet; how many are new."""

    def add_community(self, namespace: str, community: Record) -> bool:
        """Store a community with its members; False if it is here or one of them is in another."""


class GraphSnapshotUnit(Protocol):
    """A unit of work for the graph of a snapshot."""

    @property
    def graph_snapshots(self) -> GraphSnapshotRows:
        """Whole rows of the graph."""


class GraphCounts(Protocol):
    """What an import of a graph counts."""

    entities: int
    edges: int
    communities: int
    skipped: int
    dangling: int


class GraphExport:
    """The records of a namespace's graph. `left_out` counts what only chunks or deleted messages tell."""

    def __init__(
        self,
        unit: GraphSnapshotUnit,
        namespace: str,
        messages: Mapping[int | None, int],
        corrections: Mapping[int, int],
    ) -> None:
        self._unit = unit
        self._namespace = namespace
        self._messages = messages
        self._corrections = corrections
        self.left_out = 0

    def records(self) -> Iterator[tuple[str, Record]]:
        """Each with its parent above it, numbered from 1."""
        numbers: dict[str, dict[int, int]] = {"entity": {}, "edge": {}}
        for kind in ("entity", "edge"):
            found = self._rows(kind)
            numbers[kind] = {row["id"]: number for number, row in enumerate(found, start=1)}
            children = [_grouped(self._rows(child), f"{kind}_id") for child in _CHILDREN[kind]]
            for row in found:
                yield kind, row | _links(row, numbers) | {"id": numbers[kind][row["id"]]}
                for child, grouped in zip(_CHILDREN[kind], children, strict=True):
                    for record in grouped.get(row["id"], ()):
                        yield from self._told(child, record)
        for row in self._rows("community"):
            members = [numbers["entity"][member] for member in row["members"]]
            yield "community", row | {"members": members}
        for row in self._rows("graph_counter"):
            yield "graph_counter", row

    def _rows(self, kind: str) -> list[Record]:
        return list(self._unit.graph_snapshots.graph(kind, self._namespace))

    def _told(self, kind: str, record: Record) -> Iterator[tuple[str, Record]]:
        """A record without the ids of this database, unless what tells it does not travel."""
        kept = {name: record[name] for name in GRAPH_FIELDS[kind]}
        if "correction_id" in kept:
            kept["correction_id"] = self._corrections[record["correction_id"]]
        if "message_id" in kept:
            kept["message_id"] = self._messages.get(record["message_id"])
            if record["chunk_id"] is not None or (record["message_id"] and not kept["message_id"]):
                self.left_out += 1
                return
        yield kind, kept


class GraphImport:
    """The graph of one file on its way into a namespace, in one unit of work."""

    def __init__(
        self,
        unit: GraphSnapshotUnit,
        namespace: str,
        messages: Mapping[int, int],
        corrections: Mapping[int, int],
        report: GraphCounts,
    ) -> None:
        self._unit = unit
        self._namespace = namespace
        self._known = {"message_id": messages, "correction_id": corrections}
        self._report = report
        # Ids in the file -> ids here.
        self._entities: dict[int, int] = {}
        self._edges: dict[int, int] = {}
        self._taken: set[int] = set()
        # New edge here -> the edge of the file that superseded it.
        self._superseded: dict[int, int] = {}

    def entity(self, head: Record, members: Sequence[tuple[str, Record]]) -> None:
        """An entity is known by its canonical name and its type."""
        entity_id, new = self._unit.graph_snapshots.add_entity(self._namespace, head)
        self._entities[head["id"]] = entity_id
        self._report.entities += new
        self._report.skipped += not new
        self._add_told("entity_id", entity_id, members)

    def edge(self, head: Record, members: Sequence[tuple[str, Record]]) -> None:
        """An edge is known by its ends and relation: the active one, or one stored at the same moment."""
        ends = {name: self._entities.get(head[name]) for name in ("source_entity_id", "target_entity_id")}
        if None in ends.values() or len(set(ends.values())) < 2:
            self._report.dangling += 1
            return
        edge = head | ends
        edge_id = self._twin(edge)
        if edge_id is not None:
            # Whether it holds here is known here.
            members = [member for member in members if member[0] != "edge_correction"]
        self._report.edges += edge_id is None
        self._report.skipped += edge_id is not None
        if edge_id is None:
            edge_id = self._unit.graph_snapshots.add_edge(self._namespace, edge)
            if head["superseded_by_id"] is not None:
                self._superseded[edge_id] = head["superseded_by_id"]
        self._edges[head["id"]] = edge_id
        self._taken.add(edge_id)
        self._add_told("edge_id", edge_id, members)

    def community(self, head: Record, _: Sequence[tuple[str, Record]]) -> None:
        """A community is known by what it says and by its members, of which each is in one alone."""
        members = [self._entities[member] for member in head["members"] if member in self._entities]
        self._report.dangling += len(head["members"]) - len(members)
        new = self._unit.graph_snapshots.add_community(self._namespace, head | {"members": members})
        self._report.communities += new
        self._report.skipped += not new

    def counter(self, head: Record, _: Sequence[tuple[str, Record]]) -> None:
        """A counter that is here stays as it is."""
        self._unit.graph_snapshots.add_to_graph("graph_counter", self._namespace, [head])

    def finish(self) -> None:
        """Link what took the place of what."""
        pairs = [(edge, self._edges[by]) for edge, by in self._superseded.items() if by in self._edges]
        self._report.dangling += len(self._superseded) - len(pairs)
        self._unit.graph_snapshots.supersede(pairs)

    def _twin(self, edge: Record) -> int | None:
        found = self._unit.graph_snapshots.find_edges(self._namespace, edge)
        moment = [
            it["id"]
            for it in found
            if it["id"] not in self._taken
            and all(it[name] == edge[name] for name in ("created_at", "valid_from", "fact"))
        ]
        active = [it["id"] for it in found if _active(it)] if _active(edge) else []
        return next(iter([*moment, *active]), None)

    def _add_told(self, parent: str, row_id: int, members: Sequence[tuple[str, Record]]) -> None:
        rows: dict[str, list[Record]] = {}
        for kind, record in members:
            links = {name: known.get(record[name]) for name, known in self._known.items() if record.get(name)}
            if None in links.values():
                self._report.dangling += 1
                continue
            rows.setdefault(kind, []).append(record | links | {parent: row_id})
        for kind, listed in rows.items():
            added = self._unit.graph_snapshots.add_to_graph(kind, self._namespace, listed)
            self._report.skipped += len(listed) - added


_CHILDREN = {"entity": ("alias", "mention"), "edge": ("edge_source", "edge_correction")}


def _grouped(rows: Sequence[Record], parent: str) -> dict[int, list[Record]]:
    grouped: dict[int, list[Record]] = {}
    for row in rows:
        grouped.setdefault(row[parent], []).append(row)
    return grouped


def _links(row: Record, numbers: Mapping[str, Mapping[int, int]]) -> Record:
    """The ids that a row refers to, as the file numbers them."""
    kinds = {"source_entity_id": "entity", "target_entity_id": "entity", "superseded_by_id": "edge"}
    return {name: numbers[kind].get(row[name]) for name, kind in kinds.items() if name in row}


def _active(edge: Record) -> bool:
    return edge["valid_to"] is None and edge["expired_at"] is None
