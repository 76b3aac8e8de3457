"""Walking the graph from some entities: one breadth-first search over all of them, within budgets. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

MAX_NODES = 300
MAX_LINKS = 1_000
# However large the frontier is, each entity of it shows this many of its facts, in either direction.
_LEAST_EACH = 4
# Facts between the outermost entities score lowest: they are looked for where that costs little.
_MOST_OUTERMOST = 64


@dataclass(frozen=True, slots=True)
class Link:
    """A fact as traversal sees it."""

    edge_id: int
    source_id: int
    target_id: int
    relation: str
    confidence: float
    valid_from: int

    def other(self, entity_id: int) -> int:
        """The end that is not this one."""
        return self.target_id if self.source_id == entity_id else self.source_id


# The facts of these entities, none twice: of each, in either direction, at most so many, the surest first.
Expand = Callable[[Sequence[int], int], Iterable[Link]]


@dataclass(frozen=True, slots=True)
class Reached:
    """An entity `depth` steps away from the nearest start, and how well the best of those starts matched, in (0, 1]."""

    depth: int
    match: float


@dataclass(slots=True)
class Walk:
    """What was reached, and the facts between reached entities; `truncated`: a budget left something of that out.

    Of facts between two of the outermost entities, which score lowest, those are here that are cheaply found.
    """

    reached: dict[int, Reached] = field(default_factory=dict)
    links: dict[int, Link] = field(default_factory=dict)
    truncated: bool = False


def walk(
    starts: Mapping[int, float],
    expand: Expand,
    *,
    max_hops: int,
    max_nodes: int = MAX_NODES,
    max_links: int = MAX_LINKS,
) -> Walk:
    """Everything within `max_hops` of the starts, which are entity -> match. A start is never left out.

    Where a budget does not suffice, the best matching entities and their surest facts come first, ties by id: the
    outcome depends on nothing else. `max_hops` 0 gives the starts and no fact.
    """
    found = Walk({entity: Reached(0, match) for entity, match in starts.items()})
    frontier = _ordered(found, starts)
    for depth in range(max_hops + 1 if max_hops else 0):
        if not frontier or (depth == max_hops and len(frontier) > _MOST_OUTERMOST):
            break
        if len(found.links) >= max_links:
            found.truncated |= depth < max_hops
            break
        each = max(_LEAST_EACH, (max_links - len(found.links)) // (2 * len(frontier)))
        links, cut = _expanded(frontier, expand, each)
        if depth == max_hops:
            # Nothing further is reached.
            found.links |= _between(links, found.reached)
            break
        found.truncated |= cut
        frontier = _advance(found, links, depth + 1, max_nodes)
    return found


def shortest_path(
    start: int, goal: int, expand: Expand, *, max_hops: int, max_nodes: int
) -> list[Link] | None:
    """The facts of a shortest way between two entities, whatever their direction; None when none is found."""
    sides: tuple[dict[int, Link | None], dict[int, Link | None]] = ({start: None}, {goal: None})
    frontiers = ([start], [goal])
    if start == goal:
        return []
    for _ in range(max_hops):
        # The smaller side first: hubs are met from outside.
        side = 0 if len(frontiers[0]) <= len(frontiers[1]) else 1
        mine, others = sides[side], sides[1 - side]
        nearer = set(frontiers[side])
        following: list[int] = []
        for link in expand(frontiers[side], max_nodes):
            here = link.source_id if link.source_id in nearer else link.target_id
            there = link.other(here)
            if there in mine:
                continue
            mine[there] = link
            if there in others:
                return [*_back(there, sides[0])[::-1], *_back(there, sides[1])]
            following.append(there)
        frontiers[side][:] = following
        if not following or len(mine) + len(others) > max_nodes:
            return None
    return None


def _expanded(frontier: Sequence[int], expand: Expand, each: int) -> tuple[list[Link], bool]:
    """The facts of the frontier, at most `each` of an entity in a direction, and whether there are more."""
    near = set(frontier)
    counts: Counter[tuple[int, bool]] = Counter()
    kept: list[Link] = []
    cut = False
    # One more is asked for, to see whether there is one.
    for link in expand(frontier, each + 1):
        ends = [(end, end == link.source_id) for end in (link.source_id, link.target_id) if end in near]
        if any(counts[end] < each for end in ends):
            kept.append(link)
            counts.update(ends)
        else:
            cut = True
    return kept, cut


def _advance(found: Walk, links: Sequence[Link], depth: int, max_nodes: int) -> list[int]:
    """Take in what these facts lead to, as far as the budget allows; the next frontier."""
    matches: dict[int, tuple[float, float]] = {}
    for link in links:
        for here in (link.source_id, link.target_id):
            there = link.other(here)
            known = found.reached.get(here)
            if known is None or known.depth >= depth or there in found.reached:
                continue
            matches[there] = max(matches.get(there, (0.0, 0.0)), (known.match, link.confidence))
    ordered = sorted(matches, key=lambda entity: (-matches[entity][0], -matches[entity][1], entity))
    room = max(max_nodes - len(found.reached), 0)
    found.truncated |= len(ordered) > room
    frontier = ordered[:room]
    found.reached |= {entity: Reached(depth, matches[entity][0]) for entity in frontier}
    found.links |= _between(links, found.reached)
    return frontier


def _between(links: Iterable[Link], reached: Container[int]) -> dict[int, Link]:
    return {link.edge_id: link for link in links if link.source_id in reached and link.target_id in reached}


def _ordered(found: Walk, entities: Iterable[int]) -> list[int]:
    return sorted(entities, key=lambda entity: (-found.reached[entity].match, entity))


def _back(entity: int, side: Mapping[int, Link | None]) -> list[Link]:
    """The facts from here back to where this side began."""
    links: list[Link] = []
    while (link := side[entity]) is not None:
        links.append(link)
        entity = link.other(entity)
    return links
