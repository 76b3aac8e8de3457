"""The SQL of which summaries tell a key fact. A fact goes with the last of them."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.dialects.sqlite import insert

from services.adapters.scopes import scope_token
from services.adapters.tables import key_fact_sources, key_facts, summaries
from services.ids import content_hash
from services.retrieval.query import segment


@dataclass(frozen=True, slots=True)
class Telling:
    """That a summary tells a fact, in these words."""

    fact_id: int
    namespace: str
    conversation_id: int
    summary_id: int
    fact: str
    created_at: int


def tell(
    connection: sa.Connection,
    namespace: str,
    conversation_id: int,
    summary_id: int,
    facts: Sequence[str],
    *,
    created_at: int,
) -> list[int]:
    """Store what a summary tells: facts that the namespace does not know, and that it tells the others too.

    The ids of the new ones.
    """
    added: list[int] = []
    for fact in facts:
        row = {
            "namespace": namespace,
            "conversation_id": conversation_id,
            "summary_id": summary_id,
            "fact": fact,
            "segmented": segment(fact),
            "scope": scope_token("summaries", namespace),
            "content_hash": _fact_hash(fact),
            "created_at": created_at,
        }
        new = insert(key_facts).values(row).on_conflict_do_nothing().returning(key_facts.c.id)
        found = connection.execute(new).scalar()
        added += [] if found is None else [found]
        same = (key_facts.c.namespace == namespace, key_facts.c.content_hash == row["content_hash"])
        told = sa.select(key_facts.c.id, sa.literal(summary_id), sa.literal(fact)).where(*same)
        columns = ["key_fact_id", "summary_id", "fact"]
        connection.execute(insert(key_fact_sources).from_select(columns, told).on_conflict_do_nothing())
    return added


def told_elsewhere(connection: sa.Connection, summary_ids: Sequence[int]) -> list[Telling]:
    """Who else tells the facts that these summaries told first, oldest first."""
    k, o, s = key_facts.c, key_fact_sources.c, summaries.c
    others = (
        sa.select(k.id, s.namespace, s.conversation_id, o.summary_id, o.fact, s.created_at)
        .join_from(key_facts, key_fact_sources, o.key_fact_id == k.id)
        .join(summaries, s.id == o.summary_id)
        .where(k.summary_id.in_(summary_ids), s.id.not_in(summary_ids))
    )
    return [Telling(*row) for row in connection.execute(others.order_by(o.id))]


def hand_over(connection: sa.Connection, into: Mapping[int, int]) -> None:
    """Let those who tell a fact tell the other one of each pair, fact -> other."""
    o = key_fact_sources.c
    for fact_id, other in into.items():
        moved = sa.update(key_fact_sources).where(o.key_fact_id == fact_id).values(key_fact_id=other)
        # Who tells both tells the other one already.
        connection.execute(moved.prefix_with("OR IGNORE"))


def _fact_hash(fact: str) -> str:
    """Equal for facts that differ in case, spacing or the full stop alone."""
    words = unicodedata.normalize("NFKC", fact).casefold().split()
    return content_hash(" ".join(words).rstrip(".。"))
