"""Erasing for good: rows with everything that tells of them, and tombstones for their vectors, in the caller's unit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import TypeVar

import sqlalchemy as sa

from services.adapters import tables as t
from services.adapters.collection_rows import SqlCollectionRows
from services.adapters.key_fact_sources import tell, told_elsewhere
from services.embedding.points import point_ids
from services.graph.names import joined_summary
from services.graph.store import Erased
from services.memory.models import Forgotten, Origin
from services.ports import Clock

# Stays below SQLite's limit on bound parameters whatever the build.
_IDS_PER_STATEMENT = 500

_Id = TypeVar("_Id")

# Kind of row -> the table of its marks. Each mark says how many vectors a row has in a collection.
_MARKS = {
    "message": (t.messages, t.message_embeddings),
    "summary": (t.summaries, t.summary_embeddings),
    "key_fact": (t.key_facts, t.key_fact_embeddings),
    "chunk": (t.chunks, t.chunk_embeddings),
    "correction": (t.zeph_corrections, t.correction_embeddings),
    "entity": (t.graph_entities, t.entity_embeddings),
}
# Work that is under way belongs to the ledger, and vectors go by tombstones.
_KEPT_TABLES = frozenset({"jobs", "vector_points", "vector_namespaces", "vector_tombstones"})


class Erasure:
    """Deletes messages, conversations and namespaces on one connection."""

    def __init__(self, connection: sa.Connection, clock: Clock) -> None:
        self._connection = connection
        self._clock = clock

    def bury(self, kind: str, *tests: sa.ColumnElement[bool]) -> int:
        """Note the vectors of these rows as to be removed, and forget that they had any; how many vectors."""
        rows, marks = _MARKS[kind]
        row_id = next(column for column in marks.primary_key if column.name != "collection")
        found = sa.select(rows.c.namespace, row_id, marks.c.collection, marks.c.windows).join_from(
            rows, marks
        )
        points = [
            (namespace, physical, point)
            for namespace, found_id, physical, windows in self._connection.execute(found.where(*tests))
            for point in point_ids(kind, namespace, physical, found_id, windows)
        ]
        SqlCollectionRows(self._connection, self._clock).bury(points)
        buried = sa.select(rows.c.id).where(*tests)
        self._connection.execute(sa.delete(marks).where(row_id.in_(buried)))
        return len(points)

    def graph_texts(
        self,
        namespace: str | None,
        *,
        message_ids: Sequence[int] = (),
        chunk_ids: Sequence[int] = (),
        extractor: str | None = None,
        keep: Sequence[int] = (),
    ) -> Erased:
        """What these texts say leaves the graph; see GraphRows.forget_texts. Call it before the texts are deleted.

        Without a namespace the ids are known to be the caller's.
        """
        gone = Erased()
        for column, ids in (("message_id", message_ids), ("chunk_id", chunk_ids)):
            for part in parts(ids):
                stated = self._unsay(t.graph_edge_sources, t.graph_edges, namespace, column, part, extractor)
                named = self._unsay(
                    t.graph_entity_sources, t.graph_entities, namespace, column, part, extractor
                )
                about = named | self._ends(stated)
                if extractor is None:
                    # Before its members go: afterwards nothing says whose community it was.
                    self.untell(about)
                facts = self._unstated(stated)
                lost, vectors = self._unnamed(about, keep)
                gone += Erased(facts, len(lost), vectors)
        return gone

    def _unsay(
        self,
        sources: sa.Table,
        rows: sa.Table,
        namespace: str | None,
        column: str,
        ids: Sequence[int],
        extractor: str | None,
    ) -> set[int]:
        """Delete what says that these texts state a fact or name an entity; the ids of those."""
        row_id = sources.c.edge_id if "edge_id" in sources.c else sources.c.entity_id
        tests: list[sa.ColumnElement[bool]] = [sources.c[column].in_(ids)]
        tests += [] if extractor is None else [sources.c.extractor == extractor]
        if namespace is not None:
            tests.append(sa.exists().where(rows.c.id == row_id, rows.c.namespace == namespace))
        gone = sa.delete(sources).where(*tests).returning(row_id)
        return set(self._connection.execute(gone).scalars())

    def _ends(self, edge_ids: Iterable[int]) -> set[int]:
        """The entities that these facts are about."""
        e = t.graph_edges.c
        ends: set[int] = set()
        for part in parts(sorted(edge_ids)):
            rows = sa.select(e.source_entity_id, e.target_entity_id).where(e.id.in_(part))
            for both in self._connection.execute(rows):
                ends.update(both)
        return ends

    def _unstated(self, stated: Iterable[int]) -> int:
        """Delete those of the facts that nothing states any more; how many."""
        e, s = t.graph_edges, t.graph_edge_sources
        facts = 0
        for part in parts(sorted(stated)):
            lost = (e.c.id.in_(part), ~sa.exists().where(s.c.edge_id == e.c.id))
            facts += self._connection.execute(sa.delete(e).where(*lost)).rowcount
            # What a fact says must be what one of its texts says.
            told = sa.exists().where(s.c.edge_id == e.c.id, s.c.evidence == e.c.fact)
            first = sa.select(s.c.evidence).where(s.c.edge_id == e.c.id).order_by(s.c.id).limit(1)
            retold = sa.update(e).where(e.c.id.in_(part), ~told).values(fact=first.scalar_subquery())
            self._connection.execute(retold)
        return facts

    def _unnamed(self, named: Iterable[int], keep: Sequence[int]) -> tuple[set[int], int]:
        """Delete those of the entities that no text names and no fact holds: which, and how many vectors they had.

        Of the others is known what is still said.
        """
        n, w, e = t.graph_entities, t.graph_entity_sources, t.graph_edges
        gone: set[int] = set()
        vectors = 0
        alone = (
            ~sa.exists().where(w.c.entity_id == n.c.id),
            ~sa.exists().where(e.c.source_entity_id == n.c.id),
            ~sa.exists().where(e.c.target_entity_id == n.c.id),
        )
        for part in parts(sorted(set(named) - set(keep))):
            lost = self._connection.execute(sa.select(n.c.id).where(n.c.id.in_(part), *alone)).scalars().all()
            vectors += self.bury("entity", n.c.id.in_(lost))
            self._connection.execute(sa.delete(n).where(n.c.id.in_(lost)))
            gone.update(lost)
        self._redescribe(set(named) - gone)
        return gone, vectors

    def _redescribe(self, entity_ids: Iterable[int]) -> None:
        n, w = t.graph_entities, t.graph_entity_sources
        said: dict[int, list[str]] = {}
        for part in parts(sorted(entity_ids)):
            rows = sa.select(w.c.entity_id, w.c.summary).where(w.c.entity_id.in_(part)).order_by(w.c.id)
            for entity_id, summary in self._connection.execute(rows):
                said.setdefault(entity_id, []).extend([summary] if summary else [])
        renewed = [{"entity": key, "said": joined_summary(texts)} for key, texts in said.items()]
        if renewed:
            renew = sa.update(n).where(n.c.id == sa.bindparam("entity"))
            self._connection.execute(renew.values(summary=sa.bindparam("said")), renewed)

    def untell(self, entity_ids: Iterable[int]) -> None:
        """Delete the communities of these entities, whose summaries tell of what goes; detection makes them anew."""
        c, m = t.graph_communities, t.graph_community_members
        for part in parts(sorted(entity_ids)):
            theirs = sa.select(m.c.community_id).where(m.c.entity_id.in_(part))
            self._connection.execute(sa.delete(c).where(c.c.id.in_(theirs)))

    def messages(self, namespace: str, ids: Sequence[int]) -> Forgotten:
        """Messages, the summaries that retell them, corrections made of them, and every cached response."""
        counts: Counter[str] = Counter()
        # Triggers remove some of them with what they are made of.
        cached = self._cached(namespace)
        pending = set(ids)
        seen: set[int] = set()
        while pending:
            # A summary that took the place of a message tells of it, and so does the summary of that one.
            retold = {found for part in parts(pending) for found in self._retelling(namespace, part)}
            seen |= pending
            pending = retold - seen
        for part in parts(sorted(seen)):
            counts.update(self._messages(namespace, part))
        if counts["messages"]:
            # Which of them retells what cannot be known, and all can be made again.
            for cache in (t.response_cache, t.model_replies):
                self._connection.execute(sa.delete(cache).where(cache.c.namespace == namespace))
            # Nor may an answer be stored that is being made just now.
            made_now = sa.delete(t.response_leases).where(t.response_leases.c.namespace == namespace)
            self._connection.execute(made_now)
            counts["cached_responses"] = cached
        return Forgotten(**counts)

    def _cached(self, namespace: str) -> int:
        """How many answers of models are kept."""
        kept = (
            sa.select(sa.func.count()).where(cache.c.namespace == namespace)
            for cache in (t.response_cache, t.model_replies)
        )
        return sum(int(self._connection.execute(count).scalar_one()) for count in kept)

    def conversation(self, namespace: str, conversation_id: int) -> Forgotten:
        """A conversation with its messages, summaries and the sessions that recorded it."""
        m, c, s = t.messages, t.conversations, t.acp_sessions
        mine = (m.c.namespace == namespace, m.c.conversation_id == conversation_id)
        ids = self._connection.execute(sa.select(m.c.id).where(*mine)).scalars().all()
        counts = Counter(asdict(self.messages(namespace, ids)))
        inside = (
            t.summaries.c.namespace == namespace,
            t.summaries.c.conversation_id == conversation_id,
        )
        counts.update(self._summaries(*inside))
        sessions = sa.delete(s).where(s.c.namespace == namespace, s.c.conversation_id == conversation_id)
        counts["sessions"] += self._connection.execute(sessions).rowcount
        row = sa.delete(c).where(c.c.namespace == namespace, c.c.id == conversation_id)
        counts["conversations"] += self._connection.execute(row).rowcount
        return Forgotten(**counts)

    def namespace(self, namespace: str) -> Forgotten:
        """Everything of a namespace but its jobs."""
        vectors = sum(self.bury(kind, rows.c.namespace == namespace) for kind, (rows, _) in _MARKS.items())
        deleted: Counter[str] = Counter()
        for table in reversed(t.metadata.sorted_tables):
            if "namespace" in table.c and table.name not in _KEPT_TABLES:
                mine = sa.delete(table).where(table.c.namespace == namespace)
                deleted[table.name] = self._connection.execute(mine).rowcount
        return Forgotten(
            messages=deleted["messages"],
            vectors=vectors,
            conversations=deleted["conversations"],
            summaries=deleted["summaries"],
            key_facts=deleted["key_facts"],
            sessions=deleted["acp_sessions"],
            corrections=deleted["zeph_corrections"],
            cached_responses=deleted["response_cache"] + deleted["model_replies"],
            documents=deleted["documents"],
            graph_facts=deleted["graph_edges"],
            graph_entities=deleted["graph_entities"],
        )

    def _messages(self, namespace: str, ids: Sequence[int]) -> Counter[str]:
        m, s, z = t.messages, t.summaries, t.zeph_corrections
        mine = (m.c.namespace == namespace, m.c.id.in_(ids))
        # A summary of which nobody knows where it begins and ends may tell of any message of its conversation.
        unknown = sa.or_(s.c.first_message_id.is_(None), s.c.last_message_id.is_(None))
        told = sa.exists().where(
            *mine,
            m.c.conversation_id == s.c.conversation_id,
            sa.or_(m.c.id.between(s.c.first_message_id, s.c.last_message_id), unknown),
        )
        counts = self._summaries(s.c.namespace == namespace, told)
        # A correction quotes what was asked, what was answered, and what the user said to it.
        quoted = (z.c.message_id, z.c.target_message_id, z.c.request_message_id)
        corrections = (z.c.namespace == namespace, sa.or_(*(column.in_(ids) for column in quoted)))
        counts["vectors"] += self.bury("correction", *corrections) + self.bury("message", *mine)
        graph = self.graph_texts(namespace, message_ids=ids)
        counts["vectors"] += graph.vectors
        counts["graph_facts"] += graph.facts
        counts["graph_entities"] += graph.entities
        counts["corrections"] += self._connection.execute(sa.delete(z).where(*corrections)).rowcount
        counts["messages"] += self._connection.execute(sa.delete(m).where(*mine)).rowcount
        return counts

    def _summaries(self, *tests: sa.ColumnElement[bool]) -> Counter[str]:
        """Delete summaries with the key facts that no other one tells."""
        s, k = t.summaries, t.key_facts
        ids = self._connection.execute(sa.select(s.c.id).where(*tests)).scalars().all()
        counts: Counter[str] = Counter()
        for part in parts(ids):
            facts = k.c.summary_id.in_(part)
            elsewhere = told_elsewhere(self._connection, part)
            counts["vectors"] += self.bury("key_fact", facts) + self.bury("summary", s.c.id.in_(part))
            counts["key_facts"] += self._connection.execute(sa.delete(k).where(facts)).rowcount
            counts["summaries"] += self._connection.execute(sa.delete(s).where(s.c.id.in_(part))).rowcount
            # In new rows: the words of a summary that is gone are not theirs, nor is its vector.
            for it in elsewhere:
                told = it.namespace, it.conversation_id, it.summary_id, [it.fact]
                tell(self._connection, *told, created_at=it.created_at)
            counts["key_facts"] -= len({it.fact_id for it in elsewhere})
        return counts

    def _retelling(self, namespace: str, ids: Sequence[int]) -> Iterator[int]:
        """The messages that took the place of these in a compaction: made in the moment in which these were hidden."""
        old, new = t.messages.alias(), t.messages.alias()
        same = (new.c.conversation_id == old.c.conversation_id, new.c.created_at == old.c.compacted_at)
        found = sa.select(new.c.id).join_from(old, new, sa.and_(*same)).distinct()
        mine = (old.c.namespace == namespace, old.c.id.in_(ids), new.c.origin == Origin.SUMMARY)
        yield from self._connection.execute(found.where(*mine)).scalars()


def parts(ids: Iterable[_Id]) -> Iterator[list[_Id]]:
    """The ids in lists that fit into one statement."""
    listed = list(ids)
    return (listed[at : at + _IDS_PER_STATEMENT] for at in range(0, len(listed), _IDS_PER_STATEMENT))


def with_ids(table: sa.Table, namespace: str, ids: Sequence[int]) -> tuple[sa.ColumnElement[bool], ...]:
    """Tests of the rows of a namespace that have these ids.

    SQLite takes any one namespace for rare, and would read all of it instead of looking up the ids.
    """
    return sa.func.likely(table.c.namespace == namespace), table.c.id.in_(ids)
