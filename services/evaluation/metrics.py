"""Ranking metrics over (ranked ids, graded relevant ids). Pure. Definitions as in trec_eval."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence


def recall_at(ranked: Sequence[str], relevant: Mapping[str, int], k: int) -> float:
    """The share of relevant items among the first k; in [0, 1]."""
    wanted = {item for item, grade in relevant.items() if grade > 0}
    return len(wanted.intersection(ranked[:k])) / len(wanted) if wanted else 0.0


def all_found_at(ranked: Sequence[str], relevant: Mapping[str, int], k: int) -> float:
    """1 if every relevant item is among the first k, else 0."""
    return float(recall_at(ranked, relevant, k) == 1.0)


def ndcg_at(ranked: Sequence[str], relevant: Mapping[str, int], k: int) -> float:
    """Normalised discounted cumulative gain with linear gains and log2 discounts (Järvelin and Kekäläinen 2002)."""
    gains = [relevant.get(item, 0) for item in ranked[:k]]
    ideal = sorted((grade for grade in relevant.values() if grade > 0), reverse=True)[:k]
    best = _discounted(ideal)
    return _discounted(gains) / best if best else 0.0


def reciprocal_rank(ranked: Sequence[str], relevant: Mapping[str, int]) -> float:
    """1 / rank of the first relevant item, 0 without one."""
    return next((1.0 / rank for rank, item in enumerate(ranked, 1) if relevant.get(item, 0) > 0), 0.0)


def _discounted(gains: Sequence[int]) -> float:
    return sum(gain / math.log2(rank + 1) for rank, gain in enumerate(gains, 1))
