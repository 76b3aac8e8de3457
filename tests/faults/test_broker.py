"""F6 to F10 and F24: a Redis that is killed, emptied, away or half-open, and many who schedule and sweep at once."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from services.bootstrap import Container
from services.jobs.models import EVICT_GRAPH, JobState, NewJob
from tests.builders import enqueue, job
from tests.faults.harness import PROFILE, SEED, History, amount, quantile
from tests.faults.lab import settle
from tests.faults.proxy import Proxy
from tests.faults.workload import accept, violations
from tests.services.harness import (
    JOBS_APP,
    PERIOD_SECONDS,
    SCHEDULED,
    Process,
    RedisServer,
    Stack,
    wait_until,
)
from tests.services.jobs_app import ScheduledContainer

pytestmark = [pytest.mark.faults, pytest.mark.timeout(1_800)]

# Nightly the product's own leases and pauses, which the plan's limits are about.
PAUSES: dict[str, Any] = {}
if PROFILE == "nightly":
    PAUSES = {"jobs__lease_secs": 30, "jobs__heartbeat_secs": 10, "jobs__sweep_interval_secs": 10}
CALLS = amount(commit=40, nightly=200)
AGAIN_SECONDS = amount(commit=60, nightly=15)
HINTS_SECONDS = amount(commit=60, nightly=35)
AWAY_SECONDS = amount(commit=4, nightly=120)
HALF_OPEN_SECONDS = amount(commit=0, nightly=60)
NOTICED_SECONDS = 45
DRAINED_SECONDS = 120
# The slowest of a hundred calls: so long, or twice as long as while Redis was there.
ACCEPT_SECONDS = amount(commit=10, nightly=0.05)
SCHEDULED_SECONDS = amount(commit=8, nightly=600)
SERVED_SHARE = 0.99 if PROFILE == "nightly" else 0.3


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RedisServer]:
    """A Redis that writes down what it is told, as that of docker-compose.yml."""
    made = RedisServer(tmp_path, durable=True)
    made.start()
    yield made
    made.kill()


@pytest.fixture
def history(tmp_path: Path) -> History:
    return History(tmp_path / "history")


def killed(server: RedisServer) -> None:
    server.kill()
    server.start()


def emptied(server: RedisServer) -> None:
    server.kill()
    server.forget()
    server.start()


# What a worker notes for each message; all but requests for a sweep are hints of jobs.
MESSAGE = re.compile(r"Task \S+ received")
HINT = re.compile(r"Task (?!jobs\.sweep)\S+ received")
LOST = re.compile("Connection to broker lost")
FAULTS = {"f6": killed, "f7": RedisServer.flush, "f8": emptied}
# A commit tries each once on one worker.
ROUNDS = [("f6", 10), ("f7", 10), ("f8", 5)] if PROFILE == "nightly" else [("f6 f7 f8", 1)]


@pytest.mark.parametrize(("faults", "times"), ROUNDS)
def test_nothing_is_lost_and_work_goes_on_soon_when_redis_is_killed_flushed_or_emptied(
    start: Callable[..., Stack], server: RedisServer, history: History, faults: str, times: int
):
    """F6, F7 and F8."""
    stack = start(broker=False, jobs__broker_url=server.url, **PAUSES)
    worker = stack.worker()
    again, hints, drained = [], [], []
    for number, name in enumerate(faults.split() * times):
        with ThreadPoolExecutor(1) as pool:
            load = pool.submit(accept, stack.container, history, CALLS, SEED + number)
            time.sleep(1)
            FAULTS[name](server)
            position, began = len(worker.output), time.monotonic()
            # Whatever else there is, something waits for a bell.
            enqueue(stack.container, NewJob(EVICT_GRAPH))
            again.append(seconds_until_noted(MESSAGE, worker, position, began, seconds=DRAINED_SECONDS))
            hints.append(seconds_until_noted(HINT, worker, position, began, seconds=DRAINED_SECONDS))
            load.result()
        drained.append(settle(stack.container))
    print(
        f"{faults}, {times} times: the worker receives messages again within {max(again):.1f} s, hints of jobs within "
        f"{max(hints):.1f} s; all of {CALLS} calls are done within {max(drained):.1f} s more, seed {SEED}"
    )
    assert worker.alive()
    assert max(again) <= AGAIN_SECONDS
    assert max(hints) <= HINTS_SECONDS
    assert violations(stack.container, history) == []


def seconds_until_noted(
    what: re.Pattern[str], worker: Process, position: int, began: float, *, seconds: float
) -> float:
    """How long after `began` the worker notes that, behind that position of its output."""
    wait_until(lambda: bool(what.search(worker.output, position)), what.pattern, worker, seconds=seconds)
    return time.monotonic() - began


def seconds_until_heard(stack: Stack, *, limit: float) -> float:
    """How long a job takes that is accepted now, in a queue that is empty otherwise: nobody finds it but by its bell."""
    began = time.monotonic()
    (probe,) = enqueue(stack.container, NewJob(EVICT_GRAPH))
    wait_until(lambda: job(stack.container, probe).state is JobState.DONE, "the bell is heard", seconds=limit)
    return time.monotonic() - began


@pytest.mark.parametrize("number", range(amount(commit=1, nightly=3)))
def test_work_accepted_while_redis_is_away_is_done_when_it_is_back(
    start: Callable[..., Stack], server: RedisServer, history: History, number: int
):
    """F9."""
    stack = start(broker=False, jobs__broker_url=server.url, **PAUSES)
    container = stack.container
    worker = stack.worker()
    accept(container, history, CALLS, SEED)
    settle(container)
    usual = quantile(history.seconds(), 0.99)

    calls = len(history.seconds())
    server.kill()
    end = time.monotonic() + AWAY_SECONDS
    turns = 0
    while time.monotonic() < end:
        turns += 1
        accept(container, history, 5, SEED + number + turns)
        time.sleep(0.2)
    away = history.seconds()[calls:]
    server.start()
    drained = settle(container)

    slow = quantile(away, 0.99)
    print(
        f"F9: {len(away)} calls in {AWAY_SECONDS} s without Redis, p99 {slow * 1e3:.1f} ms (before {usual * 1e3:.1f} ms), "
        f"at most {max(away) * 1e3:.0f} ms; drained {drained:.1f} s after its return, seed {SEED}"
    )
    assert worker.alive()
    assert slow <= max(ACCEPT_SECONDS, 2 * usual)
    assert drained <= DRAINED_SECONDS
    assert violations(container, history) == []


@pytest.mark.parametrize("number", range(amount(commit=1, nightly=3)))
def test_a_half_open_connection_to_redis_is_noticed_and_nothing_is_lost_f10(
    start: Callable[..., Stack], server: RedisServer, history: History, number: int
):
    with Proxy(server.port) as proxy:
        url = f"redis://127.0.0.1:{proxy.port}/0"
        stack = start(broker=False, jobs__broker_url=url, **PAUSES)
        container = stack.container
        worker = stack.worker()
        accept(container, history, CALLS, SEED + number)
        settle(container)

        calls = len(history.seconds())
        proxy.swallow()
        position, began = len(worker.output), time.monotonic()
        accept(container, history, 10, SEED + number + 100)
        noticed = seconds_until_noted(LOST, worker, position, began, seconds=NOTICED_SECONDS)
        time.sleep(max(0.0, HALF_OPEN_SECONDS - noticed))
        slowest = max(history.seconds()[calls:])
        proxy.resume()
        drained = settle(container)
        heard = seconds_until_heard(stack, limit=DRAINED_SECONDS)

    print(
        f"F10 Redis: noticed after {noticed:.1f} s, the slowest call meanwhile {slowest:.1f} s; "
        f"drained {drained:.1f} s after the return, a bell heard after {heard:.1f} s, seed {SEED}"
    )
    assert worker.alive()
    assert violations(container, history) == []


def test_two_beats_start_one_scheduled_job_per_period(start: Callable[..., Stack]):
    """F24: and any number of others may schedule and sweep beside them."""
    stack = start()
    workers = [stack.worker(app=JOBS_APP, concurrency=1) for _ in range(amount(commit=1, nightly=3))]
    for _ in range(2):
        stack.beat(app=JOBS_APP)
    with sweepers(stack, 4):
        time.sleep(SCHEDULED_SECONDS)

    container = stack.container
    with container.database.read() as unit:
        scheduled = unit.jobs.select(kind=SCHEDULED.name, limit=10_000)
    periods = {found.created_at // int(PERIOD_SECONDS * 1_000_000) for found in scheduled}
    span = max(periods) - min(periods) + 1
    print(f"F24: {len(scheduled)} jobs in {span} periods, {len(periods)} with one")
    assert len(scheduled) == len(periods)
    # Where the job of one period still waits, the next one gets none.
    assert len(periods) >= span * SERVED_SHARE
    assert span >= SCHEDULED_SECONDS / PERIOD_SECONDS - 2
    assert {found.attempts for found in scheduled[1:]} == {1}
    assert all(worker.alive() for worker in workers)


@contextmanager
def sweepers(stack: Stack, count: int) -> Iterator[None]:
    """So many services that do nothing but schedule and sweep, as fast as they can."""
    over = threading.Event()

    def sweep(container: Container) -> None:
        while not over.wait(0.05):
            container.scheduler.tick()
            container.ledger.sweep()

    bells = stack.container.publisher
    with ExitStack() as closing, ThreadPoolExecutor(count) as pool:
        sweeping = [
            pool.submit(sweep, closing.enter_context(ScheduledContainer(stack.settings, publisher=bells)))
            for _ in range(count)
        ]
        try:
            yield
        finally:
            over.set()
        for each in sweeping:
            each.result()
