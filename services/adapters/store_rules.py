"""What must hold among stored rows and no constraint of the schema can say, as SQL, and how it is mended."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from services.adapters import tables as t
from services.adapters.database import Unit
from services.adapters.erasure import Erasure, parts
from services.adapters.scopes import scope_token
from services.embedding.writing import removal_job
from services.graph.names import canonical
from services.ids import DEFAULT_NAMESPACE
from services.jobs.models import LIVE_STATES, REEMBED, REMOVE_VECTORS, RetryPolicy
from services.ports import Clock

Id = int | str
Broken = Callable[[sa.Connection, int], Sequence[Id]]
Mend = Callable[[Unit, Sequence[Id], int], None]


@dataclass(frozen=True, slots=True)
class Rule:
    """`broken` gives the ids of the rows of `table` that break it, at a moment; `mend` repairs these, if it can be.

    `what` is said of those rows; `remedy` is what mending does, or what to do where there is no mending.
    """

    code: str
    table: str
    what: str
    broken: Broken
    remedy: str
    mend: Mend | None = None


_MINUTE = 60_000_000
_DAY = 24 * 60 * _MINUTE
# A worker that is alive renews its lease, and every sweep takes back what has lapsed.
_LONG_LAPSED = 5 * _MINUTE
_OVERDUE = 10 * _MINUTE
_LIVE = ", ".join(f"'{state}'" for state in LIVE_STATES)
_NO_REMOVAL = f"NOT EXISTS (SELECT 1 FROM jobs WHERE kind = '{REMOVE_VECTORS.name}' AND state IN ({_LIVE}))"  # noqa: S608
_WHOSE = "nobody can tell whose it is: restore a backup, or forget it in both namespaces"
# What each table's scopes are made of, beside the namespace.
_SCOPES = {
    "messages": "messages",
    "summaries": "summaries",
    "key_facts": "summaries",
    "zeph_corrections": "corrections",
    "graph_entities": "entities",
}
# What is said to state an entity or a fact, by column.
_TEXTS = (("message_id", "messages"), ("chunk_id", "chunks"))
# Where rows are that cached responses are made of, by kind.
_SOURCES = {
    "message": "messages",
    "summary": "summaries",
    "key_fact": "key_facts",
    "document": "documents",
    "chunk": "chunks",
    "correction": "zeph_corrections",
    "edge": "graph_edges",
}
_AGAIN = "`zeph documents remove` the document and ingest it again"


def rules(policy: RetryPolicy, clock: Clock) -> list[Rule]:
    """Every rule, in the order in which mending builds on itself."""
    return [
        *_job_rules(policy),
        *_conversation_rules(clock),
        *_document_rules(),
        *_graph_rules(),
        *_cache_rules(),
        *_vector_rules(),
    ]


# ---- building blocks -----------------------------------------------------------------------------------------


def _sql(select: str) -> Broken:
    """The first column of a SELECT, which may use :now."""
    return lambda connection, now: connection.exec_driver_sql(select, {"now": now}).scalars().all()


def _run(statement: str) -> Mend:
    """Run SQL for each part of the ids: `:ids` is a JSON list of them."""

    def mend(unit: Unit, ids: Sequence[Id], now: int) -> None:
        for part in parts(ids):
            unit.connection.exec_driver_sql(statement, {"ids": json.dumps(part), "now": now})

    return mend


def _update(table: str, values: str) -> Mend:
    return _run(f"UPDATE {table} SET {values} WHERE rowid IN (SELECT value FROM json_each(:ids))")  # noqa: S608


def _delete(table: str) -> Mend:
    return _run(f"DELETE FROM {table} WHERE rowid IN (SELECT value FROM json_each(:ids))")  # noqa: S608


def _elsewhere(child: str, column: str, parent: str) -> Broken:
    """Rows of `child` in another namespace than the row of `parent` that they belong to."""
    return _sql(f"SELECT a.rowid {_apart(child, column, parent)}")


def _apart(child: str, column: str, parent: str) -> str:
    return f"FROM {child} AS a JOIN {parent} AS b ON b.id = a.{column} WHERE a.namespace <> b.namespace"


def _crossing(child: str, one: tuple[str, str], other: tuple[str, str]) -> str:
    """SELECT of rows of `child` that belong, by (column, table), to rows of two namespaces."""
    joins = (
        f"JOIN {table} AS {alias} ON {alias}.id = a.{column}"
        for alias, (column, table) in zip("bc", (one, other), strict=True)
    )
    return f"SELECT a.rowid FROM {child} AS a {' '.join(joins)} WHERE b.namespace <> c.namespace"  # noqa: S608


def _scope_rule(table: str, label: str) -> Rule:
    """Rows whose scope is that of another namespace are found there, and not in their own."""
    grouped = f"SELECT namespace, scope, group_concat(id) FROM {table} GROUP BY namespace, scope"  # noqa: S608
    return _scopes(table, grouped, lambda namespace: scope_token(label, namespace))


def _chunk_scope_rule() -> Rule:
    grouped = (
        "SELECT d.namespace, d.collection, c.scope, group_concat(c.id) FROM chunks AS c "
        "JOIN documents AS d ON d.id = c.document_id GROUP BY d.namespace, d.collection, c.scope"
    )
    return _scopes("chunks", grouped, scope_token)


def _scopes(table: str, grouped: str, scope_of: Callable[..., str]) -> Rule:
    """`grouped` gives what a scope is made of, the scope stored, and the ids of the rows with it."""

    def wrong(connection: sa.Connection) -> dict[int, str]:
        found: dict[int, str] = {}
        for *names, scope, ids in connection.exec_driver_sql(grouped):
            if scope != scope_of(*names):
                found |= dict.fromkeys(map(int, ids.split(",")), scope_of(*names))
        return found

    def mend(unit: Unit, ids: Sequence[Id], _now: int) -> None:
        right = wrong(unit.connection)
        statement = f"UPDATE {table} SET scope = ? WHERE id = ?"  # noqa: S608
        unit.connection.exec_driver_sql(statement, [(right[int(each)], each) for each in ids])

    what = "rows that searches find in another namespace than their own, or nowhere"
    return Rule("scope", table, what, lambda connection, _now: list(wrong(connection)), "corrects them", mend)


# ---- jobs ----------------------------------------------------------------------------------------------------


def _job_rules(policy: RetryPolicy) -> list[Rule]:
    most = policy.max_attempts + policy.max_lost_leases
    again = "state = 'pending', lease_token = NULL, lease_until = NULL, dispatched_at = NULL"
    far = int(policy.lease_seconds * 1_000_000) * 20
    unreadable = "json_valid(payload) = 0 OR coalesce(json_valid(outcome), 1) = 0"

    def settle(unit: Unit, ids: Sequence[Id], now: int) -> None:
        for job_id in ids:
            unit.jobs.settle(int(job_id), now=now)

    def lapse(unit: Unit, ids: Sequence[Id], now: int) -> None:
        unit.jobs.note_lapsed(now=now, anew=False)
        for job_id in ids:
            job = unit.jobs.get(int(job_id))
            if job is not None:
                unit.jobs.lapse(job, now=now, dead=job.lost_leases + 1 >= policy.max_lost_leases)

    return [
        Rule(
            "job_unreadable",
            "jobs",
            "jobs whose payload or outcome is no JSON",
            _sql(f"SELECT id FROM jobs WHERE {unreadable}"),  # noqa: S608
            "buries those that were to run; the work itself is found and queued anew where rows show it",
            _update(
                "jobs",
                "state = 'dead', payload = iif(json_valid(payload), payload, '{}'), outcome = NULL, lease_token = NULL, "
                "lease_until = NULL, error_type = 'unreadable', error_message = 'its stored payload was damaged', "
                "finished_at = coalesce(finished_at, :now)",
            ),
        ),
        Rule(
            "job_without_lease",
            "jobs",
            "jobs that run without a lease, so that nobody ever takes them back",
            _sql(
                "SELECT id FROM jobs WHERE state = 'running' AND (lease_token IS NULL OR lease_until IS NULL)"
            ),
            "lets them run again",
            _update("jobs", again),
        ),
        Rule(
            "job_lease_in_future",
            "jobs",
            "jobs whose lease ends impossibly late: a clock jumped",
            _sql(f"SELECT id FROM jobs WHERE state = 'running' AND lease_until > :now + {far}"),  # noqa: S608
            "lets them run again",
            _update("jobs", again),
        ),
        Rule(
            "job_lapsed",
            "jobs",
            "jobs whose worker vanished more than five minutes ago, and nobody took them back",
            _sql(f"SELECT id FROM jobs WHERE state = 'running' AND lease_until < :now - {_LONG_LAPSED}"),  # noqa: S608
            "takes them back, as any running worker does",
            lapse,
        ),
        Rule(
            "job_lease_left",
            "jobs",
            "jobs that hold a lease and do not run",
            _sql(
                "SELECT id FROM jobs WHERE state <> 'running' AND (lease_token IS NOT NULL OR lease_until IS NOT NULL)"
            ),
            "removes the lease",
            _update("jobs", "lease_token = NULL, lease_until = NULL"),
        ),
        Rule(
            "job_in_future",
            "jobs",
            "jobs that are to wait longer than any retry does: a clock jumped",
            _sql(f"SELECT id FROM jobs WHERE state = 'pending' AND run_after > :now + {_DAY}"),  # noqa: S608
            "makes them due now",
            _update("jobs", "run_after = :now"),
        ),
        Rule(
            "job_overdue",
            "jobs",
            "jobs that are due for more than ten minutes while nobody works on their queue",
            _sql(
                # A job that was taken back keeps its place, but is due for no longer than that.
                f"SELECT id FROM jobs WHERE state = 'pending' AND run_after < :now - {_OVERDUE} "  # noqa: S608
                f"AND coalesce(lapsed_at, 0) < :now - {_OVERDUE} AND queue NOT IN (SELECT queue FROM jobs WHERE started_at > :now - {_OVERDUE})"
            ),
            "start a worker (`zeph worker`), or one that serves this queue",
        ),
        Rule(
            "job_attempts",
            "jobs",
            f"live jobs with more than {most} attempts",
            _sql(f"SELECT id FROM jobs WHERE state IN ({_LIVE}) AND attempts > {most}"),  # noqa: S608
            "the next failure ends them; `zeph jobs cancel` does at once",
        ),
        Rule(
            "job_without_reason",
            "jobs",
            "dead jobs that do not say why",
            _sql(
                "SELECT id FROM jobs WHERE state = 'dead' "
                "AND (coalesce(error_type, '') = '' OR coalesce(error_message, '') = '')"
            ),
            "says that the reason is not known",
            _update(
                "jobs",
                "error_type = coalesce(nullif(error_type, ''), 'unknown'), "
                "error_message = coalesce(nullif(error_message, ''), 'no reason was recorded')",
            ),
        ),
        Rule(
            "job_without_end",
            "jobs",
            "finished jobs without the time of their end, which no purge ever deletes",
            _sql("SELECT id FROM jobs WHERE state IN ('done', 'dead') AND finished_at IS NULL"),
            "takes now for it",
            _update("jobs", "finished_at = :now"),
        ),
        Rule(
            "job_namespace",
            "jobs",
            "jobs in another namespace than the batch that they are a part of",
            _elsewhere("jobs", "parent_id", "jobs"),
            "`zeph jobs cancel` those that are live",
        ),
        Rule(
            "job_children",
            "jobs",
            "batches whose count of open children is wrong",
            _sql(
                "SELECT p.id FROM jobs AS p LEFT JOIN (SELECT parent_id, count(*) AS open FROM jobs "  # noqa: S608
                f"WHERE parent_id IS NOT NULL AND state IN ({_LIVE}) GROUP BY parent_id) AS c ON c.parent_id = p.id "
                "WHERE p.children_open <> coalesce(c.open, 0)"
            ),
            "counts anew",
            settle,
        ),
        Rule(
            "job_parent_waits",
            "jobs",
            "batches that wait although all their children have ended",
            _sql(
                "SELECT p.id FROM jobs AS p WHERE p.state = 'waiting' AND NOT EXISTS "  # noqa: S608
                f"(SELECT 1 FROM jobs AS c WHERE c.parent_id = p.id AND c.state IN ({_LIVE}))"
            ),
            "closes them",
            settle,
        ),
    ]


# ---- conversations -------------------------------------------------------------------------------------------


def _conversation_rules(clock: Clock) -> list[Rule]:
    def bury_hidden(unit: Unit, ids: Sequence[Id], _now: int) -> None:
        for part in parts(ids):
            Erasure(unit.connection, clock).bury("message", t.messages.c.id.in_(part))
        unit.jobs.enqueue([removal_job(DEFAULT_NAMESPACE)])

    return [
        Rule(
            "message_namespace",
            "messages",
            "messages in another namespace than their conversation",
            _elsewhere("messages", "conversation_id", "conversations"),
            _WHOSE,
        ),
        Rule(
            "summary_namespace",
            "summaries",
            "summaries in another namespace than their conversation",
            _elsewhere("summaries", "conversation_id", "conversations"),
            _WHOSE,
        ),
        Rule(
            "fact_place",
            "key_facts",
            "key facts of another namespace or conversation than their summary",
            _sql(
                "SELECT f.id FROM key_facts AS f JOIN summaries AS s ON s.id = f.summary_id "
                "WHERE f.namespace <> s.namespace OR f.conversation_id <> s.conversation_id"
            ),
            _WHOSE,
        ),
        Rule(
            "fact_source",
            "key_facts",
            "key facts that their own summary does not tell",
            _sql(
                "SELECT id FROM key_facts WHERE (id, summary_id) NOT IN "
                "(SELECT key_fact_id, summary_id FROM key_fact_sources)"
            ),
            "notes again that it does",
            _run(
                "INSERT INTO key_fact_sources(key_fact_id, summary_id, fact) SELECT id, summary_id, fact "
                "FROM key_facts WHERE id IN (SELECT value FROM json_each(:ids))"
            ),
        ),
        Rule(
            "session_namespace",
            "acp_sessions",
            "sessions in another namespace than their conversation",
            _elsewhere("acp_sessions", "conversation_id", "conversations"),
            _WHOSE,
        ),
        Rule(
            "correction_namespace",
            "zeph_corrections",
            "corrections in another namespace than a message that they are about",
            _sql(
                " UNION ".join(
                    f"SELECT a.rowid {_apart('zeph_corrections', column, 'messages')}"
                    for column in ("message_id", "target_message_id", "request_message_id")
                )
            ),
            _WHOSE,
        ),
        *(_scope_rule(table, label) for table, label in _SCOPES.items()),
        Rule(
            "message_vectors_hidden",
            "messages",
            "deleted or hidden messages that still have vectors",
            _sql(
                "SELECT DISTINCT m.id FROM messages AS m JOIN message_embeddings AS e ON e.message_id = m.id "
                "WHERE e.windows > 0 AND (m.deleted_at IS NOT NULL OR m.agent_visible = 0 OR m.embeddable = 0)"
            ),
            "removes the vectors, by a job",
            bury_hidden,
        ),
        Rule(
            "message_parts",
            "messages",
            "messages whose parts are no JSON; their text is read without them",
            _sql("SELECT id FROM messages WHERE json_valid(parts) = 0"),
            "restore a backup if the parts matter",
        ),
        Rule(
            "summary_range",
            "summaries",
            "summaries that begin or end with a message of another conversation, or end before they begin",
            _sql(
                "SELECT s.id FROM summaries AS s LEFT JOIN messages AS a ON a.id = s.first_message_id "
                "LEFT JOIN messages AS z ON z.id = s.last_message_id "
                "WHERE a.conversation_id <> s.conversation_id OR z.conversation_id <> s.conversation_id "
                "OR s.first_message_id > s.last_message_id"
            ),
            "forgets the range: the next summary covers those messages again",
            _update("summaries", "first_message_id = NULL, last_message_id = NULL"),
        ),
    ]


# ---- documents -----------------------------------------------------------------------------------------------


def _document_rules() -> list[Rule]:
    return [
        Rule(
            "chunk_namespace",
            "chunks",
            "chunks in another namespace than their document",
            _elsewhere("chunks", "document_id", "documents"),
            _AGAIN,
        ),
        _chunk_scope_rule(),
        Rule(
            "document_empty",
            "documents",
            "documents without a chunk, which ingesting takes for unchanged",
            _sql(
                "SELECT id FROM documents AS d WHERE NOT EXISTS (SELECT 1 FROM chunks WHERE document_id = d.id)"
            ),
            "forgets them: ingesting reads them again",
            _delete("documents"),
        ),
        Rule(
            "document_unreadable",
            "documents",
            "documents with headings, warnings or facts that are no JSON",
            _sql(
                "SELECT id FROM documents WHERE json_valid(extra) = 0 OR json_valid(warnings) = 0 "
                "UNION SELECT document_id FROM chunks WHERE json_valid(heading) = 0"
            ),
            _AGAIN,
        ),
        Rule(
            "chunk_order",
            "documents",
            "documents whose chunks have gaps, overlap backwards or do not fit their text",
            _sql(
                "SELECT DISTINCT document_id FROM (SELECT c.*, length(text) AS characters, "
                "row_number() OVER (PARTITION BY document_id ORDER BY position, id) - 1 AS place, "
                "lag(start_offset) OVER (PARTITION BY document_id ORDER BY position, id) AS before "
                "FROM chunks AS c) WHERE position <> place OR start_offset < 0 OR start_offset <= before "
                "OR end_offset - start_offset <> characters "
                "UNION SELECT document_id FROM chunks AS c JOIN documents AS d ON d.id = c.document_id "
                "WHERE d.content_type IN ('text/plain', 'text/markdown') AND c.end_offset > d.size_bytes"
            ),
            _AGAIN,
        ),
        Rule(
            "chunk_overlap",
            "documents",
            "documents whose chunks differ in what they share, and do not join to one text",
            _sql(
                "SELECT DISTINCT document_id FROM (SELECT document_id, text, start_offset, end_offset, "
                "lag(text) OVER w AS before, lag(start_offset) OVER w AS begun, lag(end_offset) OVER w AS ended "
                "FROM chunks WINDOW w AS (PARTITION BY document_id ORDER BY position, id)) "
                "WHERE start_offset BETWEEN begun AND ended - 1 AND "
                "substr(before, start_offset - begun + 1, min(ended, end_offset) - start_offset) "
                "<> substr(text, 1, min(ended, end_offset) - start_offset)"
            ),
            _AGAIN,
        ),
    ]


# ---- graph ---------------------------------------------------------------------------------------------------


def _graph_rules() -> list[Rule]:
    def unlike(table: str, column: str) -> Broken:
        names = f"SELECT rowid, {column} FROM {table}"  # noqa: S608

        def broken(connection: sa.Connection, _now: int) -> Sequence[Id]:
            return [row for row, name in connection.exec_driver_sql(names) if canonical(name) != name]

        return broken

    return [
        *(
            Rule(
                "entity_name",
                table,
                "names that are not normalised, so that nothing finds them and others are stored beside them",
                unlike(table, column),
                "`zeph graph merge` it with the entity of the right name",
            )
            for table, column in (
                ("graph_entities", "canonical_name"),
                ("graph_entity_aliases", "alias_name"),
            )
        ),
        Rule(
            "edge_namespace",
            "graph_edges",
            "facts in another namespace than one of their entities",
            _sql(
                "SELECT e.id FROM graph_edges AS e JOIN graph_entities AS a ON a.id = e.source_entity_id "
                "JOIN graph_entities AS b ON b.id = e.target_entity_id "
                "WHERE e.namespace <> a.namespace OR e.namespace <> b.namespace"
            ),
            _WHOSE,
        ),
        Rule(
            "edge_period",
            "graph_edges",
            "facts that end before they begin",
            _sql("SELECT id FROM graph_edges WHERE valid_to < valid_from OR expired_at < created_at"),
            "no recall returns them; eviction removes what has expired",
        ),
        *(
            Rule(
                "evidence_namespace",
                table,
                "links between rows of two namespaces",
                _sql(" UNION ".join(_crossing(table, owner, text) for text in texts)),
                _WHOSE,
            )
            for table, owner, texts in (
                ("graph_edge_sources", ("edge_id", "graph_edges"), _TEXTS),
                ("graph_entity_sources", ("entity_id", "graph_entities"), _TEXTS),
                ("correction_facts", ("edge_id", "graph_edges"), (("correction_id", "zeph_corrections"),)),
                ("key_fact_sources", ("key_fact_id", "key_facts"), (("summary_id", "summaries"),)),
            )
        ),
        Rule(
            "edge_superseded",
            "graph_edges",
            "facts that were superseded by one of another namespace, or by themselves",
            _sql(
                "SELECT e.id FROM graph_edges AS e JOIN graph_edges AS n ON n.id = e.superseded_by_id "
                "WHERE n.namespace <> e.namespace OR n.id = e.id"
            ),
            "forgets by what they were superseded",
            _update("graph_edges", "superseded_by_id = NULL"),
        ),
        Rule(
            "alias_namespace",
            "graph_entity_aliases",
            "aliases in another namespace than their entity",
            _elsewhere("graph_entity_aliases", "entity_id", "graph_entities"),
            "removes them: an alias is only another name",
            _delete("graph_entity_aliases"),
        ),
        Rule(
            "community_member",
            "graph_community_members",
            "members of a community of another namespace",
            _sql(
                "SELECT m.rowid FROM graph_community_members AS m JOIN graph_communities AS c ON c.id = m.community_id "
                "JOIN graph_entities AS e ON e.id = m.entity_id WHERE e.namespace <> c.namespace"
            ),
            "removes them: the next detection finds communities anew",
            _delete("graph_community_members"),
        ),
    ]


# ---- cache ---------------------------------------------------------------------------------------------------


def _cache_rules() -> list[Rule]:
    return [
        Rule(
            "cache_row",
            "response_cache",
            "cached responses that cannot be used",
            _sql(
                "SELECT rowid FROM response_cache WHERE expires_at < created_at "
                "OR (embedding IS NULL) <> (embedding_space IS NULL) OR length(embedding) % 4 <> 0"
            ),
            "removes them: they can be made again",
            _delete("response_cache"),
        ),
        Rule(
            "cache_namespace",
            "response_cache",
            "cached responses made of rows of another namespace",
            _sql(
                " UNION ".join(
                    "SELECT c.rowid FROM response_sources AS s JOIN response_cache AS c "  # noqa: S608
                    "ON c.namespace = s.namespace AND c.cache_key = s.cache_key "
                    f"JOIN {table} AS r ON r.id = s.source_id "
                    f"WHERE s.kind = '{kind}' AND r.namespace <> s.namespace"
                    for kind, table in _SOURCES.items()
                )
            ),
            "removes them: they can be made again",
            _delete("response_cache"),
        ),
    ]


# ---- vectors -------------------------------------------------------------------------------------------------


def _vector_rules() -> list[Rule]:
    def remove(unit: Unit, _ids: Sequence[Id], _now: int) -> None:
        unit.jobs.enqueue([removal_job(DEFAULT_NAMESPACE)])

    known = "SELECT physical FROM embedding_collections"
    return [
        *(
            Rule(
                "mark_strange",
                table.name,
                "marks of vectors in a collection that does not exist, or of fewer than none",
                _sql(f"SELECT rowid FROM {table.name} WHERE collection NOT IN ({known}) OR windows < 0"),  # noqa: S608
                "removes the marks",
                _delete(table.name),
            )
            for table in t.metadata.sorted_tables
            if table.name.endswith("_embeddings")
        ),
        Rule(
            "tombstone_left",
            "vector_tombstones",
            "vectors that are to be removed, and no job is to do it",
            _sql(f"SELECT id FROM vector_tombstones WHERE {_NO_REMOVAL}"),  # noqa: S608
            "accepts the job",
            remove,
        ),
        Rule(
            "collection_retired",
            "embedding_collections",
            "retired collections that are to be dropped, and no job is to do it",
            _sql(f"SELECT physical FROM embedding_collections WHERE state = 'retired' AND {_NO_REMOVAL}"),  # noqa: S608
            "accepts the job",
            remove,
        ),
        Rule(
            "collection_unfinished",
            "embedding_collections",
            "collections that were being filled for another embedder, and no job goes on with it",
            _sql(
                "SELECT physical FROM embedding_collections AS c WHERE state = 'building' AND NOT EXISTS "  # noqa: S608
                f"(SELECT 1 FROM jobs WHERE kind = '{REEMBED.name}' AND dedupe_key = c.name AND state IN ({_LIVE}))"
            ),
            "`zeph jobs retry` its job, or `zeph collections reembed`; it goes on where it stopped",
        ),
        Rule(
            "point_length",
            "vector_points",
            "stored vectors of another length than their collection's",
            _sql(
                "SELECT p.rowid FROM vector_points AS p JOIN vector_collections AS c ON c.name = p.collection "
                "WHERE length(p.vector) <> 4 * c.dimension"
            ),
            "removes them; their rows are embedded again",
            _delete("vector_points"),
        ),
        Rule(
            "point_unseen",
            "vector_points",
            "namespaces of a collection with vectors that no search sees",
            _sql(
                "SELECT json_array(p.collection, p.namespace) FROM "
                "(SELECT collection, namespace, max(change) AS newest FROM vector_points GROUP BY namespace, collection) AS p "
                "LEFT JOIN vector_namespaces AS n ON n.collection = p.collection AND n.namespace = p.namespace "
                "WHERE n.change IS NULL OR n.change < p.newest"
            ),
            "lets searches see them",
            _run(
                "INSERT INTO vector_namespaces(collection, namespace, change) "
                "SELECT collection, namespace, max(change) + 1 FROM vector_points "
                "WHERE json_array(collection, namespace) IN (SELECT value FROM json_each(:ids)) GROUP BY namespace, collection "
                "ON CONFLICT(collection, namespace) DO UPDATE SET change = excluded.change"
            ),
        ),
    ]
