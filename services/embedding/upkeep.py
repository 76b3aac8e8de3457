"""Keeping vectors in step with rows: removing what was deleted, moving to a new model, finding what drifted."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from services import errors
from services.embedding.points import point_ids, row_of
from services.embedding.spaces import Space, VectorSpaces
from services.embedding.store import Collection, CollectionDatabase, CollectionState, EmbeddedRows
from services.embedding.writing import removal_job
from services.ids import DEFAULT_NAMESPACE
from services.jobs.models import RECONCILE, REEMBED, NewJob, scheduled
from services.jobs.run import JobRun

_PER_STEP = 1_000
_ALL = 10_000_000


@dataclass(frozen=True, slots=True)
class VectorOwner:
    """One kind of rows that have vectors.

    `kind` is what their point ids are derived with, `field` the payload field that names the row, `rows` finds them in
    a unit. What one job embeds is a group (a document, a block of messages): `embed` gives a group the vectors it lacks
    in a space and says how many it made, `job` is the job that does so in the active collection. Rows that are not
    `wanted` get no vectors; those that have some keep them.
    """

    kind: str
    field: str
    rows: Callable[[Any], EmbeddedRows]
    embed: Callable[[Space, str, int, JobRun], int]
    job: Callable[[str, int], NewJob]
    wanted: bool = True


@dataclass(frozen=True, slots=True)
class Drift:
    """How vectors differ from rows in one collection and namespace: rows that lack theirs, points to remove."""

    collection: Collection
    namespace: str
    lost: tuple[int, ...]
    stray: tuple[str, ...]


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
        name = run.text("name")
        owner = self._owner(name)
        space = self._spaces.building(name)
        physical = space.collection.physical
        vectors = 0
        while True:
            with self._database.read() as unit:
                waiting = owner.rows(unit).incomplete(name, physical, limit=_PER_STEP)
            for namespace, group in waiting:
                vectors += owner.embed(space, namespace, group, run)
            if len(waiting) == _PER_STEP:
                continue
            with self._database.write() as unit:
                # What came in since has no vectors in the old collection either, and a job that makes them: where
                # agents never stop writing, there is always some of it.
                old = unit.collections.find(name, CollectionState.ACTIVE)
                behind = None if old is None else old.physical
                if owner.rows(unit).incomplete(name, physical, limit=1, embedded_in=behind):
                    continue
                unit.collections.activate(space.collection)
                unit.jobs.enqueue([removal_job(DEFAULT_NAMESPACE)])
                run.finish(unit, {"vectors": vectors, "collection": physical})
                return

    def reconcile(self, run: JobRun) -> None:
        """Find rows without vectors and vectors without rows, and have both repaired by jobs."""
        lost = stray = 0
        if self._spaces.embedder is not None:
            for drift in self.drift(run.checkpoint):
                self.mend(drift)
                lost, stray = lost + len(drift.lost), stray + len(drift.stray)
        jobs = [job for _, job, possible in self._waiting(_PER_STEP) if possible]
        with self._database.write() as unit:
            unit.jobs.renew(jobs)
            run.finish(unit, {"missing": lost + len(jobs), "orphans": stray})

    def drift(self, checkpoint: Callable[[], None] = lambda: None) -> Iterator[Drift]:
        """Compare the rows of every active collection with its vectors, both ways. Changes nothing.

        What jobs under way explain is no difference. Raises VectorStoreUnavailable.
        """
        for collection in self._active():
            with self._database.read() as unit:
                namespaces = self._owner(collection.name).rows(unit).namespaces()
            for namespace in namespaces:
                checkpoint()
                lost, stray = self._compare(collection, namespace)
                if lost or stray:
                    # Whatever a job was just doing is done at a second look.
                    again = self._compare(collection, namespace)
                    lost, stray = lost & again[0], stray & again[1]
                if lost or stray:
                    yield Drift(collection, namespace, tuple(sorted(lost)), tuple(sorted(stray)))

    def mend(self, drift: Drift) -> None:
        """Remove stray vectors, and forget the marks of rows whose vectors are lost, so that jobs make them again."""
        owner, physical = self._owner(drift.collection.name), drift.collection.physical
        for start in range(0, len(drift.stray), _PER_STEP):
            page = drift.stray[start : start + _PER_STEP]
            self._spaces.store.delete(physical, drift.namespace, page)
        with self._database.write() as unit:
            owner.rows(unit).unmark_embedded(physical, drift.lost)
            if drift.lost:
                # Whoever was long stopped unmarks what others have mended since, and asks for no jobs any more.
                unit.jobs.enqueue([scheduled(RECONCILE)])

    def unqueued(self) -> Iterator[tuple[str, NewJob, bool]]:
        """(collection, job, whether it would succeed) of what lacks vectors and has no job that makes them."""
        with self._database.read() as unit:
            reconciles = bool(unit.jobs.live_keys(RECONCILE.name))
        for name, job, possible in self._waiting(_ALL):
            if not (possible and reconciles):
                yield name, job, possible

    def strangers(self) -> Iterator[tuple[Collection, int]]:
        """Active collections with vectors in namespaces that no row knows, and how many."""
        for collection in self._active():
            with self._database.read() as unit:
                namespaces = self._owner(collection.name).rows(unit).namespaces()
            count = self._spaces.store.count
            strange = count(collection.physical) - sum(
                count(collection.physical, each) for each in namespaces
            )
            if strange > 0:
                yield collection, strange

    def _compare(self, collection: Collection, namespace: str) -> tuple[set[int], set[str]]:
        """Marked rows that lack vectors, and points that stand for no row or for more than their row has."""
        owner, physical = self._owner(collection.name), collection.physical
        # Marks before points: a vector is stored before its row is marked, and buried before it is removed.
        with self._database.read() as unit:
            graves = unit.collections.tombstones(limit=_ALL)
        buried = {grave.point_id for grave in graves if grave.collection == physical}
        marked = dict(self._marked(owner, physical, namespace))
        stored = dict(self._stored_points(owner, physical, namespace))
        lost, stray = set(), set()
        for row_id, windows in marked.items():
            points = point_ids(owner.kind, namespace, physical, row_id, windows)
            found = {point: stored.pop(point, None) for point in points}
            if any(told != row_id for told in found.values()):
                lost.add(row_id)
                # What says that it belongs to another row would be found for that one.
                stray |= {point for point, told in found.items() if told not in (None, row_id)}
        with self._database.read() as unit:
            # A vector whose row exists but is not marked yet belongs to a job that is just running.
            alive = owner.rows(unit).existing(list(set(stored.values()) - marked.keys()), namespace)
        stray |= {point for point, row_id in stored.items() if row_id not in alive and point not in buried}
        return lost, stray

    def _active(self) -> list[Collection]:
        with self._database.read() as unit:
            return [item for item in unit.collections.all() if item.state is CollectionState.ACTIVE]

    def _fits(self, collection: Collection | None) -> bool:
        """Whether the configured embedder can fill this collection."""
        embedder = self._spaces.embedder
        return embedder is not None and (
            collection is None or embedder.identity.label == collection.identity.label
        )

    def _waiting(self, limit: int) -> Iterator[tuple[str, NewJob, bool]]:
        """(collection, job, whether it would succeed) of groups that lack vectors and have no job of their own."""
        active = {collection.name: collection for collection in self._active()}
        for name in sorted(name for name in {*active, *self._others} if self._owner(name).wanted):
            # What was never embedded has no collection yet.
            collection, owner = active.get(name), self._owner(name)
            with self._database.read() as unit:
                physical = collection.physical if collection else ""
                waiting = owner.rows(unit).incomplete(name, physical, limit=limit)
                jobs = [owner.job(namespace, group) for namespace, group in waiting]
                live = {kind: unit.jobs.live_keys(kind) for kind in {job.kind.name for job in jobs}}
            # Jobs for a collection of another embedder could only die: `zeph collections reembed` is what it needs.
            possible = self._fits(collection)
            for job in jobs:
                if (job.namespace, job.dedupe_key) not in live[job.kind.name]:
                    yield name, job, possible

    def _owner(self, name: str) -> VectorOwner:
        return self._others.get(name, self._documents)

    def _stored_points(self, owner: VectorOwner, physical: str, namespace: str) -> Iterator[tuple[str, int]]:
        after: str | None = None
        while page := self._spaces.store.scroll(physical, namespace, after=after, limit=_PER_STEP):
            yield from ((point, row_of(payload, owner.field)) for point, payload in page)
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
