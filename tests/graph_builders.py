"""Small builders for tests of graph memory."""

from __future__ import annotations

from typing import Any

from services.bootstrap import Container
from services.graph.models import EntityType, Extraction, FactRecord, FoundEdge, FoundEntity, Source
from services.memory.models import NewMessage, Role
from tests.builders import rows

DAY = 86_400 * 1_000_000
# A fixed Monday in the past of the manual clock.
THEN = 1_700_000_000_000_000
LLM = "llm:test/m"
PERSON, CONCEPT, LANGUAGE, TOOL = (
    EntityType.PERSON,
    EntityType.CONCEPT,
    EntityType.LANGUAGE,
    EntityType.TOOL,
)


def message(
    container: Container, text: str = "hello", *, at: int = THEN, conversation: str = "c", **options: Any
) -> Source:
    """A stored message, as a source."""
    (found,) = container.memory.remember_many(
        conversation, [NewMessage(Role.USER, text, created_at=at)], **options
    )
    return Source(at, message_id=found)


def found(*facts: str | tuple[Any, ...], extractor: str = LLM, kind: EntityType = PERSON) -> Extraction:
    """An extraction of facts, "Ann|knows|Bob" or "Ann|knows|Bob|Ann knows Bob well.", and of names alone."""
    entities: dict[str, FoundEntity] = {}
    edges = []
    for fact in facts:
        parts = fact.split("|") if isinstance(fact, str) else list(fact)
        for name in parts if len(parts) == 1 else (parts[0], parts[2]):
            entities.setdefault(name, FoundEntity(name, kind))
        if len(parts) > 1:
            edges.append(FoundEdge(parts[0], parts[2], parts[1], *(parts[3:] or [" ".join(parts)])))
    return Extraction(extractor, tuple(entities.values()), tuple(edges))


def facts(container: Container, name: str, **options: Any) -> list[str]:
    """What holds of an entity, as `source relation target`, sorted."""
    return sorted(map(line, container.graph.facts("default", name, **options)))


def line(record: FactRecord) -> str:
    """A fact in one line."""
    return f"{record.source} {record.edge.relation} {record.target}"


def whole_graph(container: Container) -> list[list[tuple[Any, ...]]]:
    """Every row that a replay must not change, in order; times of storing and seeing left out."""
    return [
        rows(
            container, "SELECT id, namespace, name, canonical_name, entity_type, summary FROM graph_entities"
        ),
        rows(container, "SELECT id, entity_id, alias_name FROM graph_entity_aliases"),
        rows(
            container,
            "SELECT id, source_entity_id, target_entity_id, relation, fact, confidence, valid_from, valid_to, "
            "expired_at IS NULL, superseded_by_id FROM graph_edges",
        ),
        rows(container, "SELECT edge_id, message_id, chunk_id, extractor, evidence FROM graph_edge_sources"),
        rows(container, "SELECT entity_id, message_id, chunk_id, extractor FROM graph_entity_sources"),
    ]
