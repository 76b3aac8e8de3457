"""What a query names exactly: tickets, paths, versions, code names, dates and quoted text. Pure.

Ranking by words or by meaning treats `PR-118` as nearly `PR-181`. Whoever names such a thing wants the messages that
hold it, so these come first.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from services.retrieval.query import MAX_QUERY_LENGTH, STOP_WORDS

MAX_IDENTIFIERS = 8
# What is longer is no name, and would take the patterns below too long.
_LONGEST = 300

_QUOTED = re.compile(
    # Neither a mark for inches, an apostrophe nor the end of a plural is one.
    r"(?<!\d)\"([^\"]{2,200})\"|“([^”]{2,200})”|„([^“”]{2,200})[“”]|«([^»]{2,200})»|`([^`]{2,200})`"
    r"|「([^」]{1,200})」|『([^』]{1,200})』"
    r"|(?<!\w)'(?!(?:em|til|cause|cuz|bout|tis|twas|n)\b|\d)(?=\S)([^'\n]{2,200})(?<=\S)(?:(?<!s)'|'(?!\s+\w))(?!\w)"
)
_MONTHS = "january february march april may june july august september october november december".split()
_MONTH = "|".join(f"{month[:3]}(?:{month[3:]})?" if month != "may" else month for month in _MONTHS)
_DATE = re.compile(
    rf"""\b(?:
        (?P<iso_year>\d{{4}})-(?P<iso_month>\d\d)-(?P<iso_day>\d\d)
      | (?P<day_first>\d{{1,2}})(?:st|nd|rd|th)?\ (?:of\ )?(?P<month_second>{_MONTH})\.?(?:,?\ (?P<year_third>\d{{4}}))?
      | (?P<month_first>{_MONTH})\.?\ (?P<day_second>\d{{1,2}})(?:st|nd|rd|th)?(?:,?\ (?P<year_last>\d{{4}}))?
    )\b""",
    re.IGNORECASE | re.VERBOSE,
)
_EDGES = " \t.,;:!?()[]{}<>'\"“”‘’«»`"
_SHAPES = (
    re.compile(r"#\d+|[\w-]+/[\w.-]+#\d+"),  # issues
    re.compile(r"[A-Za-z][A-Za-z0-9]*-\d[\w.-]*"),  # tickets
    re.compile(r"v?\d+(?:\.\d+)+\w*(?:[.+-]\w+)*|v\d+", re.IGNORECASE),  # versions and addresses
    re.compile(
        r"(?:[A-Za-z]:)?[$\w.@~-]*(?:[/\\]+[\w.@*-]+){2,}/?(?::\d+)*|[~.]?/[\w./-]+|[$~@][\w.-]*(?:[/\\][\w.-]+)+"
        r"|[\w-]+(?:[/\\][\w-]+)+\.\w{1,8}(?::\d+)*|[A-Za-z][\w-]{2,}[/\\][A-Za-z][\w-]{2,}"
    ),  # paths
    re.compile(r"\w+(?:::\w+)+|[^\WA-Za-z]*[A-Za-z][^\W_]*_\w+"),  # qualified and snake-case names
    re.compile(
        r"[\w.+-]+@[\w-]+\.[\w.-]+|https?://\S+|[\w-]+\.(?:[a-z]{1,4}\d?)(?::\d+)*"
    ),  # addresses and file names, with a line
    re.compile(r"[a-z]+[A-Z]\w*|[A-Z][a-z0-9]+[A-Z]\w*"),  # camel case
    re.compile(
        r"[A-Za-z]+\d[A-Za-z0-9]*|\d+[A-Za-z]+\d[A-Za-z0-9]*|[0-9a-f]{7,40}|\d{6,}"
    ),  # code names, hashes, numbers
    re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE),  # UUIDs
)
# An hour, an ordinal, a decade, a magnitude or an abbreviation is no identifier.
_ORDINARY = re.compile(
    r"\d+(?:st|nd|rd|th|s|am|pm|k|m|x|%)|\d{1,5}|[a-z]\.[a-z]|[a-f]{7,40}|etc\.\w*", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Identifier:
    """Something named exactly. `phrases` are its spellings as an index has them; `pattern` proves a text holds it.

    `day` tells a date, which a message also holds by having been said then.
    """

    text: str
    phrases: tuple[str, ...]
    pattern: re.Pattern[str]
    day: bool = False

    def held_by(self, text: str) -> bool:
        """Whether the text holds it, letter for letter except for case."""
        return self.pattern.search(unicodedata.normalize("NFKC", text)) is not None


def identifiers(query: str) -> list[Identifier]:
    """What the query names exactly, in order of appearance, at most eight."""
    known: dict[str, Identifier] = {}
    for identifier in _named(unicodedata.normalize("NFKC", query[:MAX_QUERY_LENGTH])):
        if identifier.phrases:
            known.setdefault(identifier.text.lower(), identifier)
        if len(known) == MAX_IDENTIFIERS:
            break
    return list(known.values())


def without_quotes(query: str) -> str:
    """The query with blanks in place of what it quotes, place for place."""
    return _QUOTED.sub(lambda match: " " * len(match[0]), query)


def _named(query: str) -> Iterator[Identifier]:
    """Each when it is asked for: to compile the patterns of a long list takes longer than the search."""
    for match in _QUOTED.finditer(query):
        yield _exact(next(filter(None, match.groups())).strip())
    rest = _QUOTED.sub(" ", query)
    yield from map(_date, _DATE.finditer(rest))
    tokens = (token.strip(_EDGES) for token in _DATE.sub(" ", rest).split())
    yield from (_exact(token) for token in tokens if _is_identifier(token))


def _is_identifier(token: str) -> bool:
    if len(token) > _LONGEST or _ORDINARY.fullmatch(token):
        return False
    if STOP_WORDS.issuperset(re.findall(r"\w+", token.lower())):
        return False
    return any(shape.fullmatch(token) for shape in _SHAPES)


def _exact(text: str) -> Identifier:
    words = re.findall(r"\w+", text)
    # Neither part of a longer word or number, nor the beginning of a longer version or ticket.
    before = r"(?<!\w)(?<!\d[.-])" if re.match(r"\w", text) else ""
    after = r"(?!\w)(?![.-]\d)" if re.match(r"\w", text[-1:]) else ""
    spaced = r"\s+".join(map(re.escape, text.split()))
    pattern = re.compile(before + spaced + after, re.IGNORECASE)
    return Identifier(text, (" ".join(words),) if words else (), pattern)


def _date(match: re.Match[str]) -> Identifier:
    day = int(match["iso_day"] or match["day_first"] or match["day_second"])
    named = match["month_second"] or match["month_first"]
    if named:
        month = next(at for at, name in enumerate(_MONTHS, 1) if name.startswith(named.lower()[:3]))
    else:
        month = int(match["iso_month"])
    year = match["iso_year"] or match["year_third"] or match["year_last"]
    if not 1 <= month <= len(_MONTHS):
        return _exact(match[0])
    long = _MONTHS[month - 1]
    names, days = dict.fromkeys((long, long[:3])), dict.fromkeys((str(day), f"{day:02d}"))
    tail = f" {year}" if year else ""
    phrases = [f"{d} {m}{tail}" for d, m in product(days, names)] + [
        f"{m} {d}{tail}" for d, m in product(days, names)
    ]
    phrases += [f"{year} {month:02d} {day:02d}"] if year else []
    either = "|".join(phrase.replace(" ", r"(?:st|nd|rd|th)?[\s,./-]+(?:of\s+)?") for phrase in phrases)
    pattern = re.compile(rf"(?<!\w)(?:{either})(?!\w)", re.IGNORECASE)
    return Identifier(match[0], tuple(phrases), pattern, day=True)
