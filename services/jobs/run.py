"""One run of one job: what a service function gets, to read its payload and to store its effects."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

from services.jobs.models import Job
from services.jobs.store import JobUnit
from services.ports import Clock


class WorkerStopping(Exception):
    """The worker is going away: the job goes back to the ledger untouched."""


class JobRun:
    """A claimed job. Effects and the state `done` are stored in one transaction, or neither is."""

    def __init__(self, job: Job, clock: Clock) -> None:
        self.job = job
        self.ended = False
        self._clock = clock
        self._stop: Callable[[], Exception] | None = None
        self._lock = threading.Lock()

    @property
    def payload(self) -> Mapping[str, Any]:
        """What the job was given."""
        return self.job.payload

    def checkpoint(self) -> None:
        """Call between items: raises JobCancelled, LeaseLost or WorkerStopping when this run must end here."""
        with self._lock:
            stop = self._stop
        if stop is not None:
            raise stop()

    def finish(self, unit: JobUnit, outcome: Mapping[str, Any] | None = None) -> None:
        """Mark the job done in this unit. Raises LeaseLost, which rolls back every effect of the unit."""
        unit.jobs.finish(self.job.id, self.job.lease_token or "", now=self._clock.now(), outcome=outcome)
        self.ended = True

    def wait_for_children(self, unit: JobUnit) -> None:
        """End this run; the job is done when its last child is. Raises LeaseLost."""
        unit.jobs.wait_for_children(self.job.id, self.job.lease_token or "")
        self.ended = True

    def stop(self, reason: Callable[[], Exception]) -> None:
        """Make the next checkpoint raise; called by the heartbeat and at shutdown."""
        with self._lock:
            self._stop = reason
