"""Graph memory for those who use it: texts in, entities and facts out, each with where it comes from."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from services import errors
from services.embedding.writing import removal_job
from services.graph.communities import refresh_job_if_due
from services.graph.facts import EdgeDraft, Timeline, draft_of
from services.graph.merging import in_order, merge_entities, moved_draft, single_valued_heads
from services.graph.models import (
    LOCAL_EXTRACTOR,
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
from services.graph.names import (
    acceptable,
    better_display,
    canonical,
    display,
    fact_text,
    joined_summary,
    relation,
)
from services.graph.resolution import EntityResolver, Key, Resolved, Wanted, choose
from services.graph.store import Erased, GraphDatabase, GraphUnit, Match, NewEntity
from services.graph.vectors import entity_jobs
from services.ports import Clock

Also = Callable[[GraphUnit, StoredExtraction], None]
# A name or alias, or an id where several entities share the name.
EntityName = str | int


@dataclass(frozen=True, slots=True)
class _Claim:
    """A fact between two canonical names, normalised."""

    source: str
    target: str
    relation: str
    fact: str
    confidence: float
    valid_from: int
    valid_to: int | None


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
    ) -> None:
        self._database = database
        self._clock = clock
        self._resolver = resolver
        self._refresh_every = refresh_every
        self._embed = embed

    # ---- writing ---------------------------------------------------------------------------------------------

    def store(
        self, namespace: str, extraction: Extraction, source: Source, *, also: Also | None = None
    ) -> StoredExtraction:
        """Resolve the entities and store them with their facts in one transaction; a replay changes nothing.

        `also` runs in that transaction: there the caller marks the text as read and finishes its job. An extraction by
        another extractor than the local one takes away what the local one read from the same text. Of a text that is
        gone nothing is stored.
        """
        skipped = Counter(dict(extraction.dropped))
        wanted = _wanted(extraction, skipped)
        claims = _claims(extraction, source, self._clock.now(), skipped)
        resolved = self._resolve(namespace, wanted)
        with self._database.write(durable=source.job_id is None) as unit:
            if unit.graph.is_there(namespace, source):
                stored = self._write(
                    unit, namespace, extraction.extractor, source, wanted, claims, resolved, skipped
                )
            else:
                stored = StoredExtraction(skipped=(("text_gone", 1),))
            if also is not None:
                also(unit, stored)
        return stored

    def replace_local(
        self, namespace: str, *, message_ids: Sequence[int] = (), chunk_ids: Sequence[int] = ()
    ) -> Erased:
        """Take away what the local extractor read from these texts. `store` does so by itself."""
        with self._database.write() as unit:
            erased = unit.graph.forget_texts(
                namespace, message_ids=message_ids, chunk_ids=chunk_ids, extractor=LOCAL_EXTRACTOR
            )
            unit.jobs.enqueue([removal_job(namespace)] if erased.vectors else [])
        return erased

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
                unit.graph.delete_edges(namespace, [edge_id])
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
                return kept
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
            known = _by_name(unit.graph.named(namespace, [key for key, _ in wanted]))
        unknown = [each for (key, kind), each in wanted.items() if choose(known[key], kind) is None]
        return self._resolver.resolve(namespace, unknown)

    def _write(
        self,
        unit: GraphUnit,
        namespace: str,
        extractor: str,
        source: Source,
        wanted: Mapping[Key, Wanted],
        claims: Sequence[_Claim],
        resolved: Resolved,
        skipped: Counter[str],
    ) -> StoredExtraction:
        names = [key for key, _ in wanted] + [end for claim in claims for end in (claim.source, claim.target)]
        known = _by_name(unit.graph.named(namespace, names))
        ids, created = self._entities(unit, namespace, wanted, known, resolved)
        ends = {key: entity_id for (key, _), entity_id in reversed(ids.items())}
        for key, matches in known.items():
            if key not in ends and (found := choose(matches, EntityType.CONCEPT)) is not None:
                ends[key] = found.id
        drafts = _drafts(claims, ends, skipped)
        # What is said by hand may be said again; a text that is read again says nothing new.
        by_hand = source.message_id is None and source.chunk_id is None
        stated = unit.graph.stated_by(extractor, source) if drafts and not by_hand else {}
        keys = [draft.key for draft, _ in drafts]
        timeline = Timeline(
            unit.graph.edges_with_keys(namespace, keys, single_valued_heads(keys)),
            now=self._clock.now(),
            stated=stated,
        )
        before = sum(draft.active for draft in timeline.drafts)
        placed = [(timeline.place(draft), words) for draft, words in drafts]
        new = [draft for draft in timeline.drafts if draft.id is None]
        superseded = (
            before + sum(draft.active for draft in new) - sum(draft.active for draft in timeline.drafts)
        )
        unit.graph.apply(namespace, timeline.drafts)
        evidence = [(draft.id, words) for draft, words in placed if draft.id is not None]
        unit.graph.state(extractor, source, evidence)
        said: dict[int, str | None] = {
            entity_id: None for draft, _ in placed for entity_id in (draft.source_id, draft.target_id)
        }
        for name, each in wanted.items():
            said[ids[name]] = said.get(ids[name]) or each.summary
        unit.graph.mention(extractor, source, list(said.items()))
        if extractor != LOCAL_EXTRACTOR:
            self._take_away_local(unit, namespace, source, list(said))
        stored = StoredExtraction(
            tuple(said),
            tuple(created),
            tuple(dict.fromkeys(edge_id for edge_id, _ in evidence)),
            len(new),
            superseded,
            tuple(sorted((+skipped).items())),
        )
        self._follow_up(unit, namespace, stored, resolved)
        return stored

    def _entities(
        self,
        unit: GraphUnit,
        namespace: str,
        wanted: Mapping[Key, Wanted],
        known: Mapping[str, Sequence[Match]],
        resolved: Resolved,
    ) -> tuple[dict[Key, int], list[int]]:
        """The ids of these entities, in their order, and of those which are new. Names are looked up once more, under the lock."""
        found: dict[Key, Entity] = {}
        learnt: list[tuple[str, int]] = []
        merged = unit.graph.get(namespace, list(set(resolved.same.values())))
        for key, each in wanted.items():
            entity = choose(known.get(each.key, ()), each.type)
            if entity is None and (entity := merged.get(resolved.same.get(key, 0))) is not None:
                learnt.append((each.key, entity.id))
            if entity is not None:
                found[key] = entity
        missing = [key for key in wanted if key not in found]
        new = [NewEntity(wanted[key].name, *key) for key in missing]
        created = unit.graph.add_entities(namespace, new)
        unit.graph.add_aliases(namespace, learnt)
        unit.graph.describe(
            [changed for key, entity in found.items() if (changed := _better(entity, wanted[key])) != entity]
            + _first_descriptions(
                namespace, [(entity_id, wanted[key]) for entity_id, key in zip(created, missing, strict=True)]
            )
        )
        ids = {key: entity.id for key, entity in found.items()} | dict(zip(missing, created, strict=True))
        return {key: ids[key] for key in wanted}, created

    def _take_away_local(self, unit: GraphUnit, namespace: str, source: Source, keep: Sequence[int]) -> None:
        erased = unit.graph.forget_texts(
            namespace,
            message_ids=[] if source.message_id is None else [source.message_id],
            chunk_ids=[] if source.chunk_id is None else [source.chunk_id],
            extractor=LOCAL_EXTRACTOR,
            keep=keep,
        )
        unit.jobs.enqueue([removal_job(namespace)] if erased.vectors else [])

    def _follow_up(
        self, unit: GraphUnit, namespace: str, stored: StoredExtraction, resolved: Resolved
    ) -> None:
        unit.graph.count(namespace, {"extractions_stored": 1, **resolved.counts, **dict(stored.skipped)})
        for key in resolved.reply_keys:
            unit.replies.forget(namespace, key)
        if self._embed and stored.created_ids:
            unit.jobs.enqueue(entity_jobs(namespace, stored.created_ids))
        refresh = refresh_job_if_due(unit, namespace, self._refresh_every)
        unit.jobs.enqueue([refresh] if refresh else [])


# ---- what extractors found ---------------------------------------------------------------------------------------


def _wanted(extraction: Extraction, skipped: Counter[str]) -> dict[Key, Wanted]:
    """The entities by canonical name and type, each once."""
    found: dict[Key, Wanted] = {}
    for entity in extraction.entities:
        key, shown = canonical(entity.name), display(entity.name)
        trusted = extraction.extractor == MANUAL_EXTRACTOR
        if not key or not (trusted or acceptable(shown, entity.type)):
            skipped["unusable_names"] += 1
            continue
        # One name in one text is one thing, unless two types are told apart.
        vague = next(
            (each for each in found if each[0] == key and EntityType.CONCEPT in (each[1], entity.type)), None
        )
        same = found.get((key, entity.type)) or (found.pop(vague) if vague else None)
        kind = entity.type if same is None or same.type is EntityType.CONCEPT else same.type
        said = [each for each in (same.summary if same else None, entity.summary) if each]
        found[key, kind] = Wanted(key, same.name if same else shown, kind, joined_summary(said))
    return found


def _claims(extraction: Extraction, source: Source, now: int, skipped: Counter[str]) -> list[_Claim]:
    found = []
    for edge in extraction.edges:
        ends, kind = (canonical(edge.source), canonical(edge.target)), relation(edge.relation)
        if not all(ends) or not kind:
            skipped["unusable_facts"] += 1
            continue
        words = fact_text(edge.fact) or fact_text(
            f"{edge.source} {edge.relation.replace('_', ' ')} {edge.target}"
        )
        confidence = min(max(edge.confidence, 0.0), 1.0) if math.isfinite(edge.confidence) else 0.0
        found.append(_Claim(*ends, kind, words, confidence, *_span(edge, source.said_at, now)))
    return found


def _span(edge: FoundEdge, said_at: int, now: int) -> tuple[int, int | None]:
    """From when until when a fact holds. What ends in the future holds; an end before the beginning is none."""
    start, end = said_at if edge.valid_from is None else edge.valid_from, edge.valid_to
    if end is None or end > now:
        return start, None
    if edge.valid_from is None and start >= end:
        # Told afterwards: since when it held is not known, only that it did before its end.
        return end - 1, end
    return start, end if end > start else None


def _drafts(
    claims: Sequence[_Claim], ends: Mapping[str, int], skipped: Counter[str]
) -> list[tuple[EdgeDraft, str]]:
    """The facts between known entities, each key once: what one text says twice it says once."""
    found: dict[tuple[int, str, int], EdgeDraft] = {}
    for claim in claims:
        source, target = ends.get(claim.source), ends.get(claim.target)
        if source is None or target is None:
            skipped["unknown_ends"] += 1
            continue
        if source == target:
            skipped["self_loops"] += 1
            continue
        ends_of = in_order(claim.relation, source, target)
        draft = EdgeDraft(
            None, *ends_of, claim.relation, claim.fact, claim.confidence, claim.valid_from, claim.valid_to
        )
        first = found.setdefault(draft.key, draft)
        first.confidence = max(first.confidence, claim.confidence)
    return [(draft, draft.fact) for draft in found.values()]


# ---- small steps -------------------------------------------------------------------------------------------------


def _named(unit: GraphUnit, namespace: str, name: EntityName) -> Entity | None:
    if isinstance(name, int):
        return unit.graph.get(namespace, [name]).get(name)
    return choose(unit.graph.named(namespace, [canonical(name)]), EntityType.CONCEPT)


def _required(unit: GraphUnit, namespace: str, name: EntityName) -> Entity:
    found = _named(unit, namespace, name)
    if found is None:
        raise errors.NotFound(f"namespace {namespace} knows no {name!r}")
    return found


def _by_name(matches: Sequence[Match]) -> defaultdict[str, list[Match]]:
    found: defaultdict[str, list[Match]] = defaultdict(list)
    for match in matches:
        found[match.name].append(match)
    return found


def _free(matches: Sequence[Match], entity: Entity) -> bool:
    """Whether a name may become an alias of the entity: it is not the own name of another one of its type."""
    return not any(
        match.entity.id != entity.id
        and match.entity.type is entity.type
        and match.name == match.entity.canonical_name
        for match in matches
    )


def _better(entity: Entity, wanted: Wanted) -> Entity:
    """The entity as it is known after another text named it."""
    said = [each for each in (entity.summary, wanted.summary) if each]
    return replace(
        entity,
        name=wanted.name if better_display(entity.name, wanted.name) else entity.name,
        type=wanted.type if entity.type is EntityType.CONCEPT else entity.type,
        summary=joined_summary(said) if wanted.summary else entity.summary,
    )


def _first_descriptions(namespace: str, new: Sequence[tuple[int, Wanted]]) -> list[Entity]:
    return [
        Entity(entity_id, namespace, each.name, each.key, each.type, each.summary, 0, 0)
        for entity_id, each in new
        if each.summary
    ]


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
