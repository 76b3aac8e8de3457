"""The values of the response cache: frozen, checked where they are made."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Self

from services import errors

MAX_TTL_SECONDS = 31_536_000
_MIB = 1024 * 1024
_LONGEST_ID = 18


class SourceKind(StrEnum):
    """What an answer can be made of."""

    MESSAGE = "message"
    SUMMARY = "summary"
    KEY_FACT = "key_fact"
    DOCUMENT = "document"
    CHUNK = "chunk"
    CORRECTION = "correction"
    EDGE = "edge"


@dataclass(frozen=True, slots=True)
class Source:
    """A stored row that an answer was made of: when the row changes or goes, the answer goes with it."""

    kind: SourceKind
    id: int

    def __str__(self) -> str:
        return f"{self.kind}:{self.id}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """The opposite of `str`, such as `message:12`. Raises InputError."""
        kind, _, number = text.partition(":")
        if kind not in set(SourceKind) or not number.isdecimal() or len(number) > _LONGEST_ID:
            raise errors.InputError(
                f"source is {text!r}: use one of {', '.join(SourceKind)}, a colon and an id, such as message:12"
            )
        return cls(SourceKind(kind), int(number))


@dataclass(frozen=True, slots=True)
class CacheRequest:
    """A request to a language model: two requests share an answer only if all of this is equal.

    `model` names server and model as far as they matter. `sampling` is everything that shapes the reply: temperature,
    seed, limits, response format; None in it counts as absent. All values are JSON; 1 and 1.0 are equal.
    """

    model: str
    messages: Sequence[Mapping[str, Any]]
    system: str = ""
    sampling: Mapping[str, Any] = field(default_factory=dict)
    tools: Sequence[Mapping[str, Any]] = ()


@dataclass(frozen=True, slots=True)
class CachedResponse:
    """A stored answer. Times are microseconds; `similarity` is 1.0 unless the question was only a similar one."""

    key: str
    text: str
    model: str
    created_at: int
    expires_at: int
    similarity: float = 1.0


@dataclass(frozen=True, slots=True)
class CacheLimits:
    """How long answers live and how many there may be, in all namespaces together; the oldest go first.

    `lease_seconds` is how long others wait for a caller that has died. Raises InputError.
    """

    ttl_seconds: float = 3_600.0
    max_entries: int = 100_000
    max_bytes: int = 256 * _MIB
    max_answer_bytes: int = _MIB
    lease_seconds: float = 60.0

    def __post_init__(self) -> None:
        checked_ttl(self.ttl_seconds)
        if not (math.isfinite(self.lease_seconds) and self.lease_seconds > 0):
            raise errors.InputError(f"lease_seconds is {self.lease_seconds}: use a number above 0")
        if min(self.max_entries, self.max_bytes, self.max_answer_bytes) < 1:
            raise errors.InputError("max_entries, max_bytes and max_answer_bytes must each be at least 1")


@dataclass(frozen=True, slots=True)
class SemanticMatch:
    """Answers to questions that mean the same: the best of the newest `max_candidates` from `threshold` on.

    The threshold is a cosine similarity in [0, 1]. Raises InputError.
    """

    threshold: float = 0.95
    max_candidates: int = 10

    def __post_init__(self) -> None:
        if not (math.isfinite(self.threshold) and 0 <= self.threshold <= 1):
            raise errors.InputError(f"the similarity threshold is {self.threshold}: use a number from 0 to 1")
        if self.max_candidates < 1:
            raise errors.InputError(f"max_candidates is {self.max_candidates}: use at least 1")


@dataclass(frozen=True, slots=True)
class CacheStats:
    """What is stored. `valid` entries answer, the others wait for their removal; `hits` is how often they answered."""

    entries: int
    valid: int
    size_bytes: int
    hits: int
    oldest_at: int | None
    newest_at: int | None


def checked_ttl(seconds: float) -> float:
    """The time to live, at most a year. Raises InputError for what is negative or no number."""
    if not seconds >= 0:  # so that NaN fails too
        raise errors.InputError(f"the time to live is {seconds} seconds: use 0 to {MAX_TTL_SECONDS}")
    return min(seconds, float(MAX_TTL_SECONDS))
