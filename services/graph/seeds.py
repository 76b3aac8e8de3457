"""Which entities a question names, from surely to perhaps. Pure; the lookups are the caller's.

A name is found wherever it stands in the question, whatever its number of words; the longest one wins, so that the
New York Times is not about New York. In scripts without blanks any part of the question may be a name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from services.graph.names import canonical
from services.retrieval.query import STOP_WORDS, UNSPACED

MAX_SEEDS = 16
_MAX_WORDS = 64
_LONGEST_NAME_WORDS = 6
_MAX_RUN, _LONGEST_NAME_CHARACTERS = 64, 16
_AROUND_A_NAME = "\"'`.,;:!?()[]{}<>\u2026\u201c\u201d\u2018\u2019\u00ab\u00bb\u3002\uff0c\uff1f\uff01\u3001"
_POSSESSIVE = re.compile(r"['\u2019]s$", re.IGNORECASE)

EXACT, WORD, PREFIX, ALIAS, SUMMARY, MEANING = "exact", "word", "prefix", "alias", "summary", "meaning"
# Best and worst score of each tier; within one, hits are spaced by their rank.
_TIERS = {
    EXACT: (1.0, 1.0),
    WORD: (0.95, 0.8),
    PREFIX: (0.78, 0.6),
    ALIAS: (0.5, 0.5),
    SUMMARY: (0.3, 0.3),
    MEANING: (0.3, 0.2),
}


@dataclass(frozen=True, slots=True)
class Seed:
    """An entity that the question seems to name, how well it matches, in (0, 1], and by what."""

    entity_id: int
    score: float
    tier: str


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of the question that may be a name, and its canonical form."""

    start: int
    end: int
    name: str


def spans(question: str) -> list[Span]:
    """Every stretch of up to six words, or sixteen unspaced characters, that may be a name."""
    words = list(re.finditer(r"\S+", question))[:_MAX_WORDS]
    found: dict[Span, None] = {}
    for at, first in enumerate(words):
        for last in words[at : at + _LONGEST_NAME_WORDS]:
            for name in _forms(question[first.start() : last.end()]):
                if first is not last or len(words) == 1 or _may_be_name(name, first[0], at):
                    found[Span(first.start(), last.end(), name)] = None
    for run in UNSPACED.finditer(question):
        end = min(run.end(), run.start() + _MAX_RUN)
        for start in range(run.start(), end):
            for stop in range(start + 2, min(end, start + _LONGEST_NAME_CHARACTERS) + 1):
                found[Span(start, stop, canonical(question[start:stop]))] = None
    return [span for span in found if span.name]


def longest(candidates: Iterable[Span], known: Mapping[str, object]) -> list[Span]:
    """Those that are known names, none inside or across a longer one, in order of the question."""
    taken: list[Span] = []
    matched = (span for span in candidates if span.name in known)
    for span in sorted(matched, key=lambda span: (span.start - span.end, span.start, span.name)):
        same = any((span.start, span.end) == (other.start, other.end) for other in taken)
        if same or all(span.end <= other.start or span.start >= other.end for other in taken):
            taken.append(span)
    return sorted(taken, key=lambda span: (span.start, span.name))


def rest_of(question: str, covered: Iterable[Span]) -> str:
    """The question without these stretches and without words that carry only its grammar."""
    text = list(question)
    for span in covered:
        text[span.start : span.end] = " " * (span.end - span.start)
    words = "".join(text).split()
    return " ".join(word for word in words if canonical(word.strip(_AROUND_A_NAME)) not in STOP_WORDS)


def prefixes(text: str, count: int = 8) -> list[str]:
    """The words, in canonical form, that may be the beginning of an alias: no stop words, three letters and more."""
    words = (canonical(word.strip(_AROUND_A_NAME)) for word in text.split())
    return list(dict.fromkeys(word for word in words if len(word) > 2 and word not in STOP_WORDS))[:count]


def ranked(tiers: Mapping[str, Sequence[int]], limit: int = MAX_SEEDS) -> list[Seed]:
    """The entities of each tier, given best first, as seeds: the best first, ties by id, one for each entity."""
    best: dict[int, Seed] = {}
    for tier, entities in tiers.items():
        high, low = _TIERS[tier]
        step = (high - low) / max(len(entities) - 1, 1)
        for rank, entity in enumerate(entities):
            seed = Seed(entity, high - rank * step, tier)
            if entity not in best or best[entity].score < seed.score:
                best[entity] = seed
    return sorted(best.values(), key=lambda seed: (-seed.score, seed.entity_id))[:limit]


def _forms(text: str) -> list[str]:
    """The ways to read a stretch as a name: as it stands, without what surrounds it, without a possessive."""
    bare = text.strip(_AROUND_A_NAME)
    # A leading dot belongs to .NET, a trailing one to the sentence.
    dotted = text.strip(_AROUND_A_NAME.replace(".", "")).rstrip(_AROUND_A_NAME)
    return list(dict.fromkeys(canonical(form) for form in (text, dotted, bare, _POSSESSIVE.sub("", bare))))


def _may_be_name(name: str, word: str, at: int) -> bool:
    """Whether a single word is more than grammar: "will" is none, "Will" inside a question is a person."""
    return name not in STOP_WORDS or (at > 0 and word[:1].isupper())
