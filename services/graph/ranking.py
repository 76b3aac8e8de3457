"""Which of the facts that a walk found matter most: by distance, or by spreading activation. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from services.graph.models import CO_OCCURRENCE
from services.graph.traversal import Link, Walk

_DAY_MICROSECONDS = 86_400_000_000


@dataclass(frozen=True, slots=True)
class Scored:
    """A fact with its place in the order: match of the start it was reached from, distance from it, final score."""

    link: Link
    match: float
    hop: int
    score: float

    @property
    def stated(self) -> bool:
        """Whether a text states it, rather than naming both ends in one breath."""
        return self.link.relation != CO_OCCURRENCE


@dataclass(frozen=True, slots=True)
class Activation:
    """How activation spreads (SYNAPSE): it fades with each step, and what is below the threshold counts for nothing.

    An entity that has `inhibition_threshold` already receives no more; after each step the `max_activated_nodes`
    strongest go on.
    """

    decay_lambda: float = 0.85
    max_hops: int = 3
    activation_threshold: float = 0.1
    inhibition_threshold: float = 0.8
    max_activated_nodes: int = 50


def by_distance(found: Walk) -> list[Scored]:
    """Score each fact by match / (1 + distance) * confidence; the distance is that of its nearer end."""
    scored = []
    for link in found.links.values():
        ends = (found.reached[link.source_id], found.reached[link.target_id])
        hop = min(end.depth for end in ends)
        match = max(end.match for end in ends if end.depth == hop)
        scored.append(Scored(link, match, hop, match / (1 + hop) * link.confidence))
    return scored


def by_activation(found: Walk, how: Activation) -> list[Scored]:
    """Score each fact by the more activated of its ends; facts with an end below the threshold are left out."""
    active = _spread(found, how)
    scored = []
    for one in by_distance(found):
        ends = [active.get(end, 0.0) for end in (one.link.source_id, one.link.target_id)]
        if min(ends) >= how.activation_threshold:
            scored.append(Scored(one.link, one.match, one.hop, max(ends)))
    return scored


def recent_first(scored: Iterable[Scored], *, now: int, rate: float) -> list[Scored]:
    """Lift scores by up to the double for what began lately: 1 + 1 / (1 + age in days * rate). Rate 0 changes nothing."""
    if not rate:
        return list(scored)
    lifted = []
    for one in scored:
        days = max(now - one.link.valid_from, 0) / _DAY_MICROSECONDS
        lifted.append(Scored(one.link, one.match, one.hop, one.score * (1 + 1 / (1 + days * rate))))
    return lifted


def best(scored: Iterable[Scored], limit: int) -> list[Scored]:
    """The best first, one of each (source, relation, target).

    Of equal scores: what is stated, what is surer, what began later, then by id.
    """
    ordered = sorted(
        scored,
        key=lambda one: (
            -one.score,
            not one.stated,
            -one.link.confidence,
            -one.link.valid_from,
            one.link.edge_id,
        ),
    )
    kept: dict[tuple[int, str, int], Scored] = {}
    for one in ordered:
        kept.setdefault((one.link.source_id, one.link.relation, one.link.target_id), one)
    return list(kept.values())[:limit]


def _spread(found: Walk, how: Activation) -> Mapping[int, float]:
    neighbours: dict[int, list[Link]] = {}
    for _, link in sorted(found.links.items()):
        neighbours.setdefault(link.source_id, []).append(link)
        neighbours.setdefault(link.target_id, []).append(link)
    active = {entity: reached.match for entity, reached in found.reached.items() if reached.depth == 0}
    frontier = _strongest(active, how.max_activated_nodes)
    for _ in range(how.max_hops):
        arriving: dict[int, float] = {}
        for entity in frontier:
            for link in neighbours.get(entity, ()):
                there = link.other(entity)
                value = active[entity] * how.decay_lambda * link.confidence
                so_far = active.get(there, 0.0) + arriving.get(there, 0.0)
                if value >= how.activation_threshold and so_far < how.inhibition_threshold:
                    arriving[there] = arriving.get(there, 0.0) + value
        for entity, value in arriving.items():
            active[entity] = min(1.0, active.get(entity, 0.0) + value)
        active = {entity: active[entity] for entity in _strongest(active, how.max_activated_nodes)}
        frontier = [entity for entity in active if entity in arriving]
    return active


def _strongest(active: Mapping[int, float], count: int) -> list[int]:
    return sorted(active, key=lambda entity: (-active[entity], entity))[:count]
