"""Which entities hang together: weighted label propagation, the same on every run. Pure."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from services.graph.models import CO_OCCURRENCE
from services.ids import new_hasher

MAX_SWEEPS = 50
# Votes of one edge. Standing in one sentence says less than a stated relation; without a language model it is all
# there is, and then only proportions count. Halves add up without rounding, in any order.
_STATED, _CO_OCCURRENCE = 1.0, 0.5


@dataclass(frozen=True, slots=True)
class GraphEdge:
    """An active edge as detection sees it."""

    id: int
    source_id: int
    target_id: int
    relation: str


@dataclass(frozen=True, slots=True)
class Group:
    """Entities that hang together, in the order in which they were given, and the fingerprint of what they are."""

    entity_ids: tuple[int, ...]
    fingerprint: str


def detect(
    entity_ids: Sequence[int],
    edges: Iterable[GraphEdge],
    *,
    checkpoint: Callable[[], None] = lambda: None,
) -> list[Group]:
    """The groups of two and more; an entity without edges is in none. Edges with unknown ends are left out.

    The order of `entity_ids` alone decides ties, so give them in an order that does not depend on when an entity was
    stored. `checkpoint` is called before each of at most 50 sweeps and may raise.

    Each entity takes the label with most votes among its neighbours; the vote of a neighbour weighs as much as there
    are edges between the two and neighbours they share. Without the latter a single bridge floods two groups into one.
    """
    place = {entity: at for at, entity in enumerate(entity_ids)}
    ends: tuple[array[int], array[int], array[int]] = (array("q"), array("q"), array("q"))
    votes: list[dict[int, float]] = [{} for _ in entity_ids]
    for edge in edges:
        source, target = place.get(edge.source_id), place.get(edge.target_id)
        if source is None or target is None or source == target:
            continue
        for column, value in zip(ends, (edge.id, source, target), strict=True):
            column.append(value)
        weight = _CO_OCCURRENCE if edge.relation == CO_OCCURRENCE else _STATED
        votes[source][target] = votes[source].get(target, 0.0) + weight
        votes[target][source] = votes[target].get(source, 0.0) + weight
    labels = _propagate(_with_common_neighbours(votes), checkpoint)
    members: dict[int, list[int]] = {}
    for at, label in enumerate(labels):
        members.setdefault(label, []).append(at)
    inside: dict[int, list[int]] = {}
    for edge_id, source, target in zip(*ends, strict=True):
        if labels[source] == labels[target]:
            inside.setdefault(labels[source], []).append(edge_id)
    groups = sorted((group for group in members.items() if len(group[1]) > 1), key=lambda group: group[1])
    return [
        Group(ids := tuple(entity_ids[at] for at in found), fingerprint(ids, inside[label]))
        for label, found in groups
    ]


def fingerprint(entity_ids: Iterable[int], edge_ids: Iterable[int]) -> str:
    """What a community is, as BLAKE3: its members and the active edges between them, in any order."""
    hasher = new_hasher()
    for name, ids in ((b"entities", entity_ids), (b"edges", edge_ids)):
        hasher.update(name)
        for found in sorted(ids):
            hasher.update(found.to_bytes(8, "little", signed=True))
    return str(hasher.hexdigest())


def _with_common_neighbours(votes: Sequence[dict[int, float]]) -> list[list[tuple[int, float]]]:
    known = [near.keys() for near in votes]
    weighted: list[list[tuple[int, float]]] = [[] for _ in votes]
    for at, near in enumerate(votes):
        for other, weight in near.items():
            if other > at:
                total = weight + len(known[at] & known[other])
                weighted[at].append((other, total))
                weighted[other].append((at, total))
    return weighted


def _propagate(
    neighbours: Sequence[Sequence[tuple[int, float]]], checkpoint: Callable[[], None]
) -> list[int]:
    """A label for each place. A change is seen at once by those that come later in the same sweep."""
    labels = list(range(len(neighbours)))
    for _ in range(MAX_SWEEPS):
        checkpoint()
        changed = False
        for at, near in enumerate(neighbours):
            if not near:
                continue
            count: dict[int, float] = {}
            for other, weight in near:
                label = labels[other]
                count[label] = count.get(label, 0.0) + weight
            most = max(count.values())
            best = min(label for label, weight in count.items() if weight == most)
            if best != labels[at]:
                labels[at] = best
                changed = True
        if not changed:
            break
    return labels
