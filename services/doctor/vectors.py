"""Rows and vectors, both ways."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator

from services.doctor.models import EXAMPLES, Finding
from services.embedding.store import CollectionDatabase
from services.embedding.upkeep import VectorUpkeep

_LOST, _STRAY = "vector_lost", "vector_stray"
_PER_UNIT = 1_000


class DriftCheck:
    """Every marked row has its vectors, and every vector its row, in the row's own namespace."""

    name = "rows and vectors"

    def __init__(self, upkeep: Callable[[], VectorUpkeep]) -> None:
        self._upkeep = upkeep

    def find(self) -> Iterator[Finding]:
        """See Check."""
        lost: Counter[str] = Counter()
        stray: Counter[str] = Counter()
        examples: dict[tuple[str, str], list[str]] = {}
        for drift in self._upkeep().drift():
            place = drift.collection.physical
            for code, counter, ids in ((_LOST, lost, drift.lost), (_STRAY, stray, drift.stray)):
                counter[place] += len(ids)
                named = examples.setdefault((code, place), [])
                named += [f"{drift.namespace}/{each}" for each in ids[: EXAMPLES - len(named)]]
        for code, counter, what, remedy in (
            (_LOST, lost, "rows whose vectors are missing or belong to others", "has them embedded again"),
            (
                _STRAY,
                stray,
                "vectors without a row, or in another namespace than it",
                "removes them",
            ),
        ):
            for place, count in sorted(counter.items()):
                if count:
                    yield Finding(
                        code, place, what, count, tuple(examples[code, place]), repairable=True, remedy=remedy
                    )

    def repair(self, finding: Finding) -> str:
        """See Check."""
        for drift in self._upkeep().drift():
            if drift.collection.physical == finding.where:
                self._upkeep().mend(drift)
        return "done"


class MissingCheck:
    """Whatever is to have vectors has them, or a job that will make them."""

    name = "rows without vectors"

    def __init__(
        self, upkeep: Callable[[], VectorUpkeep], database: Callable[[], CollectionDatabase]
    ) -> None:
        self._upkeep = upkeep
        self._database = database

    def find(self) -> Iterable[Finding]:
        """See Check."""
        waiting: dict[tuple[str, bool], list[str]] = {}
        for name, job, possible in self._upkeep().unqueued():
            waiting.setdefault((name, possible), []).append(f"{job.namespace}/{job.dedupe_key}")
        for (name, possible), groups in waiting.items():
            code, why = "vector_missing", "no job is to make them"
            remedy = "accepts the jobs"
            if not possible:
                code, why = "vector_other_embedder", "the collection was made by another embedder"
                remedy = f"`zeph collections reembed {name}`, or restore [embedding]"
            what, examples = f"groups of rows that lack vectors, and {why}", tuple(groups[:EXAMPLES])
            yield Finding(code, name, what, len(groups), examples, repairable=possible, remedy=remedy)
        for collection, count in self._upkeep().strangers():
            what = "vectors in namespaces of which nothing else is known"
            remedy = f"`zeph collections reembed {collection.name}` makes a collection without them"
            yield Finding("vector_strange_namespace", collection.physical, what, count, remedy=remedy)

    def repair(self, finding: Finding) -> str:
        """See Check."""
        jobs = [job for name, job, _ in self._upkeep().unqueued() if name == finding.where]
        for start in range(0, len(jobs), _PER_UNIT):
            with self._database().write() as unit:
                unit.jobs.enqueue(jobs[start : start + _PER_UNIT])
        return f"accepted {len(jobs)} jobs"
