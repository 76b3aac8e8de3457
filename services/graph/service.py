"""Graph memory for those who use it: texts in, entities and facts out, each with where it comes from."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from services import errors
from services.graph.communities import refresh_job_if_due
from services.graph.eviction import evict_job
from services.graph.facts import draft_of
from services.graph.merging import merge_entities, moved_draft, single_valued_heads
from services.graph.models import (
    MANUAL_EXTRACTOR,
    AsOf,
    Edge,
    Entity,
    EntityType,
    Extraction,
    FactRecord,
    FoundEdge,
    FoundEntity,
    Source,
    StoredExtraction,
)
from services.graph.names import canonical, display
from services.graph.resolution import EntityResolver, Key, Resolved, Wanted, choose
from services.graph.store import GraphDatabase, GraphUnit, Match, NewEntity
from services.graph.vectors import entity_jobs
from services.graph.writing import Findings, by_name
from services.ids import MessageId
from services.ports import Clock

log = logging.getLogger(__name__)

Also = Callable[[GraphUnit, StoredExtraction], None]
# Takes back, in this unit, those facts of a namespace's message that somebody has put right already.
TakeBack = Callable[[Any, str, MessageId], None]
# A name or alias, or an id where several entities share the name.
EntityName = str | int


class GraphStore:
    """Stores what extractors found, and answers what is known of a name. Safe to share between threads.

    `refresh_every` extractions communities are detected anew (0: never); `embed` has new entities get vectors.
    """

    def __init__(
        self,
        database: GraphDatabase,
        clock: Clock,
        *,
        resolver: EntityResolver | None = None,
        refresh_every: int = 0,
        embed: bool = False,
        take_back: TakeBack | None = None,
    ) -> None:
        self._database = database
        self._clock = clock
        self._resolver = resolver
        self._refresh_every = refresh_every
        self._embed = embed
        self._take_back = take_back

    # ---- writing ---------------------------------------------------------------------------------------------

    def store(
        self, namespace: str, extraction: Extraction, source: Source, *, also: Also | None = None
    ) -> StoredExtraction:
        """Resolve the entities and store them with their facts in one transaction; a replay changes nothing.

        `also` runs in that transaction: there the caller marks the text as read and finishes its job. An extraction by
        another extractor than the local one takes away what the local one read from the same text. Of a text that is
        gone nothing is stored.
        """
        findings = Findings(namespace, extraction, source, self._clock.now())
        resolved = self._resolve(namespace, findings.wanted)
        with self._database.write(durable=source.job_id is None) as unit:
            if unit.graph.is_there(namespace, source):
                stored = findings.write(unit, resolved)
                if self._take_back is not None and stored.edge_ids and source.message_id is not None:
                    self._take_back(unit, namespace, MessageId(source.message_id))
                self._follow_up(unit, namespace, stored, resolved)
            else:
                stored = StoredExtraction(skipped=(("text_gone", 1),))
            if also is not None:
                also(unit, stored)
        return stored

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
        edge = FoundEdge(source, target, relation, fact, confidence, valid_from, valid_to)
        ends = (FoundEntity(source, source_type), FoundEntity(target, target_type))
        found: list[Edge] = []

        def keep(unit: GraphUnit, stored: StoredExtraction) -> None:
            if not stored.edge_ids:
                reasons = " and ".join(reason.replace("_", " ") for reason, _ in stored.skipped)
                raise errors.InputError(f"{source!r} {relation} {target!r} is no fact: {reasons}")
            found.extend(unit.graph.edges(namespace, stored.edge_ids).values())

        self.store(
            namespace, Extraction(MANUAL_EXTRACTOR, ends, (edge,)), Source(self._clock.now()), also=keep
        )
        return found[0]

    def forget_edge(self, namespace: str, edge_id: int, *, erase: bool = False) -> None:
        """Take a fact back, or erase it from history too. Raises NotFound, and InputError for what is past already."""
        with self._database.write() as unit:
            if edge_id not in unit.graph.edges(namespace, [edge_id]):
                raise errors.NotFound(f"namespace {namespace} has no fact {edge_id}")
            if erase:
                unit.graph.delete_edges(namespace, [edge_id], untell=True)
            elif not unit.graph.retract(namespace, edge_id):
                raise errors.InputError(
                    f"fact {edge_id} holds no more as it is: erase it to remove it from history too"
                )

    def count(self, namespace: str, **counts: int) -> None:
        """Add to the counters that `stats` shows, such as `extraction_count` or `parse_failures`."""
        with self._database.write(durable=False) as unit:
            unit.graph.count(namespace, counts)

    # ---- identity --------------------------------------------------------------------------------------------

    def merge(self, namespace: str, winner: EntityName, loser: EntityName) -> Entity:
        """Two names, one thing: the loser's names and facts become the winner's. Raises NotFound, InputError."""
        with self._database.write() as unit:
            kept, gone = (_required(unit, namespace, name) for name in (winner, loser))
            if kept.id == gone.id:
                # By a name of which it was told before, it is merged already.
                if isinstance(loser, str) and canonical(loser) not in (
                    kept.canonical_name,
                    canonical(str(winner)),
                ):
                    return kept
                raise errors.InputError(f"{winner!r} and {loser!r} are one entity already")
            if isinstance(loser, str) and canonical(loser) != gone.canonical_name:
                raise errors.InputError(
                    f"{loser!r} is another name of {gone.name!r}: name that one to merge it, or remove the alias first"
                )
            merged = merge_entities(unit, namespace, kept, gone, self._clock.now())
            unit.graph.count(namespace, {"merges_by_hand": 1})
        return merged

    def split(
        self, namespace: str, entity: EntityName, names: Sequence[str], edges: Sequence[int] = ()
    ) -> Entity:
        """Give these names and facts of an entity to a new one, called by the first. Raises NotFound, InputError."""
        keys = [canonical(name) for name in names]
        if not keys or not all(keys):
            raise errors.InputError("a new entity needs a name: give at least one")
        with self._database.write() as unit:
            old = _required(unit, namespace, entity)
            if old.canonical_name in keys:
                raise errors.InputError(
                    f"{old.name!r} is the entity's own name: give the names that it is to lose"
                )
            taken = choose((match for match in unit.graph.named(namespace, keys[:1])), old.type)
            if taken is not None and taken.id != old.id:
                raise errors.InputError(
                    f"{names[0]!r} is the name of another entity already: choose another one"
                )
            moving = unit.graph.edges(namespace, edges)
            for edge_id in edges:
                if edge_id not in moving or old.id not in (
                    moving[edge_id].source_id,
                    moving[edge_id].target_id,
                ):
                    raise errors.NotFound(f"{old.name!r} has no fact {edge_id}")
            called = {alias.name for alias in unit.graph.aliases(namespace, [old.id])}
            if not edges and keys[0] not in called:
                raise errors.InputError(
                    f"{old.name!r} is not called {names[0]!r}: give one of its names, or the facts (--fact) that go "
                    f"to {names[0]!r}"
                )
            new_id = unit.graph.add_entities(namespace, [NewEntity(display(names[0]), keys[0], old.type)])[0]
            unit.graph.remove_aliases(namespace, old.id, keys[:1])
            unit.graph.move_aliases(namespace, keys[1:], of=old.id, to=new_id)
            drafts = [moved_draft(draft_of(edge), old.id, new_id) for edge in moving.values()]
            unit.graph.apply(namespace, drafts)
            unit.graph.copy_mentions(old.id, new_id)
            if self._embed:
                unit.jobs.enqueue(entity_jobs(namespace, [new_id]))
            return unit.graph.get(namespace, [new_id])[new_id]

    def add_alias(self, namespace: str, entity: EntityName, alias: str) -> None:
        """An entity is also called so. Raises NotFound, and InputError for the name of another one."""
        key = canonical(alias)
        if not key:
            raise errors.InputError(f"{alias!r} is no name")
        with self._database.write() as unit:
            found = _required(unit, namespace, entity)
            if not _free(unit.graph.named(namespace, [key]), found):
                raise errors.InputError(f"{alias!r} is the name of another entity: merge the two")
            unit.graph.add_aliases(namespace, [(key, found.id)])

    def remove_alias(self, namespace: str, entity: EntityName, alias: str) -> None:
        """An entity is not called so. Raises NotFound, InputError for its own name."""
        with self._database.write() as unit:
            found = _required(unit, namespace, entity)
            if canonical(alias) == found.canonical_name:
                raise errors.InputError(
                    f"{alias!r} is the entity's own name: merge it into another one instead"
                )
            if not unit.graph.remove_aliases(namespace, found.id, [canonical(alias)]):
                raise errors.NotFound(f"{found.name!r} is not called {alias!r}")

    # ---- reading ---------------------------------------------------------------------------------------------

    def entity(self, namespace: str, name: EntityName) -> Entity | None:
        """The entity of that name, alias or id."""
        with self._database.read() as unit:
            return _named(unit, namespace, name)

    def entities(self, namespace: str, *, kind: EntityType | None = None, limit: int = 50) -> list[Entity]:
        """The entities seen last, those first."""
        with self._database.read() as unit:
            return unit.graph.page(namespace, kind=kind, limit=limit)

    def aliases(self, namespace: str, name: EntityName) -> list[str]:
        """The other names of an entity, oldest first. Raises NotFound."""
        with self._database.read() as unit:
            entity = _required(unit, namespace, name)
            found = unit.graph.aliases(namespace, [entity.id])
        return [alias.name for alias in found if alias.name != entity.canonical_name]

    def facts(
        self, namespace: str, name: EntityName, as_of: AsOf | None = None, *, limit: int = 100
    ) -> list[FactRecord]:
        """The facts that an entity is part of: those that hold, or those that held as of then. Raises NotFound."""
        with self._database.read() as unit:
            entity = _required(unit, namespace, name)
            return _records(
                unit, namespace, unit.graph.edges_of(namespace, entity.id, as_of=as_of, limit=limit)
            )

    def history(self, namespace: str, name_or_edge: str | int, *, limit: int = 100) -> list[FactRecord]:
        """Every fact of an entity, past ones too, newest first; of an edge id those that it replaced or that replaced it.

        Raises NotFound.
        """
        with self._database.read() as unit:
            if isinstance(name_or_edge, str):
                entity = _required(unit, namespace, name_or_edge)
                edges = unit.graph.edges_of(namespace, entity.id, history=True, limit=limit)
                return _records(unit, namespace, edges)
            found = unit.graph.edges(namespace, [name_or_edge]).get(name_or_edge)
            if found is None:
                raise errors.NotFound(f"namespace {namespace} has no fact {name_or_edge}")
            keys = [(found.source_id, found.relation, found.target_id)]
            edges = unit.graph.edges_with_keys(namespace, keys, single_valued_heads(keys))
            edges.sort(key=lambda edge: (edge.valid_from, edge.id), reverse=True)
            return _records(unit, namespace, edges[:limit])

    def stats(self, namespace: str) -> dict[str, int]:
        """How many rows there are, and all counters."""
        with self._database.read() as unit:
            return unit.graph.counters(namespace)

    # ---- steps -----------------------------------------------------------------------------------------------

    def _resolve(self, namespace: str, wanted: Mapping[Key, Wanted]) -> Resolved:
        """Ask embedder and model about the names that nobody has."""
        if self._resolver is None or not wanted:
            return Resolved()
        with self._database.read() as unit:
            known = by_name(unit.graph.named(namespace, [key for key, _ in wanted]))
        unknown = [each for (key, kind), each in wanted.items() if choose(known[key], kind) is None]
        return self._resolver.resolve(namespace, unknown)

    def _follow_up(
        self, unit: GraphUnit, namespace: str, stored: StoredExtraction, resolved: Resolved
    ) -> None:
        """Count, and have done what comes of it: kept replies go, new entities get vectors, communities are renewed."""
        unit.graph.count(namespace, {"extractions_stored": 1, **resolved.counts, **dict(stored.skipped)})
        for key in resolved.reply_keys:
            unit.replies.forget(namespace, key)
        jobs = entity_jobs(namespace, stored.created_ids) if self._embed else []
        refresh = refresh_job_if_due(unit, namespace, self._refresh_every)
        try:
            unit.jobs.enqueue([*jobs, *([refresh, evict_job(namespace)] if refresh else [])])
        except errors.BackPressure as error:
            # What was read is what counts: reconciliation and the daily jobs find the rest.
            log.warning("graph_waits_for_reconciliation reason=%s", error)


# ---- small steps -------------------------------------------------------------------------------------------------


def _named(unit: GraphUnit, namespace: str, name: EntityName) -> Entity | None:
    if isinstance(name, int):
        return unit.graph.get(namespace, [name]).get(name)
    return choose(unit.graph.named(namespace, [canonical(name)]), EntityType.CONCEPT)


def _required(unit: GraphUnit, namespace: str, name: EntityName) -> Entity:
    found = _named(unit, namespace, name)
    if found is None:
        shown = f"id:{name}" if isinstance(name, int) else repr(name)
        raise errors.NotFound(f"namespace {namespace} has no entity {shown}")
    return found


def _free(matches: Sequence[Match], entity: Entity) -> bool:
    """Whether a name may become an alias of the entity: it is not the own name of another one of its type."""
    return not any(
        match.entity.id != entity.id
        and match.entity.type is entity.type
        and match.name == match.entity.canonical_name
        for match in matches
    )


def _records(unit: GraphUnit, namespace: str, edges: Sequence[Edge]) -> list[FactRecord]:
    entities = unit.graph.get(
        namespace, sorted({end for edge in edges for end in (edge.source_id, edge.target_id)})
    )
    sources = unit.graph.sources([edge.id for edge in edges])
    replacing = unit.graph.edges(
        namespace, [edge.superseded_by_id for edge in edges if edge.superseded_by_id]
    )
    records = []
    for edge in edges:
        by = replacing.get(edge.superseded_by_id or 0)
        records.append(
            FactRecord(
                edge,
                entities[edge.source_id].name,
                entities[edge.target_id].name,
                tuple(sources.get(edge.id, ())),
                by,
                _ended_by(edge, by),
            )
        )
    return records


def _ended_by(edge: Edge, by: Edge | None) -> str | None:
    if edge.active:
        return None
    if edge.valid_to is None:
        return "retracted"
    if by is None:
        return "ended"
    return "restated" if by.target_id == edge.target_id and by.source_id == edge.source_id else "replaced"
