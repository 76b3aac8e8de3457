"""The SQL of the response cache."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.sqlite import insert

from services.adapters import tables as t
from services.adapters.erasure import parts
from services.adapters.tables import response_cache as r
from services.adapters.tables import response_leases as lease
from services.adapters.tables import response_sources as s
from services.cache.models import CachedResponse, CacheStats, Source, SourceKind
from services.cache.store import Lease, NewResponse
from services.ports import Clock

_TABLES: Mapping[SourceKind, sa.Table] = {
    SourceKind.MESSAGE: t.messages,
    SourceKind.SUMMARY: t.summaries,
    SourceKind.KEY_FACT: t.key_facts,
    SourceKind.DOCUMENT: t.documents,
    SourceKind.CHUNK: t.chunks,
    SourceKind.CORRECTION: t.zeph_corrections,
    SourceKind.EDGE: t.graph_edges,
}


def _one(table: sa.Table) -> sa.ColumnElement[bool]:
    return sa.and_(table.c.namespace == sa.bindparam("of"), table.c.cache_key == sa.bindparam("key"))


_ANSWER = (r.c.cache_key, r.c.response, r.c.model, r.c.created_at, r.c.expires_at)
# The statements of every call, built once: building them costs more than running them.
_FIND = sa.select(*_ANSWER).where(_one(r), r.c.expires_at > sa.bindparam("now"))
_REMOVE = sa.delete(r).where(_one(r))
_LEASE = sa.select(lease.c.token, lease.c.lease_until).where(_one(lease))
_END_LEASE = sa.delete(lease).where(_one(lease))
_GIVE_BACK = _END_LEASE.where(lease.c.token == sa.bindparam("held"))
_NEW_LEASE: Mapping[str, sa.BindParameter[Any]] = {
    "token": sa.bindparam("token"),
    "lease_until": sa.bindparam("until"),
}
_TAKE_LEASE = (
    insert(lease)
    .values(namespace=sa.bindparam("of"), cache_key=sa.bindparam("key"), **_NEW_LEASE)
    .on_conflict_do_update(
        index_elements=["namespace", "cache_key"],
        set_=_NEW_LEASE,
        where=sa.or_(
            lease.c.lease_until <= sa.bindparam("now"),
            # Given by a clock that has been set back since.
            lease.c.lease_until > sa.bindparam("until"),
        ),
    )
)


class SqlCacheRows:
    """Implements `services.cache.store.CacheRows` on one connection."""

    def __init__(self, connection: sa.Connection, clock: Clock) -> None:
        self._connection = connection
        self._clock = clock

    # ---- answers ---------------------------------------------------------------------------------------------

    def find(self, namespace: str, key: str, *, now: int) -> CachedResponse | None:
        """See CacheRows."""
        row = self._connection.execute(_FIND, {"of": namespace, "key": key, "now": now}).first()
        return None if row is None else _response(row)

    def similar(
        self, namespace: str, frame: str, space: str, *, now: int, limit: int
    ) -> list[tuple[CachedResponse, bytes]]:
        """See CacheRows."""
        same = (r.c.namespace == namespace, r.c.frame_key == frame, r.c.embedding_space == space)
        found = (
            sa.select(*_ANSWER, r.c.embedding)
            .where(*same, r.c.expires_at > now)
            .order_by(r.c.created_at.desc(), r.c.cache_key)
            .limit(limit)
        )
        return [(_response(row), row.embedding) for row in self._connection.execute(found)]

    def put(self, namespace: str, response: NewResponse) -> None:
        """See CacheRows."""
        # Replaced as a whole: the sources of the old answer go with it.
        self._connection.execute(_REMOVE, {"of": namespace, "key": response.key})
        row = {
            "namespace": namespace,
            "cache_key": response.key,
            "model": response.model,
            "response": response.text,
            "size_bytes": response.size_bytes,
            "frame_key": response.frame,
            "embedding": response.embedding,
            "embedding_space": response.embedding_space,
            "created_at": response.created_at,
            "expires_at": response.expires_at,
        }
        self._connection.execute(sa.insert(r), row)
        if response.sources:
            of = {"namespace": namespace, "cache_key": response.key}
            rows = [{**of, "kind": source.kind.value, "source_id": source.id} for source in response.sources]
            self._connection.execute(sa.insert(s), rows)

    def lost(self, namespace: str, sources: Sequence[Source], *, since: int) -> list[Source]:
        """See CacheRows."""
        held: set[Source] = set()
        for kind, ids in _by_kind(sources):
            table = _TABLES[kind]
            for part in parts(ids):
                mine = (table.c.namespace == namespace, table.c.id.in_(part), *_in_force(kind, since))
                found = self._connection.execute(sa.select(table.c.id).where(*mine))
                held |= {Source(kind, found_id) for found_id in found.scalars()}
        return [source for source in sources if source not in held]

    # ---- removal ---------------------------------------------------------------------------------------------

    def remove(self, namespace: str, key: str) -> bool:
        """See CacheRows."""
        one = {"of": namespace, "key": key}
        self._connection.execute(_END_LEASE, one)
        return self._connection.execute(_REMOVE, one).rowcount == 1

    def remove_made_of(self, namespace: str, sources: Sequence[Source]) -> int:
        """See CacheRows."""
        removed = 0
        if sources:
            # Of what an answer is made that is made just now is not known yet.
            self._end_leases(namespace)
        for kind, ids in _by_kind(sources):
            for part in parts(ids):
                keys = sa.select(s.c.cache_key).where(
                    s.c.namespace == namespace, s.c.kind == kind.value, s.c.source_id.in_(part)
                )
                mine = sa.delete(r).where(r.c.namespace == namespace, r.c.cache_key.in_(keys))
                removed += self._connection.execute(mine).rowcount
        return removed

    def clear(self, namespace: str) -> int:
        """See CacheRows."""
        self._end_leases(namespace)
        return self._connection.execute(sa.delete(r).where(r.c.namespace == namespace)).rowcount

    def _end_leases(self, namespace: str) -> None:
        """Let no answer be stored that is being made just now."""
        self._connection.execute(sa.delete(lease).where(lease.c.namespace == namespace))

    def expire(self, *, now: int, limit: int) -> int:
        """See CacheRows."""
        self._connection.execute(sa.delete(lease).where(lease.c.lease_until <= now))
        old = sa.select(r.c.namespace, r.c.cache_key).where(r.c.expires_at <= now).limit(limit)
        return self._remove_all(old)

    def trim(self, *, max_entries: int, max_bytes: int) -> int:
        """See CacheRows."""
        sums = self._connection.execute(sa.select(sa.func.count(), sa.func.sum(r.c.size_bytes))).one()
        if sums[0] <= max_entries and (sums[1] or 0) <= max_bytes:
            return 0
        newest = [r.c.created_at.desc(), r.c.namespace, r.c.cache_key]
        ranked = sa.select(
            r.c.namespace,
            r.c.cache_key,
            sa.func.row_number().over(order_by=newest).label("place"),
            sa.func.sum(r.c.size_bytes).over(order_by=newest, rows=(None, 0)).label("bytes"),
        ).subquery()
        beyond = sa.or_(ranked.c.place > max_entries, ranked.c.bytes > max_bytes)
        return self._remove_all(sa.select(ranked.c.namespace, ranked.c.cache_key).where(beyond))

    def _remove_all(self, keys: sa.Select[Any]) -> int:
        mine = sa.delete(r).where(sa.tuple_(r.c.namespace, r.c.cache_key).in_(keys))
        return self._connection.execute(mine).rowcount

    # ---- counts ----------------------------------------------------------------------------------------------

    def count_hits(self, hits: Mapping[tuple[str, str], int]) -> None:
        """See CacheRows."""
        if not hits:
            return
        mine = (r.c.namespace == sa.bindparam("of"), r.c.cache_key == sa.bindparam("key"))
        more = sa.update(r).where(*mine).values(hits=r.c.hits + sa.bindparam("more"))
        rows = [{"of": namespace, "key": key, "more": count} for (namespace, key), count in hits.items()]
        self._connection.execute(more, rows)

    def stats(self, namespace: str, *, now: int) -> CacheStats:
        """See CacheRows."""
        count = sa.func.count()
        found = sa.select(
            count.label("entries"),
            count.filter(r.c.expires_at > now).label("valid"),
            sa.func.coalesce(sa.func.sum(r.c.size_bytes), 0).label("size_bytes"),
            sa.func.coalesce(sa.func.sum(r.c.hits), 0).label("hits"),
            sa.func.min(r.c.created_at).label("oldest_at"),
            sa.func.max(r.c.created_at).label("newest_at"),
        ).where(r.c.namespace == namespace)
        return CacheStats(**self._connection.execute(found).one()._mapping)  # noqa: SLF001 - its public name

    # ---- leases ----------------------------------------------------------------------------------------------

    def lease(self, namespace: str, key: str) -> Lease | None:
        """See CacheRows."""
        row = self._connection.execute(_LEASE, {"of": namespace, "key": key}).first()
        return None if row is None else Lease(row.token, row.lease_until)

    def take_lease(self, namespace: str, key: str, wanted: Lease, *, now: int) -> bool:
        """See CacheRows."""
        values = {"of": namespace, "key": key, "token": wanted.token, "until": wanted.until, "now": now}
        return self._connection.execute(_TAKE_LEASE, values).rowcount == 1

    def give_back(self, namespace: str, key: str, token: str) -> bool:
        """See CacheRows."""
        mine = {"of": namespace, "key": key, "held": token}
        return self._connection.execute(_GIVE_BACK, mine).rowcount == 1


def _in_force(kind: SourceKind, since: int) -> list[sa.ColumnElement[bool]]:
    """What is true of a row of that kind that is in force, and was so at that time."""
    m, z, e = t.messages.c, t.zeph_corrections.c, t.graph_edges.c
    if kind is SourceKind.MESSAGE:
        seen = sa.or_(m.compacted_at.is_(None), m.compacted_at <= since)
        put_right = sa.exists().where(z.target_message_id == m.id, z.created_at > since)
        return [m.deleted_at.is_(None), seen, ~put_right]
    if kind is SourceKind.CORRECTION:
        return [z.retired_at.is_(None)]
    if kind is SourceKind.EDGE:
        return [e.valid_to.is_(None), e.expired_at.is_(None)]
    # Everything else is replaced by a new row when it changes.
    return [t.documents.c.updated_at <= since] if kind is SourceKind.DOCUMENT else []


def _by_kind(sources: Sequence[Source]) -> list[tuple[SourceKind, list[int]]]:
    ordered = sorted(sources, key=lambda source: (source.kind, source.id))
    return [
        (kind, [source.id for source in group])
        for kind, group in groupby(ordered, key=lambda source: source.kind)
    ]


def _response(row: Any) -> CachedResponse:
    return CachedResponse(row.cache_key, row.response, row.model, row.created_at, row.expires_at)
