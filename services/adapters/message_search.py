"""The SQL that finds messages again: by words, by id, and what a filter lets through."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import accumulate, islice
from math import log
from typing import Any

import sqlalchemy as sa

from services.adapters.scopes import scope_token
from services.ids import MessageId
from services.memory.models import MessageFilter, Role
from services.memory.ranking import Place
from services.retrieval.query import any_of, in_scope, phrase_expression, search_terms

_SEARCHED = "who content around"
# Weights of who, content, around and scope, measured on conversations of both short and long turns.
_BM25 = "bm25(messages_fts, 2.0, 1.0, 0.4, 0.0)"
# Rare words are enough when so many times the wanted rows hold one of them ...
_ENOUGH = 3
# ... and the other words are worth at most this share of all.
_LEFT_OUT = 0.3
# How many times the wanted rows are looked up before it is known which of them pass the filter.
_AHEAD = 1.25
_SAMPLED = 16

# Rows are reached by their ids alone. Left to choose, SQLite takes an index of the namespace, as if that held ten
# messages, and reads all of them, or asks the full-text index about each.
_BY_ID = "messages NOT INDEXED WHERE messages.id IN (SELECT value FROM json_each(:ids))"
_MATCHING = f"SELECT messages_fts.rowid AS id, {_BM25} AS score FROM messages_fts WHERE messages_fts MATCH"  # noqa: S608
_FIRST = f"SELECT * FROM ({_MATCHING} :expression ORDER BY score, id LIMIT :most)"  # noqa: S608
# A row that both expressions find counts with its better score.
_FIRST_OF_BOTH = (
    f"SELECT id, min(score) AS score FROM ({_FIRST} "  # noqa: S608
    f"UNION ALL SELECT * FROM ({_MATCHING} :narrower ORDER BY score, id LIMIT :most)) "
    "GROUP BY id ORDER BY score, id LIMIT :most"
)
_ITS = "FROM messages AS its WHERE its.namespace = :namespace AND its.conversation_id = :conversation_id"
_WITHIN = f"messages_fts.rowid BETWEEN (SELECT min(its.id) {_ITS}) AND (SELECT max(its.id) {_ITS})"

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
_CORRECTED = "SELECT 1 FROM zeph_corrections AS z WHERE z.target_message_id = messages.id AND z.lowers = 1"
_IN_FORCE = "z.retired_at IS NULL"
_IN_FORCE_THEN = "z.created_at <= :as_of AND coalesce(z.retired_at > :as_of, 1)"


def search(
    connection: sa.Connection, namespace: str, query: str, *, limit: int, where: MessageFilter
) -> dict[MessageId, tuple[float, Place]]:
    """See MessageRows."""
    terms = search_terms(query)
    if not terms:
        return {}
    newest = _newest(connection)
    looker = _Looker(connection, namespace, limit, where, newest)
    if where.conversation_id is None:
        rare, common = _split(connection, terms, limit, newest)
        expression = any_of(rare, _SEARCHED)
        narrower = f"{expression} AND {any_of(common, _SEARCHED)}" if common else None
        found, all_seen = looker.ahead(expression, narrower)
        if len(found) >= limit or (all_seen and not common):
            return found
    # A conversation is few rows, which the index finds among all by their ids.
    return looker.through_filter(any_of(terms, _SEARCHED))


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
    looker = _Looker(connection, namespace, limit, where, _newest(connection))
    # Of a long query not every word is a term, so what is held counts as one as well.
    return list(looker.through_filter(f"({any_of(terms, _SEARCHED)} OR {holding}) AND {holding}"))


def places(
    connection: sa.Connection, namespace: str, ids: Sequence[MessageId], where: MessageFilter
) -> dict[MessageId, Place]:
    """See MessageRows."""
    if not ids:
        return {}
    arguments = {"ids": json.dumps(ids), **filter_values(namespace, where)}
    rows = _rows(connection, _places(filter_sql(where), _shown(where)), arguments)
    return dict(map(_placed, rows))


def by_id(connection: sa.Connection, namespace: str, ids: Sequence[MessageId]) -> Sequence[sa.Row[Any]]:
    """The whole rows of those ids that exist and are not deleted."""
    arguments = {"ids": json.dumps(ids), **filter_values(namespace, _ANY)}
    return connection.execute(_ALIVE, arguments).all() if ids else []


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


class _Looker:
    """Runs full-text expressions over the messages of a namespace that pass a filter: best first, at most `limit`."""

    def __init__(
        self, connection: sa.Connection, namespace: str, limit: int, where: MessageFilter, newest: int
    ) -> None:
        self._connection = connection
        self._limit = limit
        self._shown = _shown(where)
        self._filter = filter_sql(where)
        self._values = filter_values(namespace, where)
        self._within = where.conversation_id is not None
        # Where most is of this namespace, its scope only costs: the filter has the last word anyway.
        most = _owns_most(connection, namespace, newest)
        self._scope = "" if most else f"{in_scope(scope_token('messages', namespace))} AND "

    def ahead(
        self, expression: str, narrower: str | None
    ) -> tuple[dict[MessageId, tuple[float, Place]], bool]:
        """Rank first, then see what passes: looking up all rows costs most. Also says whether that were all.

        Rows that match `narrower`, which are rows that match the expression as well, take their score from it.
        """
        most = int(_AHEAD * self._limit)
        arguments = {**self._values, "expression": self._scope + expression, "most": most}
        if narrower is not None:
            arguments["narrower"] = self._scope + narrower
        statement = _ranked(self._filter, self._shown, twice=narrower is not None)
        rows = _rows(self._connection, statement, arguments)
        passing = (_scored(row) for row in rows if row[-1])
        return dict(islice(passing, self._limit)), len(rows) < most

    def through_filter(self, expression: str) -> dict[MessageId, tuple[float, Place]]:
        """Rank what passes."""
        arguments = {**self._values, "expression": self._scope + expression, "limit": self._limit}
        statement = _passing(self._filter, self._shown, within=self._within)
        return dict(map(_scored, _rows(self._connection, statement, arguments)))


def _split(
    connection: sa.Connection, terms: Sequence[str], limit: int, newest: int
) -> tuple[list[str], list[str]]:
    """The terms of which a row must hold one, and those that only add to its score: the commonest ones.

    Ranking a row costs ten times as much as finding it, and most rows that hold a word of the query hold only its
    commonest ones, which are worth the least. On conversations this changes next to nothing (LoCoMo, 5,882 messages:
    99.9 % of the first ten and 98.3 % of the first fifty are the same, recall as good); of random words, which
    nothing holds together, it costs 1 % of the first ten for queries of eight words.
    """
    if len(terms) == 1:
        return list(terms), []
    # In any column: the scope holds no words, and to leave it out would double the cost.
    counts = connection.execute(_COUNTS, {"terms": json.dumps(terms)}).scalars().all()
    total = max(newest, *counts)
    held, ordered = zip(*sorted(zip(counts, terms, strict=True), key=lambda pair: pair[0]), strict=True)
    rows = list(accumulate(held))
    # What each word is worth to BM25.
    worth = list(accumulate(log((total + 1) / (count + 0.5)) for count in held))
    rare = 1 + max(bisect_left(rows, _ENOUGH * limit), bisect_left(worth, (1 - _LEFT_OUT) * worth[-1]))
    return list(ordered[:rare]), list(ordered[rare:])


def _newest(connection: sa.Connection) -> int:
    """The highest id of a message, about as many as there are; 0 without any."""
    return int(connection.execute(_NEWEST).scalar() or 0)


def _owns_most(connection: sa.Connection, namespace: str, newest: int) -> bool:
    """Whether most messages are of this namespace, by a sample."""
    ids = list(range(1, newest + 1, newest // _SAMPLED + 1))
    arguments = {"ids": json.dumps(ids), "namespace": namespace}
    return 2 * int(connection.execute(_SAMPLE, arguments).scalar_one()) > len(ids)


def _shown(where: MessageFilter) -> str:
    """The columns of a place."""
    in_force = _IN_FORCE if where.as_of is None else _IN_FORCE_THEN
    return (
        "messages.conversation_id, messages.created_at, messages.role, "
        f"EXISTS ({_CORRECTED} AND {in_force}) AS corrected, length(messages.content) AS length"
    )


def _rows(
    connection: sa.Connection, statement: sa.TextClause, arguments: Mapping[str, Any]
) -> list[list[Any]]:
    """The rows that the statement gives as one JSON text.

    Row by row, each of a hundred gives up the interpreter's lock and waits for it while the other leg computes.
    """
    rows: list[list[Any]] = json.loads(connection.execute(statement, arguments).scalar_one())
    return rows


def _placed(row: Sequence[Any]) -> tuple[MessageId, Place]:
    """The id and the place of a row; by position, because a hundred lookups of names would show."""
    found, conversation, created_at, role, corrected, length = row[:6]
    return found, Place(conversation, created_at, role == Role.ASSISTANT, bool(corrected), length)


def _scored(row: Sequence[Any]) -> tuple[MessageId, tuple[float, Place]]:
    found, place = _placed(row)
    return found, (row[6], place)


def _as_json(select: str, *further: str) -> sa.TextClause:
    """A statement for `_rows`: the place of each row, then further columns, of which `score` decides the order."""
    columns = ", ".join(("id, conversation_id, created_at, role, corrected, length", *further))
    order = "ORDER BY score DESC, id" if further else ""
    return sa.text(f"SELECT json_group_array(json_array({columns}) {order}) FROM ({select})")  # noqa: S608


# Built once for each kind of filter. Only SQL of this file comes together here; what is asked for is bound.
@lru_cache(maxsize=256)
def _ranked(passes: str, shown: str, *, twice: bool) -> sa.TextClause:
    return _as_json(
        f"SELECT messages.id, {shown}, -first.score AS score, {passes} AS passes "  # noqa: S608
        f"FROM ({_FIRST_OF_BOTH if twice else _FIRST}) AS first CROSS JOIN messages ON messages.id = first.id",
        "score",
        "passes",
    )


@lru_cache(maxsize=256)
def _passing(passes: str, shown: str, *, within: bool) -> sa.TextClause:
    where = f"messages_fts MATCH :expression AND {passes}" + (f" AND {_WITHIN}" if within else "")
    return _as_json(
        f"SELECT messages.id, {shown}, -{_BM25} AS score FROM messages_fts "  # noqa: S608
        "CROSS JOIN messages ON messages.id = messages_fts.rowid "
        f"WHERE {where} ORDER BY score DESC, messages.id LIMIT :limit",
        "score",
    )


@lru_cache(maxsize=256)
def _places(passes: str, shown: str) -> sa.TextClause:
    return _as_json(f"SELECT messages.id, {shown} FROM {_BY_ID} AND {passes}")  # noqa: S608


_ALIVE = sa.text(f"SELECT * FROM {_BY_ID} AND {filter_sql(_ANY)}")  # noqa: S608
