"""Graph recall: the facts around what a question names. Seeds, one walk, ranking, rows.

Reads only; never waits for a worker. The embedder is asked only when words find nothing and entities have vectors.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from services import errors
from services.embedding.spaces import VectorSpaces
from services.graph import seeds
from services.graph.models import AsOf, Edge, EdgeSource, Entity, FactRecord, GraphFact
from services.graph.names import canonical
from services.graph.ranking import Activation, Scored, best, by_activation, by_distance, recent_first
from services.graph.seeds import Seed
from services.graph.store import GraphRows
from services.graph.traversal import MAX_LINKS, MAX_NODES, Link, shortest_path, walk
from services.graph.vectors import COLLECTION, entities_near
from services.ports import Clock

log = logging.getLogger(__name__)

MAX_LIMIT = 1_000
_LONGEST_QUERY = 4_096
# Hits per tier below exact names.
_PER_TIER = 5
# Names offered for an unknown one share at least this much with it (difflib's ratio).
_ALIKE, _NEAR_CANDIDATES = 0.4, 100
# Cosine from which an entity is near enough to a question that names none.
_NEAR_ENOUGH = 0.5
_LONGEST_PATH, _PATH_NODES = 8, 20_000


@dataclass(frozen=True, slots=True)
class GraphRecallConfig:
    """How the graph is walked: the settings of [memory.graph]. `activation` None ranks by distance."""

    recall_limit: int = 10
    max_hops: int = 2
    temporal_decay_rate: float = 0.0
    activation: Activation | None = None


@dataclass(frozen=True, slots=True)
class GraphAnswer:
    """Facts, best first, and the entities of the question that they were reached from.

    `truncated`: the graph around them is larger than what a recall walks. `reasons` says, for people, why there is
    less than one might expect.
    """

    facts: tuple[GraphFact, ...] = ()
    seeds: tuple[tuple[Entity, Seed], ...] = ()
    truncated: bool = False
    reasons: tuple[str, ...] = ()


class GraphReading(Protocol):
    """What recall asks of the graph beside its rows: names by their parts, and neighbours in bulk."""

    def search_names(self, namespace: str, text: str, *, prefix: bool, limit: int) -> list[int]:
        """Entities whose name has a word of the text, or one that begins with one: by BM25, ties by id."""

    def search_aliases(self, namespace: str, beginnings: Sequence[str], *, limit: int) -> list[int]:
        """Entities with an alias that begins with one of these canonical texts: shortest alias first, ties by id."""

    def search_summaries(self, namespace: str, text: str, *, limit: int) -> list[int]:
        """Entities whose summary has a word of the text: by BM25, ties by id."""

    def links(
        self, namespace: str, entity_ids: Sequence[int], as_of: AsOf | None, *, each: int
    ) -> list[Link]:
        """Their facts, active ones or those as of then: of each entity and direction at most `each`, surest first."""

    def has_entities(self, namespace: str) -> bool:
        """Whether there is a graph at all."""

    def all_ids(self, namespace: str, *, history: bool) -> tuple[list[int], list[int]]:
        """The ids of all entities and of all active facts, with `history` of past ones too, ascending."""


class GraphReadingUnit(Protocol):
    """A unit of work for reading the graph."""

    @property
    def graph(self) -> GraphRows:
        """Entities and facts."""

    @property
    def graph_reading(self) -> GraphReading:
        """Names by their parts, and neighbours."""


class GraphReadingDatabase(Protocol):
    """Opens units of work."""

    def read(self) -> AbstractContextManager[GraphReadingUnit]:
        """One consistent view."""


@dataclass(frozen=True, slots=True)
class Around:
    """Entities and the facts between them, for pictures."""

    entities: tuple[Entity, ...]
    facts: tuple[FactRecord, ...]
    truncated: bool = False


class GraphRecall:
    """Finds facts of one namespace. Safe to share between threads."""

    def __init__(
        self,
        database: GraphReadingDatabase,
        clock: Clock,
        config: GraphRecallConfig | None = None,
        *,
        spaces: VectorSpaces | None = None,
    ) -> None:
        self._database = database
        self._clock = clock
        self._config = config or GraphRecallConfig()
        self._spaces = spaces

    def recall(
        self,
        query: str,
        *,
        namespace: str,
        limit: int | None = None,
        max_hops: int | None = None,
        as_of: AsOf | None = None,
    ) -> GraphAnswer:
        """The facts within `max_hops` of what the query names, best first: those that hold, or held as of then.

        Limits are clamped to [0, 1000], hops to [1, 10]; 0 facts are none. Stated facts come before what merely stands
        together in a text when both score alike. The same question to the same graph gives the same answer.
        """
        config = self._config
        wanted = min(config.recall_limit if limit is None else limit, MAX_LIMIT)
        hops = max(1, min(config.max_hops if max_hops is None else max_hops, 10))
        if wanted < 1 or not query.strip():
            return GraphAnswer()
        with self._database.read() as unit:
            found = find_seeds(unit, namespace, query[:_LONGEST_QUERY])
        # Outside of the transaction: it calls a model. Entities have vectors only where resolution uses them.
        found = found or self._nearest(namespace, query[:_LONGEST_QUERY])
        with self._database.read() as unit:
            # A vector outlives its entity for a moment.
            known = unit.graph.get(namespace, [seed.entity_id for seed in found])
            starts = {seed.entity_id: seed.score for seed in found if seed.entity_id in known}
            if not starts:
                return _nothing(unit, namespace, query)
            if config.activation is not None:
                hops = max(hops, config.activation.max_hops)
            around = walk(
                starts,
                lambda ids, each: unit.graph_reading.links(namespace, ids, as_of, each=each),
                max_hops=hops,
                max_links=max(MAX_LINKS, 4 * wanted),
            )
            scored = (
                by_distance(around) if config.activation is None else by_activation(around, config.activation)
            )
            scored = recent_first(scored, now=self._clock.now(), rate=config.temporal_decay_rate)
            chosen = best(scored, wanted)
            ends = {end for one in chosen for end in (one.link.source_id, one.link.target_id)}
            entities = known | unit.graph.get(namespace, sorted(ends - set(known)))
            facts = _facts(unit, namespace, chosen, entities)
        return GraphAnswer(
            tuple(facts),
            tuple((known[seed.entity_id], seed) for seed in found if seed.entity_id in known),
            around.truncated,
            () if facts else ("nothing is known of " + ", ".join(one.name for one in known.values()),),
        )

    def _nearest(self, namespace: str, query: str) -> list[Seed]:
        """The entities whose vectors are nearest to the query; [] where there are none or they are out of reach."""
        if self._spaces is None:
            return []
        try:
            space = self._spaces.for_reading(COLLECTION)
            hits = [] if space is None else self._spaces.search(space, namespace, query, limit=_PER_TIER)
        except (errors.TransientError, errors.DimensionMismatch, errors.ModelRejected) as error:
            log.warning("graph_recall_without_vectors reason=%s", type(error).__name__)
            return []
        return seeds.ranked({seeds.MEANING: list(entities_near(hits, _NEAR_ENOUGH))})

    def path(
        self, start: Entity, goal: Entity, *, namespace: str, as_of: AsOf | None = None
    ) -> list[FactRecord] | None:
        """The facts of a shortest way between two entities, in order; None when there is none within eight steps."""
        with self._database.read() as unit:
            links = shortest_path(
                start.id,
                goal.id,
                lambda ids, each: unit.graph_reading.links(namespace, ids, as_of, each=each),
                max_hops=_LONGEST_PATH,
                max_nodes=_PATH_NODES,
            )
            return None if links is None else _records(unit, namespace, [link.edge_id for link in links])

    def around(
        self,
        entity: Entity,
        *,
        namespace: str,
        max_hops: int = 2,
        max_entities: int = 60,
        as_of: AsOf | None = None,
    ) -> Around:
        """An entity and those within some steps of it, the surest first, with every fact between them."""
        with self._database.read() as unit:
            found = walk(
                {entity.id: 1.0},
                lambda ids, each: unit.graph_reading.links(namespace, ids, as_of, each=each),
                max_hops=max_hops,
                max_nodes=min(max_entities, MAX_NODES),
            )
            entities = unit.graph.get(namespace, sorted(found.reached))
            facts = _records(unit, namespace, sorted(found.links))
        return Around(tuple(entities.values()), tuple(facts), found.truncated)

    def near_names(self, name: str, *, namespace: str, limit: int = 5) -> list[str]:
        """Names that resemble one that is unknown, the most similar first."""
        import difflib

        with self._database.read() as unit:
            reading, key = unit.graph_reading, canonical(name)
            words = [word for word in key.split() if len(word) > 1]
            ids = reading.search_aliases(namespace, [word[:2] for word in words], limit=_NEAR_CANDIDATES)
            for text in (name, *(word[:3] for word in words)):
                ids += reading.search_names(namespace, text, prefix=True, limit=_NEAR_CANDIDATES)
            entities = unit.graph.get(namespace, list(dict.fromkeys(ids)))

        alike = sorted(
            (-difflib.SequenceMatcher(None, key, entity.canonical_name).ratio(), entity.name)
            for entity in entities.values()
        )
        return list(dict.fromkeys(found for ratio, found in alike if -ratio >= _ALIKE))[:limit]


def find_seeds(unit: GraphReadingUnit, namespace: str, query: str) -> list[Seed]:
    """The entities that the query names: by their exact names, and by parts of them for the words that are left."""
    spans = seeds.spans(query)
    matches: dict[str, list[int]] = {}
    for match in unit.graph.named(namespace, list(dict.fromkeys(span.name for span in spans))):
        matches.setdefault(match.name, []).append(match.entity.id)
    named = seeds.longest(spans, matches)
    exact = list(dict.fromkeys(entity for span in named for entity in matches[span.name]))
    tiers: dict[str, Sequence[int]] = {seeds.EXACT: exact}
    rest, reading = seeds.rest_of(query, named), unit.graph_reading
    if rest:
        tiers[seeds.WORD] = reading.search_names(namespace, rest, prefix=False, limit=_PER_TIER)
        tiers[seeds.PREFIX] = reading.search_names(namespace, rest, prefix=True, limit=_PER_TIER)
        tiers[seeds.ALIAS] = reading.search_aliases(namespace, seeds.prefixes(rest), limit=_PER_TIER)
    if rest and not any(tiers.values()):
        tiers[seeds.SUMMARY] = reading.search_summaries(namespace, rest, limit=_PER_TIER)
    return seeds.ranked(tiers)


def _nothing(unit: GraphReadingUnit, namespace: str, query: str) -> GraphAnswer:
    empty = not unit.graph_reading.has_entities(namespace)
    reason = f"the graph of namespace {namespace} is empty" if empty else "no entity of the graph is named"
    log.info("graph_recall_empty namespace=%s reason=%s characters=%d", namespace, reason, len(query))
    return GraphAnswer(reasons=(reason,))


def _facts(
    unit: GraphReadingUnit, namespace: str, chosen: Sequence[Scored], entities: dict[int, Entity]
) -> list[GraphFact]:
    ids = [one.link.edge_id for one in chosen]
    edges = unit.graph.edges(namespace, ids)
    sources = unit.graph.sources(ids)
    facts = []
    for one in chosen:
        edge = edges[one.link.edge_id]
        said = sources.get(edge.id, [])
        facts.append(
            GraphFact(
                edge_id=edge.id,
                entity_name=entities[edge.source_id].name,
                relation=edge.relation,
                target_name=entities[edge.target_id].name,
                fact=edge.fact,
                entity_match_score=one.match,
                hop_distance=one.hop,
                confidence=edge.confidence,
                score=one.score,
                valid_from=edge.valid_from,
                stated=one.stated,
                extractors=tuple(sorted({source.extractor for source in said})),
                message_ids=_distinct(source.message_id for source in said),
                chunk_ids=_distinct(source.chunk_id for source in said),
            )
        )
    return facts


def _records(unit: GraphReadingUnit, namespace: str, edge_ids: Sequence[int]) -> list[FactRecord]:
    edges = unit.graph.edges(namespace, edge_ids)
    sources = unit.graph.sources(edge_ids)
    ends = {end for edge in edges.values() for end in (edge.source_id, edge.target_id)}
    entities = unit.graph.get(namespace, sorted(ends))
    return [_record(edges[found], entities, sources.get(found, ())) for found in edge_ids if found in edges]


def _record(edge: Edge, entities: dict[int, Entity], sources: Sequence[EdgeSource]) -> FactRecord:
    return FactRecord(edge, entities[edge.source_id].name, entities[edge.target_id].name, tuple(sources))


def _distinct(ids: Iterable[int | None]) -> tuple[int, ...]:
    return tuple(sorted({found for found in ids if found is not None}))
