"""The job ledger's SQL. Every statement is guarded, so that two workers can never both own a job."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.sqlite import insert

from services import errors
from services.adapters.tables import jobs as t
from services.adapters.tables import periodic_runs
from services.jobs.models import LIVE_STATES, Job, JobState, NewJob, Queue, QueueDepth, Tally
from services.ports import Clock

MAX_PAYLOAD_BYTES = 65_536
_FINAL = (JobState.DONE, JobState.DEAD)
# One bell makes a worker run everything that is due, so a few of them wake everybody.
_BELLS_PER_UNIT = 16
_ETA_SAMPLE_MICROSECONDS = 60_000_000


# The statements of every job's life, built once: building them costs more than running them.
_DUE = (
    sa.select(t.c.id)
    .where(
        t.c.state == JobState.PENDING,
        t.c.queue == sa.bindparam("queue"),
        t.c.run_after <= sa.bindparam("now"),
    )
    .order_by(t.c.namespace, t.c.priority, t.c.run_after, t.c.id)
    .limit(1)
)
# One statement for all queues, because an idle worker asks several times a second.
# Ordered, so that SQLite takes the index of due jobs and not that of the state, which a backlog of another queue fills.
_DUE_QUEUES = sa.union_all(
    *(
        sa.select(sa.literal(queue.value).label("queue")).where(
            sa.select(t.c.id)
            .where(
                t.c.state == JobState.PENDING, t.c.queue == queue.value, t.c.run_after <= sa.bindparam("now")
            )
            .order_by(t.c.namespace, t.c.priority, t.c.run_after)
            .limit(1)
            .scalar_subquery()
            .is_not(None)
        )
        for queue in Queue
    )
)
_ANY_OPEN = sa.select(t.c.id).where(t.c.state.in_((JobState.PENDING, JobState.RUNNING))).limit(1)
_DUE_TURNS = (
    _DUE.where(t.c.namespace > sa.bindparam("after")),
    _DUE.where(t.c.namespace <= sa.bindparam("after")),
)
_CLAIM = (
    sa.update(t)
    .where(
        t.c.id == sa.bindparam("job_id"), t.c.state == JobState.PENDING, t.c.run_after <= sa.bindparam("now")
    )
    .values(
        state=JobState.RUNNING,
        lease_token=sa.bindparam("token"),
        lease_until=sa.bindparam("until"),
        attempts=t.c.attempts + 1,
        started_at=sa.bindparam("now"),
    )
    .returning(*t.c)
)
# The one way out of `running`: only for the holder of the lease.
_LEAVE = (
    sa.update(t)
    .where(
        t.c.id == sa.bindparam("job_id"),
        t.c.state == JobState.RUNNING,
        t.c.lease_token == sa.bindparam("token"),
    )
    .values(lease_token=None, lease_until=None)
    .returning(t.c.parent_id, t.c.children_open, t.c.cancel_requested)
)
_FINISH = _LEAVE.values(
    state=JobState.DONE,
    finished_at=sa.bindparam("now"),
    outcome=sa.bindparam("outcome_json"),
    error_type=None,
    error_message=None,
)
_COUNT_CHILDREN = (
    sa.update(t)
    .where(t.c.id == sa.bindparam("parent"))
    .values(children_open=t.c.children_open + sa.bindparam("difference"))
    .returning(t.c.children_open, t.c.state)
)
_WAITING = sa.select(sa.func.count()).select_from(
    sa.select(t.c.id).where(t.c.state == JobState.PENDING).limit(sa.bindparam("limit")).subquery()
)
_twin = t.alias()
# Making such a job live again would do the same work twice, and break the unique index.
_TWIN_LIVES = sa.exists().where(
    _twin.c.namespace == t.c.namespace,
    _twin.c.kind == t.c.kind,
    _twin.c.dedupe_key == t.c.dedupe_key,
    _twin.c.state.in_(LIVE_STATES),
)
# Literals, because with bound values SQLite does not use the index of live jobs.
_LIVE = sa.or_(*(t.c.state == sa.literal_column(f"'{state}'") for state in LIVE_STATES))
_SAME = sa.select(t.c.id).where(
    t.c.kind == sa.bindparam("kind"), t.c.dedupe_key == sa.bindparam("dedupe_key")
)
_LIVE_TWIN = _SAME.where(t.c.namespace == sa.bindparam("namespace"), _LIVE)
# Within a batch, a finished child of that name stands as well.
_SIBLING = _SAME.where(t.c.parent_id == sa.bindparam("parent_id"))
_FORGET_DEAD = sa.delete(t).where(
    t.c.state == JobState.DEAD,
    t.c.kind == sa.bindparam("kind"),
    t.c.namespace == sa.bindparam("namespace"),
    t.c.dedupe_key == sa.bindparam("dedupe_key"),
    t.c.parent_id.is_(None),
)
_INSERT = insert(t).on_conflict_do_nothing().returning(t.c.id)


@dataclass(frozen=True, slots=True)
class LedgerLimits:
    """Beyond these, new work is refused before anything is stored."""

    max_live: int = 100_000
    min_free_disk_bytes: int = 0


class SqlJobRows:
    """Implements `services.jobs.store.JobRows` on one connection."""

    def __init__(self, connection: sa.Connection, clock: Clock, limits: LedgerLimits, disk: Path) -> None:
        self._connection = connection
        self._clock = clock
        self._limits = limits
        self._disk = disk
        # Counted once for each transaction, which nobody else adds to.
        self._waiting: int | None = None
        self.rung: list[tuple[str, str, int]] = []

    # ---- accepting -------------------------------------------------------------------------------------------

    def enqueue(self, jobs: Sequence[NewJob], *, state: JobState = JobState.PENDING) -> list[int]:
        """See JobRows. The first jobs of each queue ring the bell when the transaction commits."""
        if not jobs:
            return []
        self._check_room(jobs)
        now = self._clock.now()
        ids: list[int] = []
        opened: dict[int, int] = {}
        for job in jobs:
            rings = state is JobState.PENDING and job.run_after is None and len(self.rung) < _BELLS_PER_UNIT
            row = _row(job, now) | {"state": state, "dispatched_at": now if rings else None}
            created = self._connection.execute(_INSERT, row).scalar()
            ids.append(self._twin(job) if created is None else created)
            if created is None:
                continue
            if self._waiting is not None and state is JobState.PENDING:
                self._waiting += 1
            if rings:
                self.rung.append((job.kind.queue, job.kind.name, created))
            if job.parent_id is not None:
                opened[job.parent_id] = opened.get(job.parent_id, 0) + 1
        for parent_id, count in opened.items():
            self._count_children(parent_id, count)
        return ids

    def renew(self, jobs: Sequence[NewJob]) -> list[int]:
        """See JobRows."""
        gone = [
            {"kind": job.kind.name, "namespace": job.namespace, "dedupe_key": job.dedupe_key} for job in jobs
        ]
        if gone:
            self._connection.execute(_FORGET_DEAD, gone)
        return self.enqueue(jobs)

    def record(self, jobs: Sequence[tuple[NewJob, Mapping[str, Any]]]) -> None:
        """See JobRows."""
        now = self._clock.now()
        for job, outcome in jobs:
            row = _row(job, now) | {
                "state": JobState.DONE,
                "finished_at": now,
                "outcome": json.dumps(outcome),
            }
            self._connection.execute(insert(t).values(row).on_conflict_do_nothing())

    def _twin(self, job: NewJob) -> int:
        """The id of the job that made this one superfluous."""
        same = {"kind": job.kind.name, "dedupe_key": job.dedupe_key}
        found = self._connection.execute(_LIVE_TWIN, same | {"namespace": job.namespace}).scalar()
        if found is None:
            sibling = self._connection.execute(_SIBLING, {**same, "parent_id": job.parent_id})
            found = sibling.scalar_one()
        return int(found)

    def _check_room(self, jobs: Sequence[NewJob]) -> None:
        # Maintenance is what makes room, and the children of a batch were accepted with it.
        filling = [job for job in jobs if job.kind.queue is not Queue.MAINTENANCE]
        wanted = sum(job.parent_id is None for job in filling)
        if wanted:
            self._check_queue(wanted)
        if filling:
            self._check_disk()

    def _check_queue(self, wanted: int) -> None:
        if self._waiting is None:
            values = {"limit": self._limits.max_live + 1}
            self._waiting = int(self._connection.execute(_WAITING, values).scalar_one())
        if self._waiting + wanted > self._limits.max_live:
            raise errors.BackPressure(
                f"{self._waiting} jobs wait already (jobs.max_live_jobs = {self._limits.max_live}): start more workers, "
                "or wait until they have caught up"
            )

    def _check_disk(self) -> None:
        free = shutil.disk_usage(self._disk).free
        if free < self._limits.min_free_disk_bytes:
            raise errors.BackPressure(
                f"only {free // 2**20} MiB are free on the disk of {self._disk} (jobs.min_free_disk_bytes = "
                f"{self._limits.min_free_disk_bytes}): free some space, nothing accepted so far is lost"
            )

    def _count_children(self, parent_id: int, difference: int) -> sa.Row[Any] | None:
        return self._connection.execute(
            _COUNT_CHILDREN, {"parent": parent_id, "difference": difference}
        ).first()

    # ---- running ---------------------------------------------------------------------------------------------

    def due_queues(self, *, now: int) -> set[str]:
        """See JobRows. One index seek for each queue."""
        return {str(queue) for (queue,) in self._connection.execute(_DUE_QUEUES, {"now": now})}

    def at_rest(self) -> bool:
        """See JobRows. One index seek."""
        return self._connection.execute(_ANY_OPEN).first() is None

    def next_due(self, queue: str, *, now: int, after_namespace: str) -> int | None:
        """See JobRows. One index seek, two at the end of a turn."""
        values = {"queue": queue, "now": now, "after": after_namespace}
        for turn in _DUE_TURNS:
            found = self._connection.execute(turn, values).scalar()
            if found is not None:
                return int(found)
        return None

    def begin_period(self, kind: str, period: int, *, latest: int) -> bool:
        """See JobRows."""
        known = insert(periodic_runs).values(kind=kind, period=period).on_conflict_do_nothing()
        if self._connection.execute(known).rowcount:
            return False
        begun = sa.update(periodic_runs).where(periodic_runs.c.kind == kind).values(period=period)
        if self._connection.execute(begun.where(periodic_runs.c.period > latest)).rowcount:
            return False
        return bool(self._connection.execute(begun.where(periodic_runs.c.period < period)).rowcount)

    def claim(self, job_id: int, *, now: int, token: str, lease_until: int) -> Job | None:
        """See JobRows."""
        values = {"job_id": job_id, "now": now, "token": token, "until": lease_until}
        row = self._connection.execute(_CLAIM, values).first()
        return _job(row) if row else None

    def extend(self, leases: Mapping[int, str], *, lease_until: int) -> dict[int, bool]:
        """See JobRows."""
        held: dict[int, bool] = {}
        for job_id, token in leases.items():
            stop = self._connection.execute(
                sa.update(t)
                .where(t.c.id == job_id, t.c.state == JobState.RUNNING, t.c.lease_token == token)
                .values(lease_until=lease_until)
                .returning(t.c.cancel_requested)
            ).scalar()
            if stop is not None:
                held[job_id] = bool(stop)
        return held

    def wait_for_children(self, job_id: int, token: str) -> None:
        """See JobRows."""
        row = self._leave_running(job_id, token, {"state": JobState.WAITING})
        if row is None:
            raise errors.LeaseLost(f"job {job_id} was taken over by another worker")
        if row.cancel_requested:
            # Children may have come in after the request.
            self.cancel(job_id, now=self._clock.now())
        if row.children_open == 0:
            self._close(job_id, JobState.WAITING, now=self._clock.now())

    def finish(self, job_id: int, token: str, *, now: int, outcome: Mapping[str, Any] | None) -> None:
        """See JobRows."""
        ending = None if outcome is None else json.dumps(outcome)
        values = {"job_id": job_id, "token": token, "now": now, "outcome_json": ending}
        row = self._connection.execute(_FINISH, values).first()
        if row is None:
            raise errors.LeaseLost(f"job {job_id} was taken over by another worker")
        self._child_closed(row.parent_id, now)

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
        """See JobRows."""
        reason = {"error_type": error_type, "error_message": message[:500]}
        if run_after is not None:
            attempts = t.c.attempts - (not counted)
            return self._give_back(job, {**reason, "attempts": attempts, "run_after": run_after}, now=now)
        return self._bury(job, reason, now=now)

    def release(self, job: Job) -> None:
        """See JobRows."""
        self._give_back(job, {"attempts": t.c.attempts - 1}, now=self._clock.now())

    def note_lapsed(self, *, now: int, anew: bool) -> None:
        """See JobRows."""
        late = sa.update(t).where(t.c.state == JobState.RUNNING, t.c.lease_until < now)
        if not anew:
            late = late.where(sa.or_(t.c.lapsed_at.is_(None), t.c.lapsed_at <= t.c.lease_until))
        self._connection.execute(late.values(lapsed_at=now))

    def lapsed(self, *, now: int, limit: int, noted_until: int | None = None) -> list[Job]:
        """See JobRows."""
        late = sa.select(t).where(t.c.state == JobState.RUNNING, t.c.lease_until < now)
        if noted_until is not None:
            late = late.where(t.c.lapsed_at > t.c.lease_until, t.c.lapsed_at <= noted_until)
        return [_job(row) for row in self._connection.execute(late.order_by(t.c.lease_until).limit(limit))]

    def lapse(self, job: Job, *, now: int, dead: bool) -> None:
        """See JobRows."""
        lost = {"lost_leases": job.lost_leases + 1}
        if not dead:
            # It keeps its place, before what was accepted after it.
            self._give_back(job, {**lost, "run_after": sa.func.min(t.c.run_after, now)}, now=now)
            return
        message = (
            f"the worker vanished {job.lost_leases + 1} times while running it: the job may kill its worker"
        )
        self._bury(job, lost | {"error_type": "worker_lost", "error_message": message}, now=now)

    def recall_times(self, *, now: int, latest_due: int, latest_lease: int) -> None:
        """See JobRows."""
        pending = sa.update(t).where(t.c.state == JobState.PENDING, t.c.run_after > latest_due)
        self._connection.execute(pending.values(run_after=now))
        running = sa.update(t).where(t.c.state == JobState.RUNNING, t.c.lease_until > latest_lease)
        self._connection.execute(running.values(lease_until=latest_lease, lapsed_at=None))

    def _give_back(self, job: Job, values: Mapping[str, Any], *, now: int) -> bool:
        """Running -> pending; a job that was asked to stop ends here instead. False when the lease was lost."""
        again = {"state": JobState.PENDING, "dispatched_at": None, **values}
        row = self._leave_running(job.id, job.lease_token or "", again)
        if row is not None and row.cancel_requested:
            self._close(job.id, JobState.PENDING, now=now)
        return row is not None

    def _bury(self, job: Job, values: Mapping[str, Any], *, now: int) -> bool:
        """Running -> dead; False when the lease was lost."""
        ending = {"state": JobState.DEAD, "finished_at": now, **values}
        row = self._leave_running(job.id, job.lease_token or "", ending)
        if row is not None:
            self._child_closed(row.parent_id, now)
        return row is not None

    def _leave_running(self, job_id: int, token: str, values: Mapping[str, Any]) -> sa.Row[Any] | None:
        return self._connection.execute(_LEAVE.values(**values), {"job_id": job_id, "token": token}).first()

    def _child_closed(self, parent_id: int | None, now: int) -> None:
        row = None if parent_id is None else self._count_children(parent_id, -1)
        if (
            parent_id is not None
            and row is not None
            and row.children_open <= 0
            and row.state == JobState.WAITING
        ):
            self._close(parent_id, JobState.WAITING, now=now)

    def _close(self, job_id: int, state: JobState, *, now: int) -> None:
        stopped = t.c.cancel_requested == 1
        row = self._connection.execute(
            sa.update(t)
            .where(t.c.id == job_id, t.c.state == state)
            .values(
                state=sa.case((stopped, JobState.DEAD), else_=JobState.DONE),
                error_type=sa.case((stopped, "cancelled"), else_=None),
                error_message=sa.case((stopped, "cancelled on request"), else_=None),
                finished_at=now,
            )
            .returning(t.c.parent_id)
        ).first()
        if row is not None:
            self._child_closed(row.parent_id, now)

    # ---- ringing the bell ------------------------------------------------------------------------------------

    def undispatched(self, queue: str, *, now: int, stale: int, limit: int) -> list[tuple[int, str]]:
        """See JobRows."""
        silent = sa.or_(t.c.dispatched_at.is_(None), t.c.dispatched_at < stale)
        due = [t.c.state == JobState.PENDING, t.c.queue == queue, t.c.run_after <= now, silent]
        found = (
            sa.select(t.c.id, t.c.kind).where(*due).order_by(t.c.priority, t.c.run_after, t.c.id).limit(limit)
        )
        return [(int(row.id), str(row.kind)) for row in self._connection.execute(found)]

    def mark_dispatched(self, ids: Sequence[int], *, now: int | None) -> None:
        """See JobRows."""
        if ids:
            self._connection.execute(sa.update(t).where(t.c.id.in_(ids)).values(dispatched_at=now))

    # ---- looking and steering --------------------------------------------------------------------------------

    def get(self, job_id: int, namespace: str | None = None) -> Job | None:
        """See JobRows."""
        wanted = sa.select(t).where(t.c.id == job_id)
        if namespace is not None:
            wanted = wanted.where(t.c.namespace == namespace)
        row = self._connection.execute(wanted).first()
        return _job(row) if row else None

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
        """See JobRows."""
        given = (
            (namespace, t.c.namespace == namespace),
            (kind, t.c.kind == kind),
            (parent_id, t.c.parent_id == parent_id),
            (before_id, t.c.id < (before_id or 0)),
            (states or None, t.c.state.in_(states)),
        )
        tests = [test for value, test in given if value is not None]
        found = sa.select(t).where(*tests).order_by(t.c.id.desc()).limit(max(1, min(limit, 10_000)))
        return [_job(row) for row in self._connection.execute(found)]

    def tally(self, parent_id: int) -> list[Tally]:
        """See JobRows."""

        def field(name: str) -> sa.ColumnElement[Any]:
            return sa.func.json_extract(t.c.outcome, f"$.{name}")

        def total(name: str) -> sa.ColumnElement[Any]:
            return sa.func.coalesce(sa.func.sum(field(name)), 0)

        status = sa.func.coalesce(field("status"), "")
        counted = (
            sa.select(
                t.c.kind,
                t.c.state,
                status,
                sa.func.count(),
                total("chunks"),
                total("added"),
                total("vectors"),
            )
            .where(t.c.parent_id == parent_id)
            .group_by(t.c.kind, t.c.state, status)
        )
        return [Tally(*row) for row in self._connection.execute(counted)]

    def child_keys(self, parent_id: int, kind: str) -> set[str]:
        """See JobRows."""
        keys = sa.select(t.c.dedupe_key).where(t.c.parent_id == parent_id, t.c.kind == kind)
        return {str(key) for (key,) in self._connection.execute(keys)}

    def live_keys(self, kind: str) -> set[tuple[str, str | None]]:
        """See JobRows."""
        keys = sa.select(t.c.namespace, t.c.dedupe_key).where(t.c.kind == kind, _LIVE)
        return {(namespace, key) for namespace, key in self._connection.execute(keys)}

    def settle(self, job_id: int, *, now: int) -> None:
        """See JobRows."""
        child = t.alias()
        still = sa.select(sa.func.count()).where(child.c.parent_id == job_id, child.c.state.in_(LIVE_STATES))
        counted = sa.update(t).where(t.c.id == job_id).values(children_open=still.scalar_subquery())
        row = self._connection.execute(counted.returning(t.c.children_open)).first()
        if row is not None and row.children_open == 0:
            self._close(job_id, JobState.WAITING, now=now)

    def retry(self, job_id: int, *, now: int) -> bool:
        """See JobRows. A finished parent waits again; the dead children of a batch run again with it."""
        again = {
            "state": JobState.PENDING,
            "run_after": now,
            "dispatched_at": None,
            "attempts": 0,
            "lost_leases": 0,
        }
        row = self._connection.execute(
            sa.update(t)
            .where(t.c.id == job_id, t.c.state == JobState.DEAD, ~_TWIN_LIVES)
            .values(**again, finished_at=None, cancel_requested=0)
            .returning(t.c.parent_id, t.c.queue, t.c.kind)
        ).first()
        if row is None:
            return False
        if len(self.rung) < _BELLS_PER_UNIT:
            self.rung.append((row.queue, row.kind, job_id))
        self._reopen(row.parent_id)
        children = sa.select(t.c.id).where(t.c.parent_id == job_id, t.c.state == JobState.DEAD)
        for child in self._connection.execute(children).scalars().all():
            self.retry(child, now=now)
        return True

    def _reopen(self, parent_id: int | None) -> None:
        """A parent with one more open child waits again, and so do the parents above it."""
        if parent_id is None:
            return
        self._count_children(parent_id, 1)
        waits = {"state": JobState.WAITING, "finished_at": None, "cancel_requested": 0}
        row = self._connection.execute(
            sa.update(t)
            .where(t.c.id == parent_id, t.c.state.in_(_FINAL), ~_TWIN_LIVES)
            .values(**waits, error_type=None, error_message=None)
            .returning(t.c.parent_id)
        ).first()
        if row is not None:
            self._reopen(row.parent_id)

    def cancel(self, job_id: int, *, now: int) -> bool:
        """See JobRows."""
        concerned = sa.or_(t.c.id == job_id, t.c.parent_id == job_id)
        asked = (
            self._connection.execute(
                sa.update(t)
                .where(concerned, t.c.state.in_(LIVE_STATES))
                .values(cancel_requested=1)
                .returning(t.c.id)
            )
            .scalars()
            .all()
        )
        ids = sa.select(t.c.id).where(concerned, t.c.state == JobState.PENDING)
        for (pending,) in self._connection.execute(ids).all():
            self._close(pending, JobState.PENDING, now=now)
        return job_id in asked

    def purge(self, *, finished_before: int, states: Sequence[str]) -> int:
        """See JobRows."""
        final = [state for state in states if state in _FINAL]
        old = [t.c.state.in_(final), t.c.finished_at < finished_before, t.c.children_open <= 0]
        # A batch goes as a whole: not before its parent, and never with a child that must stay.
        parent, child = t.alias(), t.alias()
        batch_lives = sa.exists().where(parent.c.id == t.c.parent_id, parent.c.state.in_(LIVE_STATES))
        must_stay = sa.exists().where(child.c.parent_id == t.c.id, child.c.state.not_in(final))
        count = sa.select(sa.func.count()).select_from(t)
        before = self._connection.execute(count).scalar_one()
        self._connection.execute(sa.delete(t).where(*old, ~batch_lives, ~must_stay))
        # The children of a batch go with it, which SQLite does not count.
        return before - self._connection.execute(count).scalar_one()

    def depths(self, *, now: int, namespace: str | None = None) -> list[QueueDepth]:
        """See JobRows. The estimate extrapolates the last minute's rate."""
        mine = sa.true() if namespace is None else t.c.namespace == namespace
        pending, due = t.c.state == JobState.PENDING, t.c.run_after <= now
        recent = sa.and_(t.c.state == JobState.DONE, t.c.finished_at > now - _ETA_SAMPLE_MICROSECONDS)
        count = sa.func.count
        rows = self._connection.execute(
            sa.select(
                t.c.queue,
                count().filter(pending, due).label("pending"),
                count().filter(pending, ~due).label("delayed"),
                count().filter(t.c.state == JobState.RUNNING).label("running"),
                count().filter(t.c.state == JobState.DEAD).label("dead"),
                count().filter(recent).label("recent"),
                sa.func.min(t.c.created_at).filter(pending, due).label("oldest"),
                sa.func.min(t.c.finished_at).filter(recent).label("since"),
            )
            .where(mine)
            .group_by(t.c.queue)
            .order_by(t.c.queue)
        )
        return [_depth(row, now) for row in rows]


