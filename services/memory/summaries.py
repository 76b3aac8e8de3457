"""Summaries: what a conversation was about, and the facts in it, written by a language model behind the agent's back.

A job takes the messages behind the last summary, asks the model once, and stores summary and facts in one
transaction. Their vectors come from a second job (see `summary_vectors`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from services import errors
from services.ids import ConversationId
from services.jobs.models import SUMMARIZE, NewJob
from services.jobs.run import JobRun
from services.language.recorded import Answer, Form, RecordedModel
from services.memory.models import ConversationName, Message, Origin
from services.memory.summary_prompt import (
    Digest,
    conversation_text,
    plain_request,
    read_plain,
    read_structured,
    structured_request,
)
from services.memory.summary_store import SummaryDatabase, SummaryRows, SummaryUnit
from services.memory.summary_vectors import SummaryVectors, embed_summary_job
from services.memory.tokens import TokenCounter
from services.ports import Clock, LanguageModel

# A second try of a reply that was cut off may take 4,096 tokens.
_REPLY_AND_INSTRUCTIONS = 5_120


@dataclass(frozen=True, slots=True)
class SummaryLimits:
    """How much goes into one summary, and how long it may take."""

    threshold: int = 50
    context_tokens: int = 16_384
    timeout_seconds: float = 60.0
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
        vectors: SummaryVectors,
        model: LanguageModel | None,
        counter: TokenCounter,
        clock: Clock,
        limits: SummaryLimits,
    ) -> None:
        self._database = database
        self._vectors = vectors
        self._model = None if model is None else RecordedModel(database, model)
        self._counter = counter
        self._clock = clock
        self._limits = limits

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
        namespace, limit = run.job.namespace, run.number("limit")
        conversation_id = ConversationId(run.number("conversation_id"))
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

    # ---- steps -----------------------------------------------------------------------------------------------

    def _ask(self, text: str, namespace: str) -> tuple[Answer[Digest], tuple[str, ...]]:
        """The digest, structured if possible, and the keys of the kept replies."""
        seconds = self._limits.timeout_seconds
        return self._require_model().ask_both_ways(
            Form(structured_request(text, timeout_seconds=seconds), read_structured),
            Form(plain_request(text, timeout_seconds=seconds), read_plain),
            namespace=namespace,
            seconds=seconds,
            clock=self._clock,
        )

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
        if self._vectors.wanted:
            unit.jobs.enqueue([embed_summary_job(namespace, summary_id)])

    def _require_model(self) -> RecordedModel:
        if self._model is None:
            raise errors.InputError(
                'no language model is configured, and summaries need one: set llm.provider = "openai" with '
                "llm.base_url and llm.model"
            )
        return self._model


def _job(namespace: str, conversation_id: ConversationId, limit: int) -> NewJob:
    payload = {"conversation_id": conversation_id, "limit": limit}
    return NewJob(SUMMARIZE, payload, namespace, dedupe_key=str(conversation_id))


def _still_there(unit: SummaryUnit, namespace: str, taken: Sequence[Message], cursor: int) -> bool:
    conversation_id = taken[0].conversation_id
    unchanged = unit.summaries.cursor(namespace, conversation_id) == cursor
    return unchanged and len(unit.messages.get(namespace, [message.id for message in taken])) == len(taken)
