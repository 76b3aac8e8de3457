"""Summaries: what a conversation was about, and the facts in it, written by a language model behind the agent's back.

A job takes the messages behind the last summary, asks the model once, and stores summary and facts in one
transaction. A second job gives them their vectors and drops facts that the namespace knows in other words.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from services import errors
from services.embedding.points import point_ids
from services.embedding.spaces import Space, VectorSpaces
from services.embedding.store import CollectionState
from services.embedding.upkeep import VectorOwner
from services.ids import ConversationId
from services.jobs.models import EMBED_SUMMARY, REMOVE_VECTORS, SUMMARIZE, NewJob
from services.jobs.run import JobRun
from services.language.recorded import Answer, RecordedModel
from services.memory.facts import same_claim
from services.memory.models import ConversationName, Message, Origin
from services.memory.summary_prompt import (
    Digest,
    conversation_text,
    plain_request,
    read_plain,
    read_structured,
    structured_request,
)
from services.memory.summary_store import RowText, SummaryDatabase, SummaryRows, SummaryUnit, TextRows
from services.memory.tokens import TokenCounter
from services.ports import Clock, Condition, Filter, LanguageModel, PayloadValue, Point

if TYPE_CHECKING:
    from services.ports import Vector

log = logging.getLogger(__name__)

SUMMARY_COLLECTION = "zeph_session_summaries"
FACT_COLLECTION = "zeph_key_facts"

# The rest of the time is for asking in plain words when the structured question fails.
_STRUCTURED_SHARE = 2 / 3
_LEAST_SECONDS = 1.0
# A second try of a reply that was cut off may take 4,096 tokens.
_REPLY_AND_INSTRUCTIONS = 5_120
# What asking in other words does not change: keys, permissions, addresses.
_HOPELESS = frozenset({401, 403, 404})
_NEIGHBOURS = 5


@dataclass(frozen=True, slots=True)
class SummaryLimits:
    """How much goes into one summary, how long it may take, and from which similarity on two facts are the same."""

    threshold: int = 50
    context_tokens: int = 16_384
    timeout_seconds: float = 60.0
    duplicate_similarity: float = 0.95
    redact: bool = True

    @property
    def prompt_tokens(self) -> int:
        """What is left for the conversation beside the instructions and the longest reply."""
        return max(self.context_tokens - _REPLY_AND_INSTRUCTIONS, self.context_tokens // 3)


class HasSummaries(Protocol):
    """A unit of work that reaches the summaries."""

    @property
    def summaries(self) -> SummaryRows:
        """Summaries."""


def summary_job_if_due(
    unit: HasSummaries, namespace: str, conversation_id: ConversationId, threshold: int
) -> NewJob | None:
    """The job to enqueue in this unit when more than `threshold` messages have no summary; a threshold of 0 is never.

    Of several such jobs of one conversation the ledger keeps one.
    """
    if threshold < 1 or not unit.summaries.is_due(namespace, conversation_id, threshold):
        return None
    return _job(namespace, conversation_id, threshold)


class Summarizer:
    """Writes summaries and key facts, through the job ledger. Without a language model it writes none."""

    def __init__(
        self,
        database: SummaryDatabase,
        spaces: VectorSpaces,
        model: LanguageModel | None,
        counter: TokenCounter,
        clock: Clock,
        limits: SummaryLimits,
    ) -> None:
        self._database = database
        self._spaces = spaces
        self._model = None if model is None else RecordedModel(database, model)
        self._counter = counter
        self._clock = clock
        self._limits = limits

    @property
    def owners(self) -> dict[str, VectorOwner]:
        """Summaries and key facts, as upkeep sees them, by collection."""
        return {
            SUMMARY_COLLECTION: VectorOwner(
                "summary", "summary_id", lambda unit: unit.summaries, self.embed_summaries, embed_summary_job
            ),
            FACT_COLLECTION: VectorOwner(
                "key_fact", "key_fact_id", lambda unit: unit.key_facts, self.embed_facts, embed_summary_job
            ),
        }

    def submit(self, conversation: ConversationName, *, namespace: str, limit: int | None = None) -> int:
        """Accept a summary of the next `limit` messages (default: the threshold); the job's id.

        It writes nothing for a conversation that has no more messages than `limit`. Raises NotFound, and InputError
        without a language model.
        """
        self._require_model()
        size = self._limits.threshold if limit is None else limit
        if size < 1:
            raise errors.InputError(f"a summary of {size} messages is none: use 1 or more")
        with self._database.write() as unit:
            found = unit.messages.resolve(namespace, conversation)
            if found is None:
                raise errors.NotFound(f"namespace {namespace} has no conversation {conversation or 'at all'}")
            return unit.jobs.enqueue([_job(namespace, found, size)])[0]

    # ---- for workers -----------------------------------------------------------------------------------------

    def summarize(self, run: JobRun) -> None:
        """Write the next summary of a conversation, with its facts; nothing when it has no more messages than `limit`."""
        namespace, limit = run.job.namespace, int(run.payload["limit"])
        conversation_id = ConversationId(int(run.payload["conversation_id"]))
        with self._database.read() as unit:
            cursor = unit.summaries.cursor(namespace, conversation_id)
            total = unit.messages.count(namespace, conversation_id)
            batch = unit.messages.after(namespace, conversation_id, cursor, limit=limit)
        if total <= limit or not batch:
            with self._database.write() as unit:
                run.finish(unit, {"status": "nothing_due"})
            return
        # The summary of a compaction retells messages that are here themselves.
        told = [message for message in batch if message.origin is not Origin.SUMMARY] or batch
        taken, text = conversation_text(
            told, self._counter, max_tokens=self._limits.prompt_tokens, redact=self._limits.redact
        )
        answer, keys = self._ask(text, namespace)
        run.checkpoint()
        with self._database.write() as unit:
            for key in keys:
                unit.replies.forget(namespace, key)
            # A summary must not retell what was deleted while the model wrote.
            unchanged = _still_there(unit, namespace, taken, cursor)
            if unchanged:
                self._store(unit, run, conversation_id, taken, answer)
                following = summary_job_if_due(unit, namespace, conversation_id, limit)
                unit.jobs.enqueue([following] if following else [])
        if not unchanged:
            raise errors.TransientError(
                f"conversation {conversation_id} changed while it was summarised", retry_after_seconds=0.5
            )

    def embed(self, run: JobRun) -> None:
        """Give a summary and its facts their vectors."""
        summary_id = int(run.payload["summary_id"])
        vectors = 0
        for name, embed in ((SUMMARY_COLLECTION, self.embed_summaries), (FACT_COLLECTION, self.embed_facts)):
            space = self._spaces.for_writing(name)
            vectors += 0 if space is None else embed(space, run.job.namespace, summary_id, run)
        with self._database.write(durable=False) as unit:
            run.finish(unit, {"vectors": vectors})

    def embed_summaries(self, space: Space, namespace: str, summary_id: int, run: JobRun) -> int:
        """Embed one summary, if it lacks vectors in this space; vectors made."""
        run.checkpoint()
        with self._database.read() as unit:
            rows = unit.summaries.unembedded(namespace, summary_id, space.collection.physical)
        pieces, vectors = _embedded(space, rows)
        return self._write(space, namespace, "summary", rows, pieces, vectors)

    def embed_facts(self, space: Space, namespace: str, summary_id: int, run: JobRun) -> int:
        """Embed the facts of one summary that lack vectors in this space; vectors made.

        In the active collection a fact that an older one says already in almost the same words is deleted instead.
        """
        run.checkpoint()
        with self._database.read() as unit:
            rows = unit.key_facts.unembedded(namespace, summary_id, space.collection.physical)
        pieces, vectors = _embedded(space, rows)
        if space.collection.state is CollectionState.ACTIVE:
            repeated = self._repeated(space, namespace, rows, vectors)
            if repeated:
                with self._database.write() as unit:
                    unit.key_facts.remove(namespace, sorted(repeated))
            kept = [number for number, row in enumerate(rows) if row.id not in repeated]
            rows = [rows[number] for number in kept]
            pieces = [pieces[number] for number in kept]
            vectors = [vectors[number] for number in kept]
        return self._write(space, namespace, "key_fact", rows, pieces, vectors)

    # ---- steps -----------------------------------------------------------------------------------------------

    def _ask(self, text: str, namespace: str) -> tuple[Answer[Digest], list[str]]:
        """The digest, structured if possible, and the keys of the kept replies."""
        model = self._require_model()
        deadline = self._clock.monotonic() + self._limits.timeout_seconds
        structured = structured_request(
            text, timeout_seconds=self._limits.timeout_seconds * _STRUCTURED_SHARE
        )
        keys = [model.key(structured)]
        try:
            return model.ask(structured, read_structured, namespace=namespace), keys
        except (errors.ModelTimeout, errors.ReplyUnusable, errors.ModelRejected) as error:
            left = deadline - self._clock.monotonic()
            if left < _LEAST_SECONDS or getattr(error, "status", None) in _HOPELESS:
                raise
            log.warning("structured_summary_failed reason=%s", error)
        plain = plain_request(text, timeout_seconds=left)
        return model.ask(plain, read_plain, namespace=namespace), [*keys, model.key(plain)]

    def _store(
        self,
        unit: SummaryUnit,
        run: JobRun,
        conversation_id: ConversationId,
        taken: Sequence[Message],
        answer: Answer[Digest],
    ) -> None:
        digest, namespace = answer.value, run.job.namespace
        summary_id = unit.summaries.add(
            namespace,
            conversation_id,
            digest.summary,
            first=taken[0].id,
            last=taken[-1].id,
            token_estimate=self._counter.count(digest.summary),
        )
        facts = unit.key_facts.add(namespace, conversation_id, summary_id, digest.key_facts)
        outcome = {
            "status": "summarized",
            "summary_id": summary_id,
            "messages": len(taken),
            "key_facts": len(facts),
            "entities": list(digest.entities),
            "partial": digest.partial,
            "prompt_tokens": answer.prompt_tokens,
            "completion_tokens": answer.completion_tokens,
        }
        run.finish(unit, outcome)
        if self._spaces.embedder is not None:
            unit.jobs.enqueue([embed_summary_job(namespace, summary_id)])

    def _repeated(
        self, space: Space, namespace: str, rows: Sequence[RowText], vectors: Sequence[Vector]
    ) -> set[int]:
        """The facts that an older one says already, here or in the store. A store that is away hides none."""
        repeated: set[int] = set()
        for number, row in enumerate(rows):
            vector = vectors[number][0]
            near = [
                rows[at].text
                for at in range(number)
                if rows[at].id not in repeated
                and float(vector @ vectors[at][0]) >= self._limits.duplicate_similarity
            ]
            try:
                near += self._stored_near(space, namespace, row, vector)
            except errors.TransientError as error:
                log.warning("duplicates_unchecked reason=%s", error)
            if any(same_claim(text, row.text) for text in near):
                repeated.add(row.id)
        return repeated

    def _stored_near(self, space: Space, namespace: str, row: RowText, vector: Vector) -> list[str]:
        """The older facts that are almost equal in meaning."""
        older = Filter(must=(Condition("key_fact_id", at_most=row.id - 1),))
        hits = self._spaces.store.search(
            space.collection.physical, namespace, vector, limit=_NEIGHBOURS, where=older
        )
        close = [
            int(hit.payload["key_fact_id"]) for hit in hits if hit.score >= self._limits.duplicate_similarity
        ]
        # A vector outlives its row for a moment, and what nobody can read is not known.
        with self._database.read() as unit:
            return [fact.fact for fact in unit.key_facts.get(namespace, close).values()]

    def _write(
        self,
        space: Space,
        namespace: str,
        kind: str,
        rows: Sequence[RowText],
        pieces: Sequence[Sequence[str]],
        vectors: Sequence[Vector],
    ) -> int:
        if not rows:
            return 0
        physical = space.collection.physical
        windows = [(row.id, len(parts)) for row, parts in zip(rows, pieces, strict=True)]
        points = [
            Point(point, vector, _payload(kind, row))
            for row, (_, count), made in zip(rows, windows, vectors, strict=True)
            for point, vector in zip(point_ids(kind, namespace, physical, row.id, count), made, strict=True)
        ]
        self._spaces.write(space, namespace, points)
        with self._database.write(durable=False) as unit:
            gone = _table(unit, kind).mark_embedded(physical, windows)
            orphans = [
                (namespace, physical, point)
                for row_id, count in windows
                if row_id in gone
                for point in point_ids(kind, namespace, physical, row_id, count)
            ]
            unit.collections.bury(orphans)
            if orphans:
                unit.jobs.enqueue([NewJob(REMOVE_VECTORS, namespace=namespace, dedupe_key="deleted")])
        return len(points)

    def _require_model(self) -> RecordedModel:
        if self._model is None:
            raise errors.InputError(
                'no language model is configured, and summaries need one: set llm.provider = "openai" with '
                "llm.base_url and llm.model"
            )
        return self._model


def embed_summary_job(namespace: str, summary_id: int) -> NewJob:
    """The job that gives a summary and its facts the vectors they lack."""
    return NewJob(EMBED_SUMMARY, {"summary_id": summary_id}, namespace, dedupe_key=str(summary_id))


def _job(namespace: str, conversation_id: ConversationId, limit: int) -> NewJob:
    payload = {"conversation_id": conversation_id, "limit": limit}
    return NewJob(SUMMARIZE, payload, namespace, dedupe_key=str(conversation_id))


def _still_there(unit: SummaryUnit, namespace: str, taken: Sequence[Message], cursor: int) -> bool:
    conversation_id = taken[0].conversation_id
    unchanged = unit.summaries.cursor(namespace, conversation_id) == cursor
    return unchanged and len(unit.messages.get(namespace, [message.id for message in taken])) == len(taken)


def _embedded(space: Space, rows: Sequence[RowText]) -> tuple[list[list[str]], list[Vector]]:
    """The windows of each text, and a matrix of their vectors for each."""
    pieces = [space.embedder.windows(row.text) or [row.text] for row in rows]
    flat = [piece for parts in pieces for piece in parts]
    matrix = space.embedder.embed(flat, kind="document") if flat else None
    vectors: list[Vector] = []
    at = 0
    for parts in pieces:
        if matrix is not None:
            vectors.append(matrix[at : at + len(parts)])
        at += len(parts)
    return pieces, vectors


def _payload(kind: str, row: RowText) -> dict[str, PayloadValue]:
    return {f"{kind}_id": row.id, "conversation_id": row.conversation_id}


_TABLES: dict[str, Callable[[SummaryUnit], TextRows]] = {
    "summary": lambda unit: unit.summaries,
    "key_fact": lambda unit: unit.key_facts,
}


def _table(unit: SummaryUnit, kind: str) -> TextRows:
    return _TABLES[kind](unit)
