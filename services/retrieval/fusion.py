"""Merging ranked lists. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Leg:
    """One retriever's answer: scores by item, higher is better, and its weight in the sum."""

    name: str
    weight: float
    scores: Mapping[int, float]


@dataclass(frozen=True, slots=True)
class Fused:
    """One item with its final score and what each leg said: leg name -> (raw score, rank from 1)."""

    id: int
    score: float
    legs: Mapping[str, tuple[float, int]]


def fuse(legs: Sequence[Leg]) -> list[Fused]:
    """Best first, ties by id: the weighted sum of min-max scaled scores; an item absent from a leg gets 0 there.

    Score fusion beats reciprocal ranks here: with a small embedder, an item that is mediocre in both lists would
    otherwise beat one that is first in only one.
    """
    scaled = {leg.name: _min_max(leg.scores) for leg in legs}
    ranks = {leg.name: _ranks(leg.scores) for leg in legs}
    ids = {item for leg in legs for item in leg.scores}
    fused = [
        Fused(
            id=item,
            score=sum(leg.weight * scaled[leg.name].get(item, 0.0) for leg in legs),
            legs={leg.name: (leg.scores[item], ranks[leg.name][item]) for leg in legs if item in leg.scores},
        )
        for item in ids
    ]
    return sorted(fused, key=lambda hit: (-hit.score, hit.id))


def _min_max(scores: Mapping[int, float]) -> dict[int, float]:
    if not scores:
        return {}
    low, high = min(scores.values()), max(scores.values())
    if high - low <= 1e-12:
        return dict.fromkeys(scores, 1.0)
    return {item: (score - low) / (high - low) for item, score in scores.items()}


def _ranks(scores: Mapping[int, float]) -> dict[int, int]:
    ordered = sorted(scores, key=lambda item: (-scores[item], item))
    return {item: rank for rank, item in enumerate(ordered, start=1)}
