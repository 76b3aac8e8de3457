"""Recall: the messages that matter for a query. Route, legs, fusion, weights, decay, exact holders, diversity, rows.

Reads only; never waits for a worker. What is down costs its leg, never the answer.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

from services import errors
from services.embedding.points import message_point_ids, row_of
from services.embedding.spaces import NO_VECTORS, Space, VectorSpaces
from services.ids import MessageId
from services.memory.identifiers import Identifier, identifiers
from services.memory.models import Message, MessageFilter
from services.memory.ranking import (
    CORRECTED_WEIGHT,
    Place,
    Weights,
    any_alike,
    decay,
    mmr,
    weigh,
    weights_by_length,
)
from services.memory.router import HeuristicRouter, MemoryRoute, MemoryRouter, Routing
from services.memory.store import MemoryDatabase
from services.memory.vectors import COLLECTION
from services.ports import Clock, Condition, Filter, PayloadValue
from services.retrieval.fusion import Fused, Leg, fuse
from services.times import utc

if TYPE_CHECKING:
    from services.ports import Vector

log = logging.getLogger(__name__)

MAX_LIMIT = 1_000
MODES = ("hybrid", "keyword", "vector")
# Candidates per leg: evidence for a session's worth, and room for what the filters take away. Twice as many find no
# more among the first ten (LoCoMo recall .816 either way).
_DEPTH = 100
_MOST_POINTS = 10_000
_HOLDERS = 100
# What states a relation may have no word of the question that asks for it.
_RELATION_WEIGHT = 0.7
# More than the largest sum of all weights.
_FIRST = 3.0
# In a longer text, "last week" is one remark of many and does not date what is sought.
_LONGEST_DATED = 20
# Near-duplicates of the best are looked for among this many.
_DIVERSE = 50
_OUT_OF_REACH = (errors.TransientError, errors.DimensionMismatch, errors.ModelRejected)


@dataclass(frozen=True, slots=True)
class SemanticConfig:
    """How recall ranks: the settings of [memory.semantic]. Weights are in [0, 1]; None: what suits the messages."""

    enabled: bool = True
    recall_limit: int = 5
    vector_weight: float | None = None
    keyword_weight: float | None = None
    assistant_weight: float = 0.5
    session_weight: float | None = None
    graph_weight: float = 0.0
    similarity_floor: float = 0.0
    temporal_decay_enabled: bool = False
    temporal_decay_half_life_days: float = 30.0
    mmr_enabled: bool = True
    mmr_lambda: float = 0.7
    mmr_threshold: float = 0.95


@dataclass(frozen=True, slots=True)
class RecallHit:
    """A message with its score. `legs` says what each retriever gave it: name -> (raw score, rank from 1).

    The leg `exact` counts the identifiers of the query that the message holds, and `period` says that it is from the
    time that the query names. Each of these adds more to the score than all else together. `corrected` says that the
    user has put the message right since, and by what factor that lowered its score.
    """

    message: Message
    score: float
    legs: Mapping[str, tuple[float, int]]


@dataclass(frozen=True, slots=True)
class RecallAnswer:
    """Hits, best first. `degraded` names the legs that could not answer, `reasons` says why, for people.

    `routing` is what the router made of the query.
    """

    hits: tuple[RecallHit, ...]
    routing: Routing
    degraded: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Question:
    """What is asked, once everything is checked. `asked` are the words of the caller."""

    asked: str
    routing: Routing
    namespace: str
    where: MessageFilter
    limit: int
    depth: int
    now: int
    meaning: _Meaning
    # Which messages are known to pass the filter, so that none is looked up twice.
    places: dict[MessageId, Place] = field(default_factory=dict)

    @property
    def query(self) -> str:
        """The words to search for."""
        return self.routing.query


class _Meaning:
    """The query in the space of the vectors. Nothing is looked up or embedded before it is needed, and only once."""

    def __init__(self, spaces: VectorSpaces, query: str) -> None:
        self._spaces = spaces
        self._query = query
        # Why vectors could not be had: nobody waits for them a second time.
        self.lost: errors.MemoryError | None = None

    @cached_property
    def space(self) -> Space | None:
        """Where messages have their vectors, if anywhere."""
        return self._spaces.for_reading(COLLECTION)

    @cached_property
    def vector(self) -> Vector | None:
        """The query's own vector; None for a blank query or where there are no vectors."""
        if self.space is None or not self._query.strip():
            return None
        vector: Vector = self.space.embedder.embed([self._query], kind="query")[0]
        return vector


class MessageLane(Protocol):
    """Finds messages by the facts that they state."""

    def messages(self, query: str, *, namespace: str, as_of: int | None = None) -> Mapping[int, float]:
        """Message id -> score, higher is better; only what was known at `as_of` (microseconds)."""


