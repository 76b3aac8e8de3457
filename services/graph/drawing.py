"""A picture of a part of the graph: one HTML file that needs nothing else, no network and no other file. Pure.

Equal parts of a graph give equal bytes: the layout starts from a fixed seed.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from html import escape
from math import hypot, sqrt

from services.graph.models import CO_OCCURRENCE, Entity, EntityType, FactRecord

WIDTH, HEIGHT = 1_200, 800
_MARGIN = 90
_SEED = 7
_LONGEST_LABEL = 28
# More relation names than this would cover the picture: then they are shown when pointed at.
_LABELLED = 40
_BEND = 26

# Colours that people with any colour vision tell apart (Okabe and Ito), grey for the rest.
_COLOURS = {
    EntityType.PERSON: "#0072b2",
    EntityType.ORGANIZATION: "#d55e00",
    EntityType.PROJECT: "#009e73",
    EntityType.TOOL: "#e69f00",
    EntityType.LANGUAGE: "#cc79a7",
    EntityType.FILE: "#56b4e9",
    EntityType.CONFIG: "#b8a800",
    EntityType.CONCEPT: "#777777",
}

_STYLE = """
body{margin:0;font:15px/1.45 system-ui,sans-serif;color:#222;background:#fff}
header{padding:14px 20px 4px}h1{font-size:20px;margin:0}header p{margin:2px 0;color:#666}
svg{width:100%;height:78vh;display:block;touch-action:none;cursor:grab}
.edge path{fill:none;stroke:#999;stroke-width:1.4;pointer-events:none}.edge .wide{stroke:transparent;stroke-width:12;pointer-events:stroke}
.edge.seen path.line{stroke-dasharray:3 4;stroke:#bbb}
.edge text{font-size:10px;fill:#777;text-anchor:middle}.quiet .edge text{opacity:0}
.edge:hover path.line{stroke:#000;stroke-width:2.4}.edge:hover text{opacity:1;fill:#000;font-weight:600}
.node circle{stroke:#fff;stroke-width:2}.node.focus circle{stroke:#000;stroke-width:3}
.node text{font-size:12px;text-anchor:middle;paint-order:stroke;stroke:#fff;stroke-width:3px}
.legend span{display:inline-block;margin-right:16px}.legend i{display:inline-block;width:11px;height:11px;border-radius:6px;margin-right:5px}
section{padding:0 20px 24px}table{border-collapse:collapse;width:100%}td,th{text-align:left;padding:4px 12px 4px 0;border-bottom:1px solid #eee;vertical-align:top}
"""
_SCRIPT = """
const svg=document.querySelector("svg");let box=svg.viewBox.baseVal,from=null;
const at=e=>{const p=new DOMPoint(e.clientX,e.clientY).matrixTransform(svg.getScreenCTM().inverse());return [p.x,p.y]};
svg.addEventListener("wheel",e=>{e.preventDefault();const k=Math.exp(e.deltaY*0.0015),[x,y]=at(e);
box.x=x-(x-box.x)*k;box.y=y-(y-box.y)*k;box.width*=k;box.height*=k},{passive:false});
svg.addEventListener("pointerdown",e=>{from=at(e);svg.setPointerCapture(e.pointerId)});
svg.addEventListener("pointermove",e=>{if(!from)return;const [x,y]=at(e);box.x-=x-from[0];box.y-=y-from[1]});
svg.addEventListener("pointerup",()=>{from=null});
"""
_ARROW = """<defs><marker id="arrow" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto">
<path d="M0 0L8 4L0 8z" fill="#999"/></marker></defs>"""
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"

Positions = Mapping[int, tuple[float, float]]


def draw(
    entities: Sequence[Entity],
    facts: Sequence[FactRecord],
    *,
    focus: int,
    truncated: bool = False,
) -> str:
    """The HTML of a picture of these entities and the facts between them, with `focus` in the middle of attention.

    Zoom with the wheel, move by dragging; a fact is shown whole when pointed at, and all of them stand in a table.
    """
    by_id = {entity.id: entity for entity in entities}
    places = layout(list(by_id), [(fact.edge.source_id, fact.edge.target_id) for fact in facts])
    degree = Counter(end for fact in facts for end in (fact.edge.source_id, fact.edge.target_id))
    title = by_id[focus].name
    note = "Only a part: there is more around these than fits into a picture." if truncated else ""
    quiet = ' class="quiet"' if len(facts) > _LABELLED else ""
    nodes = [_node(entity, places[entity.id], degree[entity.id], entity.id == focus) for entity in entities]
    return "\n".join(
        [
            "<!doctype html>",
            f'<html lang="en"><head><meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
            '<meta name="viewport" content="width=device-width">',
            f"<title>{escape(title)}: what is known</title><style>{_STYLE}</style></head><body>",
            f"<header><h1>{escape(title)}</h1><p>{len(entities)} entities, {len(facts)} facts. {note}</p>",
            f'<p class="legend">{_legend(entities, facts)}</p></header>',
            f'<svg viewBox="0 0 {WIDTH} {HEIGHT}"{quiet} role="img" aria-label="Graph around {escape(title)}">',
            _ARROW,
            *_edges(facts, places, degree),
            *nodes,
            "</svg>",
            _table(facts),
            f"<script>{_SCRIPT}</script></body></html>",
            "",
        ]
    )


def layout(entities: Sequence[int], pairs: Sequence[tuple[int, int]]) -> Positions:
    """A place inside the picture for each entity: those that are linked near one another."""
    import networkx as nx

    drawn = nx.Graph()
    drawn.add_nodes_from(entities)
    drawn.add_edges_from(pairs)
    if len(entities) == 1:
        return {entities[0]: (WIDTH / 2, HEIGHT / 2)}
    spread = 2.0 / sqrt(len(entities))
    found = nx.spring_layout(drawn, k=spread, iterations=200, seed=_SEED, method="force")
    columns = [[float(place[axis]) for place in found.values()] for axis in (0, 1)]
    return {
        entity: (_scaled(place[0], columns[0], WIDTH), _scaled(place[1], columns[1], HEIGHT))
        for entity, place in found.items()
    }


def _scaled(value: float, column: Sequence[float], size: int) -> float:
    low, high = min(column), max(column)
    return round(_MARGIN + (float(value) - low) / ((high - low) or 1.0) * (size - 2 * _MARGIN), 1)


def _radius(degree: int) -> float:
    return round(min(9 + 2.5 * sqrt(degree), 26), 1)


def _node(entity: Entity, place: tuple[float, float], degree: int, focus: bool) -> str:
    x, y = place
    size = _radius(degree)
    said = f"{entity.name} ({entity.type.value})" + (f"\n{entity.summary}" if entity.summary else "")
    label = (
        entity.name if len(entity.name) <= _LONGEST_LABEL else entity.name[: _LONGEST_LABEL - 1] + "\u2026"
    )
    return (
        f'<g class="node{" focus" if focus else ""}"><title>{escape(said)}</title>'
        f'<circle cx="{x}" cy="{y}" r="{size}" fill="{_COLOURS[entity.type]}"/>'
        f'<text x="{x}" y="{round(y + size + 14, 1)}">{escape(label)}</text></g>'
    )


def _edges(facts: Sequence[FactRecord], places: Positions, degree: Counter[int]) -> list[str]:
    """The facts as lines; several between the same two bend away from one another."""
    pairs: dict[tuple[int, int], list[FactRecord]] = defaultdict(list)
    for fact in facts:
        ends = (fact.edge.source_id, fact.edge.target_id)
        pairs[min(ends), max(ends)].append(fact)
    lines = []
    for (low, _), group in pairs.items():
        for number, fact in enumerate(group):
            bend = _BEND * (number - (len(group) - 1) / 2) * (1 if fact.edge.source_id == low else -1)
            lines.append(_edge(fact, places, _radius(degree[fact.edge.target_id]), bend))
    return lines


def _edge(fact: FactRecord, places: Positions, radius: float, bend: float) -> str:
    (x1, y1), (x2, y2) = places[fact.edge.source_id], places[fact.edge.target_id]
    length = hypot(x2 - x1, y2 - y1) or 1.0
    across, along = ((y1 - y2) / length, (x2 - x1) / length), ((x2 - x1) / length, (y2 - y1) / length)
    middle = (round((x1 + x2) / 2 + 2 * bend * across[0], 1), round((y1 + y2) / 2 + 2 * bend * across[1], 1))
    tip = (round(x2 - along[0] * (radius + 1), 1), round(y2 - along[1] * (radius + 1), 1))
    seen = fact.edge.relation == CO_OCCURRENCE
    way = f"M{x1} {y1}Q{middle[0]} {middle[1]} {tip[0]} {tip[1]}"
    label = (round((x1 + 2 * middle[0] + x2) / 4, 1), round((y1 + 2 * middle[1] + y2) / 4 - 3, 1))
    marker = "" if seen else ' marker-end="url(#arrow)"'
    return (
        f'<g class="edge{" seen" if seen else ""}"><title>{escape(_told(fact))}</title>'
        f'<path class="wide" d="{way}"/><path class="line" d="{way}"{marker}/>'
        f'<text x="{label[0]}" y="{label[1]}">{escape(_relation(fact))}</text></g>'
    )


def _relation(fact: FactRecord) -> str:
    return fact.edge.relation.replace("_", " ")


def _told(fact: FactRecord) -> str:
    sure = "seen together, not stated" if fact.edge.relation == CO_OCCURRENCE else "stated"
    return f"{fact.source} \u2192 {_relation(fact)} \u2192 {fact.target}\n{fact.edge.fact}\n{sure}, confidence {fact.edge.confidence:.2f}"


def _legend(entities: Sequence[Entity], facts: Sequence[FactRecord]) -> str:
    kinds = [kind for kind in EntityType if any(entity.type is kind for entity in entities)]
    shown = [f'<span><i style="background:{_COLOURS[kind]}"></i>{kind.value}</span>' for kind in kinds]
    if any(fact.edge.relation == CO_OCCURRENCE for fact in facts):
        shown.append("<span>dotted: seen together in a text, no stated relation</span>")
    return "".join(shown)


def _table(facts: Sequence[FactRecord]) -> str:
    rows = "".join(
        "<tr>"
        + "".join(
            f"<td>{escape(cell)}</td>" for cell in (one.source, _relation(one), one.target, one.edge.fact)
        )
        + "</tr>"
        for one in facts
    )
    head = "<tr><th>From</th><th>Relation</th><th>To</th><th>Fact</th></tr>"
    return f"<section><table>{head}{rows}</table></section>"
