"""The whole graph as a file for other programs: GraphML, JSON, Graphviz. Equal graphs give equal bytes."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from services import errors
from services.graph.communities import CommunityRows
from services.graph.models import CO_OCCURRENCE, Community, Edge, EdgeSource, Entity
from services.graph.recall import GraphReadingUnit


@dataclass(frozen=True, slots=True)
class WholeGraph:
    """Everything of a namespace, each list in id order; `aliases` and `sources` by the id of what they belong to."""

    namespace: str
    entities: Sequence[Entity]
    edges: Sequence[Edge]
    communities: Sequence[Community]
    aliases: Mapping[int, Sequence[str]]
    sources: Mapping[int, Sequence[EdgeSource]]

    @property
    def community_of(self) -> dict[int, int]:
        """The community of each entity that is in one."""
        return {entity: one.id for one in self.communities for entity in one.entity_ids}


class ExportUnit(GraphReadingUnit, Protocol):
    """A unit of work that reaches the whole graph."""

    @property
    def communities(self) -> CommunityRows:
        """Communities."""


class ExportDatabase(Protocol):
    """Opens units of work."""

    def read(self) -> AbstractContextManager[ExportUnit]:
        """One consistent view."""


def read_whole(database: ExportDatabase, namespace: str, *, history: bool = False) -> WholeGraph:
    """The graph as it is now; with `history` its past facts too."""
    with database.read() as unit:
        entity_ids, edge_ids = unit.graph_reading.all_ids(namespace, history=history)
        entities, edges = unit.graph.get(namespace, entity_ids), unit.graph.edges(namespace, edge_ids)
        aliases: dict[int, list[str]] = {}
        for alias in unit.graph.aliases(namespace, entity_ids):
            if alias.name != entities[alias.entity_id].canonical_name:
                aliases.setdefault(alias.entity_id, []).append(alias.name)
        return WholeGraph(
            namespace,
            [entities[found] for found in entity_ids],
            [edges[found] for found in edge_ids],
            unit.communities.listed(namespace),
            aliases,
            unit.graph.sources(edge_ids),
        )


def as_text(graph: WholeGraph, form: str) -> str:
    """The graph as graphml, json or dot. Raises InputError for anything else."""
    if form not in FORMATS:
        raise errors.InputError(f"format is {form!r}: use one of {', '.join(FORMATS)}")
    return _WRITERS[form](graph)


def _graphml(graph: WholeGraph) -> str:
    import networkx as nx

    drawn = nx.MultiDiGraph()
    drawn.graph["namespace"] = graph.namespace
    community = graph.community_of
    for entity in graph.entities:
        drawn.add_node(
            entity.id,
            **_given(
                name=entity.name,
                canonical_name=entity.canonical_name,
                type=entity.type.value,
                summary=entity.summary,
                aliases=json.dumps(list(graph.aliases.get(entity.id, ())), ensure_ascii=False),
                community=community.get(entity.id),
                first_seen_at=entity.first_seen_at,
                last_seen_at=entity.last_seen_at,
            ),
        )
    for edge in graph.edges:
        said = graph.sources.get(edge.id, ())
        drawn.add_edge(
            edge.source_id,
            edge.target_id,
            key=edge.id,
            **_given(
                relation=edge.relation,
                fact=edge.fact,
                confidence=edge.confidence,
                valid_from=edge.valid_from,
                valid_to=edge.valid_to,
                created_at=edge.created_at,
                expired_at=edge.expired_at,
                superseded_by=edge.superseded_by_id,
                extractors=",".join(sorted({source.extractor for source in said})),
                messages=",".join(str(source.message_id) for source in said if source.message_id is not None),
                chunks=",".join(str(source.chunk_id) for source in said if source.chunk_id is not None),
            ),
        )
    return (
        "<?xml version='1.0' encoding='utf-8'?>\n"
        + "\n".join(nx.generate_graphml(drawn, named_key_ids=True))
        + "\n"
    )


def _json(graph: WholeGraph) -> str:
    entities = [
        asdict(entity) | {"aliases": list(graph.aliases.get(entity.id, ()))} for entity in graph.entities
    ]
    edges = [
        asdict(edge) | {"sources": [asdict(source) for source in graph.sources.get(edge.id, ())]}
        for edge in graph.edges
    ]
    whole = {
        "namespace": graph.namespace,
        "entities": entities,
        "edges": edges,
        "communities": [asdict(one) for one in graph.communities],
    }
    return json.dumps(whole, ensure_ascii=False, indent=1) + "\n"


def _dot(graph: WholeGraph) -> str:
    lines = [f"digraph {_quoted(graph.namespace)} {{", "  node [shape=box, style=rounded];"]
    for entity in graph.entities:
        label = f"{entity.name}\n({entity.type.value})"
        lines.append(f"  {entity.id} [label={_quoted(label)}];")
    for edge in graph.edges:
        # What merely stands together in a text, and what holds no more, must not look like a stated fact.
        style = ", style=dotted, dir=none" if edge.relation == CO_OCCURRENCE else ""
        style += "" if edge.active else ", color=gray, fontcolor=gray"
        shown = f"label={_quoted(edge.relation)}, tooltip={_quoted(edge.fact)}{style}"
        lines.append(f"  {edge.source_id} -> {edge.target_id} [{shown}];")
    return "\n".join([*lines, "}"]) + "\n"


def _quoted(text: str) -> str:
    """A string of Graphviz, in which a backslash would begin an escape."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def _given(**values: Any) -> dict[str, Any]:
    """What GraphML can hold: it has no null."""
    return {name: value for name, value in values.items() if value is not None and value != ""}


_WRITERS: Mapping[str, Callable[[WholeGraph], str]] = {"graphml": _graphml, "json": _json, "dot": _dot}
FORMATS = tuple(_WRITERS)
