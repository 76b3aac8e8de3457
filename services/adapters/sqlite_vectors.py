"""The embedded vector store: points are rows of SQLite, searched exactly by products with one matrix.

Every write raises the namespace's change number and stamps its rows with it, in one transaction, so a reader knows by
one small query whether its matrix is current, and reads only what changed when it is not.
"""

from __future__ import annotations

import json
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from services import errors
from services.adapters import vectors
from services.ids import fields_hash
from services.ports import Filter, PayloadValue, Point, ScoredPoint

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from services.adapters.sqlite import Sqlite
    from services.adapters.vector_matrix import Part, Positions
    from services.ports import Vector

# From this size on a matrix lives in a file that processes share: below, reading the rows is as fast as mapping it.
_SHARED_ROWS = 2_000
# How many changed rows a reader carries beside its matrix before it builds a new one.
_CHANGED_ROWS = 500
_CHANGED_SHARE = 32
# How many deleted rows stay on record for readers before all are removed.
_DELETED_ROWS = 1_000
# Matrices that a process keeps, the latest used.
_KEPT = 64
_GROUP = 4_096

_DIMENSION = "SELECT dimension FROM vector_collections WHERE name = ?"
_CREATE = "INSERT INTO vector_collections(name, dimension) VALUES (?, ?) ON CONFLICT DO NOTHING"
_DROP = "DELETE FROM vector_collections WHERE name = ?"
_NAMESPACES = "SELECT namespace FROM vector_namespaces WHERE collection = ?"
_STATE = """
    SELECT dimension, change, purged FROM vector_collections
    LEFT JOIN vector_namespaces ON collection = name AND namespace = ? WHERE name = ?"""
_NEXT_CHANGE = """
    INSERT INTO vector_namespaces(namespace, collection, change, purged) VALUES (?, ?, ?, ?)
    ON CONFLICT(collection, namespace) DO UPDATE SET change = max(change + 1, excluded.change) RETURNING change"""
_UPSERT = """
    INSERT INTO vector_points(namespace, collection, id, change, vector, payload) VALUES (?, ?, ?, ?, ?, ?)
    ON CONFLICT(namespace, collection, id) DO UPDATE
    SET change = excluded.change, vector = excluded.vector, payload = excluded.payload"""
_VECTORS = """
    SELECT id, vector FROM vector_points WHERE namespace = ? AND collection = ?
    AND length(vector) = 4 * (SELECT dimension FROM vector_collections WHERE name = collection)
    AND id IN (SELECT value FROM json_each(?))"""
_PAGE = """
    SELECT id, payload FROM vector_points
    WHERE namespace = ? AND collection = ? AND id > ? AND vector IS NOT NULL ORDER BY id LIMIT ?"""
_ANY_LIVE = """
    SELECT 1 FROM vector_points WHERE namespace = ? AND collection = ?
    AND id IN (SELECT value FROM json_each(?)) AND vector IS NOT NULL LIMIT 1"""
_DELETE = """
    UPDATE vector_points SET vector = NULL, payload = '{}', change = ? WHERE namespace = ? AND collection = ?
    AND id IN (SELECT value FROM json_each(?)) AND vector IS NOT NULL"""
# Counts over two indexes: one over the rows would read every vector.
_COUNT = """
    SELECT (SELECT count(*) FROM vector_points WHERE namespace = ? AND collection = ?)
    - (SELECT count(*) FROM vector_points WHERE namespace = ? AND collection = ? AND vector IS NULL)"""
_COUNT_ALL = """
    SELECT (SELECT count(*) FROM vector_points WHERE collection = ?)
    - (SELECT count(*) FROM vector_points WHERE collection = ? AND vector IS NULL)"""
_COUNT_DELETED = (
    "SELECT count(*) FROM vector_points WHERE namespace = ? AND collection = ? AND vector IS NULL"
)
_PURGE = "DELETE FROM vector_points WHERE namespace = ? AND collection = ? AND vector IS NULL"
_PURGED = "UPDATE vector_namespaces SET purged = ? WHERE namespace = ? AND collection = ?"
_SINCE = """
    SELECT id, payload, vector FROM vector_points
    WHERE namespace = ? AND collection = ? AND change > ? ORDER BY id"""
_CHANGED = "SELECT count(*) FROM vector_points WHERE namespace = ? AND collection = ? AND change > ?"
_ALL_PAYLOADS = """
    SELECT id, payload FROM vector_points
    WHERE namespace = ? AND collection = ? AND length(vector) = ? ORDER BY id"""
