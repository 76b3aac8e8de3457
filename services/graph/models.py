"""The values of graph memory. Times are microseconds since 1970 UTC."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class EntityType(StrEnum):
    """What an entity is. Prompt, schema, parser and table take their list from here."""

    PERSON = "person"
    TOOL = "tool"
    CONCEPT = "concept"
    PROJECT = "project"
    LANGUAGE = "language"
    FILE = "file"
    CONFIG = "config"
    ORGANIZATION = "organization"


# Who found a fact: models as "llm:<provider/model>", people and imports by "manual".
LOCAL_EXTRACTOR = "local"
MANUAL_EXTRACTOR = "manual"
# What the local extractor claims of two entities: seen in one sentence, nothing more.
CO_OCCURRENCE = "mentioned_with"


@dataclass(frozen=True, slots=True)
class Source:
    """The text that something was read from: a message or a chunk of a document, exactly one, or neither (manual).

    `said_at` is the text's own time, the beginning of what it states unless it names another.
    """

    said_at: int
    message_id: int | None = None
    chunk_id: int | None = None
    job_id: int | None = None


@dataclass(frozen=True, slots=True)
class FoundEntity:
    """An entity as an extractor found it; `name` as written."""

    name: str
    type: EntityType = EntityType.CONCEPT
    summary: str | None = None


@dataclass(frozen=True, slots=True)
class FoundEdge:
    """A relation as an extractor found it, between names of the same extraction or of stored entities.

    `fact` is the sentence for people. `valid_from` None means: from the source's own time; `valid_to` None: still true.
    """

    source: str
    target: str
    relation: str
    fact: str
    confidence: float = 0.8
    valid_from: int | None = None
    valid_to: int | None = None


@dataclass(frozen=True, slots=True)
class Extraction:
    """What an extractor read out of one text. `dropped` counts the items that were left out, by reason."""

    extractor: str
    entities: tuple[FoundEntity, ...] = ()
    edges: tuple[FoundEdge, ...] = ()
    dropped: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Entity:
    """A stored entity: `name` for people, `canonical_name` the key."""

    id: int
    namespace: str
    name: str
    canonical_name: str
    type: EntityType
    summary: str | None
    first_seen_at: int
    last_seen_at: int


@dataclass(frozen=True, slots=True)
class Alias:
    """Another name of an entity, in canonical form."""

    id: int
    entity_id: int
    name: str
    created_at: int


@dataclass(frozen=True, slots=True)
class Edge:
    """A stored fact.

    True in the world from `valid_from` until before `valid_to`; known here from `created_at` until before
    `expired_at`. None means: until now and on. Active is what has neither end.
    """

    id: int
    namespace: str
    source_id: int
    target_id: int
    relation: str
    fact: str
    confidence: float
    valid_from: int
    valid_to: int | None
    created_at: int
    expired_at: int | None
    superseded_by_id: int | None

    @property
    def active(self) -> bool:
        """Whether it holds now, as far as is known."""
        return self.valid_to is None and self.expired_at is None


@dataclass(frozen=True, slots=True)
class EdgeSource:
    """Where a fact comes from: one row per text and extractor that stated it, at the text's own time."""

    edge_id: int
    message_id: int | None
    chunk_id: int | None
    job_id: int | None
    extractor: str
    evidence: str
    stated_at: int
    created_at: int


@dataclass(frozen=True, slots=True)
class StoredExtraction:
    """What storing an extraction came to.

    `entity_ids` are all entities that the text names, `edge_ids` all facts that it states, known ones included;
    `created_ids` the entities that were new. `skipped` counts what was left out, by reason.
    """

    entity_ids: tuple[int, ...] = ()
    created_ids: tuple[int, ...] = ()
    edge_ids: tuple[int, ...] = ()
    edges_created: int = 0
    edges_superseded: int = 0
    skipped: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class FactRecord:
    """A fact with the names of its ends and where it comes from.

    `ended_by` says why it holds no more: "restated" and "replaced" by the fact `replaced_by` (None once that is
    erased), "ended" by the day it names itself, "retracted" by somebody; None while it is active.
    """

    edge: Edge
    source: str
    target: str
    sources: tuple[EdgeSource, ...] = ()
    replaced_by: Edge | None = None
    ended_by: str | None = None


@dataclass(frozen=True, slots=True)
class AsOf:
    """A point on both clocks: what was true at `valid_at`, as known at `known_at`. None means now."""

    valid_at: int | None = None
    known_at: int | None = None


@dataclass(frozen=True, slots=True)
class Community:
    """Entities that hang together. An empty fingerprint: to be summarised at the next detection."""

    id: int
    namespace: str
    name: str
    summary: str
    fingerprint: str
    entity_ids: tuple[int, ...]
    created_at: int
    updated_at: int


@dataclass(frozen=True, slots=True)
class GraphFact:
    """A fact as recall returns it, best first by `score`.

    `hop_distance` is the smaller distance of its two ends from an entity of the query. `stated` is False for what
    only stands together in a text (see CO_OCCURRENCE). `message_ids` and `chunk_ids` say where it comes from.
    """

    edge_id: int
    entity_name: str
    relation: str
    target_name: str
    fact: str
    entity_match_score: float
    hop_distance: int
    confidence: float
    score: float
    valid_from: int
    stated: bool
    extractors: tuple[str, ...] = ()
    message_ids: tuple[int, ...] = ()
    chunk_ids: tuple[int, ...] = ()
