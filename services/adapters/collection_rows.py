"""The SQL of vector collections and tombstones."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.sqlite import insert

from services.adapters.tables import embedding_collections as c
from services.adapters.tables import vector_tombstones as v
from services.embedding.store import Collection, CollectionState, Tombstone
from services.ports import Clock, EmbedderIdentity

_NEWEST = (
    sa.select(c)
    .where(c.c.name == sa.bindparam("wanted"), c.c.state == sa.bindparam("state"))
    .order_by(c.c.created_at.desc(), c.c.physical)
    .limit(1)
)


class SqlCollectionRows:
    """Implements `services.embedding.store.CollectionRows` on one connection."""

    def __init__(self, connection: sa.Connection, clock: Clock) -> None:
        self._connection = connection
        self._clock = clock

    def find(self, name: str, state: CollectionState) -> Collection | None:
        """See CollectionRows."""
        row = self._connection.execute(_NEWEST, {"wanted": name, "state": state}).first()
        return _collection(row) if row else None

    def all(self) -> list[Collection]:
        """See CollectionRows."""
        rows = self._connection.execute(sa.select(c).order_by(c.c.name, c.c.physical))
        return [_collection(row) for row in rows]

    def create(self, name: str, identity: EmbedderIdentity, state: CollectionState) -> Collection:
        """See CollectionRows."""
        known = self.find(name, state)
        if known is not None and known.identity.label == identity.label:
            return known
        model = re.sub(r"[^A-Za-z0-9_-]+", "-", identity.model)
        number = self._next_number(name)
        physical = f"{name}__{identity.provider}-{model}-{identity.dimension}__{number}"
        self._connection.execute(
            sa.insert(c).values(
                physical=physical,
                name=name,
                provider=identity.provider,
                model=identity.model,
                dimension=identity.dimension,
                state=state,
                created_at=self._clock.now(),
            )
        )
        return Collection(name, physical, identity, state)

    def _next_number(self, name: str) -> int:
        """Greater than any before, whatever the model: a dropped collection's name must not come back to life."""
        known = self._connection.execute(sa.select(c.c.physical).where(c.c.name == name)).scalars()
        return max((int(physical.rpartition("__")[2]) for physical in known), default=0) + 1

    def activate(self, collection: Collection) -> None:
        """See CollectionRows."""
        before = sa.and_(c.c.name == collection.name, c.c.state == CollectionState.ACTIVE)
        self._connection.execute(sa.update(c).where(before).values(state=CollectionState.RETIRED))
        self._set_state(collection, CollectionState.ACTIVE)

    def retire(self, collection: Collection) -> None:
        """See CollectionRows."""
        self._set_state(collection, CollectionState.RETIRED)

    def forget(self, collection: Collection) -> None:
        """See CollectionRows."""
        self._connection.execute(sa.delete(v).where(v.c.collection == collection.physical))
        self._connection.execute(sa.delete(c).where(c.c.physical == collection.physical))

    def bury(self, tombstones: Sequence[tuple[str, str, str]]) -> None:
        """See CollectionRows."""
        now = self._clock.now()
        rows = [
            {"namespace": namespace, "collection": collection, "point_id": point_id, "created_at": now}
            for namespace, collection, point_id in tombstones
        ]
        if rows:
            self._connection.execute(insert(v).on_conflict_do_nothing(), rows)

    def tombstones(self, *, limit: int) -> list[Tombstone]:
        """See CollectionRows."""
        rows = self._connection.execute(sa.select(v).order_by(v.c.id).limit(limit))
        return [Tombstone(row.id, row.namespace, row.collection, row.point_id) for row in rows]

    def exhume(self, ids: Sequence[int]) -> None:
        """See CollectionRows."""
        if ids:
            self._connection.execute(
                sa.delete(v).where(v.c.id == sa.bindparam("gone")), [{"gone": i} for i in ids]
            )

    def _set_state(self, collection: Collection, state: CollectionState) -> None:
        self._connection.execute(sa.update(c).where(c.c.physical == collection.physical).values(state=state))


def _collection(row: sa.Row[Any]) -> Collection:
    identity = EmbedderIdentity(row.provider, row.model, row.dimension)
    return Collection(row.name, row.physical, identity, CollectionState(row.state))
