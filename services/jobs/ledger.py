"""The ledger: hands out due jobs under a lease, keeps leases alive, retries, and buries with a reason.

At-least-once delivery, effectively-once effects: a job may run twice, its effects are stored once.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from services import errors
from services.jobs.models import Job, Queue, RetryPolicy
from services.jobs.run import JobRun
from services.jobs.store import JobDatabase
from services.ports import Clock, Entropy, Publisher

log = logging.getLogger(__name__)

_LAPSED_PER_SWEEP = 500
_MOMENT_MICROSECONDS = 50_000
# A vector store that is away is no job's fault: for so long after the job was accepted it costs no attempt. The waits
# grow with the outage, and stay so short that work goes on soon after the store is back.
_PATIENCE_SECONDS = 600.0
_LONGEST_AWAY_SECONDS = 60.0
# Clocks are corrected by small steps all the time; less than this is not worth a look at every job.
_SET_BACK_MICROSECONDS = 10_000_000


class Ledger:
    """Claims, heartbeats, retries and sweeps over the jobs table."""

    def __init__(
        self,
        database: JobDatabase,
        clock: Clock,
        entropy: Entropy,
        publisher: Publisher,
        policy: RetryPolicy,
        *,
        window: int = 64,
    ) -> None:
        self._database = database
        self._clock = clock
        self._entropy = entropy
        self._publisher = publisher
        self._policy = policy
        self._window = window
        self._last_namespace: dict[str, str] = {}
        self._busy: set[str] = set()
        self._emptied: dict[str, int] = {}
        self._turn = 0
        self._swept_at: int | None = None

    def claim(self, job_id: int) -> JobRun | None:
        """Take this job if it is due and free."""
        with self._database.write(durable=False) as unit:
            job = unit.jobs.claim(
                job_id, now=self._clock.now(), token=self._entropy.token(), lease_until=self._lease_end()
            )
        return None if job is None else JobRun(job, self._clock)

    def claim_next(self, queues: Sequence[str]) -> JobRun | None:
        """Take the next due job: queues in turn, and in each queue namespaces in turn.

        So no backlog, however long, holds up another namespace's single note.
        """
        self._turn += 1
        start, recent = self._turn % len(queues), self._clock.now() - _MOMENT_MICROSECONDS
        in_turn = [*queues[start:], *queues[:start]]
        due: set[str] | None = None
        # Looking into queues that were empty a moment ago would cost a busy worker half of its time.
        for queue in sorted(in_turn, key=lambda queue: self._emptied.get(queue, 0) > recent):
            # An idle worker only looks, once at all queues; a busy one expects more and goes straight for the write lock.
            if queue not in self._busy and due is None:
                due = self._due()
            if queue in self._busy or (due is not None and queue in due):
                job = self._claim_in(queue)
                if job is not None:
                    return JobRun(job, self._clock)
            self._emptied[queue] = self._clock.now()
        return None

    def _claim_in(self, queue: str) -> Job | None:
        after = self._last_namespace.get(queue, "")
        with self._database.write(durable=False) as unit:
            now = self._clock.now()
            found = unit.jobs.next_due(queue, now=now, after_namespace=after)
            job = found and unit.jobs.claim(
                found, now=now, token=self._entropy.token(), lease_until=self._lease_end()
            )
        if not job:
            self._busy.discard(queue)
            return None
        self._busy.add(queue)
        self._last_namespace[queue] = job.namespace
        return job

    def _due(self) -> set[str]:
        with self._database.read() as unit:
            return unit.jobs.due_queues(now=self._clock.now())

    def at_rest(self) -> bool:
        """Whether no job waits for its time or runs: only what is accepted from now on can bring work."""
        with self._database.read() as unit:
            return unit.jobs.at_rest()

    def heartbeat(self, runs: Sequence[JobRun]) -> None:
        """Renew the leases of these runs, and tell those that were cancelled or taken over to stop."""
        if not runs:
            return
        leases = {run.job.id: run.job.lease_token or "" for run in runs}
        with self._database.write(durable=False) as unit:
            held = unit.jobs.extend(leases, lease_until=self._lease_end())
        for run in runs:
            if run.job.id not in held:
                run.stop(lambda: errors.LeaseLost("the job was taken over by another worker"))
            elif held[run.job.id]:
                run.stop(lambda: errors.JobCancelled("cancelled on request"))

    def failed(self, run: JobRun, error: Exception) -> bool:
        """Record a failure: again later if that can help, else dead. True when it is dead now."""
        job, now = run.job, self._clock.now()
        again = isinstance(error, errors.TransientError) or not isinstance(error, errors.MemoryError)
        age = (now - job.created_at) / 1_000_000
        away = isinstance(error, errors.VectorStoreUnavailable)
        counted = not away or age > _PATIENCE_SECONDS
        run_after: int | None = None
        if again and (job.attempts < self._policy.max_attempts or not counted) and not job.cancel_requested:
            delay = self._delay_seconds(job, error)
            delay = min(max(delay, age / 4), _LONGEST_AWAY_SECONDS) if away else delay
            run_after = now + int(delay * 1_000_000)
        name = "cancelled" if isinstance(error, errors.JobCancelled) else type(error).__name__
        reason = _readable(error)
        with self._database.write(durable=False) as unit:
            unit.jobs.fail(
                job, now=now, run_after=run_after, error_type=name, message=reason, counted=counted
            )
        run.ended = True
        return run_after is None

    def release(self, run: JobRun) -> None:
        """Give the job back untouched, because this worker is stopping."""
        with self._database.write(durable=False) as unit:
            unit.jobs.release(run.job)
        run.ended = True

    def sweep(self, *, linger: bool = True) -> Mapping[str, int]:
        """Take back the jobs of vanished workers and ring for everything that is due and unanswered.

        Any number of processes may sweep at once. Takes a tenth of a lease longer when a worker seems to have vanished,
        unless told not to `linger`: then a later sweep takes its jobs back.
        """
        self._heed_the_clock()
        if self.at_rest():
            return {"returned": 0, "buried": 0, "rung": 0}
        returned, buried = self._take_back(linger=linger)
        return {"returned": returned, "buried": buried, "rung": sum(self.ring(queue) for queue in Queue)}

    def _heed_the_clock(self) -> None:
        """Where the clock has been set back, or may have been before this process began, bring times within reach."""
        now = self._clock.now()
        if self._swept_at is None or now < self._swept_at - _SET_BACK_MICROSECONDS:
            latest_due = now + int(self._policy.cap_seconds * 1_000_000)
            with self._database.write(durable=False) as unit:
                unit.jobs.recall_times(now=now, latest_due=latest_due, latest_lease=self._lease_end())
        self._swept_at = now

    def ring(self, queue: str, limit: int | None = None) -> int:
        """Publish due jobs that nobody was told of, a bounded number; how many."""
        now = self._clock.now()
        # A bell that nobody answered is rung again after the time in which a silent worker counts as lost.
        stale = now - int(self._policy.lease_seconds * 1_000_000)
        with self._database.read() as unit:
            due = unit.jobs.undispatched(queue, now=now, stale=stale, limit=limit or self._window)
        if not due:
            return 0
        try:
            for job_id, kind in due:
                self._publisher.publish(queue, kind, job_id)
        except errors.TransientError as error:
            # Nothing is lost: the next sweep tries again, and embedded workers need no bell.
            log.warning("bell_failed queue=%s reason=%s", queue, error)
            return 0
        with self._database.write(durable=False) as unit:
            unit.jobs.mark_dispatched([job_id for job_id, _ in due], now=now)
        return len(due)

    def unheard(self, job_id: int) -> None:
        """Let the bell of this job ring again, because who heard it goes away without looking at the job."""
        with self._database.write(durable=False) as unit:
            unit.jobs.mark_dispatched([job_id], now=None)

    def _take_back(self, *, linger: bool) -> tuple[int, int]:
        """(returned, buried). A lease that ran out while nobody could write is not lost: its holder waits like this sweep.

        So every lease gets a second look, and between the two a time in which the database is free. The first look is
        written down, for where workers vanish so fast that no sweep lives until the second one.
        """
        returned = buried = 0
        for pause in (0.0, self._second_look) if linger else (0.0,):
            with self._database.read() as unit:
                if not unit.jobs.lapsed(now=self._clock.now(), limit=1):
                    break
            if pause:
                self._clock.sleep(pause)
            alive, dead = self._look()
            returned, buried = returned + alive, buried + dead
        return returned, buried

    def _look(self) -> tuple[int, int]:
        asked = self._clock.monotonic()
        with self._database.write(durable=False) as unit:
            now = self._clock.now()
            # When it was not free at all until now, earlier looks are worth nothing.
            unit.jobs.note_lapsed(now=now, anew=self._clock.monotonic() - asked > self._second_look)
            noted = now - int(self._second_look * 1_000_000)
            late = unit.jobs.lapsed(now=now, noted_until=noted, limit=_LAPSED_PER_SWEEP)
            dead = [job for job in late if job.lost_leases + 1 >= self._policy.max_lost_leases]
            for job in late:
                unit.jobs.lapse(job, now=now, dead=job in dead)
        return len(late) - len(dead), len(dead)

    @property
    def _second_look(self) -> float:
        """The seconds between two looks at a lease that has run out: more than a heartbeat that failed waits."""
        return self._policy.lease_seconds / 10

    def _lease_end(self) -> int:
        return self._clock.now() + int(self._policy.lease_seconds * 1_000_000)

    def _delay_seconds(self, job: Job, error: Exception) -> float:
        wished = error.retry_after_seconds if isinstance(error, errors.TransientError) else None
        if wished is not None:
            return min(max(wished, 0.0), self._policy.cap_seconds)
        return self._entropy.uniform(0.0, self._policy.delay_ceiling(job.attempts))


def _readable(error: Exception) -> str:
    text = str(error) or (type(error).__doc__ or type(error).__name__)
    return " ".join(text.split())
