"""What graph memory asks of the database, inside one unit of work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from services.embedding.store import CollectionRows, EmbeddedRows
from services.graph.facts import EdgeDraft
from services.graph.models import Alias, AsOf, Edge, EdgeSource, Entity, EntityType, Source
from services.jobs.store import JobRows
from services.language.recorded import ReplyRows

# One job embeds one block of ids, as with messages.
ENTITIES_PER_BLOCK = 512


def block_of(entity_id: int) -> int:
    """The block that an entity is embedded with."""
    return entity_id // ENTITIES_PER_BLOCK


def entity_text(name: str, summary: str | None) -> str:
    """What is embedded of an entity."""
    return f"{name}: {summary}" if summary else name


@dataclass(frozen=True, slots=True)
class Match:
    """A stored entity that has the name looked for; the smaller `alias_id`, the earlier it got that name."""

    name: str
    alias_id: int
    entity: Entity


@dataclass(frozen=True, slots=True)
class NewEntity:
    """An entity to be stored; `canonical_name` as `names.canonical` gives it."""

    name: str
    canonical_name: str
    type: EntityType
    summary: str | None = None


@dataclass(frozen=True, slots=True)
class EntityText:
    """An entity as the embedder sees it."""

    id: int
    type: EntityType
    text: str


@dataclass(frozen=True, slots=True)
class Erased:
    """What went when texts went: facts that nothing else states, entities that nothing else names, their vectors."""

    facts: int = 0
    entities: int = 0
    vectors: int = 0

    def __add__(self, other: Erased) -> Erased:
        return Erased(self.facts + other.facts, self.entities + other.entities, self.vectors + other.vectors)


class GraphRows(EmbeddedRows, Protocol):
    """Entities, their aliases, the facts between them, where those come from, and counters.

    The rows with vectors are entities, in blocks of ids. No method that is given a namespace sees another one's rows.
    """

    # ---- entities --------------------------------------------------------------------------------------------

    def is_there(self, namespace: str, source: Source) -> bool:
        """Whether the text is (still) stored in this namespace; what no text says always is."""

    def named(self, namespace: str, names: Sequence[str]) -> list[Match]:
        """The entities that have one of these canonical names or aliases, by name and age of the alias."""

    def get(self, namespace: str, ids: Sequence[int]) -> dict[int, Entity]:
        """Those of the ids that exist."""

    def page(self, namespace: str, *, kind: EntityType | None, limit: int) -> list[Entity]:
        """The entities seen last, those first."""

    def add_entities(self, namespace: str, entities: Sequence[NewEntity]) -> list[int]:
        """Store entities, each known by its canonical name from now on; their ids, in order.

        One whose (canonical name, type) exists already gives that one's id.
        """

    def mention(self, extractor: str, source: Source, said: Sequence[tuple[int, str | None]]) -> None:
        """Note that the text names these entities just now, and what it says of each; a repeat changes nothing else."""

    def describe(self, changed: Sequence[Entity]) -> None:
        """Store what is known better by now: display name, type and summary."""

    def aliases(self, namespace: str, entity_ids: Sequence[int]) -> list[Alias]:
        """All names of these entities, oldest first."""

    def add_aliases(self, namespace: str, aliases: Sequence[tuple[str, int]]) -> None:
        """Let entities be known by further canonical names: (name, entity id); known ones are left alone."""

    def move_aliases(self, namespace: str, names: Sequence[str], *, of: int, to: int) -> None:
        """Take names from one entity and give them to another."""

    def remove_aliases(self, namespace: str, entity_id: int, names: Sequence[str]) -> int:
        """Take names from an entity; how many it had."""

    def take_over(self, namespace: str, winner: int, loser: int) -> None:
        """Give the winner all names, mentions and (if it has none) the community of the loser, and delete the loser.

        Its facts are moved by `apply` before; whatever still hangs on the loser goes with it.
        """

    def copy_mentions(self, of: int, to: int) -> None:
        """Let an entity be named by every text that names the other one."""

    def delete_entities(self, namespace: str, ids: Sequence[int]) -> Erased:
        """Delete entities with their names, facts and (through tombstones) vectors; their communities have changed."""

    # ---- facts -----------------------------------------------------------------------------------------------

    def edges(self, namespace: str, ids: Sequence[int]) -> dict[int, Edge]:
        """Those of the ids that exist."""

    def edges_with_keys(
        self, namespace: str, keys: Sequence[tuple[int, str, int]], heads: Sequence[tuple[int, str]]
    ) -> list[Edge]:
        """All facts, past ones too, of these (source, relation, target) and of these (source, relation), by id."""

    def edges_of(
        self,
        namespace: str,
        entity_id: int,
        *,
        as_of: AsOf | None = None,
        history: bool = False,
        limit: int | None = None,
    ) -> list[Edge]:
        """Facts with the entity at either end, latest `valid_from` first.

        Those that are active, those that were true as of then, or with `history` all, retracted ones too.
        """

    def stated_by(self, extractor: str, source: Source) -> dict[int, str]:
        """The facts that this extractor has read from this message or chunk, with the text's words."""

    def sources(self, edge_ids: Sequence[int]) -> dict[int, list[EdgeSource]]:
        """Where these facts come from, oldest first."""

    def told(self, edge_id: int) -> list[int]:
        """The times at which a fact was told."""

    def apply(self, namespace: str, drafts: Sequence[EdgeDraft]) -> None:
        """Write what became of facts: changed ones first, then new ones, then what replaced what; sets their ids."""

    def state(self, extractor: str, source: Source, evidence: Sequence[tuple[int, str, int]]) -> None:
        """Note that the text states these facts: (edge id, the words, the time); a repeat changes nothing."""

    def retract(self, namespace: str, edge_id: int) -> bool:
        """Take a fact back: it is not known from now on. False if it was retired before."""

    def delete_edges(self, namespace: str, ids: Sequence[int], *, untell: bool = False) -> int:
        """Erase facts, their history too; how many. `untell`: with the communities whose summaries may tell of them."""

    def forget_texts(
        self,
        namespace: str,
        *,
        message_ids: Sequence[int] = (),
        chunk_ids: Sequence[int] = (),
        extractor: str | None = None,
        keep: Sequence[int] = (),
    ) -> Erased:
        """These texts state nothing any more, or nothing that this extractor read from them.

        A fact goes with its last source, an entity with its last mention when no fact holds it, except those in `keep`.
        What stays says what its other texts say. When the texts go (no `extractor`), communities that tell of what is
        gone go too.
        """

    # ---- counters --------------------------------------------------------------------------------------------

    def count(self, namespace: str, counts: Mapping[str, int]) -> None:
        """Add to named counters, atomically."""

    def counters(self, namespace: str) -> dict[str, int]:
        """All counters, and how many rows there are: entities, aliases, edges (active) and history (those that are not).

        `ambiguous_names` are those that several entities of different types share.
        """

    def claim_refresh(self, namespace: str, interval: int) -> bool:
        """Whether communities are to be detected now: true for one caller in each `interval` stored extractions."""

    # ---- eviction --------------------------------------------------------------------------------------------

    def delete_expired(self, namespace: str, *, before: int, limit: int) -> int:
        """Delete facts retired before that time; how many, `limit` at most."""

    def orphans(self, namespace: str, *, before: int, limit: int) -> list[int]:
        """Entities that no fact names, past or present, and that were last seen before that time."""

    def excess(self, namespace: str, *, keep: int, limit: int) -> list[int]:
        """At most `limit` of the entities beyond `keep`: those with the fewest active facts, then those seen longest ago."""

    # ---- vectors ---------------------------------------------------------------------------------------------

    def unembedded(self, namespace: str, block: int, physical: str, *, limit: int) -> list[EntityText]:
        """Entities of a block that lack a vector in this collection, oldest first."""


class GraphUnit(Protocol):
    """A unit of work for graph memory."""

    @property
    def jobs(self) -> JobRows:
        """The job ledger."""

    @property
    def graph(self) -> GraphRows:
        """Entities and facts."""

    @property
    def collections(self) -> CollectionRows:
        """Vector collections."""

    @property
    def replies(self) -> ReplyRows:
        """Kept replies of language models."""


class GraphDatabase(Protocol):
    """Opens units of work."""

    def write(self, *, durable: bool = True) -> AbstractContextManager[GraphUnit]:
        """One transaction."""

    def read(self) -> AbstractContextManager[GraphUnit]:
        """One consistent view."""
