"""Keeping the graph within its size: what was retired long ago, what stands alone, and what is beyond the cap."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from services.embedding.writing import removal_job
from services.graph.store import GraphDatabase, GraphUnit
from services.jobs.models import EVICT_GRAPH, NewJob
from services.jobs.run import JobRun
from services.ports import Clock

_DAY = 86_400 * 1_000_000
# Small enough that nobody waits long for the database.
_PER_STEP = 500


@dataclass(frozen=True, slots=True)
class GraphEvictionReport:
    """What an eviction deleted: facts retired long ago, entities without any fact, entities beyond the cap."""

    expired_edges: int = 0
    orphan_entities: int = 0
    capped_entities: int = 0

    def __add__(self, other: GraphEvictionReport) -> GraphEvictionReport:
        return GraphEvictionReport(
            self.expired_edges + other.expired_edges,
            self.orphan_entities + other.orphan_entities,
            self.capped_entities + other.capped_entities,
        )


class GraphEviction:
    """Deletes facts retired more than `retention_days` ago (0: all retired ones; active ones never).

    Entities that no fact names, not even a past one, go when they were not seen for as long. Above `max_entities`
    (0: no cap) those with the fewest active facts go, then those seen longest ago.
    """

    def __init__(
        self, database: GraphDatabase, clock: Clock, *, retention_days: int, max_entities: int
    ) -> None:
        self._database = database
        self._clock = clock
        self._retention_days = retention_days
        self._max_entities = max_entities

    def evict(
        self,
        namespace: str,
        *,
        retention_days: int | None = None,
        max_entities: int | None = None,
        checkpoint: Callable[[], None] = lambda: None,
    ) -> GraphEvictionReport:
        """Delete in steps of 500 rows; the arguments override the settings. Vectors go by a job."""
        days = self._retention_days if retention_days is None else retention_days
        cap = self._max_entities if max_entities is None else max_entities
        before = self._clock.now() - days * _DAY
        expired = self._in_steps(
            lambda unit: unit.graph.delete_expired(namespace, before=before, limit=_PER_STEP), checkpoint
        )
        orphans = self._in_steps(
            lambda unit: _delete(
                unit, namespace, unit.graph.orphans(namespace, before=before, limit=_PER_STEP)
            ),
            checkpoint,
        )
        capped = 0
        if cap > 0:
            capped = self._in_steps(
                lambda unit: _delete(
                    unit, namespace, unit.graph.excess(namespace, keep=cap, limit=_PER_STEP)
                ),
                checkpoint,
            )
        return GraphEvictionReport(expired, orphans, capped)

    def sweep(self, run: JobRun) -> None:
        """The job: evict in the namespace of its payload, or in every one."""
        only = run.text("namespace") if "namespace" in run.payload else None
        with self._database.read() as unit:
            namespaces = unit.graph.namespaces() if only is None else [only]
        report = GraphEvictionReport()
        for namespace in namespaces:
            report += self.evict(namespace, checkpoint=run.checkpoint)
        outcome = {name: getattr(report, name) for name in GraphEvictionReport.__dataclass_fields__}
        with self._database.write() as unit:
            run.finish(unit, outcome)

    def _in_steps(self, step: Callable[[GraphUnit], int], checkpoint: Callable[[], None]) -> int:
        """Repeat a step in transactions of its own until it deletes less than it might; how many rows in all.

        It chooses what it deletes: a fact that came between would go as well.
        """
        total = 0
        while True:
            checkpoint()
            with self._database.write(durable=False) as unit:
                deleted = step(unit)
            total += deleted
            if deleted < _PER_STEP:
                return total


def _delete(unit: GraphUnit, namespace: str, ids: list[int]) -> int:
    erased = unit.graph.delete_entities(namespace, ids)
    unit.jobs.enqueue([removal_job(namespace)] if erased.vectors else [])
    return erased.entities


def evict_job(namespace: str) -> NewJob:
    """The job that evicts in one namespace."""
    return NewJob(EVICT_GRAPH, {"namespace": namespace}, namespace, dedupe_key=namespace)
