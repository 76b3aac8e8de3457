"""What the domains need from outside, as small protocols. Adapters implement them, `bootstrap` chooses.

Vectors are NumPy float32 arrays of unit length; NumPy itself is imported only by those who touch them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vector: TypeAlias = NDArray[np.float32]

PayloadValue: TypeAlias = str | int
EmbeddingKind: TypeAlias = Literal["document", "query"]


class Clock(Protocol):
    """Where time comes from, so that tests can move it."""

    def now(self) -> int:
        """Microseconds since 1970-01-01 UTC."""

    def monotonic(self) -> float:
        """Seconds that only ever grow; for durations."""

    def sleep(self, seconds: float) -> None:
        """Wait that long."""


class Entropy(Protocol):
    """Where randomness comes from, so that tests can fix it."""

    def token(self) -> str:
        """A fresh unguessable token of 32 hexadecimal digits."""

    def uniform(self, low: float, high: float) -> float:
        """A number between the two, both included."""


class Publisher(Protocol):
    """Rings the bell for queued work. Losing a ring costs time, never work: the ledger has the jobs."""

    def publish(self, queue: str, task: str, job_id: int) -> None:
        """Tell workers of `queue` that job `job_id` waits; raises TransientError when that is impossible."""


@dataclass(frozen=True, slots=True)
class EmbedderIdentity:
    """Which vector space a vector belongs to. Vectors of different identities are never compared."""

    provider: str
    model: str
    dimension: int

    @property
    def label(self) -> str:
        """`provider/model/dimension`, with a trailing `:latest` of the model removed."""
        return f"{self.provider}/{self.model.removesuffix(':latest')}/{self.dimension}"


class Embedder(Protocol):
    """Turns text into unit vectors of one space."""

    @property
    def identity(self) -> EmbedderIdentity:
        """The space of the vectors; a remote embedder is probed once. Raises ModelUnavailable."""

    def windows(self, text: str) -> list[str]:
        """Cut the text into pieces that the model reads whole; never empty for text with a word in it."""

    def embed(self, texts: Sequence[str], *, kind: EmbeddingKind) -> Vector:
        """Rows of shape (len(texts), dimension). Raises ModelUnavailable or ModelRejected."""


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """One question to a language model.

    `system` is our own words; whatever others wrote goes into `user`, delimited. With a `schema` (JSON Schema) the
    reply is to be one JSON object of it, which no server guarantees. `max_tokens` bounds the reply;
    `timeout_seconds` may shorten the configured time, never extend it. `namespace` says whose memory it is about: without
    one nothing is answered from a cache, nor is a `fresh` request, whose last reply was of no use.
    """

    system: str
    user: str
    schema: Mapping[str, Any] | None = None
    max_tokens: int = 1_024
    timeout_seconds: float | None = None
    namespace: str | None = None
    fresh: bool = False


@dataclass(frozen=True, slots=True)
class ChatReply:
    """What the model said, and how many tokens were paid for it (0 where the server does not tell)."""

    text: str
    prompt_tokens: int = 0
    completion_tokens: int = 0


class LanguageModel(Protocol):
    """Answers one question at a time, and remembers nothing between them."""

    @property
    def identity(self) -> str:
        """`provider/model`: replies of different identities are never taken for one another."""

    def complete(self, request: ChatRequest) -> ChatReply:
        """The whole reply, never a cut-off one.

        Raises ModelUnavailable, its kind ModelTimeout, ModelRejected, or ReplyUnusable for a reply that has no text
        or does not end.
        """


@dataclass(frozen=True, slots=True)
class Point:
    """One vector with what it stands for. `id` is a UUID, unique across namespaces: derive it with `ids.point_id`."""

    id: str
    vector: Vector
    payload: Mapping[str, PayloadValue]


@dataclass(frozen=True, slots=True)
class ScoredPoint:
    """A search hit; `score` is the cosine similarity in [-1, 1]."""

    id: str
    score: float
    payload: Mapping[str, PayloadValue]

    def reaches(self, threshold: float) -> bool:
        """Whether the score is at least that, to a millionth: float32 arithmetic is no more exact in any store."""
        return self.score >= threshold - 1e-6


@dataclass(frozen=True, slots=True)
class Condition:
    """One test of a payload field. A field that is absent or of another type fails it.

    `any_of` matches any listed value; `at_least`/`at_most` bound an integer, both included. A condition with neither
    holds for nothing, so that an empty list of allowed values lets nothing through.
    """

    field: str
    any_of: tuple[PayloadValue, ...] = ()
    at_least: int | None = None
    at_most: int | None = None


@dataclass(frozen=True, slots=True)
class Filter:
    """All of `must` and none of `must_not`."""

    must: tuple[Condition, ...] = ()
    must_not: tuple[Condition, ...] = ()


class VectorStore(Protocol):
    """Collections of points, each point in one namespace. Cosine similarity.

    There is no read without a namespace. Every call is bounded in time; a store that does not answer
    raises VectorStoreUnavailable. Limits are clamped to [1, 10_000].
    """

    def ensure_collection(self, name: str, dimension: int) -> None:
        """Create it if missing. Raises DimensionMismatch if it exists with another dimension."""

    def collection_exists(self, name: str) -> bool:
        """Whether the collection exists."""

    def drop_collection(self, name: str) -> None:
        """Remove it with all its points; unknown names are no error."""

    def upsert(self, name: str, namespace: str, points: Sequence[Point]) -> None:
        """Write the points, overwriting equal ids; readable when this returns.

        Raises NotFound for an unknown collection, DimensionMismatch for a wrong length, and InputError for NaN,
        infinity, zero vectors, bad ids or payloads.
        """

    def search(
        self, name: str, namespace: str, vector: Vector, *, limit: int, where: Filter | None = None
    ) -> list[ScoredPoint]:
        """Best first, ties by id; [] for an unknown collection. Raises DimensionMismatch."""

    def fetch(self, name: str, namespace: str, ids: Sequence[str]) -> dict[str, Vector]:
        """The vectors of those ids that exist."""

    def delete(self, name: str, namespace: str, ids: Sequence[str]) -> None:
        """Remove these points; unknown ids are no error."""

    def count(self, name: str, namespace: str | None = None) -> int:
        """How many points there are, in one namespace or in all."""

    def scroll(
        self, name: str, namespace: str, *, after: str | None = None, limit: int = 1_000
    ) -> list[tuple[str, Mapping[str, PayloadValue]]]:
        """A page of (id, payload) in id order, starting behind `after`; [] at the end."""

    def healthy(self) -> bool:
        """Whether the store answers now; never raises."""
