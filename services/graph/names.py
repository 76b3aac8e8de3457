"""How names, relations and facts are written down, so that one thing is found under one key. Pure.

Caps are bytes of UTF-8, cut on a character boundary.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

from services.graph.models import EntityType

MAX_NAME_BYTES = 512
MAX_RELATION_BYTES = 256
MAX_FACT_BYTES = 2_048
# Shorter names are command words and list markers more often than names, unless something speaks for them.
MIN_NAME_BYTES = 3
_TELLING = frozenset({EntityType.PERSON, EntityType.ORGANIZATION, EntityType.LANGUAGE, EntityType.PROJECT})

# What nobody sees: soft hyphen, direction marks, zero-width characters, byte order mark, tags, halves of pairs.
_UNSEEN = re.compile(
    "[\u00ad\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff"
    "\U000e0000-\U000e007f]"
)
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f]")
_LINE_ENDS = re.compile("[\t\n\x0b\x0c\r\x85]+")
_JOINTS = re.compile(r"[\s\-\u2010-\u2015_]+")
_SENTENCE_END = ".\u3002!"

# Words that say what kind of thing a name is, not which.
_GENERIC = frozenset(
    "the lang language programming inc incorporated ltd limited llc plc corp corporation co company gmbh ag sa".split()
)
_DIGITS = re.compile(r"\d+")
_ROMAN = re.compile(r"[ivx]+")
# Kept apart by these: C, C++ and C#; .NET and Net; A* and A; Node.js and nodejs are one.
_TELLING_SIGNS = re.compile(r"[+#*@$!%&/\\=~^|<>]|(?<!\w)\.(?=\w)")
_ACCENTS = re.compile("(?<=[a-z])[\u0300-\u036f]+")
_IDENTIFIER = re.compile(r"[a-z][A-Z]|\w_\w|\w[/\\:@]\w|\w\(|^[\da-fA-F]{8}[\da-fA-F-]*$")
_LATIN = re.compile("[a-z]")
# Names that share this much of their letters are variants of one another, which is to say: two things.
_NEAR = 0.6


def canonical(name: str) -> str:
    """The key of a name: equal for all ways of writing it. "" for what is no name."""
    return cut(" ".join(_folded(_stripped(name)).split()), MAX_NAME_BYTES)


def display(name: str) -> str:
    """A name as it is shown: one line, its case kept."""
    return cut(" ".join(unicodedata.normalize("NFC", _stripped(name)).split()), MAX_NAME_BYTES)


def relation(text: str) -> str:
    """The key of a relation: "Works at" and "works-at" are `works_at`. "" for what is none."""
    folded = _folded(_stripped(_LINE_ENDS.sub(" ", text)))
    return cut(_JOINTS.sub("_", folded).strip("_"), MAX_RELATION_BYTES).strip("_")


def fact_text(text: str) -> str:
    """A fact as it is stored and shown: one line, its case kept."""
    spaced = _stripped(_LINE_ENDS.sub(" ", text))
    return cut(" ".join(unicodedata.normalize("NFC", spaced).split()), MAX_FACT_BYTES)


def same_fact(one: str, other: str) -> bool:
    """Whether two facts say the same in the same words; case and the last full stop do not count."""
    return one == other or canonical(one).rstrip(_SENTENCE_END) == canonical(other).rstrip(_SENTENCE_END)


def cut(text: str, limit: int) -> str:
    """At most `limit` bytes of UTF-8, never half a character, without blanks at the ends."""
    raw = text.encode()
    return (text if len(raw) <= limit else raw[:limit].decode(errors="ignore")).strip()


def acceptable(name: str, type: EntityType) -> bool:  # noqa: A002 - what it is
    """Whether an extractor may call something by this name.

    It needs a letter or digit, and three bytes (one sign of Chinese): so `go` and `cd` are none. A capital, a digit or
    a type that is more than a guess lets a shorter one pass: Go, UK, 5g, the language `r`.
    """
    key = canonical(name)
    if not any(char.isalnum() for char in key):
        return False
    telling = type in _TELLING or any(char.isupper() or char.isdigit() for char in name)
    return telling or len(key.encode()) >= MIN_NAME_BYTES


def better_display(stored: str, new: str) -> bool:
    """Whether a name is to be shown in its new form: the first one stays, unless it has no capital and this one has."""
    return stored == stored.lower() and new != new.lower() and canonical(stored) == canonical(new)


def joined_summary(parts: Sequence[str]) -> str | None:
    """What several texts say of one thing, each sentence once, in order; None when that is nothing. 2,048 bytes."""
    sentences: dict[str, str] = {}
    for part in parts:
        for sentence in re.split(r"(?<=[.!?\u3002])\s+|;\s+", fact_text(part)):
            key = canonical(sentence).rstrip(_SENTENCE_END)
            if key:
                sentences.setdefault(key, sentence)
    return cut(" ".join(sentences.values()), MAX_FACT_BYTES) or None


def may_merge(one: str, other: str) -> bool:
    """Whether two names may be taken for one thing because they mean alike, without anybody confirming it.

    Not when they are variants of one another: other digits (v1, v2), other signs (C, C++, C#), a few other letters
    (HTTP, HTTPS), one inside the other (Java, JavaScript). Nor when one is an identifier, a path or an address. Only
    blanks, hyphens, inner dots, accents and generic words do not count: Node.js is nodejs, Rust is rust-lang.
    """
    first, second = canonical(one), canonical(other)
    if _signs(first) != _signs(second) or _numbers(first) != _numbers(second):
        return False
    words, others = _words(first), _words(second)
    if "".join(words) == "".join(others):
        return True
    words, others = _telling(words), _telling(others)
    if words and words == others:
        return True
    if _IDENTIFIER.search(display(one)) or _IDENTIFIER.search(display(other)):
        return False
    # Names in scripts that a model cannot read look alike to it, all of them.
    if not (_LATIN.search(first) and _LATIN.search(second)):
        return False
    return not (set(words) & set(others)) and not _near("".join(words), "".join(others))


def _stripped(text: str) -> str:
    return _CONTROL.sub("", _UNSEEN.sub("", text))


def _folded(text: str) -> str:
    """Equal for texts that differ in case, width or composition alone (Unicode 3.13, D146)."""
    if text.isascii():
        return text.lower()
    apart = unicodedata.normalize("NFKD", unicodedata.normalize("NFD", text).casefold())
    return unicodedata.normalize("NFKC", apart.casefold())


def _signs(key: str) -> list[str]:
    return sorted(_TELLING_SIGNS.findall(key))


def _numbers(key: str) -> list[str]:
    """The digits of a key, and the words behind the first that may be Roman numerals."""
    return _DIGITS.findall(key) + [word for word in _words(key)[1:] if _ROMAN.fullmatch(word)]


def _words(key: str) -> list[str]:
    """Runs of letters, marks and digits, Latin letters without accents."""
    plain = unicodedata.normalize("NFC", _ACCENTS.sub("", unicodedata.normalize("NFD", key)))
    return "".join(char if unicodedata.category(char)[0] in "LMN" else " " for char in plain).split()


def _telling(words: Sequence[str]) -> list[str]:
    return [word for word in words if word not in _GENERIC]


def _near(one: str, other: str) -> bool:
    """Whether one is inside the other, or most letters of both stand in the same order."""
    if not one or not other:
        return True
    if one in other or other in one:
        return True
    return _common(one, other) / max(len(one), len(other)) >= _NEAR


def _common(one: str, other: str) -> int:
    """The length of the longest common subsequence."""
    row = [0] * (len(other) + 1)
    for char in one[:64]:
        before = 0
        for at, against in enumerate(other[:64], 1):
            here = row[at]
            row[at] = before + 1 if char == against else max(row[at], row[at - 1])
            before = here
    return row[-1]
