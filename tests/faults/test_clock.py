"""F18: clocks that jump, in one worker and in all: nothing takes effect twice, and nothing waits for the old time.

Three workers share one store and one world, whose time moves in steps; each has a clock that may be wrong. Celery's own
clock is moved by libfaketime, where that is installed.
"""

from __future__ import annotations

import math
import random
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from services.adapters.clock import SystemClock
from services.adapters.in_memory import ManualClock
from services.bootstrap import Container
from services.cache.models import CacheRequest
from services.jobs.models import JobState, NewJob, Queue
from services.jobs.run import JobRun
from services.ports import Clock
from tests.builders import assert_healthy, enqueue, job, work
from tests.faults.harness import SEED, History, amount, difference, sample, state
from tests.faults.scenarios import BEGINNING, open_store
from tests.faults.workload import accept, effects, violations
from tests.services.harness import COUNTED, JOBS_APP, PERIOD_SECONDS, SCHEDULED, Stack, wait_until
from tests.services.jobs_app import EFFECTS
from workers.job import Runner

pytestmark = [pytest.mark.faults, pytest.mark.timeout(1_800)]

STEP_SECONDS = 20
ROUNDS = 24
DAY = 86_400
# Summaries are numbered as they are written, so that order would show.
SETTINGS = {"memory.summarization_threshold": 100_000, "memory.semantic.temporal_decay_enabled": True}
# 200 seconds before the clocks of Berlin go from three back to two.
SUMMER_TIME_ENDS = 1_761_440_400 - 200


class Skewed:
    """The clock of one worker: the world's time, and an error."""

    def __init__(self, world: Clock) -> None:
        self._world = world
        self.error_seconds = 0

    def now(self) -> int:
        return self._world.now() + self.error_seconds * 1_000_000

    def monotonic(self) -> float:
        return self._world.monotonic()

    def sleep(self, seconds: float) -> None:
        """Nothing: the world moves in steps, at the same times whatever the workers do."""


class Fleet:
    """Three workers that accept, sweep, schedule and work in turn, some jobs being in their midst at any time.

    `at_once` is the same without anything that could go wrong: whoever accepts a call does its work at once.
    """

    def __init__(self, folder: Path, seed: int, *, begin: int = BEGINNING, at_once: bool = False) -> None:
        self._at_once = at_once
        self._dice = random.Random(seed)
        self.world = ManualClock(begin)
        self.history = History(folder / "history")
        self.workers: list[Container] = []
        self.clocks: list[Skewed] = []
        self._held: list[list[JobRun]] = []
        self.started: Counter[tuple[str, int]] = Counter()
        self.taken_back = self.buried = 0
        for _ in range(3):
            clock, worker = Skewed(self.world), open_store(folder, real_entropy=True, **SETTINGS)
            worker.clock = clock
            self.clocks.append(clock)
            self.workers.append(worker)
            self._held.append([])

    def live(self, rounds: int) -> None:
        for _ in range(rounds):
            self.world.advance(STEP_SECONDS)
            for number in self._dice.sample(range(3), 3):
                if not self._at_once:
                    self._turn(self.workers[number], self._held[number])
            caller = self._dice.choice(self.workers)
            accept(caller, self.history, 2, self._dice.randrange(2**32))
            if self._at_once:
                work(caller)

    def _turn(self, worker: Container, held: list[JobRun]) -> None:
        worker.ledger.heartbeat(held)
        for kind in worker.scheduler.tick():
            (entry,) = (each for each in worker.periodic if each.kind.name == kind)
            self.started[kind, entry.period(worker.clock.now())] += 1
        self.taken_back += worker.ledger.sweep()["returned"]
        # What was begun in the round before is finished now, if it is still this worker's.
        for run in held:
            Runner(worker).run(run)
        held[:] = filter(None, (worker.ledger.claim_next(tuple(Queue)) for _ in range(3)))
        self._look(worker)

    def _look(self, worker: Container) -> None:
        """No age and no time to live is negative, and no score is what no score can be."""
        with worker.database.read() as unit:
            for depth in unit.jobs.depths(now=worker.clock.now()):
                assert depth.oldest_seconds >= 0
                assert depth.eta_seconds is None or depth.eta_seconds >= 0
        hits = worker.recall.recall("the winch of the dome", namespace="default").hits
        assert all(math.isfinite(hit.score) for hit in hits)
        assert worker.response_cache.through(QUESTION, lambda: "yes", ttl_seconds=60) == "yes"
        answer = worker.response_cache.get(QUESTION)
        assert answer is not None
        assert answer.expires_at > worker.clock.now()
        assert answer.expires_at - answer.created_at == 60_000_000

    def end(self) -> dict[str, list[str]]:
        """Everything that was accepted is done; what is stored then. Clocks are right again, perhaps."""
        for worker, held in zip(self.workers, self._held, strict=True):
            for run in held:
                Runner(worker).run(run)
        for _ in range(4):
            self.world.advance(900)
            for worker in self.workers:
                worker.ledger.sweep()
                work(worker)
                self.buried += self._dig_up(worker)
        worker = self.workers[0]
        assert violations(worker, self.history) == []
        assert_healthy(worker)
        return {name: found for name, found in state(worker).items() if name not in COMES_AND_GOES}

    def _dig_up(self, worker: Container) -> int:
        """To a worker whose clock is ahead of all others, these have vanished; what it buried for that is done again."""
        with worker.database.write() as unit:
            dead = unit.jobs.select(states=[JobState.DEAD])
            assert {each.error_type for each in dead} <= {"worker_lost"}
            return sum(unit.jobs.retry(each.id, now=worker.clock.now()) for each in dead)

    def close(self) -> None:
        for worker in self.workers:
            worker.close()


