"""When two facts say the same thing. Pure.

Vectors alone do not tell: a model finds "the key is rotated every 30 days" and "every 90 days" more alike (0.98) than
many a rewording, and dropping the second would lose what was corrected. Keeping a repetition costs little, so that
whatever might be news is kept.
"""

from __future__ import annotations

import re

from services.retrieval.query import STOP_WORDS

# Words of grammar that turn a fact into another one.
_TURNING = frozenset("no not never without nor before after more less off only t".split())
_NUMBERS = frozenset(
    "zero one two three four five six seven eight nine ten eleven twelve twenty thirty forty fifty sixty seventy "
    "eighty ninety hundred thousand million once twice first second third half".split()
)
# Words that share so much of their beginning are forms of one word.
_STEM_CHARACTERS = 4


def same_claim(first: str, second: str) -> bool:
    """Whether one of two facts whose vectors are almost equal can go.

    They must name the same numbers, names and negations, and have their common words in the same order, save that
    what stood at the end may stand at the beginning.
    """
    one, other = _words(first), _words(second)
    for stem in one.keys() ^ other.keys():
        word = one.get(stem) or other[stem]
        if _is_telling(word):
            return False
    common = [stem for stem in one if stem in other]
    return _is_rotation(common, [stem for stem in other if stem in one])


def _words(text: str) -> dict[str, str]:
    """Stem -> word as written, in order of appearance, without words of mere grammar."""
    found: dict[str, str] = {}
    for word in re.findall(r"\w+", text):
        lower = word.lower()
        if lower in _TURNING or lower not in STOP_WORDS:
            whole = lower in _NUMBERS or not lower.isalpha() or not lower.isascii()
            found.setdefault(lower if whole else lower[:_STEM_CHARACTERS], word)
    return found


def _is_telling(word: str) -> bool:
    """Whether a fact with this word is another one than a fact without it."""
    lower = word.lower()
    return lower in _TURNING or lower in _NUMBERS or word != lower or not word.isascii() or not word.isalpha()


def _is_rotation(one: list[str], other: list[str]) -> bool:
    return not one or any(one[at:] + one[:at] == other for at in range(len(one)))
