"""Vector spaces: which physical collection a name stands for, and which embedder speaks its language.

A collection is never deleted because a model changed. The new model gets a new collection, a job fills it while the
old one answers, and one transaction switches.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from services import errors
from services.embedding.store import Collection, CollectionDatabase, CollectionState
from services.ports import Embedder, EmbedderIdentity, Filter, Point, ScoredPoint, VectorStore

log = logging.getLogger(__name__)

# An embedder for another identity than the configured one, or None where that cannot be had.
OtherEmbedder = Callable[[EmbedderIdentity], Embedder | None]

# Said where only vectors were asked for.
NO_VECTORS = "embedding.provider is none: there are no vectors to search"


@dataclass(frozen=True, slots=True)
class Space:
    """A collection together with the embedder whose vectors it holds."""

    collection: Collection
    embedder: Embedder


class VectorSpaces:
    """Resolves collection names. Without an embedder there are no spaces, and that is a supported mode."""

    def __init__(
        self,
        database: CollectionDatabase,
        store: VectorStore,
        embedder: Embedder | None,
        other: OtherEmbedder = lambda _identity: None,
    ) -> None:
        self._database = database
        self._other = other
        self._ensured: set[str] = set()
        self.store = store
        self.embedder = embedder

    def for_writing(self, name: str) -> Space | None:
        """Where new vectors of this name go; None without an embedder. Creates the first collection.

        Raises DimensionMismatch while the name holds vectors of another model.
        """
        if self.embedder is None:
            return None
        with self._database.read() as unit:
            active = unit.collections.find(name, CollectionState.ACTIVE)
            building = unit.collections.find(name, CollectionState.BUILDING)
        wanted = self.embedder.identity
        for collection in (active, building):
            if collection is not None and collection.identity.label == wanted.label:
                return self._ready(collection, self.embedder)
        if active is not None:
            raise errors.DimensionMismatch(
                f"collection {name} holds vectors of {active.identity.label}, but the configured embedder is "
                f"{wanted.label}: run `zeph collections reembed {name}` to move it, or restore [embedding]"
            )
        with self._database.write() as unit:
            created = unit.collections.find(name, CollectionState.ACTIVE) or unit.collections.create(
                name, wanted, CollectionState.ACTIVE
            )
        return (
            self.for_writing(name)
            if created.identity.label != wanted.label
            else self._ready(created, self.embedder)
        )

    def for_reading(self, name: str) -> Space | None:
        """What answers queries of this name; None when nothing was embedded yet or there is no embedder.

        Raises DimensionMismatch when no embedder for its vectors can be had.
        """
        if self.embedder is None:
            return None
        with self._database.read() as unit:
            active = unit.collections.find(name, CollectionState.ACTIVE)
        if active is None:
            return None
        if active.identity.label == self.embedder.identity.label:
            return Space(active, self.embedder)
        other = self._other(active.identity)
        if other is None:
            raise errors.DimensionMismatch(
                f"collection {name} holds vectors of {active.identity.label}, which the configured embedder "
                f"{self.embedder.identity.label} cannot query: run `zeph collections reembed {name}`"
            )
        return Space(active, other)

    def building(self, name: str) -> Space:
        """The new collection of this name for the configured embedder, created if missing.

        Raises InputError when there is nothing to move to.
        """
        if self.embedder is None:
            raise errors.InputError("embedding.provider is none: choose an embedder before re-embedding")
        with self._database.write() as unit:
            stale = unit.collections.find(name, CollectionState.BUILDING)
            if stale is not None and stale.identity.label != self.embedder.identity.label:
                unit.collections.retire(stale)
            created = unit.collections.create(name, self.embedder.identity, CollectionState.BUILDING)
        return self._ready(created, self.embedder)

    def search(
        self, space: Space, namespace: str, query: str, *, limit: int, where: Filter | None = None
    ) -> list[ScoredPoint]:
        """Embed the query and search; best first. Raises what the embedder and the store raise."""
        vector = space.embedder.embed([query], kind="query")[0]
        return self.store.search(space.collection.physical, namespace, vector, limit=limit, where=where)

    def drop(self, collection: Collection) -> None:
        """Remove the points of a retired collection."""
        self.store.drop_collection(collection.physical)

    def write(self, space: Space, namespace: str, points: Sequence[Point]) -> None:
        """Store points; readable when this returns. Raises TransientError when another collection took its place."""
        collection = space.collection
        try:
            self.store.upsert(collection.physical, namespace, points)
        except errors.NotFound as error:
            with self._database.read() as unit:
                known = [item for item in unit.collections.all() if item.state is not CollectionState.RETIRED]
            if collection.physical not in {item.physical for item in known}:
                raise errors.TransientError(f"{collection.physical} was replaced meanwhile") from error
            # The store has lost its data since this process made sure of the collection.
            self.store.ensure_collection(collection.physical, collection.identity.dimension)
            self.store.upsert(collection.physical, namespace, points)

    def _ready(self, collection: Collection, embedder: Embedder) -> Space:
        # Names of physical collections are never used twice, so once is enough.
        if collection.physical not in self._ensured:
            self.store.ensure_collection(collection.physical, collection.identity.dimension)
            self._ensured.add(collection.physical)
        return Space(collection, embedder)
