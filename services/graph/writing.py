"""Writing what an extractor found in one text: names resolved, facts put in their place, each with its source."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from services.embedding.writing import removal_job
from services.graph.facts import EdgeDraft, Timeline
from services.graph.merging import in_order, single_valued_heads
from services.graph.models import (
    LOCAL_EXTRACTOR,
    MANUAL_EXTRACTOR,
    Entity,
    EntityType,
    Extraction,
    FoundEdge,
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
from services.graph.resolution import Key, Resolved, Wanted, choose
from services.graph.store import GraphUnit, Match, NewEntity

CONCEPT = EntityType.CONCEPT


@dataclass(frozen=True, slots=True)
class Claim:
    """A fact between two canonical names, in its normal form."""

    source: str
    target: str
    relation: str
    fact: str
    confidence: float
    valid_from: int
    valid_to: int | None


class Findings:
    """What was found in one text, in its normal form. `skipped` counts what is left out, by reason."""

    def __init__(self, namespace: str, extraction: Extraction, source: Source, now: int) -> None:
        self._namespace = namespace
        self._extractor = extraction.extractor
        self._source = source
        self._now = now
        self._skipped = Counter(dict(extraction.dropped))
        self.wanted = _wanted(extraction, self._skipped)
        self._claims = _claims(extraction, source, now, self._skipped)

    def write(self, unit: GraphUnit, resolved: Resolved) -> StoredExtraction:
        """Store it in this unit. Names are looked up here, under the lock; `resolved` says what else is known of them."""
        namespace, extractor, source = self._namespace, self._extractor, self._source
        names = [key for key, _ in self.wanted]
        names += [end for claim in self._claims for end in (claim.source, claim.target)]
        known = by_name(unit.graph.named(namespace, names))
        ids, created = self._entities(unit, known, resolved)
        drafts = self._drafts(ids, known)
        timeline = self._timeline(unit, drafts)
        active = sum(draft.active for draft in timeline.drafts)
        placed = [(timeline.place(draft), draft) for draft in drafts]
        new = [draft for draft in timeline.drafts if draft.id is None and draft.split_from is None]
        superseded = (
            active + sum(draft.active for draft in new) - sum(draft.active for draft in timeline.drafts)
        )
        unit.graph.apply(namespace, timeline.drafts)
        stated = [
            (stored.id, draft.fact, max(draft.stated)) for stored, draft in placed if stored.id is not None
        ]
        unit.graph.state(extractor, source, stated)
        said = self._said(ids, drafts)
        unit.graph.mention(extractor, source, list(said.items()))
        if extractor != LOCAL_EXTRACTOR:
            self._take_away_local(unit, list(said))
        edge_ids = dict.fromkeys(edge_id for edge_id, _, _ in stated)
        skipped = tuple(sorted((+self._skipped).items()))
        return StoredExtraction(tuple(said), tuple(created), tuple(edge_ids), len(new), superseded, skipped)

    # ---- steps -----------------------------------------------------------------------------------------------

    def _entities(
        self, unit: GraphUnit, known: Mapping[str, Sequence[Match]], resolved: Resolved
    ) -> tuple[dict[Key, int], list[int]]:
        """The ids of the entities, in their order, and those of new ones."""
        ids: dict[Key, int] = {}
        stored: dict[int, Entity] = {}
        better: dict[int, Entity] = {}
        learnt: list[tuple[str, int]] = []
        merged = unit.graph.get(self._namespace, list(set(resolved.same.values())))
        for key, each in self.wanted.items():
            entity = choose(known.get(each.key, ()), each.type)
            if entity is None and (entity := merged.get(resolved.same.get(key, 0))) is not None:
                learnt.append((each.key, entity.id))
            if entity is None:
                continue
            now = better.get(entity.id, entity)
            # It may have become something else in this very text.
            if now.type is each.type or CONCEPT in (now.type, each.type):
                ids[key] = entity.id
                stored[entity.id], better[entity.id] = entity, _better(now, each)
        missing = {key: each for key, each in self.wanted.items() if key not in ids}
        new = [NewEntity(each.name, each.key, each.type, each.summary) for each in missing.values()]
        created = unit.graph.add_entities(self._namespace, new)
        unit.graph.add_aliases(self._namespace, learnt)
        unit.graph.describe([entity for entity in better.values() if entity != stored[entity.id]])
        ids |= dict(zip(missing, created, strict=True))
        return {key: ids[key] for key in self.wanted}, created

    def _drafts(self, ids: Mapping[Key, int], known: Mapping[str, Sequence[Match]]) -> list[EdgeDraft]:
        """The facts between known entities, each once: what one text says twice it says once."""
        ends = {key: entity_id for (key, _), entity_id in reversed(list(ids.items()))}
        for name, matches in known.items():
            stored = choose(matches, CONCEPT)
            if stored is not None:
                ends.setdefault(name, stored.id)
        found: dict[tuple[object, ...], EdgeDraft] = {}
        # What is over comes first, so that what holds since then follows it.
        for claim in sorted(self._claims, key=lambda claim: claim.valid_to is None):
            source, target = ends.get(claim.source), ends.get(claim.target)
            if source is None or target is None:
                self._skipped["unknown_ends"] += 1
                continue
            if source == target:
                self._skipped["self_loops"] += 1
                continue
            over = claim.valid_to is not None
            draft = EdgeDraft(
                None,
                *in_order(claim.relation, source, target),
                claim.relation,
                claim.fact,
                claim.confidence,
                claim.valid_from,
                claim.valid_to,
                stated=[claim.valid_from if over else max(claim.valid_from, self._source.said_at)],
            )
            span = (claim.valid_from, claim.valid_to) if over else None
            first = found.setdefault((draft.key, span), draft)
            first.confidence = max(first.confidence, claim.confidence)
        return list(found.values())

    def _timeline(self, unit: GraphUnit, drafts: Sequence[EdgeDraft]) -> Timeline:
        """The stored facts that these meet."""
        keys = [draft.key for draft in drafts]
        stored = unit.graph.edges_with_keys(self._namespace, keys, single_valued_heads(keys))
        # What is said by hand may be said again; a text that is read again says nothing new.
        by_hand = self._source.message_id is None and self._source.chunk_id is None
        read = {} if by_hand or not stored else unit.graph.stated_by(self._extractor, self._source)
        return Timeline(stored, now=self._now, told=unit.graph.told, known=read)

    def _said(self, ids: Mapping[Key, int], drafts: Sequence[EdgeDraft]) -> dict[int, str | None]:
        """The entities that the text names, in its order, and what it says of each."""
        said: dict[int, str | None] = {}
        for key, each in self.wanted.items():
            said[ids[key]] = said.get(ids[key]) or each.summary
        for draft in drafts:
            said.setdefault(draft.source_id)
            said.setdefault(draft.target_id)
        return said

    def _take_away_local(self, unit: GraphUnit, keep: Sequence[int]) -> None:
        source = self._source
        erased = unit.graph.forget_texts(
            self._namespace,
            message_ids=[] if source.message_id is None else [source.message_id],
            chunk_ids=[] if source.chunk_id is None else [source.chunk_id],
            extractor=LOCAL_EXTRACTOR,
            keep=keep,
        )
        unit.jobs.enqueue([removal_job(self._namespace)] if erased.vectors else [])


def by_name(matches: Sequence[Match]) -> defaultdict[str, list[Match]]:
    """The entities of each name."""
    found: defaultdict[str, list[Match]] = defaultdict(list)
    for match in matches:
        found[match.name].append(match)
    return found


def _wanted(extraction: Extraction, skipped: Counter[str]) -> dict[Key, Wanted]:
    """The entities by canonical name and type, each once."""
    found: dict[Key, Wanted] = {}
    by_hand = extraction.extractor == MANUAL_EXTRACTOR
    for entity in extraction.entities:
        key, shown, kind = canonical(entity.name), display(entity.name), entity.type
        if not key or not (by_hand or acceptable(shown, kind)):
            skipped["unusable_names"] += 1
            continue
        # One name in one text is one thing, unless two types are told apart.
        alike = [each for each in found if each[0] == key and (each[1] is kind or CONCEPT in (each[1], kind))]
        same = found.pop(alike[0]) if alike else Wanted(key, shown, kind)
        kind = kind if same.type is CONCEPT else same.type
        said = joined_summary([same.summary or "", entity.summary or ""])
        found[key, kind] = replace(same, type=kind, summary=said)
    return found


def _claims(extraction: Extraction, source: Source, now: int, skipped: Counter[str]) -> list[Claim]:
    found = []
    for edge in extraction.edges:
        ends, kind = (canonical(edge.source), canonical(edge.target)), relation(edge.relation)
        if not all(ends) or not kind:
            skipped["unusable_facts"] += 1
            continue
        words = fact_text(edge.fact)
        words = words or fact_text(f"{edge.source} {kind.replace('_', ' ')} {edge.target}")
        confidence = min(max(edge.confidence, 0.0), 1.0) if math.isfinite(edge.confidence) else 0.0
        found.append(Claim(*ends, kind, words, confidence, *_span(edge, source.said_at, now)))
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


def _better(entity: Entity, wanted: Wanted) -> Entity:
    """The entity as it is known after another text named it."""
    said = [each for each in (entity.summary, wanted.summary) if each]
    return replace(
        entity,
        name=wanted.name if better_display(entity.name, wanted.name) else entity.name,
        type=wanted.type if entity.type is CONCEPT else entity.type,
        summary=joined_summary(said) if wanted.summary else entity.summary,
    )
