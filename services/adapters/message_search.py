"""The SQL that finds messages again: by words, by id, and what a filter lets through."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import accumulate
from math import log
from typing import Any

import sqlalchemy as sa

from services.ids import MessageId, fields_hash
from services.memory.models import MessageFilter, Role
from services.memory.ranking import Place
from services.retrieval.query import any_of, in_scope, phrase_expression, search_terms

_SEARCHED = "who content around"
# Weights of who, content, around and scope, measured on conversations of both short and long turns.
_BM25 = "bm25(messages_fts, 2.0, 1.0, 0.4, 0.0)"
# Rare words are enough when so many times the wanted rows hold one of them ...
_ENOUGH = 2
# ... and the other words are worth at most this share of all.
_LEFT_OUT = 0.3
_SAMPLED = 16

# Rows are reached by their ids alone. Left to choose, SQLite takes an index of the namespace, as if that held ten
# messages, and reads all of them, or asks the full-text index about each.
_BY_ID = "messages NOT INDEXED WHERE messages.id IN (SELECT value FROM json_each(:ids))"
_MATCHING = "messages_fts CROSS JOIN messages ON messages.id = messages_fts.rowid"

_COUNTS = sa.text(
    "SELECT (SELECT count(*) FROM messages_fts WHERE messages_fts MATCH term.value) "
    "FROM json_each(:terms) AS term ORDER BY term.key"
)
_NEWEST = sa.text("SELECT max(id) FROM messages")
_SAMPLE = sa.text(f"SELECT count(*) FROM {_BY_ID} AND messages.namespace = :namespace")  # noqa: S608

# What each field of a MessageFilter demands.
_TESTS = {
    "conversation_id": "messages.conversation_id = :conversation_id",
    "roles": "messages.role IN (SELECT value FROM json_each(:roles))",
    "since": "messages.created_at >= :since",
    "before": "messages.created_at < :before",
    "agent_visible": "messages.agent_visible = :agent_visible",
    "user_visible": "messages.user_visible = :user_visible",
    "as_of": "messages.created_at <= :as_of",
}
# Hidden ones too.
_ANY = MessageFilter(agent_visible=None)
_VISIBLE_THEN = "(messages.agent_visible = 1 OR coalesce(messages.compacted_at > :as_of, 0)) = :agent_visible"

_CORRECTED = (
    "SELECT 1 FROM zeph_corrections AS z "
    "WHERE z.target_message_id = messages.id AND z.lowers = 1 AND z.retired_at IS NULL"
)
_CORRECTED_THEN = f"{_CORRECTED} AND z.created_at <= :as_of"


def search(
    connection: sa.Connection, namespace: str, query: str, *, limit: int, where: MessageFilter
) -> dict[MessageId, float]:
    """See MessageRows."""
    ask = _Asker(connection, namespace, limit, where)
    for rare, common in _splits(connection, search_terms(query), limit):
        found = ask(any_of(rare, _SEARCHED))
        if common:
            # A row that holds both is found twice, and the higher score is the right one.
            found |= ask(f"{any_of(rare, _SEARCHED)} AND {any_of(common, _SEARCHED)}")
        if len(found) >= limit or not common:
            return dict(sorted(found.items(), key=lambda pair: (-pair[1], pair[0]))[:limit])
    return {}


def holders(
    connection: sa.Connection,
    namespace: str,
    phrases: Sequence[str],
    query: str,
    *,
    limit: int,
    where: MessageFilter,
) -> list[MessageId]:
    """See MessageRows."""
    terms, holding = search_terms(query), phrase_expression(phrases, columns="who content")
    if not terms or holding is None:
        return []
    return list(_Asker(connection, namespace, limit, where)(f"{any_of(terms, _SEARCHED)} AND {holding}"))


def places(
    connection: sa.Connection, namespace: str, ids: Sequence[MessageId], where: MessageFilter
) -> dict[MessageId, Place]:
    """See MessageRows."""
    if not ids:
        return {}
    arguments = {"ids": json.dumps(ids), **filter_values(namespace, where)}
    return {
        MessageId(message_id): Place(conversation_id, created_at, role == Role.ASSISTANT, bool(corrected))
        for message_id, conversation_id, created_at, role, corrected in connection.execute(
            _places(filter_sql(where), _CORRECTED if where.as_of is None else _CORRECTED_THEN), arguments
        ).all()
    }


def by_id(connection: sa.Connection, namespace: str, ids: Sequence[MessageId]) -> Sequence[sa.Row[Any]]:
    """The whole rows of those ids that exist and are not deleted."""
    arguments = {"ids": json.dumps(ids), **filter_values(namespace, _ANY)}
    return connection.execute(_ALIVE, arguments).all() if ids else []


def message_scope(namespace: str) -> str:
    """One word of digits for a namespace, which no stemmer changes."""
    return f"{int(fields_hash('messages', namespace)[:15], 16):d}"


def filter_sql(where: MessageFilter) -> str:
    """The SQL condition of a filter on `messages`, with the values of `filter_values` to be bound."""
    tests = [test for field, test in _TESTS.items() if field in _given(where)]
    if where.as_of is not None and where.agent_visible is not None:
        tests[tests.index(_TESTS["agent_visible"])] = _VISIBLE_THEN
    return " AND ".join(("messages.namespace = :namespace", "messages.deleted_at IS NULL", *tests))


def filter_values(namespace: str, where: MessageFilter) -> dict[str, Any]:
    """What `filter_sql` of the same filter wants bound."""
    return {"namespace": namespace, **_given(where)}


def _given(where: MessageFilter) -> dict[str, Any]:
    visible = {
        name: None if value is None else int(value)
        for name, value in (("agent_visible", where.agent_visible), ("user_visible", where.user_visible))
    }
    values = {
        "conversation_id": where.conversation_id,
        "roles": json.dumps(where.roles) if where.roles else None,
        "since": where.since,
        "before": where.before,
        "as_of": where.as_of,
        **visible,
    }
    return {name: value for name, value in values.items() if value is not None}


class _Asker:
    """Runs full-text expressions over the messages of a namespace that pass a filter: id -> score, best first."""

    def __init__(self, connection: sa.Connection, namespace: str, limit: int, where: MessageFilter) -> None:
        self._connection = connection
        self._statement = _search(filter_sql(where))
        self._arguments: Mapping[str, Any] = {"limit": limit, **filter_values(namespace, where)}
        # Where nearly all is of this namespace, its scope only costs: the filter has the last word anyway.
        most = _owns_most(connection, namespace)
        self._scope = "" if most else f"{in_scope(message_scope(namespace))} AND "

    def __call__(self, expression: str) -> dict[MessageId, float]:
        arguments = {**self._arguments, "expression": self._scope + expression}
        # At once: row by row costs twice as much.
        rows = self._connection.execute(self._statement, arguments).all()
        return {MessageId(message_id): score for message_id, score in rows}


def _splits(
    connection: sa.Connection, terms: Sequence[str], limit: int
) -> Iterator[tuple[list[str], list[str]]]:
    """The terms of which a row must hold one, and those that only add to its score; then all, should that be too few.

    Ranking a row costs ten times as much as finding it, and most rows that hold a word of the query hold only its
    commonest ones, which are worth the least. On conversations this changes no answer (LoCoMo, 5,882 messages: the
    first 50 are the same for 99.5 % of the questions); of random words, which nothing holds together, it costs 1 % of
    the first ten for queries of eight words.
    """
    if len(terms) > 1:
        listed = json.dumps([any_of([term], _SEARCHED) for term in terms])
        counts = connection.execute(_COUNTS, {"terms": listed}).scalars().all()
        total = max(connection.execute(_NEWEST).scalar() or 0, *counts)
        held, ordered = zip(*sorted(zip(counts, terms, strict=True), key=lambda pair: pair[0]), strict=True)
        rows = list(accumulate(held))
        # What each word is worth to BM25.
        worth = list(accumulate(log((total + 1) / (count + 0.5)) for count in held))
        rare = 1 + max(bisect_left(rows, _ENOUGH * limit), bisect_left(worth, (1 - _LEFT_OUT) * worth[-1]))
        if rare < len(terms):
            yield list(ordered[:rare]), list(ordered[rare:])
    if terms:
        yield list(terms), []


def _owns_most(connection: sa.Connection, namespace: str) -> bool:
    """Whether most messages are of this namespace, by a sample."""
    newest = connection.execute(_NEWEST).scalar() or 0
    ids = list(range(1, newest + 1, newest // _SAMPLED + 1))
    arguments = {"ids": json.dumps(ids), "namespace": namespace}
    return 2 * int(connection.execute(_SAMPLE, arguments).scalar_one()) > len(ids)


# Built once for each kind of filter. Only SQL of this file comes together here; what is asked for is bound.
@lru_cache(maxsize=256)
def _search(passes: str) -> sa.TextClause:
    return sa.text(
        f"SELECT messages.id, -{_BM25} FROM {_MATCHING} "  # noqa: S608
        f"WHERE messages_fts MATCH :expression AND {passes} ORDER BY {_BM25}, messages.id LIMIT :limit"
    )


@lru_cache(maxsize=256)
def _places(passes: str, corrected: str) -> sa.TextClause:
    columns = f"messages.id, conversation_id, messages.created_at, role, EXISTS ({corrected})"
    return sa.text(f"SELECT {columns} FROM {_BY_ID} AND {passes}")  # noqa: S608


_ALIVE = sa.text(f"SELECT * FROM {_BY_ID} AND {filter_sql(_ANY)}")  # noqa: S608
