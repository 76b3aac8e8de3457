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
    totals: dict[int, float] = {}
    told: dict[int, dict[str, tuple[float, int]]] = {}
    for leg in legs:
        scaled = _min_max(leg.scores)
        for rank, item in enumerate(_ranked(leg.scores), start=1):
            totals[item] = totals.get(item, 0.0) + leg.weight * scaled[item]
            told.setdefault(item, {})[leg.name] = (leg.scores[item], rank)
    return [Fused(item, totals[item], told[item]) for item in _ranked(totals)]


def _min_max(scores: Mapping[int, float]) -> dict[int, float]:
    if not scores:
        return {}
    low, high = min(scores.values()), max(scores.values())
    if high - low <= 1e-12:
        return dict.fromkeys(scores, 1.0)
    return {item: (score - low) / (high - low) for item, score in scores.items()}


def _ranked(scores: Mapping[int, float]) -> list[int]:
    """Best first, ties by id."""
    return sorted(scores, key=lambda item: (-scores[item], item))
