"""Forgetting what is neither new nor recalled, so that a memory stays within its size. Off by default.

A message leaves in two steps: it vanishes from every read at once, and its row is erased when its vectors are gone.
A crash between the steps costs nothing but time.
"""

from __future__ import annotations

import heapq
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from services.embedding.writing import removal_job
from services.ids import MessageId
from services.jobs.run import JobRun
from services.jobs.store import JobRows
from services.memory.store import MessageRows
from services.ports import Clock

# The forgetting curve of Ebbinghaus: what was never recalled keeps 24 % after a day.
STABILITY_SECONDS = 86_400
_MICROSECONDS = 1_000_000
_PER_STEP = 500


@dataclass(frozen=True, slots=True)
class Candidate:
    """A message that may be evicted; `seen_at` is when it was last recalled, or else written, in microseconds."""

    id: MessageId
    seen_at: int
    access_count: int
    conversation_id: int = 0


@dataclass(frozen=True, slots=True)
class EvictionReport:
    """What an eviction found and did. `protected` messages are over the limit and stay."""

    messages: int
    evicted: int
    protected: int


class EvictionRows(Protocol):
    """What eviction asks of the messages table."""

    def namespaces(self) -> Sequence[str]:
        """Every namespace with messages, deleted ones included."""

    def counts(self, namespace: str) -> dict[int, int]:
        """Conversation id -> messages that are not deleted."""

    def candidates(self, namespace: str, *, preserve_tail: int) -> Iterable[Candidate]:
        """Messages that may go: not the last `preserve_tail` of a conversation, no summaries, nor where one ends."""

    def erase_clean(self, namespace: str, *, limit: int) -> int:
        """Delete for good the rows of deleted messages of which no vector is left; how many.

        Those by which a summary or a correction is found stay, hidden, until that goes.
        """


class EvictionUnit(Protocol):
    """A unit of work for eviction."""

    @property
    def jobs(self) -> JobRows:
        """The job ledger."""

    @property
    def messages(self) -> MessageRows:
        """Conversations and messages."""

    @property
    def eviction(self) -> EvictionRows:
        """What may go."""


class EvictionDatabase(Protocol):
    """Opens units of work."""

    def write(self, *, durable: bool = True) -> AbstractContextManager[EvictionUnit]:
        """One transaction."""

    def read(self) -> AbstractContextManager[EvictionUnit]:
        """One consistent view."""


class MessageEviction:
    """Keeps each namespace, or each conversation, within `max_entries` messages; 0 keeps all."""

    def __init__(
        self,
        database: EvictionDatabase,
        clock: Clock,
        *,
        max_entries: int,
        preserve_tail: int,
        per_conversation: bool = False,
    ) -> None:
        self._database = database
        self._clock = clock
        self._max_entries = max_entries
        self._preserve_tail = preserve_tail
        self._per_conversation = per_conversation

    def evict(
        self,
        namespace: str,
        *,
        max_entries: int | None = None,
        dry_run: bool = False,
        run: JobRun | None = None,
    ) -> EvictionReport:
        """Take the least retained messages above the limit out of every read; jobs remove their vectors.

        `max_entries` overrides the setting. Nothing is written in a dry run.
        """
        limit = self._max_entries if max_entries is None else max_entries
        with self._database.read() as unit:
            counts = unit.eviction.counts(namespace)
            excess = {group: size - limit for group, size in self._sizes(counts).items() if size > limit > 0}
            going = self._weakest(unit, namespace, excess) if excess else []
        if not dry_run:
            self._remove(namespace, going, run)
        return EvictionReport(sum(counts.values()), len(going), sum(excess.values()) - len(going))

    def erase(self, namespace: str, run: JobRun | None = None) -> int:
        """Erase evicted messages whose vectors are gone; how many."""
        erased = 0
        while True:
            _checkpoint(run)
            with self._database.write() as unit:
                step = unit.eviction.erase_clean(namespace, limit=_PER_STEP)
            erased += step
            if step < _PER_STEP:
                return erased

    def sweep(self, run: JobRun) -> None:
        """The scheduled job: evict and erase in every namespace."""
        with self._database.read() as unit:
            namespaces = unit.eviction.namespaces()
        evicted = erased = 0
        for namespace in namespaces:
            erased += self.erase(namespace, run)
            evicted += self.evict(namespace, run=run).evicted
        with self._database.write() as unit:
            run.finish(unit, {"evicted": evicted, "erased": erased})

    def _sizes(self, counts: Mapping[int, int]) -> Mapping[int, int]:
        """Messages of each group that has the limit: of each conversation, or of all as group 0."""
        return counts if self._per_conversation else {0: sum(counts.values())}

    def _weakest(self, unit: EvictionUnit, namespace: str, excess: Mapping[int, int]) -> list[MessageId]:
        """Of each group as many as are too many, or may go."""
        now = self._clock.now()
        groups: defaultdict[int, list[Candidate]] = defaultdict(list)
        for candidate in unit.eviction.candidates(namespace, preserve_tail=self._preserve_tail):
            groups[candidate.conversation_id if self._per_conversation else 0].append(candidate)

        def forgetting(it: Candidate) -> tuple[float, int, int]:
            # By the exponent, not the score: exp() is 0 for all that is old, and the order would be lost.
            return _forgetting(it, now), -it.seen_at, -it.id

        return [
            candidate.id
            for group, size in excess.items()
            for candidate in heapq.nlargest(size, groups[group], key=forgetting)
        ]

    def _remove(self, namespace: str, ids: Sequence[MessageId], run: JobRun | None) -> None:
        for start in range(0, len(ids), _PER_STEP):
            _checkpoint(run)
            with self._database.write() as unit:
                unit.messages.soft_delete(namespace, ids[start : start + _PER_STEP])
                unit.jobs.enqueue([removal_job(namespace)])


def retention(candidate: Candidate, now: int) -> float:
    """How well a message is remembered, from 1 (just seen) down to 0: exp(-t / max(1, S ln(2 + n))).

    t is the seconds since it was seen, never negative; n how often it was recalled; S a day.
    """
    return math.exp(-_forgetting(candidate, now))


def _forgetting(candidate: Candidate, now: int) -> float:
    seconds = max(0, now - candidate.seen_at) / _MICROSECONDS
    # ln(2 + n): with ln(1 + n) whatever was never recalled would be forgotten within minutes.
    return seconds / max(1.0, STABILITY_SECONDS * math.log(2 + candidate.access_count))


def _checkpoint(run: JobRun | None) -> None:
    if run is not None:
        run.checkpoint()
