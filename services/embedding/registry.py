"""Keeping a set of named things searchable by meaning: what changed is embedded, what is gone is removed."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from services import errors
from services.ids import DEFAULT_NAMESPACE, point_id
from services.ports import Embedder, PayloadValue, Point, ScoredPoint, VectorStore

log = logging.getLogger(__name__)

_BATCH = 32
_PAGE = 1_000


class Embeddable(Protocol):
    """Something with a name that can be found by what it says."""

    @property
    def key(self) -> str:
        """What tells it from all others of its collection."""

    def content_hash(self) -> str:
        """BLAKE3 over the fields that matter: another hash means another vector."""

    def embed_text(self) -> str:
        """The text to search by."""

    def payload(self) -> Mapping[str, PayloadValue]:
        """What a search hit carries; `key`, `content_hash` and `embedding_model` are added."""


@dataclass(frozen=True, slots=True)
class SyncCounts:
    """What a sync did. Every item is counted once as added, updated, unchanged or failed."""

    added: int = 0
    updated: int = 0
    removed: int = 0
    unchanged: int = 0
    failed: int = 0


class EmbeddingRegistry:
    """The items of one collection and namespace, one vector each. Calls the model: never inside a write unit."""

    def __init__(
        self,
        store: VectorStore,
        embedder: Embedder,
        collection: str,
        namespace: str = DEFAULT_NAMESPACE,
    ) -> None:
        self._store = store
        self._embedder = embedder
        self._collection = collection
        self._namespace = namespace

    def sync(self, items: Sequence[Embeddable]) -> SyncCounts:
        """Make the collection hold exactly these items; of equal keys the last counts.

        An item that cannot be embedded is counted as failed and keeps the vector it had. Existing vectors are
        never dropped for a new model: they are embedded anew one by one where the length is the same. Raises
        DimensionMismatch where it is not, and ModelUnavailable or VectorStoreUnavailable.
        """
        identity = self._embedder.identity
        self._ensure(identity.dimension)
        stored = dict(self._stored())
        wanted = {point_id(self._namespace, self._collection, item.key): item for item in items}
        stale = {
            key: item
            for key, item in wanted.items()
            if (stored.get(key, {}).get("content_hash"), stored.get(key, {}).get("embedding_model"))
            != (item.content_hash(), identity.label)
        }
        written = set(self._write(stale))
        gone = [key for key, payload in stored.items() if key not in wanted and "key" in payload]
        self._store.delete(self._collection, self._namespace, gone)
        return SyncCounts(
            added=len(written - stored.keys()),
            updated=len(written & stored.keys()),
            removed=len(gone),
            unchanged=len(wanted) - len(stale),
            failed=len(stale) - len(written),
        )

    def search(self, query: str, limit: int = 5) -> list[ScoredPoint]:
        """The items nearest in meaning, best first; [] for a blank query or before the first sync.

        Raises DimensionMismatch when the items were embedded with vectors of another length.
        """
        if not query.strip():
            return []
        vector = self._embedder.embed([query], kind="query")[0]
        return self._store.search(self._collection, self._namespace, vector, limit=limit)

    def _ensure(self, dimension: int) -> None:
        try:
            self._store.ensure_collection(self._collection, dimension)
        except errors.DimensionMismatch as error:
            raise errors.DimensionMismatch(
                f"the embedder {self._embedder.identity.label} does not fit: {error}"
            ) from error

    def _stored(self) -> Iterator[tuple[str, Mapping[str, PayloadValue]]]:
        after: str | None = None
        while page := self._store.scroll(self._collection, self._namespace, after=after, limit=_PAGE):
            yield from page
            after = page[-1][0]

    def _write(self, items: Mapping[str, Embeddable]) -> Iterator[str]:
        """Embed and store the items; yields the ids of those that succeeded."""
        entries = list(items.items())
        for i in range(0, len(entries), _BATCH):
            batch = entries[i : i + _BATCH]
            try:
                self._write_batch(batch)
            except errors.DimensionMismatch:
                raise
            except (errors.InputError, errors.ModelRejected):
                # One bad item spoils a batch, so each gets a try of its own.
                yield from self._write_each(batch)
            else:
                yield from (key for key, _ in batch)

    def _write_each(self, batch: Sequence[tuple[str, Embeddable]]) -> Iterator[str]:
        for key, item in batch:
            try:
                self._write_batch([(key, item)])
            except errors.DimensionMismatch:
                raise
            except (errors.InputError, errors.ModelRejected) as error:
                log.warning("%s: %r is left as it was: %s", self._collection, item.key, error)
            else:
                yield key

    def _write_batch(self, batch: Sequence[tuple[str, Embeddable]]) -> None:
        windows = [self._embedder.windows(item.embed_text()) for _, item in batch]
        for (_, item), pieces in zip(batch, windows, strict=True):
            if not pieces:
                raise errors.InputError(f"{item.key!r} has no text to embed")
        rows = self._embedder.embed([piece for pieces in windows for piece in pieces], kind="document")
        points, row = [], 0
        for (key, item), pieces in zip(batch, windows, strict=True):
            # A text longer than the model reads is the mean of its windows, so that none of it is ignored.
            vector = rows[row : row + len(pieces)].mean(axis=0)
            row += len(pieces)
            added = {
                "key": item.key,
                "content_hash": item.content_hash(),
                "embedding_model": self._embedder.identity.label,
            }
            points.append(Point(key, vector, {**item.payload(), **added}))
        self._store.upsert(self._collection, self._namespace, points)