def _row(job: NewJob, now: int) -> dict[str, Any]:
    payload = json.dumps(job.payload)
    if len(payload) > MAX_PAYLOAD_BYTES:
        raise errors.InputError(
            f"the payload of a {job.kind.name} job has {len(payload)} bytes: pass references, not bodies "
            f"(at most {MAX_PAYLOAD_BYTES})"
        )
    return {
        "namespace": job.namespace,
        "kind": job.kind.name,
        "queue": job.kind.queue,
        "dedupe_key": job.dedupe_key,
        "payload": payload,
        "priority": job.priority,
        "run_after": now if job.run_after is None else job.run_after,
        "parent_id": job.parent_id,
        "created_at": now,
    }


def _job(row: sa.Row[Any]) -> Job:
    return Job(
        id=row.id,
        namespace=row.namespace,
        kind=row.kind,
        queue=row.queue,
        dedupe_key=row.dedupe_key,
        payload=_payload(row.payload),
        state=JobState(row.state),
        priority=row.priority,
        attempts=row.attempts,
        lost_leases=row.lost_leases,
        cancel_requested=bool(row.cancel_requested),
        run_after=row.run_after,
        lease_token=row.lease_token,
        lease_until=row.lease_until,
        error_type=row.error_type,
        error_message=row.error_message,
        outcome=None if row.outcome is None else json.loads(row.outcome),
        parent_id=row.parent_id,
        children_open=row.children_open,
        created_at=row.created_at,
        started_at=row.started_at,
        finished_at=row.finished_at,
    )


def _payload(text: str) -> dict[str, Any]:
    """What the job was given; nothing where that is no object, so that the job can be claimed, shown and buried."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _depth(row: sa.Row[Any], now: int) -> QueueDepth:
    waiting = row.pending + row.delayed
    seconds = max((now - row.since) / 1e6, 1.0) if row.since else 0.0
    eta = waiting * seconds / row.recent if waiting and row.recent else (0.0 if not waiting else None)
    return QueueDepth(
        queue=row.queue,
        pending=row.pending,
        delayed=row.delayed,
        running=row.running,
        dead=row.dead,
        oldest_seconds=max(0, now - row.oldest) / 1e6 if row.oldest else 0.0,
        eta_seconds=eta,
    )
