"""Finding summaries and key facts again: by meaning, and by words while the vectors are away. Reads only."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from services import errors
from services.embedding.points import row_of
from services.embedding.spaces import VectorSpaces
from services.ids import ConversationId
from services.memory.models import ConversationName
from services.memory.summary_store import KeyFact, Summary, SummaryDatabase, SummaryUnit, TextRows
from services.memory.summary_vectors import FACT_COLLECTION, SUMMARY_COLLECTION
from services.ports import Condition, Filter

log = logging.getLogger(__name__)

T = TypeVar("T", Summary, KeyFact)

MAX_LIMIT = 1_000
# A summary has one vector per embedding window, and vectors may outlive their rows: look deeper than the limit.
_DEPTH = 4


@dataclass(frozen=True, slots=True)
class Hit(Generic[T]):
    """A row with its score: cosine similarity in [-1, 1], or BM25 where words had to do."""

    item: T
    score: float


@dataclass(frozen=True, slots=True)
class SummaryAnswer(Generic[T]):
    """Hits, best first. `degraded` is the reason why words had to do instead of vectors; empty otherwise."""

    hits: tuple[Hit[T], ...]
    degraded: str = ""


class SummarySearch:
    """Reads summaries and key facts of a namespace, across all its conversations. Never waits for a worker."""

    def __init__(
        self, database: SummaryDatabase, spaces: VectorSpaces, *, score_threshold: float = 0.35
    ) -> None:
        self._database = database
        self._spaces = spaces
        self._score_threshold = score_threshold

    def load_summaries(self, conversation: ConversationName, *, namespace: str) -> list[Summary]:
        """The summaries of one conversation, oldest first. Raises NotFound."""
        with self._database.read() as unit:
            found = unit.messages.resolve(namespace, conversation)
            if found is None:
                raise errors.NotFound(f"namespace {namespace} has no conversation {conversation or 'at all'}")
            return unit.summaries.of(namespace, found)

    def search_summaries(
        self,
        query: str,
        *,
        namespace: str,
        limit: int = 5,
        exclude_conversation: ConversationId | None = None,
    ) -> SummaryAnswer[Summary]:
        """Summaries near in meaning, those below `score_threshold` left out: weak ones are not worth injecting."""
        return self._search(
            query,
            SUMMARY_COLLECTION,
            namespace,
            limit,
            table=lambda unit: unit.summaries,
            load=lambda unit, ids: unit.summaries.get(namespace, ids),
            exclude=exclude_conversation,
            floor=self._score_threshold,
        )

    def search_key_facts(self, query: str, *, namespace: str, limit: int = 5) -> SummaryAnswer[KeyFact]:
        """Key facts of all conversations, best first."""
        return self._search(
            query,
            FACT_COLLECTION,
            namespace,
            limit,
            table=lambda unit: unit.key_facts,
            load=lambda unit, ids: unit.key_facts.get(namespace, ids),
        )

    def _search(
        self,
        query: str,
        collection: str,
        namespace: str,
        limit: int,
        *,
        table: Callable[[SummaryUnit], TextRows],
        load: Callable[[SummaryUnit, Sequence[int]], dict[int, T]],
        exclude: ConversationId | None = None,
        floor: float = -1.0,
    ) -> SummaryAnswer[T]:
        limit = max(1, min(limit, MAX_LIMIT))
        if not query.strip():
            return SummaryAnswer(())
        degraded = ""
        try:
            scores = self._by_meaning(query, collection, namespace, limit, exclude, floor)
        except (errors.TransientError, errors.DimensionMismatch, errors.ModelRejected) as error:
            log.warning("search_degraded collection=%s reason=%s", collection, type(error).__name__)
            scores, degraded = None, str(error)
        with self._database.read() as unit:
            if scores is None:
                scores = table(unit).search(namespace, query, limit=limit, exclude=exclude)
            rows = load(unit, list(scores))
        hits = [Hit(rows[row_id], score) for row_id, score in scores.items() if row_id in rows]
        return SummaryAnswer(tuple(hits[:limit]), degraded)

    def _by_meaning(
        self,
        query: str,
        collection: str,
        namespace: str,
        limit: int,
        exclude: ConversationId | None,
        floor: float,
    ) -> dict[int, float] | None:
        """Row id -> similarity, best first; None when there are no vectors."""
        space = self._spaces.for_reading(collection)
        if space is None:
            return None
        field = "summary_id" if collection == SUMMARY_COLLECTION else "key_fact_id"
        others = () if exclude is None else (Condition("conversation_id", any_of=(exclude,)),)
        found = self._spaces.search(
            space, namespace, query, limit=limit * _DEPTH, where=Filter(must_not=others)
        )
        scores: dict[int, float] = {}
        for hit in found:
            if hit.reaches(floor):
                # Hits come best first, so that the best window counts.
                scores.setdefault(row_of(hit.payload, field), hit.score)
        return scores
