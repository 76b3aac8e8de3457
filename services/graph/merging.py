"""Making two entities one, in the caller's unit: names, facts, mentions, summary, community, vectors."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from services.embedding.writing import removal_job
from services.graph.facts import SINGLE_VALUED, EdgeDraft, Timeline, draft_of
from services.graph.models import CO_OCCURRENCE, Entity, EntityType
from services.graph.names import joined_summary
from services.graph.store import GraphUnit


def merge_entities(unit: GraphUnit, namespace: str, winner: Entity, loser: Entity, now: int) -> Entity:
    """Give everything of the loser to the winner and delete it; the winner as it is now.

    Facts between the two go, for nothing relates to itself. Facts that both state become one.
    """
    edges = unit.graph.edges_of(namespace, loser.id, history=True)
    moved = [
        moved_draft(draft_of(edge), loser.id, winner.id) for edge in sorted(edges, key=lambda edge: edge.id)
    ]
    loops = [draft for draft in moved if draft.source_id == draft.target_id]
    moving = [draft for draft in moved if draft.source_id != draft.target_id]
    keys = [draft.key for draft in moving]
    mine = {draft.id for draft in moving}
    stored = unit.graph.edges_with_keys(namespace, keys, single_valued_heads(keys))
    timeline = Timeline((edge for edge in stored if edge.id not in mine), now=now, told=unit.graph.told)
    for draft in moving:
        timeline.adopt(draft)
    unit.graph.delete_edges(namespace, [draft.id for draft in loops if draft.id is not None])
    unit.graph.apply(namespace, timeline.drafts)
    unit.graph.take_over(namespace, winner.id, loser.id)
    summary = joined_summary([each.summary for each in (winner, loser) if each.summary])
    kind = loser.type if winner.type is EntityType.CONCEPT else winner.type
    unit.graph.describe([replace(winner, summary=summary, type=kind)])
    unit.jobs.enqueue([removal_job(namespace)])
    return unit.graph.get(namespace, [winner.id])[winner.id]


def moved_draft(draft: EdgeDraft, of: int, to: int) -> EdgeDraft:
    """The fact with another entity in place of one."""
    draft.source_id, draft.target_id = in_order(
        draft.relation, *(to if end == of else end for end in (draft.source_id, draft.target_id))
    )
    draft.changed = True
    return draft


def in_order(relation: str, source: int, target: int) -> tuple[int, int]:
    """The ends of a fact. What stands together in a sentence has no direction, so one is chosen."""
    return (target, source) if relation == CO_OCCURRENCE and source > target else (source, target)


def single_valued_heads(keys: Iterable[tuple[int, str, int]]) -> list[tuple[int, str]]:
    """The (source, relation) of which one target holds at a time."""
    return sorted({(source, relation) for source, relation, _ in keys if relation in SINGLE_VALUED})
