"""Graph memory for those who use it: texts in, entities and facts out, each with where it comes from."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from services.graph.models import (
    AsOf,
    Edge,
    Entity,
    EntityType,
    Extraction,
    FactRecord,
    Source,
    StoredExtraction,
)
from services.graph.store import Erased, GraphDatabase, GraphUnit
from services.ports import Clock

Also = Callable[[GraphUnit, StoredExtraction], None]


class GraphStore:
    """Stores what extractors found, and answers what is known of a name. Safe to share between threads."""

    def __init__(self, database: GraphDatabase, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    def store(
        self, namespace: str, extraction: Extraction, source: Source, *, also: Also | None = None
    ) -> StoredExtraction:
        """Resolve the entities and store them with their facts in one transaction; a replay changes nothing.

        `also` runs in that transaction: there the caller marks the text as read and finishes its job. An extraction by
        another extractor than the local one takes away what the local one read from the same text.
        """
        raise NotImplementedError

    def replace_local(
        self, namespace: str, *, message_ids: Sequence[int] = (), chunk_ids: Sequence[int] = ()
    ) -> Erased:
        """Take away what the local extractor read from these texts. `store` does so by itself."""
        raise NotImplementedError

    def count(self, namespace: str, **counts: int) -> None:
        """Add to the counters that `stats` shows, such as `extraction_count` or `parse_failures`."""
        raise NotImplementedError

    def stats(self, namespace: str) -> dict[str, int]:
        """How many rows there are, and all counters."""
        raise NotImplementedError

    def entity(self, namespace: str, name: str) -> Entity | None:
        """The entity of that name or alias."""
        raise NotImplementedError

    def entities(self, namespace: str, *, kind: EntityType | None = None, limit: int = 50) -> list[Entity]:
        """The entities seen last, those first."""
        raise NotImplementedError

    def aliases(self, namespace: str, name: str) -> list[str]:
        """The other names of an entity, oldest first. Raises NotFound."""
        raise NotImplementedError

    def facts(
        self, namespace: str, name: str, as_of: AsOf | None = None, *, limit: int = 100
    ) -> list[FactRecord]:
        """The facts that an entity is part of: those that hold, or those that held as of then. Raises NotFound."""
        raise NotImplementedError

    def history(self, namespace: str, name_or_edge: str | int, *, limit: int = 100) -> list[FactRecord]:
        """Every fact of an entity, past ones too, newest first; of an edge id those of the same ends and relation.

        Raises NotFound.
        """
        raise NotImplementedError

    def add_fact(
        self,
        namespace: str,
        source: str,
        relation: str,
        target: str,
        *,
        fact: str = "",
        confidence: float = 1.0,
        source_type: EntityType = EntityType.CONCEPT,
        target_type: EntityType = EntityType.CONCEPT,
        valid_from: int | None = None,
        valid_to: int | None = None,
    ) -> Edge:
        """Store a fact by hand, the same way as one that was read. Raises InputError."""
        raise NotImplementedError

    def forget_edge(self, namespace: str, edge_id: int, *, erase: bool = False) -> None:
        """Take a fact back, or erase it from history too. Raises NotFound, InputError."""
        raise NotImplementedError

    def merge(self, namespace: str, winner: str, loser: str) -> Entity:
        """Two names, one thing: the loser's names and facts become the winner's. Raises NotFound, InputError."""
        raise NotImplementedError

    def split(self, namespace: str, entity: str, names: Sequence[str], edges: Sequence[int] = ()) -> Entity:
        """Give these names and facts of an entity to a new one. Raises NotFound, InputError."""
        raise NotImplementedError

    def remove_alias(self, namespace: str, entity: str, alias: str) -> None:
        """An entity is not called so. Raises NotFound, InputError for its own name."""
        raise NotImplementedError
