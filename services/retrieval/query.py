"""User text to full-text search terms. Pure; any string at all is a valid query.

User text never reaches MATCH raw: words are cut out by the index's own rules, quoted, and joined by OR, so that BM25
ranks and no word is required. Scripts written without blanks are searched by pairs of characters, and so are parts of words
in scripts whose words carry their articles and endings.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

MAX_TERMS = 64
MAX_QUERY_LENGTH = 16_384

# Kana, Han with extensions, Hangul, Thai, Lao, Tibetan, Myanmar, Khmer.
UNSPACED = re.compile(
    "[\u3005\u3007\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
    "\uac00-\ud7af\u0e00-\u0eff\u0f00-\u0fff\u1000-\u109f\u1780-\u17ff]+"
)
# Words of Hebrew, Arabic and the scripts of India.
_JOINED = re.compile(
    "[\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7-\u05f2\u0610-\u061a\u0620-\u065f\u066e-\u06d3\u06d5-\u06dc"
    "\u06df-\u06ef\u06fa-\u06ff\u0750-\u077f\u08a0-\u08ff\u0900-\u0963\u0970-\u0dff]{3,}"
)
# As long a part of a word is searched for: an index must not look for a thousand pairs in a row.
_LONGEST_PART = 40
_TOKEN = re.compile(r"\S+")
_HAN = re.compile("[\u3005\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")
# What makes a token an identifier, whose parts belong together: paths, qualified and snake-case names, versions.
_IDENTIFIER = re.compile(r"[/_\\]|::|\d[.:-]\d|[A-Za-z]-\d")

# Words that carry the grammar of an English question and nothing of its topic; the last line is what remains of
# contractions.
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
# The same for Chinese and for the Chinese characters of Japanese.
STOP_CHARACTERS = frozenset("的了是在和与及或吗呢吧啊么什哪多少几谁怎为何请问有被从到对于这那个些何誰幾")


def segment(text: str) -> str | None:
    """The text as it is indexed, where that is not the text itself; None where the same words would be found in both.

    Unspaced runs are replaced by their terms (one long word would make BM25 misjudge the length of the text), words
    that may be searched for by a part are followed by their pairs, and spelling is that of queries (NFKC).
    """
    whole = unicodedata.normalize("NFKC", text)
    cut = UNSPACED.sub(lambda run: f" {' '.join(_index_terms(run[0]))} ", whole)
    if _JOINED.search(cut):
        # Behind all that is written together with the word, whose parts stay together.
        cut = _TOKEN.sub(lambda token: " ".join([token[0], *_parts(token[0], len(token[0]))]), cut)
    if cut != whole:
        return cut
    return None if whole == text or _words(whole) == _words(text) else whole


def match_expression(query: str, *, scope: str, columns: str) -> str | None:
    """An FTS5 expression that ranks rows of `scope` by any term of the query; None when it has no term.

    `columns` names the searched ones, blank-separated.
    """
    terms = search_terms(query)
    return f"{in_scope(scope)} AND {any_of(terms, columns)}" if terms else None


def in_scope(scope: str) -> str:
    """An FTS5 expression for the rows of `scope`."""
    return f"scope : {_quote(scope)}"


def any_of(terms: Sequence[str], columns: str) -> str:
    """An FTS5 expression that ranks rows with any of these `search_terms` in one of the columns."""
    return f"{{{columns}}} : ({' OR '.join(terms)})"


def phrase_expression(phrases: Sequence[str], *, columns: str) -> str | None:
    """An FTS5 expression for rows with any of the phrases in one of the columns; None when there is no word in them."""
    found = [
        f"({' AND '.join(search_terms(phrase))})"
        if UNSPACED.search(phrase) or _JOINED.search(phrase)
        else _quote(" ".join(words))
        for phrase in phrases
        if (words := _words(phrase))
    ]
    return f"{{{columns}}} : ({' OR '.join(found)})" if found else None


def search_terms(query: str) -> list[str]:
    """Quoted FTS5 terms in order of appearance, without repeats; stop words only if there is nothing else."""
    cleaned = unicodedata.normalize("NFKC", query[:MAX_QUERY_LENGTH].replace("\x00", " "))
    pairs = [term for run in UNSPACED.findall(cleaned) for term in _run_terms(run)]
    tokens = UNSPACED.sub(" ", cleaned).split()
    words = [term for token in tokens for term in _word_terms(token)]
    wanted = [word for word in words if word.lower() not in STOP_WORDS]
    if not wanted and not pairs:
        wanted = words
    # Pairs in a row are in every word that contains this one.
    parts = [_quote(part) for token in tokens for part in _parts(token, _LONGEST_PART)]
    return list(dict.fromkeys([*map(_quote, wanted), *pairs, *parts]))[:MAX_TERMS]


def _word_terms(token: str) -> list[str]:
    """The words of a token; those of an identifier once more as a phrase, which lifts exact matches."""
    words = _words(token)
    if len(words) > 1 and _IDENTIFIER.search(token):
        return [" ".join(words), *words]
    return words


def _words(text: str) -> list[str]:
    # The index's token characters: letters, numbers, marks and private use.
    kept = "".join(char if _in_word(unicodedata.category(char)) else " " for char in text)
    return kept.split()


def _in_word(category: str) -> bool:
    return category[0] in "LNM" or category == "Co"


def _parts(token: str, longest: int) -> list[str]:
    """For each word in it that is searched for by its parts, its pairs in a row."""
    return [" ".join(_pairs(word[:longest])) for word in _JOINED.findall(token)]


def _pairs(run: str) -> list[str]:
    return [run[at : at + 2] for at in range(len(run) - 1)]


def _index_terms(run: str) -> list[str]:
    """Pairs, and what a search for one character needs: each Han character, and the end of any run."""
    return [*_pairs(run), *_HAN.findall(run[:-1]), run[-1]]


def _run_terms(run: str) -> list[str]:
    if len(run) == 1:
        # Pairs that begin with it are found by prefix, and its last place in a run stands alone.
        return [f"{_quote(run)} *"]
    pairs = [pair for pair in _pairs(run) if not STOP_CHARACTERS.intersection(pair)] or _pairs(run)
    singles = [char for char in _HAN.findall(run) if char not in STOP_CHARACTERS]
    return [_quote(term) for term in (*pairs, *singles)]


def _quote(word: str) -> str:
    return '"' + word.replace('"', '""') + '"'
