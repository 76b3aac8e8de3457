"""Scores document search on a retrieval data set, by the same calls that users make."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from services.documents.models import DocumentMetadata, SplitterConfig
from services.documents.search import DocumentSearch
from services.documents.service import IngestionPipeline
from services.evaluation.datasets import RetrievalSet
from services.evaluation.metrics import all_found_at, ndcg_at, recall_at, reciprocal_rank

CUTOFFS = (5, 10, 20, 50)
_DEPTH = 100
# Several chunks of one document may fill the list: ask for more of them.
_CHUNKS_PER_DOCUMENT = 3


@dataclass(frozen=True, slots=True)
class Scores:
    """Means over all queries. `milliseconds` is the median time of one search."""

    mode: str
    queries: int
    metrics: dict[str, float]
    milliseconds: float


def store_corpus(
    pipeline: IngestionPipeline,
    data: RetrievalSet,
    splitter: SplitterConfig,
    *,
    collection: str,
    namespace: str,
) -> int:
    """Store every document of the set; how many. Their vectors are made by the job ledger."""
    count = 0
    for entry in data.corpus():
        metadata = DocumentMetadata(source=entry.id, content_type="text/plain", title=entry.title)
        pipeline.add_text(entry.text, metadata, collection=collection, namespace=namespace, splitter=splitter)
        count += 1
    return count


def evaluate(
    search: DocumentSearch, data: RetrievalSet, modes: Sequence[str], *, collection: str, namespace: str
) -> list[Scores]:
    """Run every query in every mode."""
    return [_evaluate(search, data, mode, collection, namespace) for mode in modes]


def _evaluate(
    search: DocumentSearch, data: RetrievalSet, mode: str, collection: str, namespace: str
) -> Scores:
    rows: list[dict[str, float]] = []
    times: list[float] = []
    for key, query in data.queries.items():
        started = time.perf_counter()
        answer = search.search(
            query, collection=collection, namespace=namespace, limit=_DEPTH * _CHUNKS_PER_DOCUMENT, mode=mode
        )
        times.append(time.perf_counter() - started)
        ranked = list(dict.fromkeys(hit.passage.source for hit in answer.hits))
        rows.append(_metrics(ranked, data.relevant[key]))
    means = {name: fmean(row[name] for row in rows) for name in rows[0]}
    return Scores(mode, len(rows), means, 1_000 * sorted(times)[len(times) // 2])


def _metrics(ranked: Sequence[str], graded: Mapping[str, int]) -> dict[str, float]:
    recalls = {f"recall@{k}": recall_at(ranked, graded, k) for k in (*CUTOFFS, _DEPTH)}
    return recalls | {
        "ndcg@10": ndcg_at(ranked, graded, 10),
        "mrr": reciprocal_rank(ranked, graded),
        "all@10": all_found_at(ranked, graded, 10),
    }
