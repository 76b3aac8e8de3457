"""The embedded worker: runs due jobs in threads of this process, straight from the ledger, without a broker.

Reading files happens in a child process and embedding outside the interpreter lock, so that threads are enough.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import Self

import workers.tasks  # noqa: F401 - declares the handlers
from services import errors
from services.bootstrap import Container
from services.jobs.models import LIVE_STATES, Job, JobState, Queue
from workers.job import Runner, sweep
from workers.priority import give_way

log = logging.getLogger(__name__)

# How long an idle thread waits before it asks for news: longer every time, so that work that follows work starts soon.
_FIRST_PAUSE_SECONDS = 0.01
_LONGEST_PAUSE_SECONDS = 0.25
# How long it goes without a look at the ledger while there are jobs whose time may come without news.
_UNASKED_SECONDS = 1.0
# What is due so soon is waited for: a job that is enqueued while the clock was just read lies in its future.
_SOON_MICROSECONDS = 1_000_000


class LocalWorker:
    """A context manager: works while it is open, and hands unfinished jobs back when it closes.

    `niceness` is that of its threads.
    """

    def __init__(
        self,
        container: Container,
        *,
        concurrency: int = 2,
        queues: Sequence[str] = tuple(Queue),
        niceness: int = 0,
    ) -> None:
        self._container = container
        self._queues = list(queues)
        self._niceness = niceness
        self._runner = Runner(container)
        self._stopping = threading.Event()
        self._failure: errors.MemoryError | None = None
        self._open = ExitStack()
        # Of all idle threads one asks for news, and what it hears the next one hears as well.
        self._asking = threading.Lock()
        # They share one connection for it.
        self._news_lock = threading.Lock()
        loops = [(f"zeph-worker-{number}", self._work) for number in range(concurrency)]
        self._threads = [
            threading.Thread(target=self._until_stopped, args=(loop,), name=name, daemon=True)
            for name, loop in [*loops, ("zeph-sweep", self._sweep)]
        ]

    def __enter__(self) -> Self:
        self._changes = self._open.enter_context(self._container.sqlite.changes())
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self, timeout_seconds: float = 30.0) -> None:
        """Finish at the next checkpoint of each job; what is not finished by then is taken back by its lease."""
        self._stopping.set()
        self._runner.stop()
        for thread in self._threads:
            thread.join(timeout_seconds)
        self._open.close()

    def run_until(self, finished: Callable[[], bool], *, poll_seconds: float = 0.2) -> None:
        """Block until `finished` says so. Raises what made working on impossible."""
        while not self._stopping.is_set() and not finished():
            self._stopping.wait(poll_seconds)
        if self._failure is not None:
            raise self._failure

    def _until_stopped(self, loop: Callable[[], None]) -> None:
        give_way(self._niceness)
        try:
            loop()
        except errors.MemoryError as error:
            # What no waiting cures, such as a damaged file: the others would meet it too.
            self._failure = error
            self._stopping.set()

    def _work(self) -> None:
        pause = _FIRST_PAUSE_SECONDS
        while not self._stopping.is_set():
            try:
                # Asked before the look, so that nothing that comes meanwhile is missed.
                seen = self._news()
                if self._runner.run_next(self._queues):
                    pause = _FIRST_PAUSE_SECONDS
                else:
                    pause = self._wait_for_news(seen, pause)
            except errors.TransientError as error:
                log.warning("claim_failed reason=%s", error)
                self._stopping.wait(pause)
                pause = _longer(pause)

    def _wait_for_news(self, seen: int, pause: float) -> float:
        """Wait until somebody has committed something, or a job's time may have come; the next pause."""
        at_rest = self._container.ledger.at_rest()
        latest = math.inf if at_rest else time.monotonic() + _UNASKED_SECONDS
        with self._asking:
            while self._news() == seen and time.monotonic() < latest and not self._stopping.wait(pause):
                pause = _longer(pause)
        return _longer(pause)

    def _news(self) -> int:
        with self._news_lock:
            return self._changes()

    def _sweep(self) -> None:
        pause = self._container.settings.jobs.own_sweep_interval_secs
        while not self._stopping.is_set():
            sweep(self._container)
            self._stopping.wait(pause)


def _longer(pause: float) -> float:
    return min(2 * pause, _LONGEST_PAUSE_SECONDS)


def nothing_left(container: Container, queues: Sequence[str]) -> bool:
    """Whether no job of these queues waits or runs."""
    with container.database.read() as unit:
        depths = unit.jobs.depths(now=container.clock.now())
    return not any(depth.pending + depth.delayed + depth.running for depth in depths if depth.queue in queues)


def nothing_due(container: Container, queues: Sequence[str]) -> bool:
    """Whether no job of these queues runs or is due within a second; others may wait for a later time."""
    with container.database.read() as unit:
        depths = unit.jobs.depths(now=container.clock.now() + _SOON_MICROSECONDS)
    return not any(depth.pending + depth.running for depth in depths if depth.queue in queues)


def run_pending(container: Container, queues: Sequence[str] = tuple(Queue)) -> None:
    """Run every job that is due, and those that these enqueue, here and now in this thread."""
    runner = Runner(container)
    while runner.run_next(queues):
        pass


def try_job(container: Container, job_id: int) -> None:
    """Run this job once, here and now, unless another worker has it.

    Raises PermanentError with its reason if it is dead, TransientError if it did not succeed yet; it stays queued.
    """
    run = container.ledger.claim(job_id)
    if run is not None:
        Runner(container).run(run)
    job = _job(container, job_id)
    if job.state is JobState.DEAD:
        raise errors.PermanentError(f"job {job_id} failed: {job.error_message}")
    if job.state is not JobState.DONE:
        raise errors.TransientError(
            f"{job.error_message or 'another worker has it'}; job {job_id} stays queued for `zeph worker`"
        )


def run_job(container: Container, job_id: int) -> None:
    """Work until this job has ended. Raises PermanentError with its reason if it is dead."""
    with LocalWorker(container) as worker:
        worker.run_until(lambda: _job(container, job_id).state not in LIVE_STATES)
    job = _job(container, job_id)
    if job.state is JobState.DEAD:
        raise errors.PermanentError(f"job {job_id} failed: {job.error_message}")


def _job(container: Container, job_id: int) -> Job:
    with container.database.read() as unit:
        job = unit.jobs.get(job_id)
    if job is None:
        raise errors.NotFound(f"there is no job {job_id}")
    return job
