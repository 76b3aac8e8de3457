"""What temporal hints mean, and that everything else means nothing (graph bug 37)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from services.graph.hints import Period, read_hint

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def at(text: str) -> int:
    return (datetime.fromisoformat(text).replace(tzinfo=UTC) - _EPOCH) // timedelta(microseconds=1)


# A Wednesday.
SAID = at("2024-05-15T10:30")


@pytest.mark.parametrize(
    ("hint", "start"),
    [
        ("2024", "2024-01-01"),
        ("in 2019", "2019-01-01"),
        ("since 2021", "2021-01-01"),
        ("from 2015 onwards", "2015-01-01"),
        ("2023-05-08", "2023-05-08"),
        ("2023-05", "2023-05-01"),
        ("2023-05-08T10:30:00Z", "2023-05-08T10:30"),
        ("2023-05-08T10:30:00+02:00", "2023-05-08T08:30"),
        ("May 5th, 2024", "2024-05-05"),
        ("on 5 May 2024", "2024-05-05"),
        ("Since  the 5th of May, 2024.", "2024-05-05"),
        ("Sept 2022", "2022-09-01"),
        ("Q2 2024", "2024-04-01"),
        ("in the 1990s", "1990-01-01"),
        ("2019 \u2013 present", "2019-01-01"),
        ("today", "2024-05-15"),
        ("yesterday", "2024-05-14"),
        ("since yesterday", "2024-05-14"),
        ("last monday", "2024-05-13"),
        ("last wednesday", "2024-05-08"),
        ("last week", "2024-05-06"),
        ("last month", "2024-04-01"),
        ("this month", "2024-05-01"),
        ("last year", "2023-01-01"),
        ("next year", "2025-01-01"),
        ("2 weeks ago", "2024-05-01"),
        ("three months ago", "2024-02-01"),
        ("6 months ago", "2023-11-01"),
        ("a year ago", "2023-01-01"),
        ("for the last 5 years", "2019-01-01"),
    ],
)
def test_a_named_beginning_is_when_the_fact_begins_and_nothing_ends_it(hint, start):
    # "today" as a whole is this very moment.
    expected = SAID if hint == "today" else at(start)
    assert read_hint(hint, SAID) == Period(expected, None)


@pytest.mark.parametrize(
    ("hint", "start", "end"),
    [
        ("from March 2023 to May 2024", "2023-03-01", "2024-06-01"),
        ("between 2019 and 2021", "2019-01-01", "2022-01-01"),
        ("2019-2021", "2019-01-01", "2022-01-01"),
        ("2023-01-05 to 2023-02-07", "2023-01-05", "2023-02-08"),
        ("from last year until yesterday", "2023-01-01", "2024-05-15"),
    ],
)
def test_a_period_lasts_to_the_end_of_what_is_named_last(hint, start, end):
    assert read_hint(hint, SAID) == Period(at(start), at(end))


@pytest.mark.parametrize(
    ("hint", "start", "end"),
    [
        ("until 2019", "2019-01-01", "2020-01-01"),
        ("till March 2020", "2020-03-01", "2020-04-01"),
        ("ended in 2020", "2020-01-01", "2021-01-01"),
        ("before 2020", "2019-12-31", "2020-01-01"),
    ],
)
def test_what_ended_before_it_was_told_did_not_begin_when_it_was_told(hint, start, end):
    assert read_hint(hint, SAID) == Period(at(start), at(end))


def test_what_will_end_later_began_at_the_message():
    assert read_hint("until 2031", SAID) == Period(None, at("2032-01-01"))


@pytest.mark.parametrize(
    "hint",
    [
        "",
        "   ",
        "recently",
        "soon",
        "on 5 May",
        "from March to May 2024",
        "for 3 years",
        "12/05/2024",
        "31 February 2024",
        "2024-13",
        "2023-02-30",
        "2023-05-08T25:00:00Z",
        "0000",
        "from 2024 to 2020",
        "the day the music died",
        "9999",
        "999 years ago and more",
        "since forever",
        "last full moon",
        "May",
        "2024 2024",
        "2" * 5_000,
    ],
)
def test_anything_else_is_no_date(hint):
    assert read_hint(hint, SAID) is None


def test_the_times_of_calendars_that_end_do_not_crash():
    assert read_hint("999 years ago", at("0500-01-01")) is None
    assert read_hint("next year", at("9999-06-01")) is None
