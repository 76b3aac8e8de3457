import threading

import pytest

from services import errors
from services.memory.access import AccessCounts
from tests.builders import rows


@pytest.fixture
def access(container):
    counts = AccessCounts(container.database, container.clock, pause_seconds=60)
    yield counts
    counts.close()


def stored(container):
    return rows(container, "SELECT id, access_count, last_accessed_at FROM messages ORDER BY id")


def test_noting_an_access_writes_nothing_until_the_flush(container, access):
    first, second = (container.memory.remember("user", text) for text in ("one", "two"))
    access.note([first, second])
    access.note([first])
    assert stored(container) == [(first, 0, None), (second, 0, None)]
    access.flush()
    now = container.clock.now()
    assert stored(container) == [(first, 2, now), (second, 1, now)]
    access.flush()
    assert stored(container)[0][1] == 2, "counted once"


def test_counts_are_written_by_themselves_after_a_while(build):
    container = build(real_time=True)
    message = container.memory.remember("user", "one")
    access = AccessCounts(container.database, container.clock, pause_seconds=0.01)
    access.note([message])
    for thread in threading.enumerate():
        if isinstance(thread, threading.Timer):
            thread.join(5)
    assert stored(container)[0][1] == 1


def test_closing_writes_the_rest_and_leaves_no_thread(container, access):
    message = container.memory.remember("user", "one")
    before = set(threading.enumerate())
    access.note([message])
    access.close()
    assert stored(container)[0][1] == 1
    # Not their number: a thread of an earlier test may end meanwhile.
    assert set(threading.enumerate()) <= before


def test_a_busy_database_costs_the_counts_and_nobody_else(container, access, monkeypatch, caplog):
    access.note([1])

    def fail(**_options):
        raise errors.StorageBusy("busy")

    monkeypatch.setattr(container.database, "write", fail)
    access.flush()
    assert "access_counts_lost" in caplog.text
