"""Conversation memory: remembering, recalling, reading back, compacting, forgetting.

`remember` writes the message and the job that embeds it in one transaction and returns; everything slow happens behind
it, and nothing that is down can make it fail but the database itself.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from services import errors
from services.embedding.store import CollectionState
from services.embedding.writing import removal_job
from services.ids import DEFAULT_NAMESPACE, ConversationId, MessageId, fields_hash
from services.jobs.models import RECONCILE, NewJob, scheduled
from services.memory.access import AccessCounts
from services.memory.models import (
    Conversation,
    ConversationName,
    EmbeddingRule,
    Forgotten,
    MemoryStats,
    Message,
    MessageFilter,
    NewMessage,
    Origin,
    Role,
    as_role,
    storable,
    unknown_conversation,
)
from services.memory.pairs import paired
from services.memory.recall import Recall, RecallAnswer
from services.memory.store import MemoryDatabase, MemoryUnit
from services.memory.summaries import summary_job_if_due
from services.memory.vectors import COLLECTION, MessageVectors

if TYPE_CHECKING:
    from services.context.builder import ContextBuilder
    from services.context.models import BuiltContext
    from services.corrections.models import UserCorrection
    from services.corrections.service import Corrections
    from services.graph.models import AsOf, GraphFact
    from services.graph.recall import GraphRecall

log = logging.getLogger(__name__)

_MESSAGES_PER_UNIT = 500

# The jobs that read these messages of a namespace for the graph.
GraphJobs = Callable[[str, Sequence[int]], Sequence[NewJob]]
# The job that looks whether this message of a namespace corrects something.
DetectionJob = Callable[[str, MessageId], NewJob]


class SemanticMemory:
    """What an agent said and heard. Every method acts on one namespace, the configured one by default.

    `with SemanticMemory.open() as memory:` is all it takes. Safe to share between threads, and so usable from asyncio
    as `await asyncio.to_thread(memory.recall, "...")`.
    """

    def __init__(
        self,
        database: MemoryDatabase,
        vectors: MessageVectors,
        recall: Recall,
        access: AccessCounts,
        *,
        namespace: str = DEFAULT_NAMESPACE,
        rule: EmbeddingRule | None = None,
        history_limit: int = 50,
        summarize_after: int = 0,
        detection_job: DetectionJob | None = None,
        corrections: Callable[[], Corrections] | None = None,
        context: Callable[[], ContextBuilder] | None = None,
        graph_jobs: GraphJobs | None = None,
        extract_graph: bool = False,
        graph: Callable[[], GraphRecall] | None = None,
    ) -> None:
        self._database = database
        self._vectors = vectors
        self._recall = recall
        self._access = access
        self._namespace = namespace
        self._rule = rule or EmbeddingRule()
        self._history_limit = history_limit
        self._summarize_after = summarize_after
        self._detection_job = detection_job
        self._corrections = corrections
        self._context = context
        self._graph_jobs = graph_jobs
        self._extract_graph = extract_graph
        self._graph = graph
        self._opened: Callable[[], None] | None = None

    @classmethod
    def open(
        cls, overrides: Mapping[str, object] | None = None, *, config: Path | None = None
    ) -> SemanticMemory:
        """Memory of its own, wired by settings from file and environment (and overrides such as `{"data_dir": "..."}`).

        Use it with `with`, or close it. Raises SettingsError.
        """
        # Wiring is the business of the layer above, which the package's public name stands for.
        from services import open_container

        container = open_container(overrides, config=config)
        memory = container.memory
        memory._opened = container.close  # noqa: SLF001 - of this very class
        return memory

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Store what is only counted so far, and give back what `open` took. Once is enough, twice does no harm."""
        opened, self._opened = self._opened, None
        if opened is not None:
            # Closes this memory too, with all else.
            opened()
        else:
            self._access.close()

    # ---- writing ---------------------------------------------------------------------------------------------

    def remember(
        self,
        role: Role | str,
        content: str,
        *,
        conversation: ConversationName = None,
        speaker: str | None = None,
        parts: Sequence[Mapping[str, Any]] = (),
        created_at: int | None = None,
        agent_visible: bool = True,
        user_visible: bool = True,
        origin: Origin | None = None,
        namespace: str | None = None,
    ) -> MessageId:
        """Store a message; found by words at once, by meaning as soon as a worker has embedded it.

        `conversation` is an id, a key (created when new) or None for the latest one (created when there is none).
        `created_at` is microseconds, now by default. NUL characters are left out and lone surrogates replaced. Raises
        InputError, NotFound for an unknown id, and StorageBusy; an embedder, vector store or broker that is down
        only delays the vectors.
        """
        message = NewMessage(
            as_role(role),
            storable(content)[0],
            speaker=storable(speaker)[0] if speaker else None,
            origin=origin,
            parts=parts,
            agent_visible=agent_visible,
            user_visible=user_visible,
            created_at=created_at,
        )
        mine = namespace or self._namespace
        with self._database.write() as unit:
            found = _open(unit, mine, conversation)
            added = self._add(unit, mine, found, [message])[0]
            if self._detection_job is not None and message.by_person:
                self._ask_for_detection(unit, self._detection_job(mine, added), added)
            return added

    def remember_many(
        self,
        conversation: ConversationName,
        messages: Sequence[NewMessage],
        *,
        namespace: str | None = None,
    ) -> list[MessageId]:
        """Store messages in order, 500 to a transaction; the ids of those that are new.

        A message with an `import_key` that the conversation has already is left out, so that what was interrupted can
        be repeated. Unlike `remember`, it looks for no corrections in them. Raises what `remember` raises.
        """
        mine = namespace or self._namespace
        added: list[MessageId] = []
        chosen = conversation
        for at in range(0, len(messages), _MESSAGES_PER_UNIT):
            part = messages[at : at + _MESSAGES_PER_UNIT]
            with self._database.write() as unit:
                chosen = _open(unit, mine, chosen)
                keys = [message.import_key for message in part if message.import_key is not None]
                known = unit.messages.import_keys(chosen, keys)
                added += self._add(unit, mine, chosen, _news(part, known))
        return added

    def count_imported(
        self,
        conversation: ConversationId | str,
        keys: Collection[str] | None = None,
        *,
        namespace: str | None = None,
    ) -> int:
        """How many messages of the conversation were imported, or of these import keys; 0 where there is none."""
        with self._database.read() as unit:
            found = unit.messages.resolve(namespace or self._namespace, conversation)
            if found is None:
                return 0
            if keys is None:
                return unit.messages.count_imported(found)
            return len(unit.messages.import_keys(found, list(keys)))

    def spawn_graph_extraction(
        self, messages: Sequence[MessageId], *, namespace: str | None = None
    ) -> list[int]:
        """Have workers read these messages for the graph, also where [memory.graph] is not enabled; the jobs' ids.

        Returns at once. Only what users say in prose is read, and nothing twice. [] when the ledger is full: a
        backfill finds them. Raises StorageBusy.
        """
        with self._database.write() as unit:
            return self._ask_for_graph(unit, namespace or self._namespace, messages)

    def replace_conversation(
        self,
        conversation: ConversationId | str,
        *,
        first: MessageId,
        last: MessageId,
        summary: str,
        role: Role | str = Role.SYSTEM,
        namespace: str | None = None,
    ) -> MessageId:
        """Compact: hide the messages from `first` to `last` from the agent and put a summary in; its id.

        People still see the messages, and only the agent sees the summary. One transaction. Raises NotFound when
        the agent sees nothing of that range, and InputError for a blank summary.
        """
        if not summary.strip():
            raise errors.InputError("the summary is empty: what it replaces would be lost to the agent")
        mine = namespace or self._namespace
        message = NewMessage(as_role(role), storable(summary)[0], origin=Origin.SUMMARY, user_visible=False)
        with self._database.write() as unit:
            found = _existing(unit, mine, conversation)
            new = unit.messages.replace(mine, found, first=first, last=last, summary=self._judged(message))
            unit.jobs.enqueue([removal_job(mine)])
            self._vectors.ask_for(unit, mine, [new])
            return new

    def forget(
        self,
        *,
        messages: Sequence[MessageId] = (),
        conversation: ConversationId | str | None = None,
        everything: bool = False,
        namespace: str | None = None,
    ) -> Forgotten:
        """Erase messages, a conversation, or everything of the namespace (documents too); what went, counted.

        Rows, index entries and whatever retells them go in one transaction: summaries, key facts, compactions,
        corrections, sessions of the conversation, cached responses. Vectors are out of every answer at once and removed
        by a job. Raises InputError unless exactly one thing is named, and NotFound.
        """
        if sum((bool(messages), conversation is not None, everything)) != 1:
            raise errors.InputError(
                "nothing is forgotten by guessing: name messages, a conversation (--conversation) or everything "
                "(--everything)"
            )
        mine = namespace or self._namespace
        with self._database.write() as unit:
            if everything:
                gone = unit.messages.forget_everything(mine)
            elif conversation is not None:
                found = _existing(unit, mine, conversation)
                gone = unit.messages.forget_conversation(mine, found)
            else:
                gone = unit.messages.forget(mine, messages)
            unit.jobs.enqueue([removal_job(mine)])
            if gone.summaries:
                # It gives vectors to the key facts that others tell as well, in whose words they stand now.
                unit.jobs.enqueue([scheduled(RECONCILE)])
        return gone

    # ---- reading ---------------------------------------------------------------------------------------------

    def recall(
        self,
        query: str,
        *,
        limit: int | None = None,
        conversation: ConversationId | str | None = None,
        where: MessageFilter | None = None,
        mode: str | None = None,
        as_of: int | None = None,
        now: int | None = None,
        namespace: str | None = None,
    ) -> RecallAnswer:
        """The messages that matter for the query, best first; see Recall.recall.

        `conversation` narrows it to one, by id or key. What is found is counted as accessed, a little later. Raises
        InputError, and NotFound for an unknown conversation.
        """
        mine = namespace or self._namespace
        wanted = where or MessageFilter()
        if conversation is not None:
            with self._database.read() as unit:
                wanted = replace(wanted, conversation_id=_existing(unit, mine, conversation))
        answer = self._recall.recall(
            query, namespace=mine, limit=limit, where=wanted, mode=mode, as_of=as_of, now=now
        )
        self._access.note(hit.message.id for hit in answer.hits)
        return answer

    def build_context(
        self,
        query: str,
        token_budget: int | None = None,
        *,
        conversation: ConversationId | str | None = None,
        known: Collection[MessageId] = (),
        documents: bool | None = None,
        namespace: str | None = None,
    ) -> BuiltContext:
        """What is remembered that matters for the query, quoted for a prompt in at most `token_budget` tokens.

        The setting `context_budget_tokens` is the default. `conversation` is the one that the agent is in, `known` are
        messages that its prompt holds already; see ContextBuilder.build. Quoted messages count as accessed. Raises
        InputError.
        """
        if self._context is None:
            raise errors.InputError("this memory was made without a context builder: use SemanticMemory.open")
        mine = namespace or self._namespace
        current = None
        if conversation is not None:
            # One that is only about to begin has nothing to be left out.
            with self._database.read() as unit:
                current = unit.messages.resolve(mine, conversation)
        context = self._context().build(
            query, token_budget, namespace=mine, conversation=current, known=known, documents=documents
        )
        self._access.note(MessageId(source.id) for source in context.sources if source.kind == "message")
        return context

    def recall_corrections(
        self, query: str, *, limit: int | None = None, namespace: str | None = None
    ) -> list[UserCorrection]:
        """What users put right when the like was asked or said, best first, then what holds whatever is asked.

        See Corrections.recall.
        """
        if self._corrections is None:
            return []
        answer = self._corrections().recall(query, namespace=namespace or self._namespace, limit=limit)
        return [*(hit.correction for hit in answer.hits), *answer.standing]

    def recall_graph(
        self,
        query: str,
        *,
        limit: int | None = None,
        max_hops: int | None = None,
        as_of: AsOf | None = None,
        namespace: str | None = None,
    ) -> list[GraphFact]:
        """The facts around what the query names, best first; [] unless [memory.graph] is enabled.

        See GraphRecall.recall.
        """
        if self._graph is None:
            return []
        mine = namespace or self._namespace
        answer = self._graph().recall(query, namespace=mine, limit=limit, max_hops=max_hops, as_of=as_of)
        return list(answer.facts)

    def history(
        self,
        conversation: ConversationName = None,
        *,
        limit: int | None = None,
        agent_visible: bool | None = None,
        user_visible: bool | None = None,
        namespace: str | None = None,
    ) -> list[Message]:
        """The newest messages of a conversation, oldest first; [] when nothing was remembered yet.

        Visibility None is no filter. Tool calls and results come only in pairs, so that a model accepts the list.
        Raises NotFound for an unknown conversation.
        """
        mine = namespace or self._namespace
        where = MessageFilter(agent_visible=agent_visible, user_visible=user_visible)
        wanted = max(1, self._history_limit if limit is None else limit)
        with self._database.read() as unit:
            found = (
                unit.messages.resolve(mine, None)
                if conversation is None
                else _existing(unit, mine, conversation)
            )
            if found is None:
                return []
            return paired(unit.messages.history(mine, found, limit=wanted, where=where))

    def conversations(
        self, *, after: int = 0, limit: int = 1_000, namespace: str | None = None
    ) -> list[Conversation]:
        """A page of conversations in order of id."""
        with self._database.read() as unit:
            return unit.messages.conversations(namespace or self._namespace, after=after, limit=limit)

    def stats(self, *, namespace: str | None = None) -> MemoryStats:
        """What the namespace remembers, and how much of it has vectors."""
        with self._database.read() as unit:
            active = unit.collections.find(COLLECTION, CollectionState.ACTIVE)
            physical = active.physical if active else None
            return unit.messages.stats(namespace or self._namespace, physical)

    # ---- steps -----------------------------------------------------------------------------------------------

    def _judged(self, message: NewMessage) -> NewMessage:
        return replace(message, embeddable=message.embeddable and self._rule.wants(message))

    def _add(
        self, unit: MemoryUnit, namespace: str, conversation: ConversationId, messages: Sequence[NewMessage]
    ) -> list[MessageId]:
        judged = [self._judged(message) for message in messages]
        ids = unit.messages.add(namespace, conversation, judged)
        wanted = [found for found, message in zip(ids, judged, strict=True) if message.embeddable]
        self._vectors.ask_for(unit, namespace, wanted)
        self._ask_for_summary(unit, namespace, conversation)
        if self._extract_graph:
            said = [found for found, message in zip(ids, judged, strict=True) if message.states_facts]
            self._ask_for_graph(unit, namespace, said)
        return ids

    def _ask_for_graph(self, unit: MemoryUnit, namespace: str, ids: Sequence[MessageId]) -> list[int]:
        try:
            return unit.jobs.enqueue(self._graph_jobs(namespace, ids) if self._graph_jobs and ids else [])
        except errors.BackPressure as error:
            log.warning("graph_waits_for_backfill messages=%d reason=%s", len(ids), error)
            return []

    def _ask_for_detection(self, unit: MemoryUnit, detection: NewJob, message_id: MessageId) -> None:
        try:
            unit.jobs.enqueue([detection])
        except errors.BackPressure as error:
            unit.messages.defer_detection(message_id)
            log.warning("correction_waits_for_backfill message=%d reason=%s", message_id, error)

    def _ask_for_summary(self, unit: MemoryUnit, namespace: str, conversation: ConversationId) -> None:
        job = summary_job_if_due(unit, namespace, conversation, self._summarize_after)
        try:
            unit.jobs.enqueue([job] if job else [])
        except errors.BackPressure as error:
            # The next message asks again.
            log.warning("summary_waits_for_next_message reason=%s", error)


