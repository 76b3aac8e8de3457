"""The SQL of communities."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa
from sqlalchemy.dialects.sqlite import insert

from services.adapters.erasure import parts
from services.adapters.graph_rows import REFRESHED_COUNT
from services.adapters.tables import (
    graph_communities,
    graph_community_members,
    graph_edges,
    graph_entities,
    graph_metadata,
)
from services.graph.communities import CommunityStats
from services.graph.community_prompt import MemberFact, Portrait
from services.graph.detection import GraphEdge
from services.graph.models import Community
from services.ports import Clock

_REFRESHED = "communities_refreshed_at"


class SqlCommunityRows:
    """Implements `services.graph.communities.CommunityRows` on one connection."""

    def __init__(self, connection: sa.Connection, clock: Clock) -> None:
        self._connection = connection
        self._clock = clock

    # ---- what detection reads --------------------------------------------------------------------------------

    def namespaces(self) -> Sequence[str]:
        """See CommunityRows."""
        found = sa.union(
            sa.select(graph_entities.c.namespace), sa.select(graph_communities.c.namespace)
        ).subquery()
        return self._connection.execute(sa.select(found.c.namespace).order_by("namespace")).scalars().all()

    def entity_ids(self, namespace: str) -> list[int]:
        """See CommunityRows."""
        e = graph_entities.c
        mine = sa.select(e.id).where(e.namespace == namespace).order_by(e.canonical_name, e.entity_type)
        return list(self._connection.execute(mine).scalars())

    def edges(self, namespace: str, *, after: int, limit: int) -> list[GraphEdge]:
        """See CommunityRows."""
        e = graph_edges.c
        page = (
            sa.select(e.id, e.source_entity_id, e.target_entity_id, e.relation)
            .where(e.namespace == namespace, *_ACTIVE, e.id > after)
            .order_by(e.id)
            .limit(limit)
        )
        return [GraphEdge(*row) for row in self._connection.execute(page)]

    # ---- communities -----------------------------------------------------------------------------------------

    def listed(self, namespace: str, *, of: int | None = None) -> list[Community]:
        """See CommunityRows."""
        c, m = graph_communities.c, graph_community_members.c
        wanted = [c.namespace == namespace]
        if of is not None:
            wanted.append(c.id.in_(sa.select(m.community_id).where(m.entity_id == of)))
        joined = sa.select(m.community_id, m.entity_id).join_from(graph_community_members, graph_communities)
        members: dict[int, list[int]] = {}
        for community, entity in self._connection.execute(joined.where(*wanted).order_by(m.entity_id)):
            members.setdefault(community, []).append(entity)
        rows = sa.select(graph_communities).where(*wanted).order_by(c.id)
        return [
            Community(
                row.id,
                row.namespace,
                row.name,
                row.summary,
                row.fingerprint,
                tuple(members.get(row.id, ())),
                row.created_at,
                row.updated_at,
            )
            for row in self._connection.execute(rows)
        ]

    def add(self, namespace: str, name: str, summary: str) -> int:
        """See CommunityRows."""
        now = self._clock.now()
        row = {
            "namespace": namespace,
            "name": name,
            "summary": summary,
            "fingerprint": "",
            "created_at": now,
            "updated_at": now,
        }
        new = sa.insert(graph_communities).values(row).returning(graph_communities.c.id)
        return int(self._connection.execute(new).scalar_one())

    def set_members(self, community_id: int, entity_ids: Sequence[int]) -> None:
        """See CommunityRows."""
        m = graph_community_members.c
        self._connection.execute(sa.delete(graph_community_members).where(m.community_id == community_id))
        for part in parts(entity_ids):
            alive = sa.select(graph_entities.c.id, sa.literal(community_id)).where(
                graph_entities.c.id.in_(part)
            )
            joined = insert(graph_community_members).from_select(["entity_id", "community_id"], alive)
            self._connection.execute(
                joined.on_conflict_do_update(
                    index_elements=["entity_id"], set_={"community_id": joined.excluded.community_id}
                )
            )

    def describe(self, community_id: int, name: str, summary: str, fingerprint: str) -> None:
        """See CommunityRows."""
        values = {
            "name": name,
            "summary": summary,
            "fingerprint": fingerprint,
            "updated_at": self._clock.now(),
        }
        mine = graph_communities.c.id == community_id
        self._connection.execute(sa.update(graph_communities).where(mine).values(values))

    def mark_changed(self, community_id: int) -> None:
        """See CommunityRows."""
        mine = graph_communities.c.id == community_id
        self._connection.execute(sa.update(graph_communities).where(mine).values(fingerprint=""))

    def remove(self, namespace: str, ids: Sequence[int]) -> None:
        """See CommunityRows."""
        c = graph_communities.c
        for part in parts(ids):
            mine = (c.namespace == namespace, c.id.in_(part))
            self._connection.execute(sa.delete(graph_communities).where(*mine))

    def portrait(self, namespace: str, community_id: int) -> Portrait:
        """See CommunityRows."""
        c, m, e = graph_communities.c, graph_community_members.c, graph_edges.c
        summary = sa.select(c.summary).where(c.namespace == namespace, c.id == community_id)
        members = (
            sa.select(graph_entities.c.id, graph_entities.c.name)
            .join_from(graph_community_members, graph_entities)
            .where(m.community_id == community_id, graph_entities.c.namespace == namespace)
            .order_by(m.entity_id)
        )
        inside = sa.select(m.entity_id).where(m.community_id == community_id)
        facts = (
            sa.select(e.id, e.source_entity_id, e.target_entity_id, e.relation, e.fact, e.confidence)
            .where(
                e.namespace == namespace,
                *_ACTIVE,
                e.source_entity_id.in_(inside),
                e.target_entity_id.in_(inside),
            )
            .order_by(e.id)
        )
        return Portrait(
            self._connection.execute(summary).scalar() or "",
            [(row[0], row[1]) for row in self._connection.execute(members)],
            [MemberFact(*row) for row in self._connection.execute(facts)],
        )

    def assign(self, namespace: str, entity_id: int) -> int | None:
        """See CommunityRows."""
        m, e = graph_community_members.c, graph_edges.c
        member = sa.select(m.entity_id).where(m.entity_id == entity_id)
        if self._connection.execute(member).scalar() is not None:
            return None
        mine = (e.namespace == namespace, *_ACTIVE)
        neighbours = sa.union_all(
            sa.select(e.target_entity_id.label("id")).where(*mine, e.source_entity_id == entity_id),
            sa.select(e.source_entity_id.label("id")).where(*mine, e.target_entity_id == entity_id),
        ).subquery()
        votes = (
            sa.select(m.community_id)
            .join(neighbours, neighbours.c.id == m.entity_id)
            .group_by(m.community_id)
            .order_by(sa.func.count().desc(), m.community_id)
            .limit(1)
        )
        chosen = self._connection.execute(votes).scalar()
        if chosen is None:
            return None
        row = {"entity_id": entity_id, "community_id": chosen}
        self._connection.execute(sa.insert(graph_community_members).values(row))
        self.mark_changed(chosen)
        return int(chosen)

    # ---- bookkeeping -----------------------------------------------------------------------------------------

    def stats(self, namespace: str) -> CommunityStats:
        """See CommunityRows."""
        c, m, n, e = (
            graph_communities.c,
            graph_community_members.c,
            graph_entities.c,
            graph_edges.c,
        )
        counted = sa.select(
            sa.func.count(), sa.func.coalesce(sa.func.sum(sa.case((c.fingerprint == "", 1), else_=0)), 0)
        ).where(c.namespace == namespace)
        communities, undescribed = self._connection.execute(counted).one()
        in_one = sa.select(sa.func.count()).join_from(graph_community_members, graph_communities)
        members = self._connection.execute(in_one.where(c.namespace == namespace)).scalar_one()
        linked = sa.exists().where(
            e.namespace == namespace,
            *_ACTIVE,
            sa.or_(e.source_entity_id == n.id, e.target_entity_id == n.id),
        )
        alone = sa.select(sa.func.count()).where(
            n.namespace == namespace,
            linked,
            ~sa.exists().where(m.entity_id == n.id),
        )
        refreshed = self._number(namespace, _REFRESHED)
        return CommunityStats(
            communities,
            members,
            self._connection.execute(alone).scalar_one(),
            undescribed,
            refreshed,
            self._drift(namespace, refreshed),
        )

    def asked_at(self, namespace: str) -> int:
        """See CommunityRows."""
        return self._number(namespace, REFRESHED_COUNT) or 0

    def mark_refreshed(self, namespace: str, at: int) -> None:
        """See CommunityRows."""
        row = {"namespace": namespace, "key": _REFRESHED, "value": str(at)}
        new = insert(graph_metadata).values(row)
        self._connection.execute(
            new.on_conflict_do_update(index_elements=["namespace", "key"], set_={"value": new.excluded.value})
        )

    def _drift(self, namespace: str, since: int | None) -> float:
        e = graph_edges.c
        active = sa.and_(*_ACTIVE)
        moved = sa.or_(
            sa.and_(active, e.created_at > (since or 0)),
            sa.and_(e.expired_at > (since or 0), e.created_at <= (since or 0)),
        )
        counted = sa.select(sa.func.count().filter(active), sa.func.count().filter(moved)).where(
            e.namespace == namespace
        )
        total, changed = self._connection.execute(counted).one()
        return min(1.0, changed / max(total, 1))

    def _number(self, namespace: str, key: str) -> int | None:
        k = graph_metadata.c
        found = self._connection.execute(
            sa.select(k.value).where(k.namespace == namespace, k.key == key)
        ).scalar()
        return int(found) if found is not None and found.isdecimal() else None


_ACTIVE = (graph_edges.c.valid_to.is_(None), graph_edges.c.expired_at.is_(None))
