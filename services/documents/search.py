"""Answering a question from the documents: keyword leg, vector leg, fusion, passages with their place."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from services import errors
from services.documents.store import DocumentDatabase, Passage
from services.embedding.points import row_of
from services.embedding.spaces import NO_VECTORS, VectorSpaces
from services.retrieval.fusion import Fused, Leg, fuse

log = logging.getLogger(__name__)

MAX_LIMIT = 1_000
_DEPTH = 100
# A chunk has one vector per embedding window: look deeper, so that `_DEPTH` distinct chunks come out.
_WINDOWS_PER_CHUNK = 3
_STEP_EVERY = 3


@dataclass(frozen=True, slots=True)
class PassageHit:
    """A passage with its score; `legs` says what each retriever gave it: name -> (raw score, rank from 1)."""

    passage: Passage
    score: float
    legs: dict[str, tuple[float, int]]


@dataclass(frozen=True, slots=True)
class SearchAnswer:
    """Hits, best first. `degraded` names the legs that could not answer, `reasons` says why, for people."""

    hits: tuple[PassageHit, ...]
    degraded: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()


class NextStep(Protocol):
    """Finds passages about what good ones name: the next step of a question that no single passage answers."""

    def passages(
        self, query: str, found: Mapping[int, float], *, namespace: str, collection: str
    ) -> Sequence[int]:
        """Chunk ids, best first, beside those of `found` (chunk -> score, best first) that are good already."""


class DocumentSearch:
    """Searches one collection of one namespace. Reads only; never waits for a worker."""

    def __init__(
        self,
        database: DocumentDatabase,
        spaces: VectorSpaces,
        *,
        vector_weight: float = 0.5,
        keyword_weight: float = 0.5,
        next_step: NextStep | None = None,
    ) -> None:
        self._database = database
        self._spaces = spaces
        self._next_step = next_step
        self._weights = {"keyword": keyword_weight, "vector": vector_weight}

    def search(
        self, query: str, *, collection: str, namespace: str = "default", limit: int = 5, mode: str = "hybrid"
    ) -> SearchAnswer:
        """The passages that answer the query. `mode` is hybrid, keyword or vector.

        A leg that cannot answer is named in `degraded`; the other one still does. Raises InputError.
        """
        if mode not in ("hybrid", "keyword", "vector"):
            raise errors.InputError(f"search mode is {mode!r}: use hybrid, keyword or vector")
        limit = max(1, min(limit, MAX_LIMIT))
        depth = max(_DEPTH, limit)
        degraded: dict[str, str] = {}
        legs: list[Leg] = []
        if mode != "vector":
            legs.append(self._keyword(query, collection, namespace, depth))
        if mode == "vector" and self._spaces.embedder is None:
            degraded["vector"] = NO_VECTORS
        elif mode != "keyword":
            try:
                legs.append(self._vector(query, collection, namespace, depth))
            except (errors.TransientError, errors.DimensionMismatch, errors.ModelRejected) as error:
                log.warning("search_degraded leg=vector reason=%s", type(error).__name__)
                degraded["vector"] = str(error)
        fused = fuse(legs)
        if mode == "hybrid" and self._next_step is not None:
            scores = {hit.id: hit.score for hit in fused}
            further = self._next_step.passages(query, scores, namespace=namespace, collection=collection)
            fused = _woven(fused, further)
        hits = self._hits(fused, namespace, limit)
        return SearchAnswer(hits, tuple(degraded), tuple(degraded.values()))

    def _keyword(self, query: str, collection: str, namespace: str, depth: int) -> Leg:
        with self._database.read() as unit:
            scores = unit.documents.search(namespace, collection, query, limit=depth)
        return Leg("keyword", self._weights["keyword"], scores)

    def _vector(self, query: str, collection: str, namespace: str, depth: int) -> Leg:
        scores: dict[int, float] = {}
        space = self._spaces.for_reading(collection) if query.strip() else None
        if space is not None:
            for hit in self._spaces.search(space, namespace, query, limit=depth * _WINDOWS_PER_CHUNK):
                # Best window counts, and hits come best first.
                scores.setdefault(row_of(hit.payload, "chunk_id"), hit.score)
                if len(scores) >= depth:
                    break
        return Leg("vector", self._weights["vector"], scores)

    def _hits(self, fused: list[Fused], namespace: str, limit: int) -> tuple[PassageHit, ...]:
        hits: list[PassageHit] = []
        # Vectors of deleted chunks may still be there for a moment: what has no row is not a hit.
        for start in range(0, len(fused), limit):
            part = fused[start : start + limit]
            with self._database.read() as unit:
                passages = unit.documents.passages(namespace, [hit.id for hit in part])
            hits += [
                PassageHit(passages[hit.id], hit.score, dict(hit.legs)) for hit in part if hit.id in passages
            ]
            if len(hits) >= limit:
                break
        return tuple(hits[:limit])


def _woven(fused: Sequence[Fused], further: Sequence[int]) -> list[Fused]:
    """Every third place for a passage of the next step, with the score of the one before it; none comes twice.

    Places, not scores: a passage about what the best one names has hardly a word of the question. Measured on 2Wiki
    (README, benchmarks).
    """
    by_id = {hit.id: hit for hit in fused}
    steps = deque(enumerate(further, start=1))
    woven: dict[int, Fused] = {}
    for hit in fused:
        while steps and len(woven) % _STEP_EVERY == _STEP_EVERY - 1:
            rank, chunk = steps.popleft()
            if chunk not in woven:
                legs = {**(by_id[chunk].legs if chunk in by_id else {}), "graph": (1.0 / rank, rank)}
                woven[chunk] = Fused(chunk, list(woven.values())[-1].score, legs)
        woven.setdefault(hit.id, hit)
    return list(woven.values())
