"""Cutting prose into sentences, well enough to say what stands together. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

_END = re.compile(
    r"""(?<![.!?\u2026])[.!?\u2026]++["'\u201d\u2019)\]]*+(?=\s)|[\u3002\uff01\uff1f]["'\u201d\u300d\u300f]*|\n+"""
)
_LAST_WORD = re.compile(r"(\S+)$")
# Characters around a full stop that say whether it ends a sentence.
_NEAR = 40
# A full stop behind these ends no sentence; nor does one behind an initial.
_ABBREVIATIONS = frozenset(
    """
    mr mrs ms dr prof st mt ft jr sr gen col sgt capt lt rev hon inc ltd co corp bros vs etc no vol pp fig approx est dept
    univ assn ave blvd jan feb mar apr jun jul aug sep sept oct nov dec e.g i.e a.m p.m u.s u.k u.n d.c ca cf al bzw z.b
    """.split()
)


def sentences(text: str) -> Iterator[str]:
    """The sentences of the text, in order, without blanks around them; none is empty."""
    start = 0
    for end in _END.finditer(text):
        if end[0] == "." and _goes_on(
            text[max(start, end.start() - _NEAR) : end.start()], text[end.end() : end.end() + _NEAR]
        ):
            continue
        if sentence := text[start : end.end()].strip():
            yield sentence
        start = end.end()
    if sentence := text[start:].strip():
        yield sentence


def _goes_on(before: str, behind: str) -> bool:
    last = _LAST_WORD.search(before)
    word = last[1].lstrip("(\"'").lower() if last else ""
    is_initial = len(word) == 1 and word.isalpha() and last is not None and last[1][-1].isupper()
    # "I" ends more sentences than it begins names.
    return word in _ABBREVIATIONS or (is_initial and word != "i") or behind.lstrip()[:1].islower()
