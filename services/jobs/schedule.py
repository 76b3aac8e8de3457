"""Scheduled work: each kind once per period, however many schedulers there are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from services.jobs.models import JobKind, scheduled
from services.jobs.store import JobDatabase
from services.ports import Clock

_DAY_SECONDS = 86_400


@dataclass(frozen=True, slots=True)
class Periodic:
    """A kind of job and the seconds between its runs."""

    kind: JobKind
    every_seconds: float

    def period(self, now: int) -> int:
        """The number of the period that this moment falls into."""
        return int(now // (self.every_seconds * 1_000_000))

    def latest(self, now: int) -> int:
        """The last period that may have begun if the clock is right, or was set back by a day at most.

        Until then nothing runs, so that nothing runs twice. A clock that was wrong by more must not stop a kind for months.
        """
        return self.period(now) + max(1, int(_DAY_SECONDS // self.every_seconds))


class Scheduler:
    """Enqueues the job of each period that has begun."""

    def __init__(self, database: JobDatabase, clock: Clock, entries: Sequence[Periodic]) -> None:
        self._database = database
        self._clock = clock
        self._entries = entries
        self._begun: dict[Periodic, int] = {}

    def tick(self) -> list[str]:
        """Call as often as you like; the kinds that were enqueued now."""
        now = self._clock.now()
        periods = {entry: entry.period(now) for entry in self._entries}
        news = {entry: period for entry, period in periods.items() if self._begun.get(entry) != period}
        if not news:
            return []
        with self._database.write() as unit:
            mine = [
                entry.kind
                for entry, period in news.items()
                if unit.jobs.begin_period(entry.kind.name, period, latest=entry.latest(now))
            ]
            unit.jobs.renew([scheduled(kind) for kind in mine])
        self._begun |= news
        return [kind.name for kind in mine]
