"""From a model's reply to entities and edges: item by item, so that one bad item costs no other. Pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from typing import Any

from services.graph.hints import Period, read_hint
from services.graph.models import EntityType, Extraction, FoundEdge, FoundEntity
from services.language.parsing import clean, parse_object, unusable

DEFAULT_CONFIDENCE = 0.8
# A list this long is no answer to the question; the rest of it is counted, not read.
_MAX_ITEMS = 2_000
_PERCENT = 100

# What models call the fields, the asked-for name first.
_ENTITIES = ("entities", "nodes", "Entities")
_EDGES = ("edges", "relations", "relationships", "triples", "facts", "Edges")
# A list without its object.
_BARE = "items"
_NAME = ("name", "entity_name", "entity", "title", "label", "id")
_TYPE = ("type", "entity_type", "category", "kind")
_SUMMARY = ("summary", "description", "desc")
_SOURCE = ("source", "subject", "from", "head", "src", "source_entity", "start", "entity1")
_TARGET = ("target", "object", "to", "tail", "dst", "target_entity", "end", "entity2")
_RELATION = ("relation", "relationship", "predicate", "relation_type", "label", "type", "name")
_FACT = ("fact", "sentence", "description", "evidence", "text", "summary")
_HINT = ("temporal_hint", "time", "when", "date", "temporal")
_CONFIDENCE = ("confidence", "score", "weight")
_TRIPLE = 3


def read_extraction(reply: str, *, extractor: str, said_at: int) -> Extraction:
    """What the reply states, as far as its items can be read, unchecked otherwise: `gate.admitted` comes next.

    Raises ReplyUnusable for a reply that holds no answer, or none of whose items can be read.
    """
    parsed = parse_object(reply, fields=(*_ENTITIES, *_EDGES), list_field=_BARE)
    counts: Counter[str] = Counter({"reply_cut_off": 1} if parsed.partial else {})
    listed = _items(parsed.value, (*_ENTITIES, _BARE), counts)
    stated = [item for item in listed if _is_edge(item)] + _items(parsed.value, _EDGES, counts)
    found = [_entity(item, counts) for item in listed if not _is_edge(item)]
    entities = tuple(entity for entity in found if entity is not None)
    edges = tuple(edge for item in stated if (edge := _edge(item, said_at, counts)) is not None)
    if counts["bad_item"] and not entities and not edges:
        raise unusable("none of its items can be read", reply)
    dropped = tuple(sorted((reason, count) for reason, count in counts.items() if count))
    return Extraction(extractor, entities, edges, dropped)


def _items(answer: Mapping[str, Any], names: tuple[str, ...], counts: Counter[str]) -> list[Any]:
    value: Any = next((answer[name] for name in names if answer.get(name)), [])
    if isinstance(value, Mapping):
        # {"Alice": {"type": "person"}}, or one item without its list.
        keyed = all(isinstance(item, Mapping) for item in value.values())
        value = [{"name": name, **item} for name, item in value.items()] if keyed else [value]
    if not isinstance(value, list):
        counts["bad_item"] += 1
        return []
    counts["bad_item"] += max(0, len(value) - _MAX_ITEMS)
    return value[:_MAX_ITEMS]


def _is_edge(item: Any) -> bool:
    return isinstance(item, Mapping) and _text(item, _SOURCE) is not None and _text(item, _TARGET) is not None


def _entity(item: Any, counts: Counter[str]) -> FoundEntity | None:
    if isinstance(item, str | int | float) and not isinstance(item, bool):
        item = {"name": item}
    name = _text(item, _NAME) if isinstance(item, Mapping) else None
    if name is None:
        counts["bad_item"] += 1
        return None
    said = _text(item, _TYPE)
    try:
        kind = EntityType((said or "").lower())
    except ValueError:
        counts["unknown_type"] += 1
        kind = EntityType.CONCEPT
    return FoundEntity(name, kind, _text(item, _SUMMARY))


def _edge(item: Any, said_at: int, counts: Counter[str]) -> FoundEdge | None:
    if isinstance(item, list) and len(item) == _TRIPLE:
        item = dict(zip(("source", "relation", "target"), item, strict=True))
    if not isinstance(item, Mapping):
        counts["bad_item"] += 1
        return None
    source, target, relation = _text(item, _SOURCE), _text(item, _TARGET), _text(item, _RELATION)
    if source is None or target is None or relation is None:
        counts["bad_item"] += 1
        return None
    hint = _text(item, _HINT)
    period = read_hint(hint, said_at) if hint else None
    if hint and period is None:
        counts["unread_hint"] += 1
    period = period or Period()
    return FoundEdge(
        source,
        target,
        relation,
        _text(item, _FACT) or f"{source} {relation.replace('_', ' ')} {target}",
        _confidence(item),
        period.valid_from,
        period.valid_to,
    )


def _text(item: Mapping[str, Any], names: tuple[str, ...]) -> str | None:
    """The first usable text among these fields: a text, a number, or the name of a nested entity."""
    for name in names:
        value = item.get(name)
        if isinstance(value, Mapping):
            value = value.get("name")
        if isinstance(value, int | float) and not isinstance(value, bool):
            value = str(value)
        if isinstance(value, str) and (text := clean(value)):
            return text
    return None


def _confidence(item: Mapping[str, Any]) -> float:
    """Between 0 and 1; a percentage is read as such, and what cannot be read as the default."""
    value = next((item[name] for name in _CONFIDENCE if item.get(name) is not None), None)
    if isinstance(value, str):
        value = value.strip().removesuffix("%")
    try:
        number = float(value) if isinstance(value, str | int | float) else math.nan
    except (ValueError, OverflowError):
        number = math.nan
    if isinstance(value, bool) or not 0 <= number <= _PERCENT:
        return DEFAULT_CONFIDENCE
    return number / _PERCENT if number > 1 else number
