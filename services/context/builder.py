"""The context builder: asks everything that remembers, and quotes what is worth most. Reads only.

What is down costs its part, never the context.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from services import errors
from services.cache.models import Source, SourceKind
from services.context.fitting import fitted
from services.context.models import BuiltContext, Candidate, Part
from services.corrections.models import CorrectionAnswer, UserCorrection
from services.documents.search import DocumentSearch
from services.documents.store import Passage
from services.graph.models import GraphFact
from services.ids import ConversationId, MessageId
from services.language.parsing import cut
from services.language.prompts import redacted
from services.memory.recall import Recall, RecallHit
from services.memory.summary_search import SummarySearch
from services.memory.tokens import TokenCounter

log = logging.getLogger(__name__)

# Messages are short: a large budget has room for many more than one recall returns by default.
_TOKENS_PER_MESSAGE = 60
_MOST_MESSAGES = 50
# Of what a correction was about; its own text is quoted whole.
_ABOUT_CHARACTERS = 200
_OUT_OF_REACH = (errors.TransientError, errors.DimensionMismatch, errors.ModelRejected)


class CorrectionRecall(Protocol):
    """Finds corrections again."""

    def recall(
        self, query: str, *, namespace: str | None = None, limit: int | None = None
    ) -> CorrectionAnswer:
        """Those that matter for the query, best first."""


class FactAnswer(Protocol):
    """What recall over the graph found."""

    @property
    def facts(self) -> Sequence[GraphFact]:
        """Best first."""


class FactRecall(Protocol):
    """Finds facts of the graph again."""

    def recall(self, query: str, *, namespace: str, limit: int | None = None) -> FactAnswer:
        """Those around what the query names."""


@dataclass(frozen=True, slots=True)
class ContextConfig:
    """Whom to ask for how much. `token_budget` 0 is no limit; what is not here asks as it is configured itself.

    `messages` are asked for at least, and more where the budget has room for them.
    """

    token_budget: int = 0
    messages: int = 5
    collection: str = "zeph_documents"
    documents: int = 3
    rag_enabled: bool = False
    summaries: int = 3
    redact: bool = True


@dataclass(frozen=True, slots=True)
class _Question:
    """What a context is wanted for."""

    query: str
    namespace: str
    budget: int | None
    conversation: ConversationId | None
    documents: bool


class ContextBuilder:
    """Builds the context for a question. Safe to share between threads."""

    def __init__(
        self,
        counter: TokenCounter,
        recall: Recall,
        summaries: SummarySearch,
        documents: DocumentSearch,
        corrections: CorrectionRecall,
        graph: FactRecall | None,
        config: ContextConfig,
    ) -> None:
        self._counter = counter
        self._recall = recall
        self._summaries = summaries
        self._documents = documents
        self._corrections = corrections
        self._graph = graph
        self._config = config

    def build(
        self,
        query: str,
        token_budget: int | None = None,
        *,
        namespace: str,
        conversation: ConversationId | None = None,
        known: Collection[MessageId] = (),
        documents: bool | None = None,
    ) -> BuiltContext:
        """Quotations that matter for the query, in at most `token_budget` tokens (that of the configuration by default).

        Corrections, facts of the graph where it is enabled, summaries of other conversations than `conversation`, passages of documents
        (as `rag_enabled` says, unless `documents` does) and messages, without those that are `known`. The same memory
        gives the same context. Raises InputError for a negative budget.
        """
        if token_budget is not None and token_budget < 0:
            raise errors.InputError(f"the token budget is {token_budget}: use 0 or more")
        budget = (self._config.token_budget or None) if token_budget is None else token_budget
        wanted = self._config.rag_enabled if documents is None else documents
        question = _Question(query, namespace, budget, conversation, wanted)
        degraded: dict[Part, str] = {}
        candidates: list[Candidate] = []
        for part, ask in self._parts.items():
            try:
                candidates += ask(question, degraded)
            except _OUT_OF_REACH as error:
                log.warning("context_degraded part=%s reason=%s", part, type(error).__name__)
                degraded[part] = str(error)
        if self._config.redact:
            candidates = [
                replace(one, text=redacted(one.text), origin=redacted(one.origin)) for one in candidates
            ]
        context = fitted(
            candidates,
            budget,
            self._counter.count,
            known=[Source(SourceKind.MESSAGE, message) for message in known],
        )
        return replace(context, degraded=tuple(degraded), reasons=tuple(degraded.values()))

    # ---- parts -----------------------------------------------------------------------------------------------

    @property
    def _parts(self) -> dict[Part, Callable[[_Question, dict[Part, str]], Iterator[Candidate]]]:
        return {
            Part.CORRECTION: self._found_corrections,
            Part.FACT: self._found_facts,
            Part.SUMMARY: self._found_summaries,
            Part.DOCUMENT: self._found_passages,
            Part.MESSAGE: self._found_messages,
        }

    def _found_corrections(self, question: _Question, degraded: dict[Part, str]) -> Iterator[Candidate]:
        answer = self._corrections.recall(question.query, namespace=question.namespace)
        if answer.degraded:
            degraded[Part.CORRECTION] = answer.degraded
        for hit in answer.hits:
            yield _correction(hit.correction, hit.score)
        for standing in answer.standing:
            yield _correction(standing, 0.0)

    def _found_facts(self, question: _Question, _degraded: dict[Part, str]) -> Iterator[Candidate]:
        if self._graph is None:
            return
        for fact in self._graph.recall(question.query, namespace=question.namespace).facts:
            # That two names stand together tells a model nothing that the text, quoted itself, does not.
            if fact.stated:
                yield _fact(fact)

    def _found_summaries(self, question: _Question, degraded: dict[Part, str]) -> Iterator[Candidate]:
        answer = self._summaries.search_summaries(
            question.query,
            namespace=question.namespace,
            limit=self._config.summaries,
            exclude_conversation=question.conversation,
        )
        if answer.degraded:
            degraded[Part.SUMMARY] = answer.degraded
        for hit in answer.hits:
            marks = {"conversation": str(hit.item.conversation_id)}
            source = Source(SourceKind.SUMMARY, hit.item.id)
            yield Candidate(
                Part.SUMMARY, source, hit.item.content, hit.score, hit.item.created_at, marks=marks
            )

    def _found_passages(self, question: _Question, degraded: dict[Part, str]) -> Iterator[Candidate]:
        if not question.documents:
            return
        answer = self._documents.search(
            question.query,
            collection=self._config.collection,
            namespace=question.namespace,
            limit=self._config.documents,
        )
        if answer.degraded:
            degraded[Part.DOCUMENT] = "; ".join(answer.reasons)
        for hit in answer.hits:
            yield _passage(hit.passage, hit.score)

    def _found_messages(self, question: _Question, degraded: dict[Part, str]) -> Iterator[Candidate]:
        room = min((question.budget or 0) // _TOKENS_PER_MESSAGE, _MOST_MESSAGES)
        answer = self._recall.recall(
            question.query, namespace=question.namespace, limit=max(self._config.messages, room)
        )
        if answer.degraded:
            degraded[Part.MESSAGE] = "; ".join(answer.reasons)
        for hit in answer.hits:
            yield _message(hit)


def _correction(found: UserCorrection, score: float) -> Candidate:
    about = [
        f"{label}: {cut(' '.join(text.split()), _ABOUT_CHARACTERS)}"
        for label, text in (("asked", found.request), ("answered", found.original_output))
        if text.strip()
    ]
    said = found.correction_text.strip()
    text = "\n".join([*about, f"corrected: {said}"]) if about else said
    same = {Source(SourceKind.MESSAGE, found.message_id)} if found.message_id is not None else set()
    source = Source(SourceKind.CORRECTION, found.id)
    marks = {"kind": found.kind.value}
    return Candidate(
        Part.CORRECTION, source, text, score, found.created_at, marks=marks, same_as=frozenset(same)
    )


def _fact(found: GraphFact) -> Candidate:
    # Names come from texts: a line break in one would look like another fact.
    relation = " ".join(f"{found.entity_name} {found.relation} {found.target_name}".split())
    fact = " ".join(found.fact.split())
    text = relation if not fact or fact == relation else f"{relation}: {fact}"
    marks = {"confidence": f"{found.confidence:.2f}"}
    source = Source(SourceKind.EDGE, found.edge_id)
    return Candidate(Part.FACT, source, text, found.score, found.valid_from, marks=marks)


def _passage(found: Passage, score: float) -> Candidate:
    page = f"page {found.page}" if found.page is not None else ""
    origin = ", ".join(filter(None, (found.source, page, " > ".join(found.heading))))
    source = Source(SourceKind.CHUNK, found.chunk_id)
    return Candidate(Part.DOCUMENT, source, found.text, score, found.updated_at, origin)


def _message(hit: RecallHit) -> Candidate:
    message = hit.message
    marks = {"role": message.role.value} | ({"corrected": "yes"} if "corrected" in hit.legs else {})
    source = Source(SourceKind.MESSAGE, message.id)
    return Candidate(
        Part.MESSAGE, source, message.content, hit.score, message.created_at, message.speaker or "", marks
    )
