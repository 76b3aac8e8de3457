"""The SQL of entities and facts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.sqlite import insert

from services.adapters.embedding_marks import MarkedRows
from services.adapters.erasure import Erasure, parts, with_ids
from services.adapters.scopes import scope_token
from services.adapters.tables import chunks, entity_embeddings, graph_metadata, messages
from services.adapters.tables import graph_communities as c
from services.adapters.tables import graph_community_members as m
from services.adapters.tables import graph_edge_sources as s
from services.adapters.tables import graph_edges as e
from services.adapters.tables import graph_entities as n
from services.adapters.tables import graph_entity_aliases as a
from services.adapters.tables import graph_entity_sources as w
from services.graph.facts import EdgeDraft
from services.graph.models import Alias, AsOf, Edge, EdgeSource, Entity, EntityType, Source
from services.graph.store import ENTITIES_PER_BLOCK, EntityText, Erased, Match, NewEntity, entity_text
from services.jobs.models import EMBED_ENTITIES
from services.retrieval.query import segment

ACTIVE = (e.c.valid_to.is_(None), e.c.expired_at.is_(None))
REFRESHED_COUNT = "last_refresh_count"
STORED_COUNT = "extractions_stored"
_NEVER = "0"

_INSERT_EDGES = sa.insert(e).returning(e.c.id, sort_by_parameter_order=True)
_CHANGE_EDGE = (
    sa.update(e)
    .where(e.c.id == sa.bindparam("edge"))
    .values(
        {
            e.c.source_entity_id: sa.bindparam("source"),
            e.c.target_entity_id: sa.bindparam("target"),
            e.c.fact: sa.bindparam("words"),
            e.c.confidence: sa.bindparam("surety"),
            e.c.valid_from: sa.bindparam("begin"),
            e.c.valid_to: sa.bindparam("end"),
            e.c.expired_at: sa.bindparam("expired"),
        }
    )
)
_REPLACE_EDGE = sa.update(e).where(e.c.id == sa.bindparam("edge")).values(superseded_by_id=sa.bindparam("by"))
_DESCRIBE = (
    sa.update(n)
    .where(n.c.id == sa.bindparam("entity"))
    .values(
        name=sa.bindparam("shown"),
        segmented=sa.bindparam("cut"),
        entity_type=sa.bindparam("kind"),
        summary=sa.bindparam("said"),
    )
)
_COUNT = insert(graph_metadata)
_COUNT = _COUNT.on_conflict_do_update(
    index_elements=["namespace", "key"],
    set_={
        "value": sa.cast(
            sa.cast(graph_metadata.c.value, sa.Integer) + sa.cast(_COUNT.excluded.value, sa.Integer), sa.Text
        )
    },
)


class SqlGraphRows(MarkedRows):
    """Implements `services.graph.store.GraphRows` on one connection."""

    _rows = n
    _marks = entity_embeddings
    _embed_job = EMBED_ENTITIES
    _group = n.c.id // ENTITIES_PER_BLOCK

    # ---- entities --------------------------------------------------------------------------------------------

    def is_there(self, namespace: str, source: Source) -> bool:
        """See GraphRows."""
        found = []
        if source.message_id is not None:
            mine = (messages.c.namespace == namespace, messages.c.id == source.message_id)
            found.append(sa.select(messages.c.id).where(*mine, messages.c.deleted_at.is_(None)))
        if source.chunk_id is not None:
            mine = (chunks.c.namespace == namespace, chunks.c.id == source.chunk_id)
            found.append(sa.select(chunks.c.id).where(*mine))
        return all(self._connection.execute(each).scalar() is not None for each in found)

    def named(self, namespace: str, names: Sequence[str]) -> list[Match]:
        """See GraphRows."""
        found: list[Match] = []
        for part in parts(dict.fromkeys(names)):
            rows = sa.select(a.c.alias_name, a.c.id.label("alias_id"), n).join_from(a, n)
            mine = rows.where(a.c.namespace == namespace, a.c.alias_name.in_(part))
            ordered = self._connection.execute(mine.order_by(a.c.alias_name, a.c.id))
            found += [Match(row.alias_name, row.alias_id, _entity(row)) for row in ordered]
        return found

    def get(self, namespace: str, ids: Sequence[int]) -> dict[int, Entity]:
        """See GraphRows."""
        found: dict[int, Entity] = {}
        for part in parts(ids):
            rows = sa.select(n).where(*with_ids(n, namespace, part))
            found |= {row.id: _entity(row) for row in self._connection.execute(rows)}
        return found

    def page(self, namespace: str, *, kind: EntityType | None, limit: int) -> list[Entity]:
        """See GraphRows."""
        mine = [n.c.namespace == namespace, *([] if kind is None else [n.c.entity_type == kind])]
        rows = sa.select(n).where(*mine).order_by(n.c.last_seen_at.desc(), n.c.id.desc()).limit(limit)
        return [_entity(row) for row in self._connection.execute(rows)]

    def add_entities(self, namespace: str, entities: Sequence[NewEntity]) -> list[int]:
        """See GraphRows."""
        if not entities:
            return []
        now, scope = self._clock.now(), scope_token("entities", namespace)
        rows = [
            {
                "namespace": namespace,
                "name": entity.name,
                "canonical_name": entity.canonical_name,
                "entity_type": entity.type,
                "summary": entity.summary,
                "segmented": segment(entity.name),
                "scope": scope,
                "first_seen_at": now,
                "last_seen_at": now,
            }
            for entity in entities
        ]
        self._connection.execute(insert(n).on_conflict_do_nothing(), rows)
        ids: dict[tuple[str, str], int] = {}
        for part in parts(dict.fromkeys(entity.canonical_name for entity in entities)):
            mine = (n.c.namespace == namespace, n.c.canonical_name.in_(part))
            found = sa.select(n.c.id, n.c.canonical_name, n.c.entity_type).where(*mine)
            ids |= {(row[1], row[2]): row[0] for row in self._connection.execute(found)}
        stored = [ids[entity.canonical_name, entity.type] for entity in entities]
        names = [entity.canonical_name for entity in entities]
        self.add_aliases(namespace, list(zip(names, stored, strict=True)))
        return stored

    def mention(self, extractor: str, source: Source, said: Sequence[tuple[int, str | None]]) -> None:
        """See GraphRows."""
        if not said:
            return
        for part in parts([entity_id for entity_id, _ in said]):
            seen = sa.update(n).where(n.c.id.in_(part), n.c.last_seen_at < self._clock.now())
            self._connection.execute(seen.values(last_seen_at=self._clock.now()))
        rows = {
            entity_id: {
                "entity_id": entity_id,
                "message_id": source.message_id,
                "chunk_id": source.chunk_id,
                "extractor": extractor,
                "summary": summary,
                "created_at": self._clock.now(),
            }
            for entity_id, summary in said
        }
        self._note(w, w.c.entity_id, source, extractor, rows)

    def describe(self, changed: Sequence[Entity]) -> None:
        """See GraphRows."""
        rows = [
            {
                "entity": entity.id,
                "shown": entity.name,
                "cut": segment(entity.name),
                "kind": entity.type,
                "said": entity.summary,
            }
            for entity in changed
        ]
        if rows:
            self._connection.execute(_DESCRIBE, rows)

    def aliases(self, namespace: str, entity_ids: Sequence[int]) -> list[Alias]:
        """See GraphRows."""
        found: list[Alias] = []
        for part in parts(entity_ids):
            mine = (a.c.namespace == namespace, a.c.entity_id.in_(part))
            rows = self._connection.execute(sa.select(a).where(*mine).order_by(a.c.id))
            found += [Alias(row.id, row.entity_id, row.alias_name, row.created_at) for row in rows]
        return found

    def add_aliases(self, namespace: str, aliases: Sequence[tuple[str, int]]) -> None:
        """See GraphRows."""
        now = self._clock.now()
        rows = [
            {"namespace": namespace, "entity_id": entity_id, "alias_name": name, "created_at": now}
            for name, entity_id in aliases
        ]
        if rows:
            self._connection.execute(insert(a).on_conflict_do_nothing(), rows)

    def move_aliases(self, namespace: str, names: Sequence[str], *, of: int, to: int) -> None:
        """See GraphRows."""
        mine = (a.c.namespace == namespace, a.c.entity_id == of, a.c.alias_name.in_(list(names)))
        self._connection.execute(sa.update(a).prefix_with("OR IGNORE").where(*mine).values(entity_id=to))
        self._connection.execute(sa.delete(a).where(*mine))

    def remove_aliases(self, namespace: str, entity_id: int, names: Sequence[str]) -> int:
        """See GraphRows."""
        mine = (a.c.namespace == namespace, a.c.entity_id == entity_id, a.c.alias_name.in_(list(names)))
        return self._connection.execute(sa.delete(a).where(*mine)).rowcount

    def take_over(self, namespace: str, winner: int, loser: int) -> None:
        """See GraphRows."""
        for table in (a, w, m):
            mine = table.c.entity_id == loser
            moved = sa.update(table).prefix_with("OR IGNORE").where(mine).values(entity_id=winner)
            self._connection.execute(moved)
        self.delete_entities(namespace, [loser])
        self._unsettle([winner])

    def copy_mentions(self, of: int, to: int) -> None:
        """See GraphRows."""
        copied = ["message_id", "chunk_id", "extractor", "created_at"]
        rows = sa.select(sa.literal(to), *(w.c[name] for name in copied)).where(w.c.entity_id == of)
        new = insert(w).from_select(["entity_id", *copied], rows)
        self._connection.execute(new.on_conflict_do_nothing())

    def delete_entities(self, namespace: str, ids: Sequence[int]) -> Erased:
        """See GraphRows."""
        facts = entities = vectors = 0
        for part in parts(ids):
            mine = (n.c.namespace == namespace, n.c.id.in_(part))
            self._unsettle(part)
            vectors += Erasure(self._connection, self._clock).bury("entity", *mine)
            hanging = sa.or_(e.c.source_entity_id.in_(part), e.c.target_entity_id.in_(part))
            gone = sa.delete(e).where(e.c.namespace == namespace, hanging)
            facts += self._connection.execute(gone).rowcount
            entities += self._connection.execute(sa.delete(n).where(*mine)).rowcount
        return Erased(facts, entities, vectors)

    def _unsettle(self, entity_ids: Sequence[int]) -> None:
        """Let the communities of these entities be described anew at the next detection."""
        theirs = sa.select(m.c.community_id).where(m.c.entity_id.in_(entity_ids))
        self._connection.execute(sa.update(c).where(c.c.id.in_(theirs)).values(fingerprint=""))

    # ---- facts -----------------------------------------------------------------------------------------------

    def edges(self, namespace: str, ids: Sequence[int]) -> dict[int, Edge]:
        """See GraphRows."""
        found: dict[int, Edge] = {}
        for part in parts(ids):
            rows = sa.select(e).where(*with_ids(e, namespace, part))
            found |= {row.id: _edge(row) for row in self._connection.execute(rows)}
        return found

    def edges_with_keys(
        self, namespace: str, keys: Sequence[tuple[int, str, int]], heads: Sequence[tuple[int, str]]
    ) -> list[Edge]:
        """See GraphRows."""
        key = sa.tuple_(e.c.source_entity_id, e.c.relation, e.c.target_entity_id)
        head = sa.tuple_(e.c.source_entity_id, e.c.relation)
        tests = [key.in_(part) for part in parts(keys)] + [head.in_(part) for part in parts(heads)]
        found: dict[int, Edge] = {}
        for test in tests:
            rows = sa.select(e).where(e.c.namespace == namespace, test)
            found |= {row.id: _edge(row) for row in self._connection.execute(rows)}
        return [found[edge_id] for edge_id in sorted(found)]

    def edges_of(
        self,
        namespace: str,
        entity_id: int,
        *,
        as_of: AsOf | None = None,
        history: bool = False,
        limit: int | None = None,
    ) -> list[Edge]:
        """See GraphRows."""
        end = sa.or_(e.c.source_entity_id == entity_id, e.c.target_entity_id == entity_id)
        rows = sa.select(e).where(e.c.namespace == namespace, end)
        if not history:
            rows = rows.where(*(ACTIVE if as_of is None else true_as_of(as_of, self._clock.now())))
        rows = rows.order_by(e.c.valid_from.desc(), e.c.id.desc()).limit(limit)
        return [_edge(row) for row in self._connection.execute(rows)]

    def stated_by(self, extractor: str, source: Source) -> dict[int, str]:
        """See GraphRows."""
        mine = (s.c.extractor == extractor, *_text_is(s, source))
        rows = self._connection.execute(sa.select(s.c.edge_id, s.c.evidence).where(*mine))
        return {row[0]: row[1] for row in rows}

    def sources(self, edge_ids: Sequence[int]) -> dict[int, list[EdgeSource]]:
        """See GraphRows."""
        found: dict[int, list[EdgeSource]] = {}
        for part in parts(edge_ids):
            rows = sa.select(s).where(s.c.edge_id.in_(part)).order_by(s.c.id)
            for row in self._connection.execute(rows):
                texts = (row.message_id, row.chunk_id, row.job_id)
                said = (row.extractor, row.evidence, row.stated_at)
                source = EdgeSource(row.edge_id, *texts, *said, row.created_at)
                found.setdefault(row.edge_id, []).append(source)
        return found

    def told(self, edge_id: int) -> list[int]:
        """See GraphRows."""
        return list(
            self._connection.execute(sa.select(s.c.stated_at).where(s.c.edge_id == edge_id)).scalars()
        )

    def apply(self, namespace: str, drafts: Sequence[EdgeDraft]) -> None:
        """See GraphRows."""
        self._give_up([draft for draft in drafts if draft.absorbed_by is not None])
        kept = [draft for draft in drafts if draft.absorbed_by is None]
        stored = [draft for draft in kept if draft.id is not None and draft.changed]
        # What retires makes room for what takes its key.
        for active in (False, True):
            rows = [_changes(draft) for draft in stored if draft.active is active]
            if rows:
                self._connection.execute(_CHANGE_EDGE, rows)
        new = [draft for draft in kept if draft.id is None]
        if new:
            now = self._clock.now()
            rows = [_row(namespace, draft, now) for draft in new]
            for draft, edge_id in zip(
                new, self._connection.execute(_INSERT_EDGES, rows).scalars(), strict=True
            ):
                draft.id = edge_id
        for draft in new:
            if draft.split_from is not None and draft.split_from.id is not None:
                early = (s.c.edge_id == draft.split_from.id, s.c.stated_at <= max(draft.stated))
                self._connection.execute(sa.update(s).where(*early).values(edge_id=draft.id))
        replaced = [
            {"edge": draft.id, "by": draft.superseded_by.id}
            for draft in kept
            if draft.superseded_by is not None
        ]
        if replaced:
            self._connection.execute(_REPLACE_EDGE, replaced)

    def _give_up(self, absorbed: Sequence[EdgeDraft]) -> None:
        for draft in absorbed:
            by = draft.absorbed_by.id if draft.absorbed_by is not None else None
            mine = s.c.edge_id == draft.id
            self._connection.execute(sa.update(s).prefix_with("OR IGNORE").where(mine).values(edge_id=by))
            points_here = e.c.superseded_by_id == draft.id
            self._connection.execute(sa.update(e).where(points_here).values(superseded_by_id=by))
            self._connection.execute(sa.delete(e).where(e.c.id == draft.id))

    def state(self, extractor: str, source: Source, evidence: Sequence[tuple[int, str, int]]) -> None:
        """See GraphRows."""
        rows = {
            edge_id: {
                "edge_id": edge_id,
                "message_id": source.message_id,
                "chunk_id": source.chunk_id,
                "extractor": extractor,
                "evidence": words,
                "stated_at": at,
                "job_id": source.job_id,
                "created_at": self._clock.now(),
            }
            for edge_id, words, at in evidence
        }
        self._note(s, s.c.edge_id, source, extractor, rows)

    def retract(self, namespace: str, edge_id: int) -> bool:
        """See GraphRows."""
        mine = (e.c.namespace == namespace, e.c.id == edge_id, e.c.expired_at.is_(None))
        ended = sa.update(e).where(*mine).values(expired_at=self._clock.now(), valid_to=None)
        return self._connection.execute(ended).rowcount > 0

    def delete_edges(self, namespace: str, ids: Sequence[int], *, untell: bool = False) -> int:
        """See GraphRows."""
        deleted = 0
        if untell:
            gone = self.edges(namespace, ids).values()
            ends = {end for edge in gone for end in (edge.source_id, edge.target_id)}
            Erasure(self._connection, self._clock).untell(ends)
        for part in parts(ids):
            mine = (e.c.namespace == namespace, e.c.id.in_(part))
            deleted += self._connection.execute(sa.delete(e).where(*mine)).rowcount
        return deleted

    def forget_texts(
        self,
        namespace: str,
        *,
        message_ids: Sequence[int] = (),
        chunk_ids: Sequence[int] = (),
        extractor: str | None = None,
        keep: Sequence[int] = (),
    ) -> Erased:
        """See GraphRows."""
        return Erasure(self._connection, self._clock).graph_texts(
            namespace, message_ids=message_ids, chunk_ids=chunk_ids, extractor=extractor, keep=keep
        )

    def _note(
        self,
        table: sa.Table,
        row_id: sa.Column[int],
        source: Source,
        extractor: str,
        rows: Mapping[int, dict[str, Any]],
    ) -> None:
        """Insert rows that say that a text states or names something, those that are missing."""
        new: Iterable[dict[str, Any]] = rows.values()
        if source.message_id is None and source.chunk_id is None:
            # No two nulls are equal to a unique key.
            mine = (row_id.in_(list(rows)), table.c.extractor == extractor, *_text_is(table, source))
            known = set(self._connection.execute(sa.select(row_id).where(*mine)).scalars())
            new = [row for key, row in rows.items() if key not in known]
        listed = list(new)
        if listed:
            self._connection.execute(insert(table).on_conflict_do_nothing(), listed)

    # ---- counters --------------------------------------------------------------------------------------------

    def count(self, namespace: str, counts: Mapping[str, int]) -> None:
        """See GraphRows."""
        rows = [
            {"namespace": namespace, "key": key, "value": str(more)} for key, more in counts.items() if more
        ]
        if rows:
            self._connection.execute(_COUNT, rows)

    def counters(self, namespace: str) -> dict[str, int]:
        """See GraphRows."""
        k = graph_metadata.c
        rows = self._connection.execute(sa.select(k.key, k.value).where(k.namespace == namespace))
        hidden = (REFRESHED_COUNT, "communities_refreshed_at")
        kept = {row.key: int(row.value) for row in rows if row.key not in hidden and row.value.isdecimal()}
        active = sa.and_(*ACTIVE)
        count = sa.func.count()
        edges = sa.select(count.filter(active), count.filter(~active)).where(e.c.namespace == namespace)
        now, past = self._connection.execute(edges).one()
        entities, aliases = (
            self._connection.execute(sa.select(count).where(table.c.namespace == namespace)).scalar_one()
            for table in (n, a)
        )
        many = sa.select(n.c.canonical_name).where(n.c.namespace == namespace).group_by(n.c.canonical_name)
        several = sa.select(count).select_from(many.having(count > 1).subquery())
        ambiguous = self._connection.execute(several).scalar_one()
        rows_now = {"entities": entities, "aliases": aliases, "ambiguous_names": ambiguous}
        return kept | rows_now | {"edges": now, "history": past}

    def claim_refresh(self, namespace: str, interval: int) -> bool:
        """See GraphRows."""
        if interval < 1:
            return False
        k = graph_metadata.c
        other = graph_metadata.alias()
        stored = sa.select(sa.cast(other.c.value, sa.Integer)).where(
            other.c.namespace == namespace, other.c.key == STORED_COUNT
        )
        due = stored.scalar_subquery() - sa.cast(k.value, sa.Integer) >= interval
        first = {"namespace": namespace, "key": REFRESHED_COUNT, "value": _NEVER}
        new = insert(graph_metadata).values(first)
        taken = {"value": sa.cast(stored.scalar_subquery(), sa.Text)}
        new = new.on_conflict_do_update(index_elements=["namespace", "key"], set_=taken, where=due)
        claim = new.returning(k.value)
        found = self._connection.execute(claim).scalar()
        if found == _NEVER:
            found = self._connection.execute(claim).scalar()
        return found is not None

    # ---- eviction --------------------------------------------------------------------------------------------

    def delete_expired(self, namespace: str, *, before: int, limit: int) -> int:
        """See GraphRows."""
        old = sa.select(e.c.id).where(e.c.namespace == namespace, e.c.expired_at < before).limit(limit)
        return self._connection.execute(sa.delete(e).where(e.c.id.in_(old))).rowcount

    def orphans(self, namespace: str, *, before: int, limit: int) -> list[int]:
        """See GraphRows."""
        alone = (
            ~sa.exists().where(e.c.source_entity_id == n.c.id),
            ~sa.exists().where(e.c.target_entity_id == n.c.id),
        )
        mine = (n.c.namespace == namespace, n.c.last_seen_at < before)
        rows = sa.select(n.c.id).where(*mine, *alone).order_by(n.c.id).limit(limit)
        return list(self._connection.execute(rows).scalars())

    def excess(self, namespace: str, *, keep: int, limit: int) -> list[int]:
        """See GraphRows."""
        total = sa.select(sa.func.count()).where(n.c.namespace == namespace)
        over = self._connection.execute(total).scalar_one() - keep
        if over <= 0:
            return []
        mine = (e.c.namespace == namespace, *ACTIVE)
        # Both ends in one list, or an entity would be ranked twice with half of its facts.
        ends = sa.union_all(
            sa.select(e.c.source_entity_id.label("entity")).where(*mine),
            sa.select(e.c.target_entity_id.label("entity")).where(*mine),
        ).subquery()
        degrees = sa.select(ends.c.entity, sa.func.count().label("degree")).group_by(ends.c.entity).subquery()
        ranked = (
            sa.select(n.c.id)
            .join_from(n, degrees, degrees.c.entity == n.c.id, isouter=True)
            .where(n.c.namespace == namespace)
            .order_by(sa.func.coalesce(degrees.c.degree, 0), n.c.last_seen_at, n.c.id)
        )
        return list(self._connection.execute(ranked.limit(min(over, limit))).scalars())

    # ---- vectors ---------------------------------------------------------------------------------------------

    def unembedded(self, namespace: str, block: int, physical: str, *, limit: int) -> list[EntityText]:
        """See GraphRows."""
        first = block * ENTITIES_PER_BLOCK
        inside = (n.c.namespace == namespace, n.c.id.between(first, first + ENTITIES_PER_BLOCK - 1))
        rows = sa.select(n).where(*inside, *self._lacks_vectors(physical)).order_by(n.c.id).limit(limit)
        return [
            EntityText(row.id, EntityType(row.entity_type), entity_text(row.name, row.summary))
            for row in self._connection.execute(rows)
        ]


def true_as_of(as_of: AsOf, now: int) -> tuple[sa.ColumnElement[bool], ...]:
    """Tests of the facts that were true at one time, as known at another.

    What became of a fact after the second time does not count: its end was not known then.
    """
    valid_at = now if as_of.valid_at is None else as_of.valid_at
    known_at = now if as_of.known_at is None else as_of.known_at
    still = sa.and_(e.c.expired_at.is_(None), sa.or_(e.c.valid_to.is_(None), e.c.valid_to > valid_at))
    not_yet = e.c.expired_at > known_at
    ended = sa.and_(e.c.expired_at <= known_at, e.c.valid_to > valid_at)
    return e.c.created_at <= known_at, e.c.valid_from <= valid_at, sa.or_(still, not_yet, ended)


def _text_is(table: sa.Table, source: Source) -> tuple[sa.ColumnElement[bool], ...]:
    # `==` with None is IS NULL.
    return table.c.message_id == source.message_id, table.c.chunk_id == source.chunk_id


def _changes(draft: EdgeDraft) -> dict[str, Any]:
    return {
        "edge": draft.id,
        "source": draft.source_id,
        "target": draft.target_id,
        "words": draft.fact,
        "surety": draft.confidence,
        "begin": draft.valid_from,
        "end": draft.valid_to,
        "expired": draft.expired_at,
    }


def _row(namespace: str, draft: EdgeDraft, now: int) -> dict[str, Any]:
    created_at = now if draft.created_at is None else draft.created_at
    return {
        "namespace": namespace,
        "source_entity_id": draft.source_id,
        "target_entity_id": draft.target_id,
        "relation": draft.relation,
        "fact": draft.fact,
        "confidence": draft.confidence,
        "valid_from": draft.valid_from,
        "valid_to": draft.valid_to,
        "created_at": created_at,
        "expired_at": None if draft.expired_at is None else max(draft.expired_at, created_at),
    }


def _entity(row: Any) -> Entity:
    return Entity(
        row.id,
        row.namespace,
        row.name,
        row.canonical_name,
        EntityType(row.entity_type),
        row.summary,
        row.first_seen_at,
        row.last_seen_at,
    )


def _edge(row: Any) -> Edge:
    return Edge(
        row.id,
        row.namespace,
        row.source_entity_id,
        row.target_entity_id,
        row.relation,
        row.fact,
        row.confidence,
        row.valid_from,
        row.valid_to,
        row.created_at,
        row.expired_at,
        row.superseded_by_id,
    )
