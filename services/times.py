"""Stored times, microseconds since 1970, and the calendar in UTC. Exact: a float would lose microseconds."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def utc(microseconds: int) -> datetime:
    """A stored time on the calendar. Raises OverflowError outside of the years 1 to 9999."""
    return _EPOCH + timedelta(microseconds=microseconds)


def stored(moment: datetime) -> int:
    """A moment of any time zone as it is stored; UTC where it names none."""
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return (aware - _EPOCH) // timedelta(microseconds=1)