def import_key(message: NewMessage, occurrence: int) -> str:
    """What an import knows a message by: what it says, who says it and when, and which repetition of that it is."""
    when = "" if message.created_at is None else str(message.created_at)
    parts = json.dumps([dict(part) for part in message.parts], sort_keys=True)
    return fields_hash(message.role, message.speaker or "", when, message.content, parts, str(occurrence))


def _news(messages: Sequence[NewMessage], known: set[str]) -> list[NewMessage]:
    fresh = []
    for message in messages:
        if message.import_key is None or message.import_key not in known:
            fresh.append(message)
            known |= {message.import_key} if message.import_key is not None else set()
    return fresh


def _open(unit: MemoryUnit, namespace: str, conversation: ConversationName) -> ConversationId:
    """The conversation of that name, made if it may be: the parent exists before its first message."""
    found = unit.messages.resolve(namespace, conversation)
    if found is not None:
        return found
    if isinstance(conversation, int):
        raise unknown_conversation(namespace, conversation)
    if conversation == "":
        raise errors.InputError(
            "the key of a conversation is empty: name it, or leave it out for the latest one"
        )
    return unit.messages.create_conversation(namespace, key=conversation)


def _existing(unit: MemoryUnit, namespace: str, conversation: ConversationId | str) -> ConversationId:
    found = unit.messages.resolve(namespace, conversation)
    if found is None:
        raise unknown_conversation(namespace, conversation)
    return found
