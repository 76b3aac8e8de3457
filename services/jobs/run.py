"""One run of one job: what a service function gets, to read its payload and to store its effects."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any, Literal

from services import errors
from services.jobs.models import Job
from services.jobs.store import JobUnit
from services.ports import Clock

# No id is larger, nor any product of an id that the database is asked for.
_LARGEST = 2**48


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

    def number(self, name: str) -> int:
        """A field that is a whole number, 0 or more. Raises UnknownVersion."""
        return self._whole(name, self.job.payload.get(name))

    def numbers(self, name: str) -> list[int]:
        """A field that is a list of whole numbers, 0 or more. Raises UnknownVersion."""
        value = self.job.payload.get(name)
        if not isinstance(value, list):
            raise self.unreadable(name)
        return [self._whole(name, each) for each in value]

    def text(self, name: str, *, encoding_errors: Literal["strict", "surrogateescape"] = "strict") -> str:
        """A field that is a text; paths are to be read with "surrogateescape". Raises UnknownVersion."""
        value = self.job.payload.get(name)
        if not is_text(value, encoding_errors):
            raise self.unreadable(name)
        return str(value)

    def unreadable(self, name: str) -> errors.UnknownVersion:
        """The error of a payload in which this field is missing or of another kind than it should be."""
        return errors.UnknownVersion(
            f"the payload of this {self.job.kind} job has no usable {name!r}: another version of zeph-memory enqueued "
            "it. Retry it with that version, or remove it with `zeph jobs purge`"
        )

    def _whole(self, name: str, value: object) -> int:
        if type(value) is not int or not 0 <= value <= _LARGEST:
            raise self.unreadable(name)
        return value

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


def is_text(value: object, encoding_errors: str = "strict") -> bool:
    """Whether this is text that a database or, with "surrogateescape", a file system can be asked for."""
    if not isinstance(value, str) or "\x00" in value:
        return False
    try:
        value.encode("utf-8", encoding_errors)
    except UnicodeEncodeError:
        return False
    return True
