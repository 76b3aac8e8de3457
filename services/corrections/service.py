"""Corrections: found in what users say, stored, recalled when the like is asked again, taken back, forgotten.

A correction never changes the message that it puts right. As long as it is in force, recall ranks that message lower,
and facts that the graph has from that message alone are taken back; taking the correction back or forgetting it is all
it takes to undo that.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from services import errors
from services.corrections.detection_jobs import detection_job
from services.corrections.detector import FeedbackDetector, is_standing
from services.corrections.facts import retire_facts
from services.corrections.judge import CorrectionJudge
from services.corrections.models import (
    CorrectionAnswer,
    CorrectionHit,
    CorrectionKind,
    FeedbackSignal,
    NewCorrection,
    UserCorrection,
)
from services.corrections.store import CorrectionDatabase, CorrectionUnit
from services.corrections.vectors import COLLECTION, CorrectionVectors, embed_job
from services.embedding.points import row_of
from services.embedding.spaces import VectorSpaces
from services.embedding.writing import removal_job
from services.ids import DEFAULT_NAMESPACE, MessageId
from services.jobs.run import JobRun
from services.language.parsing import cut
from services.memory.models import (
    ConversationName,
    Message,
    Origin,
    Role,
    carries_tools,
    storable,
    unknown_conversation,
)
from services.ports import Clock

log = logging.getLogger(__name__)

MAX_LIMIT = 1_000
# A correction has a vector for its text, one for the request, and more where these are long.
_POINTS_PER_HIT = 4
# Messages looked at for the turn before: tool calls may lie between.
_LOOK_BACK = 40
_PREVIOUS = 3
# Instructions that hold whatever is asked: the newest of them stand beside what is similar.
_STANDING_LIMIT = 5
_MISSING_PER_STEP = 100
_INSTRUCTED = 0.8
_TEXT_CHARACTERS = 4_000
_QUOTED_CHARACTERS = 1_000
# From here on it is certain that the turn before is wrong, and not only that the user wants something else.
_CERTAIN = 0.8
_CONTRADICTS = frozenset(
    {CorrectionKind.EXPLICIT_REJECTION, CorrectionKind.FACTUAL, CorrectionKind.SELF_CORRECTION}
)
_SPOKEN = frozenset({Origin.USER, Origin.ASSISTANT, Origin.IMPORT})
_OUT_OF_REACH = (errors.TransientError, errors.DimensionMismatch, errors.ModelRejected)


@dataclass(frozen=True, slots=True)
class Exchange:
    """The turns before a message, as far as a detector cares.

    `answer` is the assistant's turn that the message answers, None where the user speaks again or first; `previous` are
    the user's own last messages, oldest first.
    """

    answer: Message | None
    previous: tuple[Message, ...]


class Corrections:
    """The corrections of a namespace, the configured one by default."""

    def __init__(
        self,
        database: CorrectionDatabase,
        spaces: VectorSpaces,
        vectors: CorrectionVectors,
        clock: Clock,
        detector: FeedbackDetector,
        *,
        namespace: str = DEFAULT_NAMESPACE,
        judge: CorrectionJudge | None = None,
        recall_limit: int = 5,
        min_similarity: float = 0.75,
    ) -> None:
        self._database = database
        self._spaces = spaces
        self._vectors = vectors
        self._clock = clock
        self._detector = detector
        self._namespace = namespace
        self._judge = judge
        self._recall_limit = recall_limit
        self._min_similarity = min_similarity

    # ---- reading ---------------------------------------------------------------------------------------------

    def recall(
        self, query: str, *, namespace: str | None = None, limit: int | None = None
    ) -> CorrectionAnswer:
        """Corrections that matter for a query, best first: those said, or made of something asked, in like words.

        Less similar ones than `min_similarity` are left out. By words, and marked so, while there are no vectors or
        they cannot be reached. Beside them the newest five others that hold whatever is asked. Limits are clamped to
        [1, 1000]. Reads only.
        """
        mine = namespace or self._namespace
        wanted = max(1, min(self._recall_limit if limit is None else limit, MAX_LIMIT))
        degraded = ""
        try:
            scores = self._by_meaning(query, mine, wanted) if query.strip() else {}
        except _OUT_OF_REACH as error:
            log.warning("recall_degraded leg=corrections reason=%s", type(error).__name__)
            scores, degraded = None, str(error)
        with self._database.read() as unit:
            if scores is None:
                scores = unit.corrections.search(mine, query, limit=wanted)
                degraded = degraded or ("corrections have no vectors" if scores else "")
            rows = unit.corrections.get(mine, list(scores))
            standing = unit.corrections.select(mine, standing=True, limit=_STANDING_LIMIT + wanted)
        # Vectors outlive their rows for a moment, and those taken back keep theirs.
        hits = [
            CorrectionHit(rows[found], score)
            for found, score in scores.items()
            if found in rows and rows[found].retired_at is None
        ]
        hits = hits[:wanted]
        found = {hit.correction.id for hit in hits}
        others = [correction for correction in standing if correction.id not in found]
        return CorrectionAnswer(tuple(hits), degraded, tuple(others[:_STANDING_LIMIT]))

    def select(
        self,
        *,
        namespace: str | None = None,
        session: str | None = None,
        skill: str | None = None,
        conversation: ConversationName = None,
        kind: str | None = None,
        standing: bool | None = None,
        in_force: bool = True,
        limit: int = 50,
    ) -> list[UserCorrection]:
        """Newest first: all, or those of a session, a skill, a conversation, a kind, or those that hold from now on.

        `in_force=False` lists those taken back as well. Raises NotFound, InputError.
        """
        mine = namespace or self._namespace
        with self._database.read() as unit:
            found = None
            if conversation is not None:
                found = unit.messages.resolve(mine, conversation)
                if found is None:
                    raise unknown_conversation(mine, conversation)
            return unit.corrections.select(
                mine,
                session_id=session,
                skill_name=skill,
                conversation_id=found,
                kind=None if kind is None else as_kind(kind),
                standing=standing,
                in_force=in_force,
                limit=max(1, min(limit, MAX_LIMIT)),
            )

    def get(self, correction_id: int, *, namespace: str | None = None) -> UserCorrection:
        """One correction, those taken back included. Raises NotFound."""
        mine = namespace or self._namespace
        with self._database.read() as unit:
            found = unit.corrections.get(mine, [correction_id])
        if correction_id not in found:
            raise _unknown(mine, correction_id)
        return found[correction_id]

    # ---- writing ---------------------------------------------------------------------------------------------

    def add(
        self,
        text: str,
        *,
        kind: CorrectionKind | str = CorrectionKind.EXPLICIT_REJECTION,
        original_output: str = "",
        request: str = "",
        target: MessageId | None = None,
        session: str | None = None,
        skill: str | None = None,
        standing: bool | None = None,
        namespace: str | None = None,
    ) -> UserCorrection:
        """Store what somebody says is to be done otherwise.

        `target` is the message that is wrong: recall ranks it lower from now on. `request` says what it is about. A
        `standing` one is recalled whatever is asked; unless it is said, words such as "always" decide.
        Raises InputError, and NotFound for an unknown target.
        """
        if not text.strip():
            raise errors.InputError("the correction is empty: say what is to be done otherwise")
        mine = namespace or self._namespace
        with self._database.write() as unit:
            if target is not None:
                found = unit.messages.get(mine, [target])
                if target not in found:
                    raise errors.NotFound(f"namespace {mine} has no message {target}")
                original_output = original_output or found[target].content
            new = NewCorrection(
                as_kind(kind),
                _kept(text, _TEXT_CHARACTERS),
                original_output=_kept(original_output, _QUOTED_CHARACTERS),
                request=_kept(request, _QUOTED_CHARACTERS),
                target_message_id=target,
                lowers=target is not None,
                standing=is_standing(text) if standing is None else standing,
                session_id=session,
                skill_name=skill,
            )
            self._store(unit, mine, new)
            # Nothing else writes in this unit.
            return unit.corrections.select(mine, limit=1)[0]

    def undo(self, correction_id: int, *, namespace: str | None = None) -> None:
        """Take it back: it is recalled no more, and what it lowered is as before. Raises NotFound."""
        self._retire(correction_id, namespace, self._clock.now())

    def redo(self, correction_id: int, *, namespace: str | None = None) -> None:
        """Put it into force again. Raises NotFound."""
        self._retire(correction_id, namespace, None)

    def forget(self, correction_id: int, *, namespace: str | None = None) -> None:
        """Erase it, for good; its vectors go by a job. Raises NotFound."""
        mine = namespace or self._namespace
        with self._database.write() as unit:
            if not unit.corrections.remove(mine, correction_id):
                raise _unknown(mine, correction_id)
            unit.jobs.enqueue([removal_job(mine)])

    # ---- for workers -----------------------------------------------------------------------------------------

    def detect(self, run: JobRun) -> None:
        """Look whether a message corrects something, and store what it does: once, however often this runs."""
        namespace, message_id = run.job.namespace, MessageId(run.number("message_id"))
        with self._database.read() as unit:
            message = unit.messages.get(namespace, [message_id]).get(message_id)
            if message is None:
                # Deleted meanwhile: the job is done without an outcome.
                return
            before = unit.messages.before(namespace, message.conversation_id, message_id, limit=_LOOK_BACK)
        exchange = _exchange(before)
        signal, replies, unheard = self._judged(message, exchange, namespace)
        # What was decided by words alone although the model was to decide it.
        mark = {"partial": True} if unheard else {}
        run.checkpoint()
        with self._database.write() as unit:
            for key in replies:
                unit.replies.forget(namespace, key)
            # What was deleted meanwhile must not come back as a quotation.
            still = [message_id, *(found.id for found in _quoted(exchange))]
            if signal is None or len(unit.messages.get(namespace, still)) < len(still):
                run.finish(unit, {"status": "none"} | mark)
                return
            session = unit.corrections.session_of(namespace, message.conversation_id)
            added = self._store(unit, namespace, _correction(message, exchange, signal, session))
            run.finish(
                unit,
                {
                    "status": "known" if added is None else "stored",
                    "kind": signal.kind,
                    "correction_id": added,
                    **mark,
                },
            )

    def detect_missing(self, run: JobRun) -> None:
        """Enqueue the detection of the messages that came in while the ledger was full; what has no room yet waits on."""
        enqueued, more = 0, True
        while more:
            run.checkpoint()
            with self._database.write() as unit:
                missing = unit.corrections.undetected(limit=_MISSING_PER_STEP)
                try:
                    unit.jobs.enqueue([detection_job(namespace, message) for namespace, message in missing])
                except errors.BackPressure:
                    break
                unit.corrections.forget_undetected([message for _, message in missing])
            enqueued, more = enqueued + len(missing), len(missing) == _MISSING_PER_STEP
        with self._database.write(durable=False) as unit:
            run.finish(unit, {"enqueued": enqueued})

    # ---- steps -----------------------------------------------------------------------------------------------

    def _judged(
        self, message: Message, exchange: Exchange, namespace: str
    ) -> tuple[FeedbackSignal | None, list[str], bool]:
        """What the message is, the keys of the model replies that said so, and whether the model should have but did not."""
        answer = exchange.answer.content if exchange.answer else ""
        previous = [found.content for found in exchange.previous]
        signal = self._detector.assess(message.content, previous, answer=answer)
        if self._judge is not None and self._judge.is_asked(signal):
            judged = self._judge.ask(message.content, answer, namespace=namespace)
            if judged is not None:
                return self._worth_keeping(message, judged.signal), [judged.reply_key], False
            return self._worth_keeping(message, signal), [], True
        return self._worth_keeping(message, signal), [], False

    def _worth_keeping(self, message: Message, signal: FeedbackSignal | None) -> FeedbackSignal | None:
        """The signal if it is certain enough; that of an instruction where nothing else is to be kept."""
        confident = self._detector.confident(signal)
        if confident is None and is_standing(message.content):
            return self._detector.confident(FeedbackSignal(CorrectionKind.INSTRUCTION, _INSTRUCTED))
        return confident

    def _store(self, unit: CorrectionUnit, namespace: str, correction: NewCorrection) -> int | None:
        added = unit.corrections.add(namespace, correction)
        if added is not None:
            retire_facts(unit, unit.corrections.get(namespace, [added])[added])
        if added is not None and self._vectors.wanted:
            try:
                unit.jobs.enqueue([embed_job(namespace, added)])
            except errors.BackPressure as error:
                # The row is what counts: reconciliation finds what has no vectors.
                log.warning("correction_waits_for_reconciliation reason=%s", error)
        return added

    def _retire(self, correction_id: int, namespace: str | None, at: int | None) -> None:
        mine = namespace or self._namespace
        with self._database.write() as unit:
            if not unit.corrections.retire(mine, correction_id, at=at):
                raise _unknown(mine, correction_id)
            if at is None:
                retire_facts(unit, unit.corrections.get(mine, [correction_id])[correction_id])
            else:
                unit.corrections.restore_facts(correction_id)

    def _by_meaning(self, query: str, namespace: str, limit: int) -> dict[int, float] | None:
        """Correction id -> similarity, best first; None when there are no vectors."""
        space = self._spaces.for_reading(COLLECTION)
        if space is None:
            return None
        scores: dict[int, float] = {}
        for hit in self._spaces.search(space, namespace, query, limit=limit * _POINTS_PER_HIT):
            if hit.score >= self._min_similarity:
                # Hits come best first, so that the best vector of a correction counts.
                scores.setdefault(row_of(hit.payload, "correction_id"), hit.score)
        return scores


def as_kind(value: str) -> CorrectionKind:
    """The kind of that name. Raises InputError."""
    try:
        return CorrectionKind(value)
    except ValueError:
        raise errors.InputError(f"kind is {value!r}: use one of {', '.join(CorrectionKind)}") from None


def _exchange(before: Sequence[Message]) -> Exchange:
    """What was said before a message, without tool output, documents and summaries."""
    spoken = [
        message
        for message in before
        if message.role is not Role.SYSTEM and message.origin in _SPOKEN and message.content.strip()
    ]
    # Their results come back in the user's name.
    spoken = [
        message for message in spoken if message.role is Role.ASSISTANT or not carries_tools(message.parts)
    ]
    answer = spoken[-1] if spoken and spoken[-1].role is Role.ASSISTANT else None
    users = [message for message in spoken if message.role is Role.USER]
    return Exchange(answer, tuple(users[-_PREVIOUS:]))


def _correction(
    message: Message, exchange: Exchange, signal: FeedbackSignal, session: str | None
) -> NewCorrection:
    own = exchange.previous[-1] if exchange.previous else None
    about_self = signal.kind is CorrectionKind.SELF_CORRECTION
    target = (own if signal.targets_turn else None) if about_self else exchange.answer
    request = None if about_self else own
    if signal.kind is CorrectionKind.INSTRUCTION:
        # It is about what comes.
        target = request = None
    certain = signal.targets_turn and signal.confidence >= _CERTAIN and signal.kind in _CONTRADICTS
    return NewCorrection(
        signal.kind,
        _kept(message.content, _TEXT_CHARACTERS),
        confidence=signal.confidence,
        original_output=_kept(target.content if target else "", _QUOTED_CHARACTERS),
        request=_kept(request.content if request else "", _QUOTED_CHARACTERS),
        message_id=message.id,
        target_message_id=target.id if target else None,
        request_message_id=request.id if request else None,
        lowers=certain and target is not None,
        standing=is_standing(message.content),
        session_id=session,
    )


def _quoted(exchange: Exchange) -> list[Message]:
    """The messages of an exchange that a correction may quote."""
    return [*([exchange.answer] if exchange.answer else []), *exchange.previous[-1:]]


def _kept(text: str, characters: int) -> str:
    return cut(storable(text)[0].strip(), characters)


def _unknown(namespace: str, correction_id: int) -> errors.NotFound:
    return errors.NotFound(
        f"namespace {namespace} has no correction {correction_id}: `zeph corrections list` shows them"
    )
