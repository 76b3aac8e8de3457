"""What may enter the graph at all: the gate that every extraction passes, whoever made it. Pure.

Bad items are left out one by one and counted by reason; nothing vetoes the rest.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from services.graph.models import EntityType, Extraction, FoundEdge, FoundEntity
from services.graph.names import acceptable, canonical, cut, display, relation
from services.language.parsing import clean
from services.language.prompts import redacted

# Bytes of UTF-8.
MAX_NAME_BYTES = 256
MAX_FACT_BYTES = 1_024
MAX_SUMMARY_BYTES = 1_024

_E_MAIL = re.compile(r"[^\s@]@[^\s@]+\.[^\s@]")
_SSN = re.compile(r"\b\d{3}-\d{2}-\d{4}\b")
_DIGIT_RUN = re.compile(r"[+(]?\d[\d\s().\-/]{5,}\d")
_IDENTIFIER = re.compile(
    r"\b[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b|\b(?=[0-9a-f]*\d)[0-9a-f]{16,}\b|\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){3,7}",
    re.IGNORECASE,
)
_PATH = re.compile(r"^(?:[a-z][a-z0-9+.-]*://|www\.|[~.]{0,2}/|[a-z]:\\)|^[^\s/]+/$", re.IGNORECASE)
# Who the speaker is and whom he speaks to are in the message, not in its words.
_PRONOUNS = frozenset(
    """
    i me my mine myself you your yours yourself we us our ours he him his she her hers it its they them their theirs
    this that these those who someone somebody everyone everybody anyone nobody user assistant human speaker the user
    the assistant the speaker unknown none null n/a nothing something everything thing stuff
    """.split()
) | {"the user", "the assistant", "the speaker", "the human"}
_MIN_PHONE_DIGITS = 9
_MIN_MARKED_PHONE_DIGITS = 7
_CARD_DIGITS = range(13, 20)


@dataclass(frozen=True, slots=True)
class Limits:
    """How much of one text is kept, and what must not stand in anything that is kept (compared without case)."""

    max_entities: int = 10
    max_edges: int = 15
    forbidden: tuple[str, ...] = ()


def admitted(extraction: Extraction, limits: Limits, *, known: Iterable[str] = ()) -> Extraction:
    """The extraction without what must not be stored: validated, then without repeats, then cut.

    An edge stays only between two of the entities that stay, or canonical names of stored ones, which are `known`.
    """
    counts = Counter(dict(extraction.dropped))
    forbidden = tuple(text.casefold() for text in limits.forbidden if text.strip())
    entities = _entities(extraction.entities, limits.max_entities, forbidden, counts)
    names = {canonical(entity.name) for entity in entities}
    refused = {canonical(entity.name) for entity in extraction.entities} - names
    edges = _edges(extraction.edges, names | (set(known) - refused), forbidden, counts)
    if len(edges) > limits.max_edges:
        counts["edges_over_limit"] += len(edges) - limits.max_edges
    dropped = tuple(sorted((reason, count) for reason, count in counts.items() if count))
    return Extraction(extraction.extractor, tuple(entities), tuple(edges[: limits.max_edges]), dropped)


def name_problem(name: str, kind: EntityType) -> str | None:
    """Why this is no name of an entity: a reason for the counters, or None."""
    if not acceptable(name, kind):
        return "name_too_short"
    if len(name.encode()) > MAX_NAME_BYTES:
        return "name_too_long"
    # US, IT and WHO are names, "us", "it" and "who" are none.
    if canonical(name) in _PRONOUNS and not (len(name) > 1 and name.isupper()):
        return "name_is_no_name"
    if _is_private(name):
        return "name_is_private"
    return "name_is_a_path" if _PATH.search(name) else None


def _is_private(name: str) -> bool:
    """E-mail addresses, telephone, card and account numbers, identifiers, keys."""
    if _E_MAIL.search(name) or _SSN.search(name) or _IDENTIFIER.search(name) or redacted(name) != name:
        return True
    for run in _DIGIT_RUN.findall(name):
        digits = [int(char) for char in run if char.isdecimal()]
        marked = run.startswith(("+", "("))
        if len(digits) >= (_MIN_MARKED_PHONE_DIGITS if marked else _MIN_PHONE_DIGITS):
            return True
        if len(digits) in _CARD_DIGITS:
            return True
    return False


def _entities(
    found: Sequence[FoundEntity], limit: int, forbidden: tuple[str, ...], counts: Counter[str]
) -> list[FoundEntity]:
    kept: dict[tuple[str, EntityType], FoundEntity] = {}
    for entity in found:
        name = display(clean(entity.name))
        reason = name_problem(name, entity.type)
        if reason is None and _holds(forbidden, name, entity.summary or ""):
            reason = "forbidden_text"
        if reason is not None:
            counts[reason] += 1
            continue
        key = _same(kept, canonical(name), entity.type)
        if key is None:
            kept[canonical(name), entity.type] = FoundEntity(name, entity.type, _summary(entity.summary))
            continue
        counts["repeated_entity"] += 1
        first = kept[key]
        better = entity.type if first.type is EntityType.CONCEPT else first.type
        kept[key] = replace(first, type=better, summary=first.summary or _summary(entity.summary))
    if len(kept) > limit:
        counts["entities_over_limit"] += len(kept) - limit
    return list(kept.values())[:limit]


def _same(
    kept: Mapping[tuple[str, EntityType], FoundEntity], name: str, kind: EntityType
) -> tuple[str, EntityType] | None:
    """The one that this is a repeat of: of the same name, and of the same type unless one of both is a mere concept."""
    same = [key for key in kept if key[0] == name]
    exact = next((key for key in same if kept[key].type is kind), None)
    vague = (key for key in same if EntityType.CONCEPT in {kept[key].type, kind})
    return exact or next(vague, None)


def _edges(
    found: Sequence[FoundEdge], names: set[str], forbidden: tuple[str, ...], counts: Counter[str]
) -> list[FoundEdge]:
    kept: dict[tuple[str, str, str], FoundEdge] = {}
    for edge in found:
        source, target, verb = canonical(edge.source), canonical(edge.target), relation(edge.relation)
        if source not in names or target not in names:
            counts["unknown_endpoint"] += 1
        elif source == target:
            counts["self_loop"] += 1
        elif not verb:
            counts["no_relation"] += 1
        elif _holds(forbidden, verb, edge.fact):
            counts["forbidden_text"] += 1
        elif (source, verb, target) in kept:
            counts["repeated_edge"] += 1
        else:
            kept[source, verb, target] = replace(edge, fact=cut(clean(edge.fact), MAX_FACT_BYTES))
    return list(kept.values())


def _summary(text: str | None) -> str | None:
    return cut(clean(text), MAX_SUMMARY_BYTES) or None if text else None


def _holds(forbidden: tuple[str, ...], *texts: str) -> bool:
    return any(part in text.casefold() for part in forbidden for text in texts)
