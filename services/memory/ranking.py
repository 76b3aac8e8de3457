"""Ordering what the legs found: weights, decay by age, the worth of whole sessions, and diversity (MMR). Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from services.ports import Vector

Item = TypeVar("Item", bound=int)

MICROSECONDS_PER_DAY = 86_400_000_000
# Candidates further apart than this belong to different sessions.
SESSION_GAP = 3_600_000_000
# A session is worth what its best few messages are worth: the sum over all would favour long ones.
_BEST_OF_SESSION = 4
# What a message is still worth that its user has put right: found when nothing better is.
CORRECTED_WEIGHT = 0.3
# A similarity computed in another order may differ by so much.
_ROUNDING = 1e-6


@dataclass(frozen=True, slots=True)
class Weights:
    """What matching words, similarity by meaning, and what else was found in the same session count."""

    keyword: float
    vector: float
    session: float


# Chosen on half of the conversations of each set; the other half agreed. Between people who chat in one or two
# sentences (LoCoMo: what a query finds has a median of 79 to 171 characters) words tell more; talks with an assistant
# (BEAM: 213 and more; RealMem: 300 and more for 95 % of the queries) need the meaning and the session as much. With
# the weights of short messages RealMem finds .742 of its sessions instead of .763 among ten and BEAM .629 of its
# messages instead of .654; with those of long ones LoCoMo's recall@10 falls from .815 to .800, NDCG@10 from .601 to
# .568.
_SHORT, _LONG = Weights(0.7, 0.3, 0.4), Weights(0.5, 0.5, 0.7)
_SHORT_LENGTH, _LONG_LENGTH = 150, 300


@dataclass(frozen=True, slots=True)
class Place:
    """Where and when a message was said, by whom, its length in characters, and whether it was put right.

    `created_at` is microseconds.
    """

    conversation_id: int
    created_at: int
    by_assistant: bool = False
    corrected: bool = False
    length: int = 0


def weights_by_length(lengths: Iterable[int]) -> Weights:
    """The weights for messages of such lengths (characters): those of short or long ones, or in between.

    The median decides; without any message it is 0.
    """
    middle = median([*lengths] or [0])
    share = min(1.0, max(0.0, (middle - _SHORT_LENGTH) / (_LONG_LENGTH - _SHORT_LENGTH)))
    return Weights(
        _SHORT.keyword + share * (_LONG.keyword - _SHORT.keyword),
        _SHORT.vector + share * (_LONG.vector - _SHORT.vector),
        _SHORT.session + share * (_LONG.session - _SHORT.session),
    )


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

    A session's worth is the sum of its best four scores relative to the best session's, times `session_weight`:
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
    threshold: float = -1.0,
) -> list[Item]:
    """Maximal marginal relevance (Carbonell and Goldstein 1998) over items given best first.

    Each pick maximises trade_off * relevance - (1 - trade_off) * its largest cosine similarity to earlier picks; the
    earlier item wins ties. Trade-off 1 keeps the order, 0 looks only for what differs. A similarity below `threshold`
    or of an item without a vector counts as 0.
    """
    import numpy as np

    left = list(relevance)
    # Of what nothing was picked yet that it could resemble; what has no vector resembles nothing.
    nearest: dict[Item, float] = {}
    comparable = [item for item in left if item in vectors]
    matrix = np.stack([vectors[item] for item in comparable]) if comparable else None
    picked: list[Item] = []
    while left and len(picked) < limit:
        gains = [
            trade_off * relevance[item] - (1 - trade_off) * nearest.get(item, 0.0)
            if picked
            else relevance[item]
            for item in left
        ]
        chosen = left.pop(gains.index(max(gains)))
        picked.append(chosen)
        if matrix is not None and chosen in vectors:
            similarities = (matrix @ vectors[chosen]).tolist()
            for item, similarity in zip(comparable, similarities, strict=True):
                if similarity >= threshold:
                    nearest[item] = max(nearest.get(item, similarity), similarity)
    return picked


def any_alike(vectors: Iterable[Vector], threshold: float) -> bool:
    """Whether two of these unit vectors may have a cosine similarity of `threshold` or more.

    If not, MMR with that threshold picks items whose vectors these are in the order of their relevance.
    """
    import numpy as np

    rows = list(vectors)
    if len(rows) < 2:
        return False
    matrix = np.stack(rows)
    similarities = (matrix @ matrix.T)[np.triu_indices(len(rows), k=1)]
    return bool(similarities.max() >= threshold - _ROUNDING)


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
