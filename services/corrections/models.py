"""The values of corrections."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from services.ids import MessageId


class CorrectionKind(StrEnum):
    """What a user does with an answer.

    `self_correction` puts the user's own words right and is never held against the answer. `instruction` says what is
    to be done from now on and objects to nothing.
    """

    SELF_CORRECTION = "self_correction"
    EXPLICIT_REJECTION = "explicit_rejection"
    FACTUAL = "factual"
    ALTERNATIVE_REQUEST = "alternative_request"
    REPETITION = "repetition"
    INSTRUCTION = "instruction"


@dataclass(frozen=True, slots=True)
class FeedbackSignal:
    """What a message says about the turn before it. `confidence` is in [0, 1].

    `targets_turn` says that exactly the turn before it is meant: the assistant's answer, or for a self-correction the
    user's own message.
    """

    kind: CorrectionKind
    confidence: float
    targets_turn: bool = False


@dataclass(frozen=True, slots=True)
class NewCorrection:
    """A correction to be stored.

    `message_id` is the message that corrects, `target_message_id` the one that is put right, and `request` (from
    `request_message_id`) what had been asked. With `lowers`, recall ranks the target lower from now on. A `standing` one
    holds whatever is asked.
    """

    kind: CorrectionKind
    correction_text: str
    confidence: float = 1.0
    original_output: str = ""
    request: str = ""
    message_id: MessageId | None = None
    target_message_id: MessageId | None = None
    request_message_id: MessageId | None = None
    lowers: bool = False
    standing: bool = False
    session_id: str | None = None
    skill_name: str | None = None


@dataclass(frozen=True, slots=True)
class UserCorrection:
    """A stored correction; see NewCorrection. Times are microseconds.

    While `retired_at` is set it was taken back: it is not recalled, and lowers nothing.
    """

    id: int
    namespace: str
    kind: CorrectionKind
    confidence: float
    correction_text: str
    original_output: str
    request: str
    message_id: MessageId | None
    target_message_id: MessageId | None
    request_message_id: MessageId | None
    lowers: bool
    standing: bool
    session_id: str | None
    skill_name: str | None
    created_at: int
    retired_at: int | None


@dataclass(frozen=True, slots=True)
class CorrectionText:
    """A correction as the embedder sees it: once by its own text, once by what had been asked."""

    id: int
    text: str


@dataclass(frozen=True, slots=True)
class StatedFact:
    """A fact of the graph that one message alone states, with the names that it is about."""

    edge_id: int
    subject: str
    object: str


@dataclass(frozen=True, slots=True)
class CorrectionHit:
    """A correction with its score: cosine similarity in [-1, 1], or BM25 where words had to do."""

    correction: UserCorrection
    score: float


@dataclass(frozen=True, slots=True)
class CorrectionAnswer:
    """Hits, best first, and what else holds whatever is asked, newest first.

    `degraded` is the reason why words had to do instead of vectors; empty otherwise.
    """

    hits: tuple[CorrectionHit, ...]
    degraded: str = ""
    standing: tuple[UserCorrection, ...] = ()
