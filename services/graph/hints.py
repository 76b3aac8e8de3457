"""What a temporal hint such as "since May 2023" means, against the time at which it was said. Pure.

A strict grammar: what it does not know is no date, and the fact holds from its message's own time. Only an end that is
named ends a fact: "in 2019" is when it began, "until 2019" and "from 2017 to 2019" last to the end of that year.
"""

from __future__ import annotations

import calendar
import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

from services.times import stored, utc

_LONGEST = 100

_MONTHS = {
    name: number
    for number in range(1, 13)
    for name in (calendar.month_name[number].lower(), calendar.month_abbr[number].lower())
} | {"sept": 9}
_WEEKDAYS = {day.lower(): number for number, day in enumerate(calendar.day_name)}
_NUMBERS = {
    word: number
    for number, word in enumerate("one two three four five six seven eight nine ten eleven twelve".split(), 1)
} | {"a": 1, "an": 1}

_MONTH = rf"(?P<month>{'|'.join(sorted(_MONTHS, key=len, reverse=True))})\.?"
_DAY = r"(?P<day>\d{1,2})(?:st|nd|rd|th)?"
_YEAR = r"(?P<year>[12]\d{3})"
_COUNT = rf"(?P<count>\d{{1,3}}|{'|'.join(_NUMBERS)})"
_UNIT = r"(?P<unit>day|week|month|year)s?"
_CLOCK = r"(?:[t ](?P<clock>\d{2}:\d{2}(?::\d{2}(?:\.\d{1,6})?)?(?:z|[+-]\d{2}:\d{2})?))?"

_ABSOLUTE = tuple(
    re.compile(pattern)
    for pattern in (
        rf"{_YEAR}-(?P<number>\d{{1,2}})-(?P<day>\d{{1,2}}){_CLOCK}",
        rf"{_YEAR}[-/](?P<number>\d{{1,2}})",
        rf"(?:the )?(?:year )?{_YEAR}",
        rf"(?:the )?{_DAY} (?:of )?{_MONTH},? {_YEAR}",
        rf"{_MONTH} {_DAY},? {_YEAR}",
        rf"{_MONTH},? (?:of )?{_YEAR}",
        rf"(?P<quarter>q[1-4]) (?:of )?{_YEAR}",
        r"(?:the )?(?P<decade>[12]\d{2}0)'?s",
    )
)
_AGO = re.compile(rf"(?:about |around )?{_COUNT} {_UNIT} ago")
_PAST_SPAN = re.compile(rf"(?:for|over|in|during) the (?:last|past) {_COUNT} {_UNIT}")
_NEAR = re.compile(rf"(?:the )?(?P<which>last|this|next|previous|past) {_UNIT}")
_LAST_WEEKDAY = re.compile(rf"last (?P<weekday>{'|'.join(_WEEKDAYS)})")

_FROM_TO = (
    re.compile(r"(?:from |between |since )?(?P<start>.+?) (?:to|until|till|through|and|-) (?P<end>.+)"),
    re.compile(r"(?P<start>[12]\d{3})-(?P<end>[12]\d{3})"),
)
_SINCE = re.compile(
    r"(?:since|from|starting(?: from| in| on)?|as of|beginning(?: in| on)?|after) (?P<start>.+)"
)
_UNTIL = re.compile(r"(?:until|till|up to|through|ended(?: in| on)?|ending(?: in| on)?) (?P<end>.+)")
_BEFORE = re.compile(r"before (?P<end>.+)")
_AT = re.compile(r"(?:in|on|at|during|as early as|early in|late in) (?P<start>.+)")
_ONWARDS = re.compile(r" (?:on|onwards?)$")
_NOW = frozenset({"now", "today", "currently", "at present", "presently", "at the moment", "right now"})
_STILL = frozenset({"present", "the present", "now", "today", "this day"})


@dataclass(frozen=True, slots=True)
class Period:
    """When a fact began and ended, microseconds; None: not said."""

    valid_from: int | None = None
    valid_to: int | None = None


@dataclass(frozen=True, slots=True)
class _Span:
    """A named stretch of time: from `start` until before `end`."""

    start: datetime
    end: datetime


def read_hint(hint: str, said_at: int) -> Period | None:
    """The period that the hint names, or None when it names none for certain. `said_at` is microseconds."""
    text = " ".join(hint.replace("\u2013", "-").replace("\u2014", "-").split()).strip(" .,;()").lower()
    if not text or len(text) > _LONGEST:
        return None
    try:
        period = _period(text, utc(said_at))
    except (ValueError, OverflowError):  # the 31st of February, the year 0
        return None
    if period and period.valid_from is not None and period.valid_to is not None:
        return period if period.valid_from < period.valid_to else None
    return period


def _period(text: str, said: datetime) -> Period | None:
    if text in _NOW:
        return Period(valid_from=stored(said))
    if (whole := _span(text, said)) is not None:
        return Period(stored(whole.start))
    if (found := _PAST_SPAN.fullmatch(text)) is not None:
        return Period(stored(_ago(found, said).start))
    return _from_to(text, said) or _open(text, said)


