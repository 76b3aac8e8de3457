"""How a job is declared and run: the one `@job` decorator, and the one place that turns errors into job states.

A handler is a few lines that call one service function. Celery and the embedded worker run the very same handlers.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from services import errors
from services.bootstrap import Container
from services.jobs.models import JobKind
from services.jobs.run import JobRun, WorkerStopping

log = logging.getLogger(__name__)

Handler = Callable[[Container, JobRun], None]


@dataclass(frozen=True, slots=True)
class JobSpec:
    """A declared job. The limits are Celery's last resort against a handler that hangs."""

    kind: JobKind
    handler: Handler
    soft_limit_seconds: int
    hard_limit_seconds: int


REGISTRY: dict[str, JobSpec] = {}


def job(
    kind: JobKind, *, soft_limit_seconds: int = 240, hard_limit_seconds: int = 300
) -> Callable[[Handler], Handler]:
    """Declare the handler of a kind. The signature is closed: a misspelt option is an error, as it is not in Celery."""

    def declare(handler: Handler) -> Handler:
        if kind.name in REGISTRY:
            raise ValueError(f"{kind.name} has a handler already")
        REGISTRY[kind.name] = JobSpec(kind, handler, soft_limit_seconds, hard_limit_seconds)
        return handler

    return declare


class Runner:
    """Runs jobs of one process, and keeps their leases alive from a thread of its own."""

    def __init__(self, container: Container) -> None:
        self._container = container
        self._active: set[JobRun] = set()
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._heart: threading.Thread | None = None

    def drain(self, queues: Sequence[str], *, seconds: float, first: int | None = None) -> bool:
        """Run due jobs one after the other, `first` before all others, for about that long; True if some are left."""
        if self._stopping.is_set():
            if first is not None:
                self._container.ledger.unheard(first)
            return True
        deadline = time.monotonic() + seconds
        run = None if first is None else self._container.ledger.claim(first)
        run = run or self._container.ledger.claim_next(queues)
        while run is not None:
            self.run(run)
            if self._stopping.is_set() or time.monotonic() >= deadline:
                return True
            run = self._container.ledger.claim_next(queues)
        return False

    def run_next(self, queues: Sequence[str]) -> bool:
        """Run one due job; False when there is none."""
        run = None if self._stopping.is_set() else self._container.ledger.claim_next(queues)
        if run is None:
            return False
        self.run(run)
        return True

    def run(self, run: JobRun) -> None:
        """Run a claimed job to its end: done, waiting for children, again later, or dead with a reason."""
        spec = REGISTRY.get(run.job.kind)
        with self._beating(run):
            try:
                if spec is None:
                    raise errors.PermanentError(
                        f"this version has no handler for jobs of kind {run.job.kind}"
                    )
                spec.handler(self._container, run)
                if not run.ended:
                    with self._container.database.write(durable=False) as unit:
                        run.finish(unit)
            except WorkerStopping:
                self._container.ledger.release(run)
            except errors.LeaseLost:
                # Its effects were rolled back with it; the successor's stand.
                log.warning("lease_lost job=%d kind=%s", run.job.id, run.job.kind)
            except Exception as error:  # noqa: BLE001 - whatever a handler raises must end as a job state
                self._record(run, _in_words(error))

    def stop(self) -> None:
        """Let running jobs end at their next checkpoint and go back to the ledger untouched."""
        self._stopping.set()
        with self._lock:
            active = list(self._active)
        for run in active:
            run.stop(WorkerStopping)

    def _record(self, run: JobRun, error: Exception) -> None:
        dead = self._container.ledger.failed(run, error)
        known = isinstance(error, errors.MemoryError)
        event = "job_dead" if dead else "job_retried"
        log.warning(
            "%s job=%d kind=%s error=%s",
            event,
            run.job.id,
            run.job.kind,
            type(error).__name__,
            exc_info=not known,
        )

    @contextmanager
    def _beating(self, run: JobRun) -> Iterator[None]:
        """Keep a run among those whose lease is renewed."""
        with self._lock:
            if self._heart is None or not self._heart.is_alive():
                self._heart = threading.Thread(target=self._beat, name="zeph-heartbeat", daemon=True)
                self._heart.start()
            self._active.add(run)
            if self._stopping.is_set():
                run.stop(WorkerStopping)
        try:
            yield
        finally:
            with self._lock:
                self._active.discard(run)

    def _beat(self) -> None:
        usual = self._container.settings.jobs.heartbeat_secs
        pause = usual
        while True:
            time.sleep(pause)
            with self._lock:
                active = list(self._active)
                if not active:
                    # The next run starts another one: a process that calls now and then collects no threads.
                    self._heart = None
                    return
            try:
                self._container.ledger.heartbeat(active)
                pause = usual
            except errors.TransientError as error:
                # Soon, because by now the lease may have run out: who sweeps leaves it that much time.
                pause = usual / 10
                log.warning("heartbeat_failed reason=%s", error)


def sweep(container: Container, *, linger: bool = True) -> None:
    """Start what is scheduled and take back what was left behind; a database that is busy is left to the next sweep."""
    try:
        container.scheduler.tick()
        container.ledger.sweep(linger=linger)
    except errors.TransientError as error:
        log.warning("sweep_failed reason=%s", error)


def _in_words(error: Exception) -> Exception:
    """The error; Celery's word for a time limit that was reached as one that people can read."""
    # By name, because the embedded worker loads no Celery.
    if type(error).__name__ == "SoftTimeLimitExceeded":
        return errors.TransientError("it took longer than a job of its queue may, and was stopped")
    return error