class Recall:
    """Finds messages of one namespace again. `graph` is the lane of questions about relations, None without one."""

    def __init__(
        self,
        database: MemoryDatabase,
        spaces: VectorSpaces,
        clock: Clock,
        *,
        config: SemanticConfig | None = None,
        router: MemoryRouter | None = None,
        graph: MessageLane | None = None,
    ) -> None:
        self._database = database
        self._spaces = spaces
        self._clock = clock
        self._config = config or SemanticConfig()
        self._router = router or HeuristicRouter()
        self._graph = graph

    def recall(
        self,
        query: str,
        *,
        namespace: str,
        limit: int | None = None,
        where: MessageFilter | None = None,
        mode: str | None = None,
        as_of: int | None = None,
        now: int | None = None,
    ) -> RecallAnswer:
        """The messages that matter, best first; fewer than `limit` only when fewer pass the filter and match.

        `mode` is hybrid, keyword or vector; None lets the router choose. `as_of`, here or in `where`, reads what was
        remembered and visible at that time; `now` anchors words such as "yesterday" and the decay: microseconds, the
        clock's time by default. Deleted messages never come. Limits are clamped to [1, 1000]. Raises InputError.
        """
        if mode is not None and mode not in MODES:
            raise errors.InputError(f"recall mode is {mode!r}: use one of {', '.join(MODES)}")
        wanted = max(1, min(self._config.recall_limit if limit is None else limit, MAX_LIMIT))
        moment = self._clock.now() if now is None else now
        given = where or MessageFilter()
        as_of = min((time for time in (as_of, given.as_of) if time is not None), default=None)
        if as_of is not None:
            moment = min(moment, as_of)
        given = replace(given, as_of=as_of)
        routing = Routing(MemoryRoute.HYBRID, query) if mode else self._router.route(query, now=moment)
        meaning = _Meaning(self._spaces, routing.query)
        question = _Question(
            query, routing, namespace, given, wanted, max(_DEPTH, 2 * wanted), moment, meaning
        )
        answer = self._answer(question, mode)
        if routing.since is None or len(routing.query.split()) > _LONGEST_DATED:
            return answer
        within = self._answer(replace(question, where=_within(given, routing), places={}), mode)
        return _period_first(within, answer, wanted)

    def _answer(self, question: _Question, mode: str | None) -> RecallAnswer:
        degraded: dict[str, str] = {}
        legs = self._legs(question, mode, degraded)
        held = self._held(question) if mode != "vector" else {}
        found = dict.fromkeys([*(MessageId(item) for leg in legs.values() for item in leg), *held])
        places = self._places(question, found)
        weights = self._weights(places.values())
        counts = {"keyword": weights.keyword, "vector": weights.vector, "graph": self._graph_weight(question)}
        ranked = fuse([Leg(name, counts[name], leg) for name, leg in legs.items()])
        scores = self._scores(ranked, held, places, weights.session, question.now)
        chosen = self._diverse(scores, held, question, by_meaning=mode != "keyword" and not degraded)
        with self._database.read() as unit:
            messages = unit.messages.get(question.namespace, chosen)
        by_id = {hit.id: hit for hit in ranked}
        hits = tuple(
            RecallHit(
                messages[item],
                scores[item] + _FIRST * len(held.get(item, ())),
                _told(by_id.get(item), len(held.get(item, ())), corrected=places[item].corrected),
            )
            for item in chosen
            if item in messages
        )
        return RecallAnswer(hits, question.routing, tuple(degraded), tuple(degraded.values()))

    def _places(self, question: _Question, items: Iterable[MessageId]) -> dict[MessageId, Place]:
        """Of these and those known before, the ones that pass the filter."""
        unknown = [item for item in items if item not in question.places]
        if unknown:
            with self._database.read() as unit:
                found = unit.messages.places(question.namespace, unknown, question.where)
            question.places.update(found)
        return question.places

    # ---- legs ------------------------------------------------------------------------------------------------

    def _legs(
        self, question: _Question, mode: str | None, degraded: dict[str, str]
    ) -> dict[str, Mapping[int, float]]:
        """Scores by leg: keyword, vector or both, and what the graph has for a question about relations.

        Only the keyword route leaves the other leg out, and only while words find something: a vector alone is
        never better than both, and words cost no model call.
        """
        config = self._config
        legs: dict[str, Mapping[int, float]] = {}
        if mode is None and (stated := self._stated(question)):
            legs["graph"] = stated
        if mode == "vector" and self._spaces.embedder is None:
            degraded["vector"] = NO_VECTORS
        by_words = mode in ("keyword", "hybrid") or (mode is None and config.keyword_weight != 0)
        by_meaning = mode in ("vector", "hybrid") or (
            mode is None and config.enabled and config.vector_weight != 0
        )
        if by_words and by_meaning and question.routing.route is not MemoryRoute.KEYWORD:
            worded: Mapping[int, float] | None
            worded, meant = self._beside_each_other(question, degraded)
        else:
            worded = self._keyword(question) if by_words else None
            meant = self._meant(question, degraded) if by_meaning and not worded else None
        if worded is not None:
            legs["keyword"] = worded
        if meant is not None:
            legs["vector"] = meant
        return legs

    def _beside_each_other(
        self, question: _Question, degraded: dict[str, str]
    ) -> tuple[Mapping[int, float], Mapping[int, float] | None]:
        """Both legs at once: they spend their time outside the interpreter's lock."""
        beside = ThreadPoolExecutor(max_workers=1)
        try:
            meant = beside.submit(self._meant, question, degraded)
            return self._keyword(question), meant.result()
        finally:
            # To wait for the thread's end is to wait until a processor wakes up for it.
            beside.shutdown(wait=False)

    def _meant(self, question: _Question, degraded: dict[str, str]) -> Mapping[int, float] | None:
        try:
            return self._vector(question)
        except _OUT_OF_REACH as error:
            log.warning("recall_degraded leg=vector reason=%s", type(error).__name__)
            question.meaning.lost = error
            degraded["vector"] = str(error)
            return None

    def _stated(self, question: _Question) -> Mapping[int, float]:
        """The messages that state facts around what the question names; {} where the graph has none, or no weight."""
        words_alone = question.routing.route is MemoryRoute.KEYWORD
        if self._graph is None or not self._graph_weight(question) or words_alone:
            return {}
        found = self._graph.messages(question.query, namespace=question.namespace, as_of=question.where.as_of)
        places = self._places(question, [MessageId(item) for item in found])
        return {item: score for item, score in found.items() if MessageId(item) in places}

    def _graph_weight(self, question: _Question) -> float:
        related = question.routing.route is MemoryRoute.GRAPH
        return _RELATION_WEIGHT if related else self._config.graph_weight

    def _keyword(self, question: _Question) -> Mapping[int, float]:
        with self._database.read() as unit:
            found = unit.messages.search(
                question.namespace, question.query, limit=question.depth, where=question.where
            )
        question.places.update((item, place) for item, (_, place) in found.items())
        return {int(item): score for item, (score, _) in found.items()}

    def _vector(self, question: _Question) -> Mapping[int, float]:
        if question.meaning.lost is not None:
            raise question.meaning.lost
        space, vector = question.meaning.space, question.meaning.vector
        if space is None or vector is None:
            return {}
        asked = min(question.depth, _MOST_POINTS)
        while True:
            points = self._spaces.store.search(
                space.collection.physical,
                question.namespace,
                vector,
                limit=asked,
                where=_conditions(question.where),
            )
            best: dict[MessageId, float] = {}
            for point in points:
                if point.reaches(self._config.similarity_floor):
                    # The best window of a message counts, and points come best first.
                    best.setdefault(MessageId(row_of(point.payload, "message_id")), point.score)
            places = self._places(question, best)
            passing = {int(item): score for item, score in best.items() if item in places}
            if len(passing) >= question.limit or len(points) < asked or asked >= _MOST_POINTS:
                return passing
            # Vectors outlive their rows for a moment, and a long message has many: look further down.
            asked = min(4 * asked, _MOST_POINTS)

    def _held(self, question: _Question) -> dict[MessageId, list[str]]:
        """Which messages hold which identifiers of what was asked."""
        named = identifiers(question.asked)
        held: dict[MessageId, list[str]] = {}
        if not named:
            return held
        with self._database.read() as unit:
            for identifier in named:
                found = unit.messages.holders(
                    question.namespace,
                    identifier.phrases,
                    question.query,
                    limit=max(_HOLDERS, question.limit),
                    where=question.where,
                )
                for message in unit.messages.get(question.namespace, found).values():
                    if _holds(message, identifier):
                        held.setdefault(message.id, []).append(identifier.text)
        return held

    # ---- ranking ---------------------------------------------------------------------------------------------

    def _weights(self, places: Iterable[Place]) -> Weights:
        """Those that are set, and for the others what suits the length of what was found."""
        config = self._config
        weights = weights_by_length(place.length for place in places)
        given = {
            "keyword": config.keyword_weight,
            "vector": config.vector_weight,
            "session": config.session_weight,
        }
        return replace(weights, **{name: weight for name, weight in given.items() if weight is not None})

    def _scores(
        self,
        ranked: Sequence[Fused],
        held: Mapping[MessageId, Sequence[str]],
        places: Mapping[MessageId, Place],
        session_weight: float,
        now: int,
    ) -> dict[MessageId, float]:
        """Final scores in [0, 1 + session_weight], without what identifiers add."""
        config = self._config
        fused = dict.fromkeys(held, 0.0) | {MessageId(hit.id): hit.score for hit in ranked}
        fused = {item: score for item, score in fused.items() if item in places}
        scores = weigh(
            fused,
            {item: places[item] for item in fused},
            assistant_weight=config.assistant_weight,
            session_weight=session_weight,
        )
        if not config.temporal_decay_enabled:
            return scores
        half_life = config.temporal_decay_half_life_days
        return {
            item: decay(score, now - places[item].created_at, half_life) for item, score in scores.items()
        }

    def _diverse(
        self,
        scores: Mapping[MessageId, float],
        held: Mapping[MessageId, Sequence[str]],
        question: _Question,
        *,
        by_meaning: bool,
    ) -> list[MessageId]:
        """The best `limit`: those that hold more identifiers first, near-duplicates of better ones put back.

        What is nearly the same only vectors tell.
        """

        def order(item: MessageId) -> tuple[int, float, int]:
            return -len(held.get(item, ())), -scores[item], item

        ranked = sorted(scores, key=order)
        limit = question.limit
        if not self._config.mmr_enabled or len(ranked) < 2 or limit < 2:
            return ranked[:limit]
        first = self._vectors_of(ranked[:limit], question) if by_meaning else {}
        if not any_alike(first.values(), self._config.mmr_threshold):
            return ranked[:limit]
        head = ranked[: max(_DIVERSE, 2 * limit)]
        vectors = self._vectors_of(head, question)
        chosen: list[MessageId] = []
        for count in sorted({len(held.get(item, ())) for item in head}, reverse=True):
            tier = {item: scores[item] for item in head if len(held.get(item, ())) == count}
            chosen += mmr(
                tier,
                vectors,
                trade_off=self._config.mmr_lambda,
                limit=limit - len(chosen),
                threshold=self._config.mmr_threshold,
            )
        return chosen

    def _vectors_of(self, items: Sequence[MessageId], question: _Question) -> dict[MessageId, Vector]:
        """The first vector of each message, from whatever store is active; {} where that cannot be had."""
        namespace = question.namespace
        try:
            space = question.meaning.space
            if space is None:
                return {}
            physical = space.collection.physical
            points = {message_point_ids(namespace, physical, item, 1)[0]: item for item in items}
            found = self._spaces.store.fetch(physical, namespace, list(points))
        except _OUT_OF_REACH as error:
            log.warning("recall_without_mmr reason=%s", type(error).__name__)
            return {}
        return {points[point]: vector for point, vector in found.items()}


