from datetime import UTC, datetime, timedelta, timezone

import pytest

from services.memory.models import EARLIEST, LATEST
from services.times import stored, utc


@pytest.mark.parametrize("at", [EARLIEST, -1, 0, 1, 1_700_000_000_123_457, LATEST])
def test_a_time_comes_back_to_the_microsecond(at):
    assert stored(utc(at)) == at


def test_the_last_microsecond_is_of_the_year_9999():
    assert utc(LATEST) == datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)


def test_a_moment_of_another_time_zone_is_stored_in_utc():
    assert stored(datetime(1970, 1, 1, 2, tzinfo=timezone(timedelta(hours=2)))) == 0


def test_a_moment_without_a_time_zone_is_utc():
    assert stored(datetime(1970, 1, 1, 0, 0, 1)) == 1_000_000  # noqa: DTZ001 - what this is about