QUESTION = CacheRequest("m", [{"role": "user", "content": "Is the winch repaired?"}])
# What is kept for a time only, and so depends on the time.
COMES_AND_GOES = {"jobs", "response_cache", "response_leases", "response_sources"}
JUMPS = {"two hours ahead": 7_200, "two hours back": -7_200, "thirty days ahead": 30 * DAY}
CASES = [(jump, who) for jump in JUMPS for who in ("one worker", "all")] + [("the end of summer time", "all")]


@pytest.mark.parametrize(("jump", "who"), sample(CASES, commit=1))
def test_a_clock_that_jumps_makes_nothing_happen_twice_f18(
    jump: str, who: str, tmp_path: Path, migrated: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin = BEGINNING
    if jump not in JUMPS:
        begin = SUMMER_TIME_ENDS * 1_000_000
        monkeypatch.setenv("TZ", "Europe/Berlin")
        time.tzset()
    taken_back = periods = buried = 0
    for run in range(amount(commit=1, nightly=3)):
        states = []
        for at_once in (True, False):
            folder = tmp_path / f"{run}-{at_once}"
            folder.mkdir()
            shutil.copy(migrated, folder / "zeph.db")
            fleet = Fleet(folder, SEED + run, begin=begin, at_once=at_once)
            fleet.live(ROUNDS // 2)
            for clock in fleet.clocks[-1:] if who == "one worker" else fleet.clocks:
                clock.error_seconds = JUMPS.get(jump, 0)
            fleet.live(ROUNDS // 2)
            # Somebody sets the clocks right again, or nobody does.
            for clock in fleet.clocks if run % 2 else []:
                clock.error_seconds = 0
            states.append(fleet.end())
            assert max(fleet.started.values(), default=0) <= 1, SEED
            assert who == "one worker" or not fleet.buried, SEED
            fleet.close()
        assert difference(*states) == "", SEED
        taken_back, buried = taken_back + fleet.taken_back, buried + fleet.buried
        periods += len(fleet.started)
    print(
        f"F18: {jump}, {who}: {run + 1} runs, {taken_back} jobs taken back, {buried} buried, "
        f"{periods} scheduled jobs, each once"
    )


@pytest.fixture(autouse=True)
def _own_time_zone() -> Iterator[None]:
    """After the variable has been put back."""
    yield
    time.tzset()


# ---- Celery ------------------------------------------------------------------------------------------------------

LIBFAKETIME = next(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"), None)


@pytest.mark.skipif(LIBFAKETIME is None, reason="libfaketime is not installed (Debian package libfaketime)")
@pytest.mark.parametrize("seconds", sample([7_200, 30 * DAY], commit=1))
def test_celery_workers_and_beat_whose_clock_jumps_do_every_job_once_f18(
    seconds: int, start: Callable[..., Stack], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ahead alone: libfaketime 0.9.10 cannot leave the monotonic clock as it is, and that one never goes back."""
    stack = start()
    offset = tmp_path / "offset"
    offset.write_text("+0")
    clock = Skewed(SystemClock())
    stack.container.clock = clock
    container = stack.container
    with monkeypatch.context() as faked:
        faked.setenv("LD_PRELOAD", str(LIBFAKETIME))
        faked.setenv("FAKETIME_TIMESTAMP_FILE", str(offset))
        faked.setenv("FAKETIME_NO_CACHE", "1")
        worker = stack.worker(app=JOBS_APP)
        stack.beat(app=JOBS_APP)
    half = amount(commit=30, nightly=300)
    container.sessions().create_acp_session(EFFECTS)
    ids = enqueue(container, *(NewJob(COUNTED, {"number": number}) for number in range(half)))
    wait_until(lambda: job(container, ids[half // 2]).state is JobState.DONE, "half of them are done", worker)
    offset.write_text(f"{seconds:+d}")
    clock.error_seconds = seconds
    ids += enqueue(container, *(NewJob(COUNTED, {"number": number}) for number in range(half, 2 * half)))

    def all_done() -> bool:
        return all(job(container, each).state is JobState.DONE for each in ids)

    wait_until(all_done, "all are done", worker, seconds=300, pause=0.5)
    assert abs(max(job(container, each).finished_at or 0 for each in ids) - clock.now()) < 600_000_000
    with container.database.read() as unit:
        scheduled = unit.jobs.select(kind=SCHEDULED.name)
    periods = Counter(each.created_at // int(PERIOD_SECONDS * 1_000_000) for each in scheduled)
    print(
        f"F18: Celery, {seconds:+d} s: {len(ids)} jobs, each took effect once; {len(periods)} periods, each once"
    )
    assert effects(container) == dict.fromkeys(range(2 * half), 1)
    assert max(periods.values(), default=1) == 1
    assert worker.alive()
