"""Scheduled work: each kind once per period, however many schedulers there are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from services.jobs.models import JobKind, NewJob
from services.jobs.store import JobDatabase
from services.ports import Clock


@dataclass(frozen=True, slots=True)
class Periodic:
    """A kind of job and the seconds between its runs."""

    kind: JobKind
    every_seconds: float


class Scheduler:
    """Enqueues the job of each period that has begun."""

    def __init__(self, database: JobDatabase, clock: Clock, entries: Sequence[Periodic]) -> None:
        self._database = database
        self._clock = clock
        self._entries = entries
        self._begun: dict[str, int] = {}

    def tick(self) -> list[str]:
        """Call as often as you like; the kinds that were enqueued now."""
        now = self._clock.now()
        periods = {entry.kind: int(now // (entry.every_seconds * 1_000_000)) for entry in self._entries}
        news = {kind: period for kind, period in periods.items() if self._begun.get(kind.name) != period}
        if not news:
            return []
        with self._database.write() as unit:
            mine = [kind for kind, period in news.items() if unit.jobs.begin_period(kind.name, period)]
            unit.jobs.enqueue([NewJob(kind, dedupe_key="scheduled") for kind in mine])
        self._begun |= {kind.name: period for kind, period in news.items()}
        return [kind.name for kind in mine]
