"""Scores the graph on Re-DocRED: paragraphs with the entities in them, all their names, and relations between them.

Every paragraph is remembered as a message in a namespace of its own, read by the configured extractor through the job
ledger, and compared with what the store holds then. Tokens of the set are joined as people write them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from services import errors
from services.evaluation.datasets import rows
from services.graph.models import CO_OCCURRENCE, EntityType
from services.graph.names import acceptable, canonical, relation
from services.memory.models import NewMessage, Role

if TYPE_CHECKING:
    from services.graph.service import GraphStore
    from services.memory.service import SemanticMemory

# What the set calls its types, as ours.
TYPES: Mapping[str, EntityType] = {"PER": EntityType.PERSON, "ORG": EntityType.ORGANIZATION}
# Dates and numbers are no entities to an extractor of names; as ends of relations they are.
_QUANTITIES = frozenset({"TIME", "NUM"})
_LIMIT = 10_000


@dataclass(frozen=True, slots=True)
class GoldEntity:
    """An entity of a paragraph with all its names, the first one first."""

    names: tuple[str, ...]
    type: EntityType
    is_quantity: bool


@dataclass(frozen=True, slots=True)
class GoldDocument:
    """A paragraph, its entities, and its relations as (subject, relation, object) by index into them."""

    id: str
    text: str
    entities: Sequence[GoldEntity]
    triples: Sequence[tuple[int, str, int]]

    @property
    def namespace(self) -> str:
        """Where it is read."""
        return f"redocred/{self.id}"

    def entity_keys(self) -> set[str]:
        """What a perfect extractor stores: the canonical first names that may be names at all."""
        return {
            canonical(entity.names[0]) for entity in self.entities if acceptable(entity.names[0], entity.type)
        }

    def edge_keys(self) -> set[tuple[str, str, str]]:
        """The relations between two different ones of these."""
        keys = self.entity_keys()
        named = [canonical(entity.names[0]) for entity in self.entities]
        found = {(named[source], relation(kind), named[target]) for source, kind, target in self.triples}
        return {edge for edge in found if edge[0] != edge[2] and {edge[0], edge[2]} <= keys}


@dataclass(frozen=True, slots=True)
class GraphScores:
    """How the stored graphs compare with the set, summed over all paragraphs; shares in [0, 1].

    Names: a stored entity is right when any name of any entity of the paragraph is its name, and an entity (dates and
    numbers aside) is found when any of its names is stored. Entities and edges: exact keys against first names.
    `invented` edges state a relation that the set does not have between these two; co-occurrence states none.
    """

    documents: int
    name_precision: float
    name_recall: float
    entity_f1: float
    edge_precision: float
    edge_recall: float
    edge_f1: float
    invented: int
    unread: int


def load_redocred(path: Path) -> list[GoldDocument]:
    """Read a gzipped file of JSON lines. Raises InputError for anything else."""
    try:
        return [_document(row) for row in rows(path)]
    except (OSError, ValueError, KeyError, IndexError, TypeError) as error:
        raise errors.InputError(f"{path} is no Re-DocRED file of gzipped JSON lines: {error!r}") from error


def store(memory: SemanticMemory, documents: Sequence[GoldDocument]) -> None:
    """Remember every paragraph that is not remembered yet, and have it read. Reading is done by the job ledger."""
    for document in documents:
        namespace = document.namespace
        memory.remember_many(
            document.id, [NewMessage(Role.USER, document.text, import_key=document.id)], namespace=namespace
        )
        stored = memory.history(document.id, namespace=namespace)
        memory.spawn_graph_extraction([message.id for message in stored], namespace=namespace)


def evaluate(graph: GraphStore, documents: Sequence[GoldDocument]) -> GraphScores:
    """Compare what is stored with the set."""
    names, mentioned, entities, edges = _Counts(), _Counts(), _Counts(), _Counts()
    invented = unread = 0
    for document in documents:
        stored = _stored(graph, document.namespace)
        unread += not graph.stats(document.namespace).get("extractions_stored")
        plain = {_plain(name) for name in stored.entities}
        named = [{_plain(name) for name in entity.names} for entity in document.entities]
        wanted = [
            each for each, entity in zip(named, document.entities, strict=True) if not entity.is_quantity
        ]
        names += _Counts(len(plain & set().union(*named)), len(plain))
        mentioned += _Counts(sum(bool(each & plain) for each in wanted), there=len(wanted))
        entities += _compared(stored.entities, document.entity_keys())
        stated = {edge for edge in stored.edges if edge[1] != CO_OCCURRENCE}
        edges += _compared(stated, document.edge_keys())
        invented += len(stated - document.edge_keys())
    return GraphScores(
        len(documents),
        names.precision,
        mentioned.recall,
        entities.f1,
        edges.precision,
        edges.recall,
        edges.f1,
        invented,
        unread,
    )


@dataclass(frozen=True, slots=True)
class _Counts:
    """Right ones among those found, and those there are."""

    right: int = 0
    found: int = 0
    there: int = 0

    def __add__(self, other: _Counts) -> _Counts:
        return _Counts(self.right + other.right, self.found + other.found, self.there + other.there)

    @property
    def precision(self) -> float:
        """The share of those found that is right; 1 when nothing was found."""
        return self.right / self.found if self.found else 1.0

    @property
    def recall(self) -> float:
        """The share of those there that was found; 1 when there is nothing."""
        return self.right / self.there if self.there else 1.0

    @property
    def f1(self) -> float:
        """The harmonic mean of both."""
        total = self.precision + self.recall
        return 2 * self.precision * self.recall / total if total else 0.0


def _compared(found: AbstractSet[object], there: AbstractSet[object]) -> _Counts:
    return _Counts(len(found & there), len(found), len(there))


@dataclass(frozen=True, slots=True)
class _StoredGraph:
    entities: set[str]
    edges: set[tuple[str, str, str]]


def _stored(graph: GraphStore, namespace: str) -> _StoredGraph:
    entities = graph.entities(namespace, limit=_LIMIT)
    edges = {
        (canonical(fact.source), fact.edge.relation, canonical(fact.target))
        for entity in entities
        for fact in graph.facts(namespace, entity.id, limit=_LIMIT)
    }
    return _StoredGraph({entity.canonical_name for entity in entities}, edges)


def _document(row: Mapping[str, object]) -> GoldDocument:
    entities, triples, sentences = row["entities"], row["triples"], row["sents"]
    if not isinstance(entities, list) or not isinstance(triples, list) or not isinstance(sentences, list):
        raise TypeError("entities, triples and sents are lists")
    return GoldDocument(
        str(row["id"]),
        " ".join(joined(str(sentence)) for sentence in sentences),
        [
            GoldEntity(
                tuple(joined(str(name)) for name in entity["names"]),
                TYPES.get(entity["type"], EntityType.CONCEPT),
                entity["type"] in _QUANTITIES,
            )
            for entity in entities
        ],
        [(int(triple[0]), str(triple[1]), int(triple[2])) for triple in triples],
    )


_JOINS = (
    (re.compile(r" ([,.;:!?%)\]])"), r"\1"),
    (re.compile(r"([(\[$\u00a3]) "), r"\1"),
    (re.compile(r" ('s|'|n't|'re|'ve|'ll|'d|'m)\b"), r"\1"),
    (re.compile(r" - "), "-"),
    (re.compile(r'" ([^"]*?) "'), r'"\1"'),
)


def joined(tokens: str) -> str:
    """Tokens with blanks between them, as people write them."""
    for pattern, replacement in _JOINS:
        tokens = pattern.sub(replacement, tokens)
    return tokens


def _plain(name: str) -> str:
    """A name without its article: "the United States" is the United States."""
    return canonical(name).removeprefix("the ")