_ALL_VECTORS = """
    SELECT vector FROM vector_points
    WHERE namespace = ? AND collection = ? AND length(vector) = ? ORDER BY id"""


class _View(NamedTuple):
    """What a search runs over: `base` as of `base_change`, minus `replaced`, plus `recent`."""

    base: Part
    base_change: int
    replaced: Positions
    recent: Part
    change: int


@dataclass(slots=True)
class _Shelf:
    """Where a process keeps its view of one namespace."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    view: _View | None = None


class SqliteVectorStore:
    """Vectors in the database file, visible to every process as soon as a write returns.

    `cache_dir` holds the files by which processes share large matrices; None keeps them in each process. Never call
    it inside a write unit of the caller: it opens its own, which would wait for the caller's. Raises StorageBusy
    when the database is locked.
    """

    def __init__(self, sqlite: Sqlite, cache_dir: Path | None = None) -> None:
        self._sqlite = sqlite
        self._cache_dir = cache_dir
        self._lock = threading.Lock()
        self._shelves: OrderedDict[tuple[str, str], _Shelf] = OrderedDict()

    def ensure_collection(self, name: str, dimension: int) -> None:
        """Create it if missing. Raises DimensionMismatch if it exists with another dimension."""
        vectors.check_collection(name, dimension)
        existing = self._dimension(name)
        if existing is None:
            with self._sqlite.write() as connection:
                connection.exec_driver_sql(_CREATE, (name, dimension))
                existing = _dimension(connection, name) or dimension
        vectors.check_dimension(name, existing, dimension)

    def collection_exists(self, name: str) -> bool:
        """Whether the collection exists."""
        return self._dimension(name) is not None

    def drop_collection(self, name: str) -> None:
        """Remove it with all its points and shared files."""
        with self._sqlite.write() as connection:
            namespaces = [row[0] for row in connection.exec_driver_sql(_NAMESPACES, (name,))]
            connection.exec_driver_sql(_DROP, (name,))
        for namespace in namespaces:
            with self._lock:
                self._shelves.pop((name, namespace), None)
            if path := self._file(name, namespace):
                path.unlink(missing_ok=True)

    def upsert(self, name: str, namespace: str, points: Sequence[Point]) -> None:
        """Write the points in one transaction, overwriting equal ids; readable when this returns.

        Raises NotFound for an unknown collection, DimensionMismatch or InputError.
        """
        dimension = self._dimension(name)
        if dimension is None:
            raise vectors.unknown_collection(name)
        batch = vectors.checked_points(name, dimension, points)
        if not batch.ids:
            return
        blobs = [row.tobytes() for row in batch.vectors.astype("<f4")]
        payloads = [json.dumps(payload, ensure_ascii=False) for payload in batch.payloads]
        # Not durable by itself: a later commit that calls these points stored carries them to the disk as well.
        with self._sqlite.write(durable=False) as connection:
            if _dimension(connection, name) != dimension:
                raise vectors.unknown_collection(name)
            change = _next_change(connection, name, namespace)
            connection.exec_driver_sql(
                _UPSERT,
                [
                    (namespace, name, key, change, blob, payload)
                    for key, blob, payload in zip(batch.ids, blobs, payloads, strict=True)
                ],
            )

    def search(
        self, name: str, namespace: str, vector: Vector, *, limit: int, where: Filter | None = None
    ) -> list[ScoredPoint]:
        """Best first, ties by id; exact, with the filter applied before the limit. Raises DimensionMismatch."""
        from services.adapters.vector_matrix import best

        found = self._current_view(name, namespace)
        if found is None:
            return []
        dimension, view = found
        query = vectors.unit_query(name, dimension, vector)
        if view is None:
            return []
        limit = vectors.clamped(limit)
        hits = best(view.base, query, limit, where, view.replaced) + best(view.recent, query, limit, where)
        hits.sort(key=lambda hit: (-hit.score, hit.id))
        return hits[:limit]

    def fetch(self, name: str, namespace: str, ids: Sequence[str]) -> dict[str, Vector]:
        """The vectors of those ids that exist."""
        import numpy as np

        known = vectors.known_ids(ids)
        with self._lock:
            shelf = self._shelves.get((name, namespace))
        view = shelf.view if shelf else None
        with self._sqlite.read() as connection:
            state = connection.exec_driver_sql(_STATE, (namespace, name)).first() if view else None
            # Where a search has just looked, this costs a tenth of reading rows.
            if view and state and state[1] == view.change:
                return {**view.base.vectors(known, view.replaced), **view.recent.vectors(known)}
            rows = connection.exec_driver_sql(_VECTORS, (namespace, name, json.dumps(known))).all()
        return {key: np.frombuffer(blob, dtype="<f4") for key, blob in rows}

    def delete(self, name: str, namespace: str, ids: Sequence[str]) -> None:
        """Remove these points."""
        wanted = vectors.known_ids(ids)
        if not wanted or self._dimension(name) is None:
            return
        with self._sqlite.write(durable=False) as connection:
            here = (namespace, name, json.dumps(wanted))
            if connection.exec_driver_sql(_ANY_LIVE, here).first() is None:
                return
            change = _next_change(connection, name, namespace)
            connection.exec_driver_sql(_DELETE, (change, *here))
            _forget_deleted(connection, name, namespace, change)

    def count(self, name: str, namespace: str | None = None) -> int:
        """How many points there are, in one namespace or in all."""
        sql, arguments = (_COUNT_ALL, (name,)) if namespace is None else (_COUNT, (namespace, name))
        with self._sqlite.read() as connection:
            return int(connection.exec_driver_sql(sql, arguments * 2).scalar_one())

    def scroll(
        self, name: str, namespace: str, *, after: str | None = None, limit: int = 1_000
    ) -> list[tuple[str, Mapping[str, PayloadValue]]]:
        """A page of (id, payload) in id order, starting behind `after`; [] at the end."""
        from services.adapters.vector_matrix import payload_of

        with self._sqlite.read() as connection:
            rows = connection.exec_driver_sql(_PAGE, (namespace, name, after or "", vectors.clamped(limit)))
            return [(key, payload_of(text)) for key, text in rows]

    def healthy(self) -> bool:
        """Whether the database answers and has its tables."""
        try:
            self._dimension("")
        except errors.MemoryError:
            return False
        return True

    # ---- views -----------------------------------------------------------------------------------------------

    def _current_view(self, name: str, namespace: str) -> tuple[int, _View | None] | None:
        """The collection's dimension and the matrix as of now, None for a namespace that was never written.

        None for an unknown collection.
        """
        with self._lock:
            shelf = self._shelves.setdefault((name, namespace), _Shelf())
            self._shelves.move_to_end((name, namespace))
            if len(self._shelves) > _KEPT:
                self._shelves.popitem(last=False)
        # The lock comes first, so that no older snapshot meets a newer view.
        with shelf.lock, self._sqlite.read() as connection:
            row = connection.exec_driver_sql(_STATE, (namespace, name)).first()
            if row is None:
                return None
            dimension, change, purged = row
            if change is None:
                shelf.view = None
                return dimension, None
            view = shelf.view
            if view is None or view.change != change or view.base.matrix.shape[1] != dimension:
                rows = _Rows(connection, name, namespace, dimension)
                view = shelf.view = self._new_view(rows, view, change, purged)
            return dimension, view

    def _new_view(self, rows: _Rows, old: _View | None, change: int, purged: int) -> _View:
        path, about = self._file(rows.name, rows.namespace), self._about(rows)
        known = (old.base, old.base_change) if old else None
        if not _usable(rows, known, change, purged):
            from services.adapters.vector_matrix import load

            known = load(path, about, rows.dimension) if path else None
        if known is None or not _usable(rows, known, change, purged):
            known = rows.rebuilt(path, {**about, "change": change}), change
        base, base_change = known
        if old is not None and old.base is base:
            return _further(old, *rows.since(old.change), change)
        changed, recent = rows.since(base_change)
        return _View(base, base_change, base.positions(changed), recent, change)

    def _file(self, name: str, namespace: str) -> Path | None:
        if self._cache_dir is None:
            return None
        database = str(self._sqlite.path.resolve())
        return self._cache_dir / f"{fields_hash(database, name, namespace)[:32]}.vectors"

    def _about(self, rows: _Rows) -> dict[str, Any]:
        # The inode tells a restored backup from the database that the file was made for.
        return {
            "collection": rows.name,
            "namespace": rows.namespace,
            "database": self._sqlite.path.stat().st_ino,
        }

    def _dimension(self, name: str) -> int | None:
        with self._sqlite.read() as connection:
            return _dimension(connection, name)


class _Rows(NamedTuple):
    """The points of one namespace, as one transaction sees them."""

    connection: Connection
    name: str
    namespace: str
    dimension: int

    def since(self, change: int) -> tuple[list[str], Part]:
        """The ids of all points written or deleted after `change`, and those that are there."""
        rows = self.connection.exec_driver_sql(_SINCE, (self.namespace, self.name, change)).all()
        live = [row for row in rows if row[2] is not None and len(row[2]) == 4 * self.dimension]
        return [row[0] for row in rows], self._part(*zip(*live, strict=True)) if live else self._part()

    def changed(self, change: int) -> int:
        """How many points were written or deleted after `change`."""
        count = self.connection.exec_driver_sql(_CHANGED, (self.namespace, self.name, change)).scalar_one()
        return int(count)

    def rebuilt(self, path: Path | None, about: Mapping[str, Any]) -> Part:
        """All points, mapped from a new file where there are many and it can be written."""
        from services.adapters import vector_matrix

        ids, payloads = [], []
        for group in self._groups(_ALL_PAYLOADS):
            ids += [row[0] for row in group]
            payloads += [row[1] for row in group]
        blobs = ([row[0] for row in group] for group in self._groups(_ALL_VECTORS))
        if path is not None and len(ids) >= _SHARED_ROWS:
            columns, texts = vector_matrix.columns_of(payloads)
            try:
                packed = vector_matrix.packed_ids(ids)
                vector_matrix.save(path, about, packed, columns, texts, self.dimension, blobs)
                mapped = vector_matrix.load(path, about, self.dimension)
            except OSError:  # no space, or no right to write: this process keeps its own copy
                mapped = None
            if mapped is not None:
                return mapped[0]
            blobs = ([row[0] for row in group] for group in self._groups(_ALL_VECTORS))
        return self._part(ids, payloads, [blob for group in blobs for blob in group])

    def _part(
        self, ids: Sequence[str] = (), payloads: Sequence[str] = (), blobs: Sequence[bytes] = ()
    ) -> Part:
        from services.adapters import vector_matrix

        return vector_matrix.Part(
            vector_matrix.packed_ids(ids),
            vector_matrix.matrix_of(blobs, self.dimension),
            *vector_matrix.columns_of(payloads),
        )

    def _groups(self, sql: str) -> Iterator[Sequence[Any]]:
        result = self.connection.exec_driver_sql(sql, (self.namespace, self.name, 4 * self.dimension))
        return result.partitions(_GROUP)


def _further(view: _View, changed: Sequence[str], live: Part, change: int) -> _View:
    """The view after some points were written or deleted, of which these are there: all before it is known already."""
    import numpy as np

    from services.adapters.vector_matrix import merged

    replaced = np.union1d(view.replaced, view.base.positions(changed))
    recent = merged(view.recent, view.recent.positions(changed), live)
    return view._replace(replaced=replaced, recent=recent, change=change)


def _usable(rows: _Rows, known: tuple[Part, int] | None, change: int, purged: int) -> bool:
    """Whether a matrix can be brought up to date by reading the rows that changed since."""
    if known is None:
        return False
    base, base_change = known
    if base.matrix.shape[1] != rows.dimension or not purged <= base_change <= change:
        return False
    return rows.changed(base_change) <= max(_CHANGED_ROWS, len(base.ids) // _CHANGED_SHARE)


def _dimension(connection: Connection, name: str) -> int | None:
    dimension: int | None = connection.exec_driver_sql(_DIMENSION, (name,)).scalar()
    return dimension


def _next_change(connection: Connection, name: str, namespace: str) -> int:
    """The number of this write: larger than every one before.

    It is the time in microseconds where that is larger, so that a collection dropped and made anew, or a restored
    backup, never repeats the numbers that readers have seen.
    """
    now = time.time_ns() // 1_000
    return int(connection.exec_driver_sql(_NEXT_CHANGE, (namespace, name, now, now)).scalar_one())


def _forget_deleted(connection: Connection, name: str, namespace: str, change: int) -> None:
    """Remove the rows of deleted points once there are many; readers that missed them build anew."""
    here = (namespace, name)
    if connection.exec_driver_sql(_COUNT_DELETED, here).scalar_one() >= _DELETED_ROWS:
        connection.exec_driver_sql(_PURGE, here)
        connection.exec_driver_sql(_PURGED, (change, *here))
