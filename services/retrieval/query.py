"""User text to full-text search terms. Pure; any string at all is a valid query.

User text never reaches MATCH raw: words are cut out by the index's own rules, quoted, and joined by OR, so that BM25
ranks and no word is required. Scripts written without blanks are searched by pairs of characters.
"""

from __future__ import annotations

import re
import unicodedata

MAX_TERMS = 64
MAX_TERM_LENGTH = 64
MAX_QUERY_LENGTH = 16_384

# Kana, Han with extensions, Hangul, Thai, Lao, Tibetan, Myanmar, Khmer.
_UNSPACED = re.compile(
    "[\u3005\u3007\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
    "\uac00-\ud7af\u0e00-\u0eff\u0f00-\u0fff\u1000-\u109f\u1780-\u17ff]+"
)
_APOSTROPHES = "'’ʼ"

# Words that carry the grammar of an English question and nothing of its topic.
STOP_WORDS = frozenset(
    """
    a about above after again against all am an and any are as at be because been before being below between both but
    by can could did do does doing down during each few for from further had has have having he her here hers herself
    him himself his how i if in into is it its itself just let me more most my myself no nor not now of off on once
    only or other ought our ours ourselves out over own same she should so some such than that the their theirs them
    themselves then there these they this those through to too under until up very was we were what when where which
    while who whom whose why will with would you your yours yourself yourselves
    don doesn didn isn aren wasn weren hasn haven hadn won wouldn couldn shouldn mustn ain ll ve re d s t m
    """.split()
)


def segment(text: str) -> str | None:
    """The character pairs of all unspaced runs, blank-separated; None when there are none.

    Each run's last character stands alone too, so that a single character is found by prefix wherever it is.
    """
    runs = _UNSPACED.findall(unicodedata.normalize("NFKC", text))
    return " ".join(pair for run in runs for pair in _pairs(run)) or None


def match_expression(query: str, *, scope: str, columns: str) -> str | None:
    """An FTS5 expression that ranks rows of `scope` by any term of the query; None when it has no term.

    `columns` names the searched ones, blank-separated.
    """
    terms = search_terms(query)
    if not terms:
        return None
    return f"scope : {_quote(scope)} AND {{{columns}}} : ({' OR '.join(terms)})"


def search_terms(query: str) -> list[str]:
    """Quoted FTS5 terms in order of appearance, without repeats; stop words only if there is nothing else."""
    cleaned = query[:MAX_QUERY_LENGTH].replace("\x00", " ")
    unspaced = [_pair_terms(run) for run in _UNSPACED.findall(unicodedata.normalize("NFKC", cleaned))]
    spaced = _UNSPACED.sub(" ", cleaned)
    words = [term for token in spaced.split() for term in _word_terms(token)]
    wanted = [word for word in words if word.lower() not in STOP_WORDS]
    if not wanted and not unspaced:
        wanted = words
    found = [_quote(word) for word in wanted] + [term for run in unspaced for term in run]
    return list(dict.fromkeys(found))[:MAX_TERMS]


def _word_terms(token: str) -> list[str]:
    """`don't` is one phrase; `memory::recall` is the phrase and each of its words."""
    joined = token.translate({ord(mark): " " for mark in _APOSTROPHES})
    words = _words(token)
    if joined != token:
        return [" ".join(_words(joined))] if words else []
    return words if len(words) < 2 else [" ".join(words), *words]


def _words(text: str) -> list[str]:
    # The index's token characters: letters, numbers, marks and private use.
    kept = "".join(char if unicodedata.category(char)[0] in "LNM" or _private(char) else " " for char in text)
    return [word[:MAX_TERM_LENGTH] for word in kept.split()]


def _private(char: str) -> bool:
    return unicodedata.category(char) == "Co"


def _pairs(run: str) -> list[str]:
    return [run[at : at + 2] for at in range(len(run))]


def _pair_terms(run: str) -> list[str]:
    if len(run) == 1:
        return [f"{_quote(run)} *"]
    return [_quote(pair) for pair in _pairs(run)[:-1]]


def _quote(word: str) -> str:
    return '"' + word.replace('"', '""') + '"'
