"""Deciding how a query is searched: by words, by meaning, by both, or within a stretch of time. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from enum import StrEnum
from typing import Protocol

from services.memory.identifiers import without_quotes
from services.times import stored, utc


class MemoryRoute(StrEnum):
    """How a query is searched."""

    KEYWORD = "keyword"
    SEMANTIC = "semantic"
    HYBRID = "hybrid"
    GRAPH = "graph"
    EPISODIC = "episodic"


@dataclass(frozen=True, slots=True)
class Routing:
    """A route, the words to search for, and the stretch of time that the query names (microseconds, UTC).

    `confidence` is 1 / the number of rules that matched, 0 when none did.
    """

    route: MemoryRoute
    query: str
    since: int | None = None
    before: int | None = None
    confidence: float = 0.0


class MemoryRouter(Protocol):
    """Classifies queries."""

    def route(self, query: str, *, now: int) -> Routing:
        """How to search for it; `now` is microseconds and anchors words such as "yesterday"."""


_RELATIONS = (
    "related to",
    "relates to",
    "connection between",
    "relationship",
    "opinion on",
    "thinks about",
    "preference for",
    "history of",
    "know about",
)
_QUESTION_WORDS = frozenset("what how why when where who which explain describe".split())
_SNAKE_CASE = re.compile(r"(?=.*_)(?=.*[a-z])[a-z0-9_]+")
_LONG, _SHORT = 6, 3

_NUMBERS = {
    "a": 1,
    "an": 1,
    "one": 1,
    "two": 2,
    "three": 3,
    "four": 4,
    "five": 5,
    "six": 6,
    "seven": 7,
    "eight": 8,
}
_UNITS = {"minute": 1 / 1_440, "hour": 1 / 24, "day": 1.0, "week": 7.0, "month": 30.0, "year": 365.0}
# Phrases that place something in time. "before", "after", "since", "during", "earlier" and "recently" are left out:
# they order events more often than they date them.
_TEMPORAL = re.compile(
    r"""(?<![\w\\@#-])(?<!\w\.)(?<!::)(?:(?<!/)|(?<=day/)|(?<=tonight/))(?:
        (?P<evening>last\ night) | (?P<tonight>tonight) | (?P<morning>this\ morning)
      | (?P<today>earlier\ today|today) | (?P<yesterday>yesterday)
      | (?P<week>(?:last|this|past)\ week) | (?P<month>(?:last|this|past)\ month)
      | (?P<days>(?:a\ )?few\ days\ ago) | (?P<hours>(?:a\ )?few\ hours\ ago)
      | (?P<none>when\ did|remember\ when|last\ time|how\ long\ ago)
      | (?P<count>\d{1,4}|an?|one|two|three|four|five|six|seven|eight)\ (?P<unit>minute|hour|day|week|month|year)s?\ ago
      | (?P<ago>ago)
    )(?![\w\\@#-]|\.\w|::|/(?!yesterday|today|tonight))  # no part of a name
    """,
    re.IGNORECASE | re.VERBOSE,
)


# Between these, the longest period that a phrase names is on the calendar.
_FIRST, _LAST = datetime(1, 3, 1, tzinfo=UTC), datetime(9999, 12, 29, tzinfo=UTC)


class HeuristicRouter:
    """Routes by fixed rules; the first that matches wins: time, relationship, path, question, length, identifier."""

    def route(self, query: str, *, now: int) -> Routing:
        """See MemoryRouter."""
        # What is quoted is sought as it stands: a song called "Yesterday" was not sung yesterday.
        said = without_quotes(query)
        matched = _matches(query, said)
        route = matched[0] if matched else MemoryRoute.HYBRID
        confidence = 1 / len(matched) if matched else 0.0
        if route is not MemoryRoute.EPISODIC:
            return Routing(route, query, confidence=confidence)
        since, before = _period(said, now)
        return Routing(route, _without_time(query, said), since, before, confidence)


def _matches(query: str, said: str) -> list[MemoryRoute]:
    words = query.split()
    lowered = query.lower()
    question = bool(words) and words[0].lower() in _QUESTION_WORDS
    rules = (
        (_TEMPORAL.search(said) is not None, MemoryRoute.EPISODIC),
        (any(phrase in lowered for phrase in _RELATIONS), MemoryRoute.GRAPH),
        (("/" in query or "::" in query) and not question, MemoryRoute.KEYWORD),
        (question or len(words) >= _LONG, MemoryRoute.SEMANTIC),
        (not question and len(words) <= _SHORT, MemoryRoute.KEYWORD),
        (any(_SNAKE_CASE.fullmatch(word) for word in words), MemoryRoute.KEYWORD),
    )
    return [route for holds, route in rules if holds]


def _without_time(query: str, said: str) -> str:
    """The query without the temporal phrases it says, which no message contains as words; all of it if that is all."""
    kept, at = [], 0
    for found in _TEMPORAL.finditer(said):
        kept.append(query[at : found.start()])
        at = found.end()
    return " ".join(" ".join([*kept, query[at:]]).split()) or query


def _period(query: str, now: int) -> tuple[int | None, int | None]:
    """The stretch that the first dated phrase names: since <= t < before, microseconds; None where it is open."""
    moment = min(max(utc(now), _FIRST), _LAST)
    midnight = datetime.combine(moment.date(), time(), UTC)
    day = timedelta(days=1)
    hour = timedelta(hours=1)
    ranges: dict[str, tuple[datetime, datetime | None]] = {
        "yesterday": (midnight - day, midnight),
        "evening": (midnight - 6 * hour, midnight + 6 * hour),
        "tonight": (midnight + 18 * hour, None),
        "morning": (midnight, midnight + 12 * hour),
        "today": (midnight, None),
        "week": (moment - 7 * day, None),
        "month": (moment - 30 * day, None),
        "days": (moment - 3 * day, None),
        "hours": (moment - 6 * hour, None),
        "ago": (moment - day, None),
    }
    for found in _TEMPORAL.finditer(query):
        if found["unit"]:
            return _counted(found["count"], found["unit"], moment)
        kind = found.lastgroup or "none"
        if kind in ranges:
            since, before = ranges[kind]
            return stored(since), stored(before) if before else None
    return None, None


def _counted(count: str, unit: str, moment: datetime) -> tuple[int | None, int | None]:
    """A time such as "3 days ago" with one unit of leeway on both sides, because people round."""
    number = int(count) if count.isdigit() else _NUMBERS[count.lower()]
    days = _UNITS[unit.lower()]
    try:
        since = moment - timedelta(days=(number + 1) * days)
    except OverflowError:  # before the year 1
        return None, None
    before = moment - timedelta(days=(number - 1) * days)
    return stored(since), stored(before) + 1