def _period_first(within: RecallAnswer, answer: RecallAnswer, limit: int) -> RecallAnswer:
    """What is from the period in front, the rest behind it: the period may not be about when it was said."""
    hits = {hit.message.id: hit for hit in answer.hits}
    for hit in within.hits:
        legs = {**hit.legs, "period": (1.0, 1)}
        hits[hit.message.id] = replace(hit, score=hit.score + _FIRST, legs=legs)
    ranked = sorted(hits.values(), key=lambda hit: (-hit.score, hit.message.id))
    return replace(answer, hits=tuple(ranked[:limit]))


def _within(where: MessageFilter, routing: Routing) -> MessageFilter:
    """The filter narrowed to the period that the query names."""
    since = max((time for time in (where.since, routing.since) if time is not None), default=None)
    before = min((time for time in (where.before, routing.before) if time is not None), default=None)
    return replace(where, since=since, before=before)


def _conditions(where: MessageFilter) -> Filter:
    """The part of the filter that vectors know; the rows decide the rest."""
    must: list[Condition] = []
    if where.conversation_id is not None:
        must.append(_any("conversation_id", where.conversation_id))
    if where.roles:
        must.append(_any("role", *(role.value for role in where.roles)))
    latest = [time for time in (where.before and where.before - 1, where.as_of) if time is not None]
    if where.since is not None or latest:
        must.append(Condition("created_at", at_least=where.since, at_most=min(latest, default=None)))
    # What is hidden has no vectors: to ask for what is visible would only cost a look at each.
    if where.agent_visible is False and where.as_of is None:
        must.append(_any("agent_visible", 0))
    return Filter(must=tuple(must))


def _any(field: str, *values: PayloadValue) -> Condition:
    return Condition(field, any_of=values)


def _holds(message: Message, identifier: Identifier) -> bool:
    if identifier.held_by(message.content):
        return True
    day = utc(message.created_at)
    return identifier.day and identifier.held_by(f"{day.day} {day:%B} {day.year}")


def _told(hit: Fused | None, identifiers_held: int, *, corrected: bool) -> dict[str, tuple[float, int]]:
    legs = dict(hit.legs) if hit else {}
    if corrected:
        legs["corrected"] = (CORRECTED_WEIGHT, 1)
    if identifiers_held:
        legs["exact"] = (float(identifiers_held), 1)
    return legs
