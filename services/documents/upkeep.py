"""Keeping vectors in step with rows: removing what was deleted, moving to a new model, finding what drifted."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from services import errors
from services.documents.service import IngestionPipeline
from services.documents.store import DocumentDatabase
from services.embedding.points import chunk_point_ids
from services.embedding.spaces import VectorSpaces
from services.embedding.store import Collection, CollectionState
from services.jobs.models import EMBED_DOCUMENT, REEMBED, REMOVE_VECTORS, NewJob
from services.jobs.run import JobRun

_PER_STEP = 1_000


class VectorUpkeep:
    """The maintenance jobs of document vectors."""

    def __init__(self, database: DocumentDatabase, spaces: VectorSpaces, pipeline: IngestionPipeline) -> None:
        self._database = database
        self._spaces = spaces
        self._pipeline = pipeline

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
            with self._database.write(durable=False) as unit:
                unit.collections.exhume([grave.id for grave in graves])
                for collection in retired:
                    unit.documents.forget_embeddings(collection.physical)
                    unit.collections.forget(collection)
                # Deletions that came in meanwhile were promised to this job.
                if not unit.collections.tombstones(limit=1):
                    run.finish(unit, {"vectors": removed})
                    return

    def reembed(self, run: JobRun) -> None:
        """Fill a new collection for the configured embedder while the old one answers, then switch."""
        name = run.payload["name"]
        space = self._spaces.building(name)
        vectors = 0
        while True:
            with self._database.read() as unit:
                waiting = unit.documents.incomplete(name, space.collection.physical, limit=_PER_STEP)
            for _, document_id in waiting:
                vectors += self._pipeline.embed_into(space, document_id, run)
            with self._database.write(durable=False) as unit:
                if unit.documents.incomplete(name, space.collection.physical, limit=1):
                    continue
                unit.collections.activate(space.collection)
                unit.jobs.enqueue([NewJob(REMOVE_VECTORS, dedupe_key="deleted")])
                run.finish(unit, {"vectors": vectors, "collection": space.collection.physical})
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
        with self._database.write(durable=False) as unit:
            run.finish(unit, {"missing": missing, "orphans": orphans})

    def _reconcile(self, collection: Collection, run: JobRun) -> tuple[int, int]:
        physical, missing, orphans = collection.physical, 0, 0
        with self._database.read() as unit:
            namespaces = unit.documents.namespaces()
        for namespace in namespaces:
            run.checkpoint()
            stored = dict(self._stored_points(physical, namespace))
            lost = []
            for chunk_id, windows in self._marked(physical, namespace):
                points = chunk_point_ids(namespace, physical, chunk_id, windows)
                if not all(point in stored for point in points):
                    lost.append(chunk_id)
                for point in points:
                    stored.pop(point, None)
            with self._database.write(durable=False) as unit:
                unit.documents.unmark_embedded(physical, lost)
                # A vector whose chunk exists but is not marked yet belongs to a job that is just running.
                alive = unit.documents.existing_chunks(list(set(stored.values())))
                gone = [point for point, chunk_id in stored.items() if chunk_id not in alive]
                unit.collections.bury([(namespace, physical, point) for point in gone])
                if gone:
                    unit.jobs.enqueue([NewJob(REMOVE_VECTORS, namespace=namespace, dedupe_key="deleted")])
            missing, orphans = missing + len(lost), orphans + len(gone)
        embedder = self._spaces.embedder
        if embedder is None or embedder.identity.label != collection.identity.label:
            # Jobs for it could only die: `zeph collections reembed` is what it needs.
            return missing, orphans
        with self._database.write(durable=False) as unit:
            waiting = unit.documents.incomplete(collection.name, physical, limit=_PER_STEP)
            unit.jobs.enqueue(
                [
                    NewJob(EMBED_DOCUMENT, {"document_id": found}, space, str(found))
                    for space, found in waiting
                ]
            )
        return missing + len(waiting), orphans

    def _stored_points(self, physical: str, namespace: str) -> Iterator[tuple[str, int]]:
        after: str | None = None
        while page := self._spaces.store.scroll(physical, namespace, after=after, limit=_PER_STEP):
            yield from ((point, int(payload.get("chunk_id", 0))) for point, payload in page)
            after = page[-1][0]

    def _marked(self, physical: str, namespace: str) -> Iterator[tuple[int, int]]:
        after = 0
        while True:
            with self._database.read() as unit:
                page = unit.documents.embedded_windows(namespace, physical, after=after, limit=_PER_STEP)
            if not page:
                return
            yield from page
            after = page[-1][0]
