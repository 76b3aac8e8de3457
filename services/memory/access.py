"""Counting which messages are recalled, in batches, off the read path."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Iterable

from services import errors
from services.ids import MessageId
from services.memory.store import MemoryDatabase
from services.ports import Clock

log = logging.getLogger(__name__)

_PAUSE_SECONDS = 5.0
_MOST_MESSAGES = 10_000


class AccessCounts:
    """A buffer of recalled ids. It is written after some seconds, and when it closes.

    Counts are for ranking and eviction: a crash may lose the last seconds of them. Safe to share between threads.
    """

    def __init__(
        self, database: MemoryDatabase, clock: Clock, *, pause_seconds: float = _PAUSE_SECONDS
    ) -> None:
        self._database = database
        self._clock = clock
        self._pause = pause_seconds
        self._lock = threading.Lock()
        self._counts: Counter[MessageId] = Counter()
        self._timer: threading.Timer | None = None

    def note(self, ids: Iterable[MessageId]) -> None:
        """These messages were recalled now. Writes nothing and waits for nothing."""
        with self._lock:
            if len(self._counts) < _MOST_MESSAGES:
                self._counts.update(ids)
            if self._counts and (self._timer is None or not self._timer.is_alive()):
                self._timer = threading.Timer(self._pause, self.flush)
                self._timer.daemon = True
                self._timer.start()

    def flush(self) -> None:
        """Store what was counted. A database that is busy costs the counts, never the caller."""
        with self._lock:
            counts, self._counts = self._counts, Counter()
        if not counts:
            return
        try:
            with self._database.write(durable=False) as unit:
                unit.messages.touch(counts, now=self._clock.now())
        except errors.MemoryError as error:
            log.warning("access_counts_lost reason=%s", error)

    def close(self) -> None:
        """Store the rest."""
        with self._lock:
            timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()
            # It may be writing just now.
            timer.join()
        self.flush()
