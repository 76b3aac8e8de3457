"""The values of a context. Frozen; times are microseconds since 1970 UTC."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from services.cache.models import Source


class Part(StrEnum):
    """What a quotation is. In the order in which a context shows them."""

    CORRECTION = "correction"
    FACT = "fact"
    SUMMARY = "summary"
    DOCUMENT = "document"
    MESSAGE = "message"


@dataclass(frozen=True, slots=True)
class Candidate:
    """Something stored that may be quoted. `text` and `origin` are as stored: whoever prints them escapes them.

    `source` is cited. `marks` are words of ours (role, confidence). `same_as` are other rows that say the same, so that
    one of them is enough.
    """

    part: Part
    source: Source
    text: str
    score: float
    at: int | None = None
    origin: str = ""
    marks: Mapping[str, str] = field(default_factory=dict)
    same_as: frozenset[Source] = frozenset()
    cut: bool = False


@dataclass(frozen=True, slots=True)
class BuiltContext:
    """Text for a prompt, and what it quotes in the order of the text.

    `tokens` is the length of `text`, never above `budget` (None: no limit). `left_out` is how many candidates did not
    fit. `degraded` names the parts that could not be asked as they should, `reasons` says why, for people.
    """

    text: str
    tokens: int
    budget: int | None
    quotes: tuple[Candidate, ...] = ()
    left_out: int = 0
    degraded: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()

    @property
    def sources(self) -> tuple[Source, ...]:
        """The rows that are quoted: give them to the response cache, and an answer goes when one of them changes."""
        return tuple(quote.source for quote in self.quotes)
