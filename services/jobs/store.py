"""What the ledger asks of the database, inside one unit of work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from services.jobs.models import Job, JobState, NewJob, QueueDepth, Tally


class JobRows(Protocol):
    """The jobs table. Every method runs in the caller's transaction."""

    def enqueue(self, jobs: Sequence[NewJob], *, state: JobState = JobState.PENDING) -> list[int]:
        """Accept the jobs and return their ids, those of live twins included. Raises BackPressure."""

    def renew(self, jobs: Sequence[NewJob]) -> list[int]:
        """The same, in place of dead jobs that were to do the same work: trying again and again piles up no rows."""

    def record(self, jobs: Sequence[tuple[NewJob, Mapping[str, Any]]]) -> None:
        """Write children that are finished already, each with its outcome; known ones are left alone."""

    def due_queues(self, *, now: int) -> set[str]:
        """The queues in which a job is due."""

    def at_rest(self) -> bool:
        """Whether no job waits for its time or runs."""

    def next_due(self, queue: str, *, now: int, after_namespace: str) -> int | None:
        """The id of the job to run next: the first of the next namespace in turn that has one due."""

    def begin_period(self, kind: str, period: int, *, latest: int) -> bool:
        """Whether this caller is the one to enqueue the kind's job of this period; the very first is skipped.

        A period after `latest` was begun by a clock that has been set back since, and is forgotten.
        """

    def claim(self, job_id: int, *, now: int, token: str, lease_until: int) -> Job | None:
        """Take a due job, counting the attempt; None when it is not due or somebody has it."""

    def extend(self, leases: Mapping[int, str], *, lease_until: int) -> dict[int, bool]:
        """Renew leases that are still held: id -> whether a stop was requested. Lost ones are missing."""

    def wait_for_children(self, job_id: int, token: str) -> None:
        """Turn a running job into a waiting parent, closed by its last child. Raises LeaseLost."""

    def finish(self, job_id: int, token: str, *, now: int, outcome: Mapping[str, Any] | None) -> None:
        """Running -> done, and the parent with its last child. Raises LeaseLost."""

    def fail(
        self,
        job: Job,
        *,
        now: int,
        run_after: int | None,
        error_type: str,
        message: str,
        counted: bool = True,
    ) -> bool:
        """Running -> pending at `run_after`, or dead without one; False when the lease was lost.

        With `counted` False the attempt costs the job none.
        """

    def release(self, job: Job) -> None:
        """Give a job back untouched, the attempt not counted: the worker is stopping."""

    def note_lapsed(self, *, now: int, anew: bool) -> None:
        """Note of each lease that has run out that it was seen so at `now`; of those noted before, only if `anew`."""

    def lapsed(self, *, now: int, limit: int, noted_until: int | None = None) -> list[Job]:
        """Running jobs whose lease has run out; with `noted_until` those of which that was noted by then."""

    def lapse(self, job: Job, *, now: int, dead: bool) -> None:
        """Take a lapsed job from its lost worker: pending again, or dead as `worker_lost`."""

    def recall_times(self, *, now: int, latest_due: int, latest_lease: int) -> None:
        """Bring back what a clock wrote that has been set back since: what is due later than that is due now.

        Leases that end later than that end then.
        """

    def undispatched(self, queue: str, *, now: int, stale: int, limit: int) -> list[tuple[int, str]]:
        """(id, kind) of due jobs whose bell never rang, or rang before `stale` without an answer."""

    def mark_dispatched(self, ids: Sequence[int], *, now: int | None) -> None:
        """Remember when the bell rang; None: nobody heard it."""

    def get(self, job_id: int, namespace: str | None = None) -> Job | None:
        """One job, or None."""

    def select(
        self,
        *,
        namespace: str | None = None,
        states: Sequence[str] = (),
        kind: str | None = None,
        parent_id: int | None = None,
        before_id: int | None = None,
        limit: int = 50,
    ) -> list[Job]:
        """Newest first."""

    def tally(self, parent_id: int) -> list[Tally]:
        """Children of a batch, counted by kind, state and outcome."""

    def child_keys(self, parent_id: int, kind: str) -> set[str]:
        """The dedupe keys of a batch's children of one kind."""

    def live_keys(self, kind: str) -> set[tuple[str, str | None]]:
        """(namespace, dedupe key) of every live job of a kind."""

    def settle(self, job_id: int, *, now: int) -> None:
        """Count a job's open children anew, and close a waiting parent that has none."""

    def retry(self, job_id: int, *, now: int) -> bool:
        """Dead -> pending with a clean slate; False for any other state, and while a live twin does its work."""

    def cancel(self, job_id: int, *, now: int) -> bool:
        """Stop a live job: at once if pending, at its next item if running, with all children; False if finished."""

    def purge(self, *, finished_before: int, states: Sequence[str]) -> int:
        """Delete finished jobs (with their finished children); the number of rows."""

    def depths(self, *, now: int, namespace: str | None = None) -> list[QueueDepth]:
        """One row per queue."""


class JobUnit(Protocol):
    """A unit of work that reaches the jobs table."""

    @property
    def jobs(self) -> JobRows:
        """The jobs table in this transaction."""


class JobDatabase(Protocol):
    """Opens units of work. `durable` write units survive power loss."""

    def write(self, *, durable: bool = True) -> AbstractContextManager[JobUnit]:
        """One transaction."""

    def read(self) -> AbstractContextManager[JobUnit]:
        """One consistent view."""
