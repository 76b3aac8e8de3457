"""Ordering what the legs found: decay by age, the worth of whole sessions, and diversity (MMR). Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from services.ports import Vector

Item = TypeVar("Item", bound=int)

MICROSECONDS_PER_DAY = 86_400_000_000
# Candidates further apart than this belong to different sessions.
SESSION_GAP = 3_600_000_000
# A session is worth what its best few messages are worth: the sum over all would favour long ones.
_BEST_OF_SESSION = 3
# What a message is still worth that its user has put right: found when nothing better is.
CORRECTED_WEIGHT = 0.3


@dataclass(frozen=True, slots=True)
class Place:
    """Where and when a message was said, by whom, and whether it was put right. `created_at` is microseconds."""

    conversation_id: int
    created_at: int
    by_assistant: bool = False
    corrected: bool = False


def decay(score: float, age: int, half_life_days: float) -> float:
    """The score halved once per half-life of age (microseconds, 0 if negative); unchanged for half-life 0."""
    if half_life_days <= 0:
        return score
    days = max(0, age) / MICROSECONDS_PER_DAY
    return float(score * 0.5 ** (days / half_life_days))


def weigh(
    scores: Mapping[Item, float],
    places: Mapping[Item, Place],
    *,
    assistant_weight: float,
    session_weight: float,
) -> dict[Item, float]:
    """Scores scaled to at most 1, assistants' times `assistant_weight`, plus the worth of their session.

    A session's worth is the sum of its best three scores relative to the best session's, times `session_weight`:
    evidence comes in company. What was put right counts CORRECTED_WEIGHT times that.
    """
    high = max(scores.values(), default=0.0) or 1.0
    worth: dict[Item, float] = {}
    for session in _sessions(places):
        best = sorted((scores[item] for item in session), reverse=True)[:_BEST_OF_SESSION]
        worth |= dict.fromkeys(session, sum(best))
    most = max(worth.values(), default=0.0) or 1.0
    return {
        item: (
            score / high * (assistant_weight if places[item].by_assistant else 1.0)
            + session_weight * worth[item] / most
        )
        * (CORRECTED_WEIGHT if places[item].corrected else 1.0)
        for item, score in scores.items()
    }


def mmr(
    relevance: Mapping[Item, float],
    vectors: Mapping[Item, Vector],
    *,
    trade_off: float,
    limit: int,
    threshold: float = 0.0,
) -> list[Item]:
    """Maximal marginal relevance (Carbonell and Goldstein 1998) over items given best first.

    Each pick maximises trade_off * relevance - (1 - trade_off) * its largest cosine similarity to earlier picks; the
    earlier item wins ties. Trade-off 1 keeps the order, 0 looks only for what differs. A similarity below `threshold`
    or of an item without a vector counts as 0.
    """
    import numpy as np

    left = list(relevance)
    nearest = dict.fromkeys(left, 0.0)
    comparable = [item for item in left if item in vectors]
    matrix = np.stack([vectors[item] for item in comparable]) if comparable else None
    picked: list[Item] = []
    while left and len(picked) < limit:
        gains = [
            trade_off * relevance[item] - (1 - trade_off) * nearest[item] if picked else relevance[item]
            for item in left
        ]
        chosen = left.pop(gains.index(max(gains)))
        picked.append(chosen)
        if matrix is not None and chosen in vectors:
            similarities = (matrix @ vectors[chosen]).tolist()
            for item, similarity in zip(comparable, similarities, strict=True):
                if similarity >= threshold:
                    nearest[item] = max(nearest[item], similarity)
    return picked


def _sessions(places: Mapping[Item, Place]) -> list[list[Item]]:
    """Items of one conversation without a gap of an hour between them."""
    sessions: list[list[Item]] = []
    last: Place | None = None
    for item, place in sorted(
        places.items(), key=lambda pair: (pair[1].conversation_id, pair[1].created_at, pair[0])
    ):
        joined = (
            last is not None
            and last.conversation_id == place.conversation_id
            and place.created_at - last.created_at <= SESSION_GAP
        )
        if not joined:
            sessions.append([])
        sessions[-1].append(item)
        last = place
    return sessions
