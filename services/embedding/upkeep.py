"""Keeping vectors in step with rows: removing what was deleted, moving to a new model, finding what drifted."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from services import errors
from services.embedding.points import point_ids
from services.embedding.spaces import Space, VectorSpaces
from services.embedding.store import Collection, CollectionDatabase, CollectionState, EmbeddedRows
from services.jobs.models import REEMBED, REMOVE_VECTORS, NewJob
from services.jobs.run import JobRun

_PER_STEP = 1_000


@dataclass(frozen=True, slots=True)
class VectorOwner:
    """One kind of rows that have vectors.

    `kind` is what their point ids are derived with, `field` the payload field that names the row, `rows` finds them in
    a unit. What one job embeds is a group (a document, a block of messages): `embed` gives a group the vectors it lacks
    in a space and says how many it made, `job` is the job that does so in the active collection.
    """

    kind: str
    field: str
    rows: Callable[[Any], EmbeddedRows]
    embed: Callable[[Space, str, int, JobRun], int]
    job: Callable[[str, int], NewJob]


class VectorUpkeep:
    """The maintenance jobs of all vectors. Collections without an owner of their own hold documents."""

    def __init__(
        self,
        database: CollectionDatabase,
        spaces: VectorSpaces,
        documents: VectorOwner,
        others: Mapping[str, VectorOwner],
    ) -> None:
        self._database = database
        self._spaces = spaces
        self._documents = documents
        self._others = others

    def submit_reembed(self, name: str) -> int:
        """Accept the move of a collection to the configured embedder; the job's id. Raises InputError."""
        if self._spaces.embedder is None:
            raise errors.InputError("embedding.provider is none: choose an embedder before re-embedding")
        with self._database.write() as unit:
            if unit.collections.find(name, CollectionState.ACTIVE) is None:
                raise errors.NotFound(f"no collection is called {name}: `zeph collections list` shows them")
            return unit.jobs.enqueue([NewJob(REEMBED, {"name": name}, dedupe_key=name)])[0]

    def remove_deleted(self, run: JobRun) -> None:
        """Remove the vectors of deleted rows and drop retired collections. The tombstone goes last."""
        removed = 0
        while True:
            run.checkpoint()
            with self._database.read() as unit:
                graves = unit.collections.tombstones(limit=_PER_STEP)
                retired = [item for item in unit.collections.all() if item.state is CollectionState.RETIRED]
            places: dict[tuple[str, str], list[str]] = defaultdict(list)
            for grave in graves:
                places[grave.collection, grave.namespace].append(grave.point_id)
            for (physical, namespace), points in places.items():
                self._spaces.store.delete(physical, namespace, points)
            for collection in retired:
                self._spaces.drop(collection)
            removed += len(graves)
            with self._database.write() as unit:
                unit.collections.exhume([grave.id for grave in graves])
                for collection in retired:
                    self._owner(collection.name).rows(unit).forget_embeddings(collection.physical)
                    unit.collections.forget(collection)
                # Deletions that came in meanwhile were promised to this job.
                if not unit.collections.tombstones(limit=1):
                    run.finish(unit, {"vectors": removed})
                    return

    def reembed(self, run: JobRun) -> None:
        """Fill a new collection for the configured embedder while the old one answers, then switch."""
        name = run.payload["name"]
        owner = self._owner(name)
        space = self._spaces.building(name)
        physical = space.collection.physical
        vectors = 0
        while True:
            with self._database.read() as unit:
                waiting = owner.rows(unit).incomplete(name, physical, limit=_PER_STEP)
            for namespace, group in waiting:
                vectors += owner.embed(space, namespace, group, run)
            with self._database.write() as unit:
                if owner.rows(unit).incomplete(name, physical, limit=1):
                    continue
                unit.collections.activate(space.collection)
                unit.jobs.enqueue([NewJob(REMOVE_VECTORS, dedupe_key="deleted")])
                run.finish(unit, {"vectors": vectors, "collection": physical})
                return

    def reconcile(self, run: JobRun) -> None:
        """Find rows without vectors and vectors without rows, and have both repaired by jobs."""
        missing = orphans = 0
        if self._spaces.embedder is not None:
            with self._database.read() as unit:
                active = [item for item in unit.collections.all() if item.state is CollectionState.ACTIVE]
            for collection in active:
                found = self._reconcile(collection, run)
                missing, orphans = missing + found[0], orphans + found[1]
        with self._database.write() as unit:
            run.finish(unit, {"missing": missing, "orphans": orphans})

    def _reconcile(self, collection: Collection, run: JobRun) -> tuple[int, int]:
        owner = self._owner(collection.name)
        physical, missing, orphans = collection.physical, 0, 0
        with self._database.read() as unit:
            namespaces = owner.rows(unit).namespaces()
        for namespace in namespaces:
            run.checkpoint()
            stored = dict(self._stored_points(owner, physical, namespace))
            lost = []
            for row_id, windows in self._marked(owner, physical, namespace):
                points = point_ids(owner.kind, namespace, physical, row_id, windows)
                if not all(point in stored for point in points):
                    lost.append(row_id)
                for point in points:
                    stored.pop(point, None)
            with self._database.write() as unit:
                owner.rows(unit).unmark_embedded(physical, lost)
                # A vector whose row exists but is not marked yet belongs to a job that is just running.
                alive = owner.rows(unit).existing(list(set(stored.values())))
                gone = [point for point, row_id in stored.items() if row_id not in alive]
                unit.collections.bury([(namespace, physical, point) for point in gone])
                if gone:
                    unit.jobs.enqueue([NewJob(REMOVE_VECTORS, namespace=namespace, dedupe_key="deleted")])
            missing, orphans = missing + len(lost), orphans + len(gone)
        return missing + self._repair(owner, collection), orphans

    def _repair(self, owner: VectorOwner, collection: Collection) -> int:
        """Enqueue the jobs of groups that lack vectors; how many."""
        embedder = self._spaces.embedder
        if embedder is None or embedder.identity.label != collection.identity.label:
            # Jobs for it could only die: `zeph collections reembed` is what it needs.
            return 0
        with self._database.write() as unit:
            waiting = owner.rows(unit).incomplete(collection.name, collection.physical, limit=_PER_STEP)
            unit.jobs.enqueue([owner.job(namespace, group) for namespace, group in waiting])
        return len(waiting)

    def _owner(self, name: str) -> VectorOwner:
        return self._others.get(name, self._documents)

    def _stored_points(self, owner: VectorOwner, physical: str, namespace: str) -> Iterator[tuple[str, int]]:
        after: str | None = None
        while page := self._spaces.store.scroll(physical, namespace, after=after, limit=_PER_STEP):
            yield from ((point, int(payload.get(owner.field, 0))) for point, payload in page)
            after = page[-1][0]

    def _marked(self, owner: VectorOwner, physical: str, namespace: str) -> Iterator[tuple[int, int]]:
        after = 0
        while True:
            with self._database.read() as unit:
                page = owner.rows(unit).embedded_windows(namespace, physical, after=after, limit=_PER_STEP)
            if not page:
                return
            yield from page
            after = page[-1][0]
