"""Choosing what a context quotes: by value, each part within its share, no duplicates, never above the budget. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from services.cache.models import Source
from services.context.models import BuiltContext, Candidate, Part
from services.context.quoting import FRAME, quotation, rendered
from services.language.parsing import cut

Count = Callable[[str], int]

# What each part may take before the others have had theirs. Messages to facts as 5 to 3, like the specification's 5 % and
# 3 % of a window; the order is that of their value.
SHARES = {
    Part.CORRECTION: 0.10,
    Part.MESSAGE: 0.35,
    Part.DOCUMENT: 0.25,
    Part.FACT: 0.20,
    Part.SUMMARY: 0.10,
}
_ORDER = {part: place for place, part in enumerate(SHARES)}
# A shorter beginning of a text is worth nothing.
_LEAST_TOKENS = 32
_LEAST_CHARACTERS = 40


@dataclass(frozen=True, slots=True)
class _Ranked:
    """A candidate with its rank within its part and what quoting it costs."""

    candidate: Candidate
    rank: int
    tokens: int


class _Chosen:
    """What is quoted so far, in the order of choice, and what that makes superfluous."""

    def __init__(self, known: Iterable[Source]) -> None:
        self.quotes: list[Candidate] = []
        self._rows = set(known)
        self._texts: list[str] = []

    def wants(self, candidate: Candidate) -> bool:
        """Whether it says something new."""
        if not self._rows.isdisjoint({candidate.source, *candidate.same_as}):
            return False
        text = _normal(candidate.text)
        return not any(text in chosen for chosen in self._texts)

    def take(self, candidate: Candidate) -> None:
        """Quote it."""
        self.quotes.append(candidate)
        self._rows |= {candidate.source, *candidate.same_as}
        self._texts.append(_normal(candidate.text))


def fitted(
    candidates: Iterable[Candidate], budget: int | None, count: Count, *, known: Iterable[Source] = ()
) -> BuiltContext:
    """The context made of the best candidates, each part's best first; `known` rows are not quoted.

    First every part fills its share, then the best of what is left take what others did not need, and at last one text
    is cut to fill the rest. A text that could never come whole is cut to its part's share.
    """
    chosen = _Chosen(known)
    ranked = _ranked(candidates, count)
    if budget is None:
        for one in ranked:
            if chosen.wants(one.candidate):
                chosen.take(one.candidate)
    else:
        _fill(chosen, ranked, budget - count(FRAME), count)
    left_out = sum(chosen.wants(one.candidate) for one in ranked)
    quotes = _in_order(chosen.quotes)
    while budget is not None and quotes and count(rendered(quotes)) > budget:
        # Tokens of a whole are not quite the sum of those of its pieces.
        quotes.remove(chosen.quotes.pop())
        left_out += 1
    text = rendered(quotes)
    return BuiltContext(text, count(text), budget, tuple(quotes), left_out)


def _fill(chosen: _Chosen, ranked: Sequence[_Ranked], room: int, count: Count) -> None:
    total = sum(SHARES[part] for part in {one.candidate.part for one in ranked})
    left = room
    for part, weight in SHARES.items():
        share = int(room * weight / total) if total else 0
        for one in _of(part, ranked):
            fitting = _shortened(one, share, count) if one.tokens > room else one
            if fitting is not None and fitting.tokens <= share and chosen.wants(one.candidate):
                chosen.take(fitting.candidate)
                share, left = share - fitting.tokens, left - fitting.tokens
    for one in ranked:
        if one.tokens <= left and chosen.wants(one.candidate):
            chosen.take(one.candidate)
            left -= one.tokens
    for one in ranked:
        shorter = _shortened(one, left, count) if chosen.wants(one.candidate) else None
        if shorter is not None:
            chosen.take(shorter.candidate)
            left -= shorter.tokens


def _ranked(candidates: Iterable[Candidate], count: Count) -> list[_Ranked]:
    """The candidates that say something, the most valuable first: every part's best, then every part's second."""
    ranks: Counter[Part] = Counter()
    found = []
    for candidate in candidates:
        if _normal(candidate.text).strip():
            found.append(_Ranked(candidate, ranks[candidate.part], _cost(candidate, count)))
            ranks[candidate.part] += 1
    return sorted(found, key=lambda one: (one.rank, _ORDER[one.candidate.part]))


def _of(part: Part, ranked: Iterable[_Ranked]) -> Iterator[_Ranked]:
    return (one for one in ranked if one.candidate.part is part)


def _shortened(one: _Ranked, room: int, count: Count) -> _Ranked | None:
    """Its beginning, as long as there is room; None when nothing worth quoting would be left."""
    if room < _LEAST_TOKENS:
        return None
    text = one.candidate.text.strip()
    length = len(text) * room // one.tokens
    while length >= _LEAST_CHARACTERS:
        shorter = replace(one.candidate, text=cut(text, length), cut=True)
        tokens = _cost(shorter, count)
        if tokens <= room:
            return _Ranked(shorter, one.rank, tokens)
        length = length * 9 // 10
    return None


def _cost(candidate: Candidate, count: Count) -> int:
    return count(quotation(candidate) + "\n")


def _in_order(quotes: Iterable[Candidate]) -> list[Candidate]:
    """Part by part; what was said in the order in which it was said, everything else by value."""
    parts = list(Part)
    timed = (Part.MESSAGE, Part.SUMMARY)
    return sorted(
        quotes,
        key=lambda quote: (
            parts.index(quote.part),
            (quote.at or 0, quote.source.id) if quote.part in timed else (0, 0),
        ),
    )


def _normal(text: str) -> str:
    """For comparing: case and blanks do not count, and whole words are found in whole words only."""
    return f" {' '.join(text.casefold().split())} "