def _from_to(text: str, said: datetime) -> Period | None:
    for pattern in _FROM_TO:
        found = pattern.fullmatch(text)
        start = _span(found["start"], said) if found else None
        if found is None or start is None:
            continue
        if found["end"] in _STILL:
            return Period(stored(start.start))
        if (end := _span(found["end"], said)) is not None:
            return Period(stored(start.start), stored(end.end))
    return None


def _open(text: str, said: datetime) -> Period | None:
    """A hint of which one end is named."""
    for pattern in (_SINCE, _AT):
        found = pattern.fullmatch(text)
        span = _span(_ONWARDS.sub("", found["start"]), said) if found else None
        if span is not None:
            return Period(stored(span.start))
    for pattern in (_UNTIL, _BEFORE):
        found = pattern.fullmatch(text)
        span = _span(found["end"], said) if found else None
        if span is not None:
            before = _Span(span.start - timedelta(days=1), span.start)
            return _ended(before if pattern is _BEFORE else span, said)
    return None


def _ended(last: _Span, said: datetime) -> Period:
    """What ended with this span. It is known to have held in the span itself, should that be past."""
    start = stored(last.start) if last.end <= said else None
    return Period(start, stored(last.end))


def _without_preposition(text: str) -> str:
    return text.removeprefix("since ").removeprefix("from ")


def _span(text: str, said: datetime) -> _Span | None:
    for pattern in _ABSOLUTE:
        if (found := pattern.fullmatch(text)) is not None:
            return _named(found.groupdict())
    return _relative(text, said)


def _named(parts: dict[str, str | None]) -> _Span:
    if decade := parts.get("decade"):
        return _Span(datetime(int(decade), 1, 1, tzinfo=UTC), datetime(int(decade) + 10, 1, 1, tzinfo=UTC))
    year = int(parts["year"] or 0)
    if quarter := parts.get("quarter"):
        first = datetime(year, 3 * int(quarter[1]) - 2, 1, tzinfo=UTC)
        return _Span(first, _months_later(first, 3))
    number, name = parts.get("number"), parts.get("month")
    if number is None and name is None:
        return _Span(datetime(year, 1, 1, tzinfo=UTC), datetime(year + 1, 1, 1, tzinfo=UTC))
    month = int(number) if number is not None else _MONTHS[name or ""]
    if (day := parts.get("day")) is None:
        first = datetime(year, month, 1, tzinfo=UTC)
        return _Span(first, _months_later(first, 1))
    if (clock := parts.get("clock")) is not None:
        at = datetime.fromisoformat(f"{year:04}-{month:02}-{int(day):02}T{clock.upper()}")
        moment = at.astimezone(UTC) if at.tzinfo else at.replace(tzinfo=UTC)
        return _Span(moment, moment)
    start = datetime(year, month, int(day), tzinfo=UTC)
    return _Span(start, start + timedelta(days=1))


def _relative(text: str, said: datetime) -> _Span | None:
    today = _midnight(said.date())
    days = {"today": 0, "yesterday": -1, "tomorrow": 1, "the day before yesterday": -2, "tonight": 0}
    if text in days:
        start = today + timedelta(days=days[text])
        return _Span(start, start + timedelta(days=1))
    if (found := _AGO.fullmatch(text)) is not None:
        return _ago(found, said)
    if (found := _LAST_WEEKDAY.fullmatch(text)) is not None:
        back = (today.weekday() - _WEEKDAYS[found["weekday"]] - 1) % 7 + 1
        return _Span(today - timedelta(days=back), today - timedelta(days=back - 1))
    if (found := _NEAR.fullmatch(text)) is not None:
        step = {"this": 0, "next": 1}.get(found["which"], -1)
        return _unit(found["unit"], said, step)
    return None


def _ago(found: re.Match[str], said: datetime) -> _Span:
    """The day, or the whole month or year, that many units back."""
    count = _NUMBERS.get(found["count"]) or int(found["count"])
    if found["unit"] == "week":
        day = _midnight(said.date()) - timedelta(weeks=count)
        return _Span(day, day + timedelta(days=1))
    return _unit(found["unit"], said, -count)


def _unit(unit: str, said: datetime, step: int) -> _Span:
    """The day, week (from Monday), month or year that many steps from the one in which it was said."""
    today = _midnight(said.date())
    if unit in {"day", "week"}:
        size = timedelta(days=7 if unit == "week" else 1)
        start = (today - timedelta(days=today.weekday()) if unit == "week" else today) + step * size
        return _Span(start, start + size)
    size_in_months = 12 if unit == "year" else 1
    first = today.replace(day=1, month=1 if unit == "year" else today.month)
    start = _months_later(first, step * size_in_months)
    return _Span(start, _months_later(start, size_in_months))


def _months_later(first: datetime, months: int) -> datetime:
    year, month = divmod(first.year * 12 + first.month - 1 + months, 12)
    return first.replace(year=year, month=month + 1)


def _midnight(day: date) -> datetime:
    return datetime(day.year, day.month, day.day, tzinfo=UTC)
