"""The tables, as SQLAlchemy Core describes them. Migrations create them; a test keeps both equal.

Row ids are never reused (AUTOINCREMENT), because a vector's id is derived from its row's id. Every time is an integer: microseconds since 1970-01-01 UTC. JSON is text. The full-text tables are plain SQL in
`FULL_TEXT_SQL`, because SQLAlchemy knows no virtual tables: each is an external-content FTS5 index that triggers keep
in step with its base table. `segmented` holds a text in a script without blanks cut into short terms, so that it is found by any
part; `scope` is one token for (namespace, collection), so that filtering happens inside the index.
"""

from __future__ import annotations

from sqlalchemy import (
    CheckConstraint,
    Column,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    or_,
    text,
)
from sqlalchemy.types import REAL

from services.graph.facts import SINGLE_VALUED

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
        "pk": "pk_%(table_name)s",
    }
)


def _id() -> Column[int]:
    return Column("id", Integer, primary_key=True)


def _namespace() -> Column[str]:
    return Column("namespace", Text, nullable=False)


def _time(name: str, *, nullable: bool = False) -> Column[int]:
    return Column(name, Integer, nullable=nullable)


def _flag(name: str, default: str) -> Column[int]:
    return Column(name, Integer, nullable=False, server_default=text(default))


def _parent(name: str, target: str, *, nullable: bool = False, on_delete: str = "CASCADE") -> Column[int]:
    return Column(name, Integer, ForeignKey(target, ondelete=on_delete), nullable=nullable)


# ---- conversations -------------------------------------------------------------------------------------------

conversations = Table(
    "conversations",
    metadata,
    _id(),
    _namespace(),
    Column("key", Text),
    Column("title", Text),
    _time("created_at"),
    UniqueConstraint("namespace", "key"),
    Index(None, "namespace", "created_at"),
    sqlite_autoincrement=True,
)

messages = Table(
    "messages",
    metadata,
    _id(),
    _namespace(),
    _parent("conversation_id", "conversations.id"),
    Column("role", Text, nullable=False),
    Column("speaker", Text),
    Column("origin", Text, nullable=False, server_default=text("'user'")),
    Column("content", Text, nullable=False),
    Column("segmented", Text),
    # The beginnings of the messages before and after it in its session, each followed or preceded by a line feed.
    # Triggers keep it; many rows that are added together bring theirs.
    Column("around", Text, nullable=False, server_default=text("''")),
    Column("scope", Text, nullable=False),
    Column("parts", Text, nullable=False, server_default=text("'[]'")),
    Column("content_hash", Text, nullable=False),
    # What an import knows the message by, so that importing it again adds nothing.
    Column("import_key", Text),
    # Whether it is to have vectors: decided when it is written, by what it is and by the settings of that time.
    _flag("embeddable", "1"),
    _flag("agent_visible", "1"),
    _flag("user_visible", "1"),
    _time("created_at"),
    _time("compacted_at", nullable=True),
    _time("deleted_at", nullable=True),
    _time("last_accessed_at", nullable=True),
    _flag("access_count", "0"),
    # Which extractor has read it for the graph; null: none yet.
    Column("graph_extractor", Text),
    CheckConstraint("role IN ('system', 'user', 'assistant')", name="role"),
    Index(None, "namespace", "conversation_id", "id"),
    Index(None, "namespace", "created_at"),
    Index("ix_messages_conversation_id", "conversation_id"),
    Index(
        "uq_messages_import_key",
        "conversation_id",
        "import_key",
        unique=True,
        sqlite_where=text("import_key IS NOT NULL"),
    ),
    sqlite_autoincrement=True,
)

# What the agent sees, or saw before it was compacted. Models are told nothing else: what they make of it is the agent's.
shown_messages = or_(messages.c.agent_visible == 1, messages.c.compacted_at.is_not(None))

message_embeddings = Table(
    "message_embeddings",
    metadata,
    Column("message_id", Integer, ForeignKey("messages.id", ondelete="CASCADE"), primary_key=True),
    Column("collection", Text, primary_key=True),
    Column("windows", Integer, nullable=False),
    _time("created_at"),
)

summaries = Table(
    "summaries",
    metadata,
    _id(),
    _namespace(),
    _parent("conversation_id", "conversations.id"),
    Column("content", Text, nullable=False),
    _parent("first_message_id", "messages.id", nullable=True, on_delete="SET NULL"),
    _parent("last_message_id", "messages.id", nullable=True, on_delete="SET NULL"),
    Column("token_estimate", Integer, nullable=False),
    Column("segmented", Text),
    Column("scope", Text, nullable=False),
    _time("created_at"),
    Index(None, "namespace", "conversation_id", "id"),
    Index("ix_summaries_conversation_id", "conversation_id"),
    sqlite_autoincrement=True,
)

summary_embeddings = Table(
    "summary_embeddings",
    metadata,
    Column("summary_id", Integer, ForeignKey("summaries.id", ondelete="CASCADE"), primary_key=True),
    Column("collection", Text, primary_key=True),
    Column("windows", Integer, nullable=False),
    _time("created_at"),
)

# Each fact once per namespace, in the words of the summary that told it first.
key_facts = Table(
    "key_facts",
    metadata,
    _id(),
    _namespace(),
    _parent("conversation_id", "conversations.id"),
    _parent("summary_id", "summaries.id"),
    Column("fact", Text, nullable=False),
    Column("segmented", Text),
    Column("scope", Text, nullable=False),
    Column("content_hash", Text, nullable=False),
    _time("created_at"),
    UniqueConstraint("namespace", "content_hash"),
    Index(None, "conversation_id"),
    Index(None, "summary_id"),
    sqlite_autoincrement=True,
)

key_fact_embeddings = Table(
    "key_fact_embeddings",
    metadata,
    Column("key_fact_id", Integer, ForeignKey("key_facts.id", ondelete="CASCADE"), primary_key=True),
    Column("collection", Text, primary_key=True),
    Column("windows", Integer, nullable=False),
    _time("created_at"),
)

# Which summaries tell a fact, each in its own words, in the order in which they told them.
key_fact_sources = Table(
    "key_fact_sources",
    metadata,
    _id(),
    _parent("key_fact_id", "key_facts.id"),
    _parent("summary_id", "summaries.id"),
    Column("fact", Text, nullable=False),
    UniqueConstraint("key_fact_id", "summary_id"),
    Index(None, "summary_id"),
    sqlite_autoincrement=True,
)

acp_sessions = Table(
    "acp_sessions",
    metadata,
    Column("namespace", Text, primary_key=True),
    Column("id", Text, primary_key=True),
    Column("title", Text),
    _parent("conversation_id", "conversations.id", nullable=True, on_delete="SET NULL"),
    _time("created_at"),
    _time("updated_at"),
    Index(None, "namespace", "created_at"),
)

acp_session_events = Table(
    "acp_session_events",
    metadata,
    _id(),
    _namespace(),
    Column("session_id", Text, nullable=False),
    Column("event_type", Text, nullable=False),
    Column("payload", Text, nullable=False),
    _time("created_at"),
    # The key is composite: an event belongs to a session of its own namespace.
    ForeignKeyConstraint(
        ["namespace", "session_id"], ["acp_sessions.namespace", "acp_sessions.id"], ondelete="CASCADE"
    ),
    Index(None, "namespace", "session_id", "id"),
    sqlite_autoincrement=True,
)

# ---- corrections and cache -----------------------------------------------------------------------------------

zeph_corrections = Table(
    "zeph_corrections",
    metadata,
    _id(),
    _namespace(),
    Column("session_id", Text),
    _parent("message_id", "messages.id", nullable=True, on_delete="SET NULL"),
    # What was put right: `lowers` says whether that is certain, so that recall ranks it lower while this is in force.
    _parent("target_message_id", "messages.id", nullable=True, on_delete="SET NULL"),
    _flag("lowers", "0"),
    # Whether it holds from now on, whatever is asked.
    _flag("standing", "0"),
    _parent("request_message_id", "messages.id", nullable=True, on_delete="SET NULL"),
    Column("request", Text, nullable=False, server_default=text("''")),
    Column("original_output", Text, nullable=False),
    Column("correction_text", Text, nullable=False),
    # What the index holds: the request and the correction.
    Column("segmented", Text, nullable=False),
    Column("scope", Text, nullable=False),
    Column("skill_name", Text),
    Column("kind", Text, nullable=False),
    Column("confidence", REAL, nullable=False),
    _time("created_at"),
    _time("retired_at", nullable=True),
    UniqueConstraint("namespace", "message_id"),
    Index(None, "namespace", "skill_name", "id"),
    Index(None, "namespace", "session_id", "id"),
    Index(None, "namespace", "standing", "id"),
    Index(None, "message_id"),
    Index(None, "target_message_id"),
    Index(None, "request_message_id"),
    sqlite_autoincrement=True,
)

# Messages that came in while the ledger was full, and so have no job yet that looks whether they correct something.
undetected_messages = Table(
    "undetected_messages",
    metadata,
    Column("message_id", Integer, ForeignKey("messages.id", ondelete="CASCADE"), primary_key=True),
)

correction_embeddings = Table(
    "correction_embeddings",
    metadata,
    Column("correction_id", Integer, ForeignKey("zeph_corrections.id", ondelete="CASCADE"), primary_key=True),
    Column("collection", Text, primary_key=True),
    Column("windows", Integer, nullable=False),
    _time("created_at"),
)

# `frame_key` stands for all of the request but the wording of its question: what may answer similar questions.
response_cache = Table(
    "response_cache",
    metadata,
    Column("namespace", Text, primary_key=True),
    Column("cache_key", Text, primary_key=True),
    Column("model", Text, nullable=False),
    Column("response", Text, nullable=False),
    _flag("size_bytes", "0"),
    _flag("hits", "0"),
    Column("frame_key", Text),
    Column("embedding", LargeBinary),
    Column("embedding_space", Text),
    _time("created_at"),
    _time("expires_at"),
    Index(None, "expires_at"),
    Index("ix_response_cache_age", "created_at", "size_bytes"),
    Index(
        "ix_response_cache_similar",
        "namespace",
        "frame_key",
        "embedding_space",
        "created_at",
        sqlite_where=text("frame_key IS NOT NULL"),
    ),
)

# The rows that a response was made of. Triggers delete the response when one of them changes or goes.
response_sources = Table(
    "response_sources",
    metadata,
    Column("namespace", Text, primary_key=True),
    Column("cache_key", Text, primary_key=True),
    Column("kind", Text, primary_key=True),
    Column("source_id", Integer, primary_key=True),
    ForeignKeyConstraint(
        ["namespace", "cache_key"],
        ["response_cache.namespace", "response_cache.cache_key"],
        ondelete="CASCADE",
    ),
    Index(None, "kind", "source_id"),
)

# Who is asking a model just now, so that others wait for the answer instead of asking as well.
response_leases = Table(
    "response_leases",
    metadata,
    Column("namespace", Text, primary_key=True),
    Column("cache_key", Text, primary_key=True),
    Column("token", Text, nullable=False),
    _time("lease_until"),
)

# What language models answered, kept until the job that asked is done, so that its retries pay nothing.
model_replies = Table(
    "model_replies",
    metadata,
    Column("namespace", Text, primary_key=True),
    Column("key", Text, primary_key=True),
    Column("model", Text, nullable=False),
    Column("reply", Text, nullable=False),
    Column("prompt_tokens", Integer, nullable=False),
    Column("completion_tokens", Integer, nullable=False),
    _flag("unusable", "0"),
    _time("created_at"),
    Index(None, "created_at"),
)

# ---- documents -----------------------------------------------------------------------------------------------

documents = Table(
    "documents",
    metadata,
    _id(),
    _namespace(),
    Column("collection", Text, nullable=False),
    Column("source", Text, nullable=False),
    Column("title", Text, nullable=False),
    Column("content_type", Text, nullable=False),
    Column("content_hash", Text, nullable=False),
    Column("size_bytes", Integer, nullable=False),
    Column("splitter", Text, nullable=False),
    Column("extra", Text, nullable=False, server_default=text("'{}'")),
    Column("warnings", Text, nullable=False, server_default=text("'[]'")),
    _time("created_at"),
    _time("updated_at"),
    UniqueConstraint("namespace", "collection", "source"),
    sqlite_autoincrement=True,
)

chunks = Table(
    "chunks",
    metadata,
    _id(),
    _namespace(),
    _parent("document_id", "documents.id"),
    Column("position", Integer, nullable=False),
    Column("start_offset", Integer, nullable=False),
    Column("end_offset", Integer, nullable=False),
    Column("page", Integer),
    Column("tokens", Integer, nullable=False),
    Column("heading", Text, nullable=False),
    Column("context", Text, nullable=False),
    Column("text", Text, nullable=False),
    Column("segmented", Text),
    Column("scope", Text, nullable=False),
    Column("content_hash", Text, nullable=False),
    Column("occurrence", Integer, nullable=False),
    # As in messages.
    Column("graph_extractor", Text),
    _time("created_at"),
    UniqueConstraint("namespace", "document_id", "content_hash", "occurrence"),
    Index(None, "document_id", "position"),
    sqlite_autoincrement=True,
)

chunk_embeddings = Table(
    "chunk_embeddings",
    metadata,
    Column("chunk_id", Integer, ForeignKey("chunks.id", ondelete="CASCADE"), primary_key=True),
    Column("collection", Text, primary_key=True),
    Column("windows", Integer, nullable=False),
    _time("created_at"),
)

# ---- graph ---------------------------------------------------------------------------------------------------

_ENTITY_TYPES = "'person', 'tool', 'concept', 'project', 'language', 'file', 'config', 'organization'"

graph_entities = Table(
    "graph_entities",
    metadata,
    _id(),
    _namespace(),
    Column("name", Text, nullable=False),
    Column("canonical_name", Text, nullable=False),
    Column("entity_type", Text, nullable=False),
    Column("summary", Text),
    Column("segmented", Text),
    Column("scope", Text, nullable=False),
    _time("first_seen_at"),
    _time("last_seen_at"),
    CheckConstraint(f"entity_type IN ({_ENTITY_TYPES})", name="entity_type"),
    UniqueConstraint("namespace", "canonical_name", "entity_type"),
    Index(None, "namespace", "last_seen_at"),
    sqlite_autoincrement=True,
)

entity_embeddings = Table(
    "entity_embeddings",
    metadata,
    Column("entity_id", Integer, ForeignKey("graph_entities.id", ondelete="CASCADE"), primary_key=True),
    Column("collection", Text, primary_key=True),
    Column("windows", Integer, nullable=False),
    _time("created_at"),
)

graph_entity_aliases = Table(
    "graph_entity_aliases",
    metadata,
    _id(),
    _namespace(),
    _parent("entity_id", "graph_entities.id"),
    Column("alias_name", Text, nullable=False),
    _time("created_at"),
    UniqueConstraint("namespace", "alias_name", "entity_id"),
    Index(None, "entity_id"),
    sqlite_autoincrement=True,
)

# Which texts name an entity and what they say of it; neither message nor chunk: somebody named it by hand.
graph_entity_sources = Table(
    "graph_entity_sources",
    metadata,
    _id(),
    _parent("entity_id", "graph_entities.id"),
    _parent("message_id", "messages.id", nullable=True),
    _parent("chunk_id", "chunks.id", nullable=True),
    Column("extractor", Text, nullable=False),
    Column("summary", Text),
    _time("created_at"),
    UniqueConstraint("entity_id", "message_id", "extractor"),
    UniqueConstraint("entity_id", "chunk_id", "extractor"),
    Index(None, "message_id"),
    Index(None, "chunk_id"),
    sqlite_autoincrement=True,
)

graph_edges = Table(
    "graph_edges",
    metadata,
    _id(),
    _namespace(),
    _parent("source_entity_id", "graph_entities.id"),
    _parent("target_entity_id", "graph_entities.id"),
    Column("relation", Text, nullable=False),
    Column("fact", Text, nullable=False),
    Column("confidence", REAL, nullable=False),
    _time("valid_from"),
    _time("valid_to", nullable=True),
    _time("created_at"),
    _time("expired_at", nullable=True),
    Column("superseded_by_id", Integer, ForeignKey("graph_edges.id", ondelete="SET NULL")),
    CheckConstraint("source_entity_id <> target_entity_id", name="no_self_loop"),
    CheckConstraint("confidence BETWEEN 0 AND 1", name="confidence"),
    # Traversal takes the surest facts of each entity first.
    Index(None, "namespace", "source_entity_id", "confidence"),
    Index(None, "namespace", "target_entity_id", "confidence"),
    # Led by an id: what a deleted row is referred to by must be found without a scan.
    Index(None, "source_entity_id", "relation", "target_entity_id"),
    Index(None, "target_entity_id"),
    Index("ix_graph_edges_superseded", "superseded_by_id", sqlite_where=text("superseded_by_id IS NOT NULL")),
    Index("ix_graph_edges_expired", "expired_at", sqlite_where=text("expired_at IS NOT NULL")),
    Index(
        "uq_graph_edges_active",
        "namespace",
        "source_entity_id",
        "target_entity_id",
        "relation",
        unique=True,
        sqlite_where=text("valid_to IS NULL AND expired_at IS NULL"),
    ),
    sqlite_autoincrement=True,
)

graph_edge_sources = Table(
    "graph_edge_sources",
    metadata,
    _id(),
    _parent("edge_id", "graph_edges.id"),
    _parent("message_id", "messages.id", nullable=True),
    _parent("chunk_id", "chunks.id", nullable=True),
    Column("extractor", Text, nullable=False),
    Column("evidence", Text, nullable=False),
    # When the text told it, or when the fact itself begins if that is later.
    _time("stated_at"),
    Column("job_id", Integer),
    _time("created_at"),
    UniqueConstraint("edge_id", "message_id", "extractor"),
    UniqueConstraint("edge_id", "chunk_id", "extractor"),
    Index(None, "message_id"),
    Index(None, "chunk_id"),
    sqlite_autoincrement=True,
)

# Facts that are taken back because the one text that stated them was put right. Such a fact holds again when its row here
# is gone: see `_CORRECTED_FACTS_SQL`.
correction_facts = Table(
    "correction_facts",
    metadata,
    Column("correction_id", Integer, ForeignKey("zeph_corrections.id", ondelete="CASCADE"), primary_key=True),
    Column("edge_id", Integer, ForeignKey("graph_edges.id", ondelete="CASCADE"), primary_key=True),
    Index(None, "edge_id"),
)

graph_communities = Table(
    "graph_communities",
    metadata,
    _id(),
    _namespace(),
    Column("name", Text, nullable=False),
    Column("summary", Text, nullable=False),
    Column("fingerprint", Text, nullable=False),
    _time("created_at"),
    _time("updated_at"),
    # The name is a label of the first members: it identifies nothing.
    Index(None, "namespace"),
    sqlite_autoincrement=True,
)

# An entity is in one community at most.
graph_community_members = Table(
    "graph_community_members",
    metadata,
    Column("entity_id", Integer, ForeignKey("graph_entities.id", ondelete="CASCADE"), primary_key=True),
    _parent("community_id", "graph_communities.id"),
    Index(None, "community_id"),
)

graph_metadata = Table(
    "graph_metadata",
    metadata,
    Column("namespace", Text, primary_key=True),
    Column("key", Text, primary_key=True),
    Column("value", Text, nullable=False),
)

# ---- vectors -------------------------------------------------------------------------------------------------

# Which physical collection serves a logical one, and whose vectors it holds. Both backends use it.
embedding_collections = Table(
    "embedding_collections",
    metadata,
    Column("physical", Text, primary_key=True),
    Column("name", Text, nullable=False),
    Column("provider", Text, nullable=False),
    Column("model", Text, nullable=False),
    Column("dimension", Integer, nullable=False),
    Column("state", Text, nullable=False),
    _time("created_at"),
    CheckConstraint("state IN ('active', 'building', 'retired')", name="state"),
    Index("uq_embedding_collections_active", "name", unique=True, sqlite_where=text("state = 'active'")),
)

# Points whose rows are gone but whose vectors may still be there.
vector_tombstones = Table(
    "vector_tombstones",
    metadata,
    _id(),
    _namespace(),
    Column("collection", Text, nullable=False),
    Column("point_id", Text, nullable=False),
    _time("created_at"),
    UniqueConstraint("namespace", "collection", "point_id"),
    sqlite_autoincrement=True,
)

# The embedded vector store's own three tables.
vector_collections = Table(
    "vector_collections",
    metadata,
    Column("name", Text, primary_key=True),
    Column("dimension", Integer, nullable=False),
)

# `change` grows with each write; `purged` is the last change whose deletions are no longer on record.
vector_namespaces = Table(
    "vector_namespaces",
    metadata,
    Column("collection", Text, ForeignKey("vector_collections.name", ondelete="CASCADE"), primary_key=True),
    Column("namespace", Text, primary_key=True),
    Column("change", Integer, nullable=False, server_default=text("0")),
    Column("purged", Integer, nullable=False, server_default=text("0")),
)

# A deleted point stays for a while with a NULL vector, so that readers with a cached matrix learn of it.
vector_points = Table(
    "vector_points",
    metadata,
    Column("rowid", Integer, primary_key=True),
    Column("collection", Text, ForeignKey("vector_collections.name", ondelete="CASCADE"), nullable=False),
    _namespace(),
    Column("id", Text, nullable=False),
    Column("change", Integer, nullable=False),
    Column("vector", LargeBinary),
    Column("payload", Text, nullable=False),
    UniqueConstraint("namespace", "collection", "id"),
    Index(None, "namespace", "collection", "change"),
    Index("ix_vector_points_deleted", "namespace", "collection", sqlite_where=text("vector IS NULL")),
)

# ---- jobs ----------------------------------------------------------------------------------------------------

jobs = Table(
    "jobs",
    metadata,
    _id(),
    _namespace(),
    Column("kind", Text, nullable=False),
    Column("queue", Text, nullable=False),
    Column("dedupe_key", Text),
    Column("payload", Text, nullable=False),
    Column("state", Text, nullable=False, server_default=text("'pending'")),
    _flag("priority", "0"),
    _flag("attempts", "0"),
    _flag("lost_leases", "0"),
    _flag("cancel_requested", "0"),
    _time("run_after"),
    _time("dispatched_at", nullable=True),
    Column("lease_token", Text),
    _time("lease_until", nullable=True),
    # When the lease was first seen to have run out; of no meaning once it has been renewed since.
    _time("lapsed_at", nullable=True),
    Column("error_type", Text),
    Column("error_message", Text),
    Column("outcome", Text),
    _parent("parent_id", "jobs.id", nullable=True),
    _flag("children_open", "0"),
    _time("created_at"),
    _time("started_at", nullable=True),
    _time("finished_at", nullable=True),
    CheckConstraint("state IN ('pending', 'running', 'waiting', 'done', 'dead')", name="state"),
    Index(
        "uq_jobs_live",
        "namespace",
        "kind",
        "dedupe_key",
        unique=True,
        sqlite_where=text("state IN ('pending', 'running', 'waiting')"),
    ),
    Index(
        "ix_jobs_due",
        "queue",
        "namespace",
        "priority",
        "run_after",
        "id",
        sqlite_where=text("state = 'pending'"),
    ),
    Index("ix_jobs_leases", "lease_until", sqlite_where=text("state = 'running'")),
    Index(
        "uq_jobs_child",
        "parent_id",
        "kind",
        "dedupe_key",
        unique=True,
        sqlite_where=text("parent_id IS NOT NULL AND dedupe_key IS NOT NULL"),
    ),
    Index("ix_jobs_parent", "parent_id", "state"),
    Index("ix_jobs_finished", "state", "finished_at"),
    sqlite_autoincrement=True,
)

# The last period for which each scheduled kind was enqueued: any number of schedulers, one job per period.
periodic_runs = Table(
    "periodic_runs",
    metadata,
    Column("kind", Text, primary_key=True),
    Column("period", Integer, nullable=False),
)


# Messages further apart than this, in microseconds, belong to different sessions.
SESSION_GAP = 3_600 * 1_000_000
# How much of a neighbour is indexed with a message: a short answer whole, of a long one what it begins with.
AROUND_CHARACTERS = 300
_MONTHS = "January  February March    April    May      June     July     August   SeptemberOctober  November December"


def _who(row: str) -> str:
    """Who spoke and on which day, in words: `Ann 8 May 2023`."""
    day = f"{row}created_at / 1000000, 'unixepoch'"
    month = f"rtrim(substr('{_MONTHS}', 9 * strftime('%m', {day}) - 8, 9))"
    return f"format('%s %d %s %s', {row}speaker, strftime('%d', {day}), {month}, strftime('%Y', {day}))"


def _full_text(
    name: str, base: str, columns: tuple[str, ...], segmented: str, *, once_added: str = ""
) -> tuple[str, ...]:
    """An FTS5 index over columns of `base`, and the triggers that keep it in step.

    Rows whose script has no blanks are indexed by their segmented form instead of the column `segmented` stands for.
    `once_added` is SQL that a new row needs when it is in the index: the order of two triggers would be undefined.
    """

    def value(row: str, column: str) -> str:
        if column == "who":
            return _who(row)
        return f"coalesce({row}segmented, {row}{column})" if column == segmented else f"{row}{column}"

    def values(row: str) -> str:
        return ", ".join(value(row, column) for column in columns)

    # Only names written in this file come together here.
    names = ", ".join(columns)
    view = f"SELECT id, {values('')} FROM {base}"  # noqa: S608
    remove = f"INSERT INTO {name}({name}, rowid, {names}) VALUES ('delete', old.id, {values('old.')});"  # noqa: S608
    add = f"INSERT INTO {name}(rowid, {names}) VALUES (new.id, {values('new.')});"  # noqa: S608
    changed = " OR ".join(f"{value('old.', column)} IS NOT {value('new.', column)}" for column in columns)
    # M* keeps the vowel signs of Indic scripts inside their words.
    tokenizer = "porter unicode61 remove_diacritics 2 categories 'L* N* Co M*'"
    options = f"content='{name}_source', content_rowid='id', tokenize=\"{tokenizer}\""
    return (
        f"CREATE VIEW {name}_source(id, {names}) AS {view}",
        f"CREATE VIRTUAL TABLE {name} USING fts5({names}, {options})",
        f"CREATE TRIGGER {name}_insert AFTER INSERT ON {base} BEGIN {add} {once_added} END",
        f"CREATE TRIGGER {name}_delete AFTER DELETE ON {base} BEGIN {remove} END",
        f"CREATE TRIGGER {name}_update AFTER UPDATE ON {base} WHEN {changed} BEGIN {remove} {add} END",
    )


def _refresh_around(row: str, *, added: bool) -> str:
    """SQL that sets `messages.around` of the neighbours of a row that came, changed or went.

    An added row gets its own as well; if it brings one, whoever writes it tells the neighbours too, which is much
    cheaper for many rows at once.
    """

    def neighbour(of: str, order: str, sign: str) -> str:
        same = f"s.namespace = {of}namespace AND s.conversation_id = {of}conversation_id AND s.deleted_at IS NULL"
        return f"(SELECT s.id FROM messages AS s WHERE {same} AND s.id {sign} {of}id ORDER BY s.id {order} LIMIT 1)"  # noqa: S608

    def text_of(order: str, sign: str) -> str:
        begins = f"substr(coalesce(n.segmented, n.content), 1, {AROUND_CHARACTERS})"
        near = f"abs(n.created_at - messages.created_at) <= {SESSION_GAP}"
        found = neighbour("messages.", order, sign)
        return f"coalesce((SELECT {begins} FROM messages AS n WHERE n.id = {found} AND {near}), '')"  # noqa: S608

    ids = [neighbour(row, "DESC", "<"), neighbour(row, "ASC", ">"), *([f"{row}id"] if added else [])]
    both = f"{text_of('DESC', '<')} || char(10) || {text_of('ASC', '>')}"
    bare = f" AND {row}around = ''" if added else ""
    return f"UPDATE messages SET around = {both} WHERE id IN ({', '.join(ids)}){bare};"  # noqa: S608


def _around_trigger(name: str, event: str, row: str) -> str:
    return f"CREATE TRIGGER {name} AFTER {event} ON messages BEGIN {_refresh_around(row, added=False)} END"


_AROUND_SQL = (
    _around_trigger("messages_around_delete", "DELETE", "old."),
    _around_trigger("messages_around_update", "UPDATE OF content, segmented, speaker, deleted_at", "new."),
)

# Kind of source -> its table, and the columns in which a change takes the responses along that were made of it.
_RESPONSE_SOURCES = {
    "message": ("messages", ("content", "deleted_at", "agent_visible")),
    "summary": ("summaries", ("content",)),
    "key_fact": ("key_facts", ("fact",)),
    "document": ("documents", ("content_hash",)),
    "chunk": ("chunks", ("text",)),
    "correction": ("zeph_corrections", ("correction_text", "retired_at")),
    "edge": ("graph_edges", ("fact", "valid_to", "expired_at")),
}


def _responses_made_of(kind: str, source_id: str) -> str:
    # Only names written in this file come together here.
    made_of = f"kind = '{kind}' AND source_id = {source_id}"
    keys = f"SELECT namespace, cache_key FROM response_sources WHERE {made_of}"  # noqa: S608
    return f"DELETE FROM response_cache WHERE (namespace, cache_key) IN ({keys});"  # noqa: S608


def _response_triggers(kind: str, table: str, columns: tuple[str, ...]) -> tuple[str, str]:
    remove = _responses_made_of(kind, "old.id")
    changed = " OR ".join(f"old.{column} IS NOT new.{column}" for column in columns)
    update = f"AFTER UPDATE OF {', '.join(columns)} ON {table} WHEN {changed}"
    return (
        f"CREATE TRIGGER {table}_response_delete AFTER DELETE ON {table} BEGIN {remove} END",
        f"CREATE TRIGGER {table}_response_update {update} BEGIN {remove} END",
    )


def _corrected_trigger(name: str, event: str, *further: str) -> str:
    statements = (_responses_made_of("message", "new.target_message_id"), *further)
    return f"CREATE TRIGGER {name} AFTER {event} ON zeph_corrections BEGIN {' '.join(statements)} END"


_RESPONSE_SQL = (
    *(sql for kind, source in _RESPONSE_SOURCES.items() for sql in _response_triggers(kind, *source)),
    # A message that somebody puts right answers nothing as it stands.
    _corrected_trigger("corrected_response_insert", "INSERT"),
    _corrected_trigger(
        "corrected_response_update",
        "UPDATE OF target_message_id, lowers, retired_at",
        # Of what an answer is made that is made just now is not known yet.
        "DELETE FROM response_leases WHERE namespace = new.namespace;",
    ),
)

# The fact that a correction lets hold again, and others that have to do with it.
_AGAIN = "again.id = old.edge_id AND again.valid_to IS NULL"
_AGAIN_RETIRED = f"{_AGAIN} AND again.expired_at IS NOT NULL"
_SAME_HEAD = " AND ".join(
    f"it.{name} = again.{name}" for name in ("namespace", "source_entity_id", "relation")
)
_ONE_VALUE = f"again.relation IN ({', '.join(map(repr, sorted(SINGLE_VALUED)))})"
# What has ended stands as well, and has expired at the moment in which that became known.
_STANDS = "(it.expired_at IS NULL OR it.valid_to IS NOT NULL)"
_TOLD_AGAIN = (
    f"SELECT it.id FROM graph_edges AS again JOIN graph_edges AS it ON {_SAME_HEAD} "  # noqa: S608
    f"AND it.target_entity_id = again.target_entity_id AND {_STANDS} WHERE {_AGAIN_RETIRED} "
    "AND (it.valid_to IS NULL OR it.valid_from > again.valid_from) ORDER BY it.valid_from, it.id LIMIT 1"
)
_NEXT_VALUE = (
    f"FROM graph_edges AS again JOIN graph_edges AS it ON {_SAME_HEAD} AND {_STANDS} "
    f"AND it.valid_from > again.valid_from WHERE {_AGAIN_RETIRED} AND {_ONE_VALUE} "
    "ORDER BY it.valid_from, it.id LIMIT 1"
)
_ENDED_BY_ANOTHER = f"(SELECT it.target_entity_id <> again.target_entity_id {_NEXT_VALUE})"
_CORRECTED_FACTS_SQL = (
    "CREATE TRIGGER correction_facts_delete AFTER DELETE ON correction_facts "  # noqa: S608
    "WHEN NOT EXISTS (SELECT 1 FROM correction_facts AS other WHERE other.edge_id = old.edge_id) BEGIN "
    # Another value was told since: it held until then.
    f"UPDATE graph_edges SET (expired_at, valid_to, superseded_by_id) = (SELECT it.created_at, it.valid_from, it.id {_NEXT_VALUE}) "
    f"WHERE id = old.edge_id AND {_ENDED_BY_ANOTHER}; "
    # It was told again: the two are one.
    "UPDATE graph_edges SET (valid_from, created_at) = (SELECT min(again.valid_from, graph_edges.valid_from), "
    "min(again.created_at, graph_edges.created_at) FROM graph_edges AS again WHERE again.id = old.edge_id) "
    f"WHERE id = ({_TOLD_AGAIN}); "
    f"UPDATE OR IGNORE graph_edge_sources SET edge_id = ({_TOLD_AGAIN}) "
    f"WHERE edge_id = old.edge_id AND EXISTS ({_TOLD_AGAIN}); "
    f"UPDATE graph_edges SET superseded_by_id = ({_TOLD_AGAIN}) "
    f"WHERE superseded_by_id = old.edge_id AND EXISTS ({_TOLD_AGAIN}); "
    f"DELETE FROM graph_edges WHERE id = old.edge_id AND EXISTS ({_TOLD_AGAIN}); "
    # Else it holds, and what it had followed does not.
    "UPDATE graph_edges SET expired_at = NULL WHERE id = old.edge_id AND valid_to IS NULL; "
    "UPDATE graph_edges SET (expired_at, valid_to) = (SELECT max(again.created_at, graph_edges.created_at), "
    "again.valid_from FROM graph_edges AS again WHERE again.id = old.edge_id), "
    f"superseded_by_id = old.edge_id WHERE id IN (SELECT it.id FROM graph_edges AS again JOIN graph_edges AS it "
    f"ON {_SAME_HEAD} AND it.id <> again.id AND it.valid_to IS NULL AND it.expired_at IS NULL "
    f"AND it.valid_from < again.valid_from WHERE {_AGAIN} AND {_ONE_VALUE}); END"
)

FULL_TEXT_SQL = (
    *_full_text(
        "messages_fts",
        "messages",
        ("who", "content", "around", "scope"),
        "content",
        once_added=_refresh_around("new.", added=True),
    ),
    *_AROUND_SQL,
    *_full_text("summaries_fts", "summaries", ("content", "scope"), "content"),
    *_full_text("key_facts_fts", "key_facts", ("fact", "scope"), "fact"),
    *_full_text("corrections_fts", "zeph_corrections", ("correction_text", "scope"), "correction_text"),
    *_full_text("chunks_fts", "chunks", ("context", "text", "scope"), "text"),
    *_full_text("graph_entities_fts", "graph_entities", ("name", "summary", "scope"), "name"),
    *_RESPONSE_SQL,
    _CORRECTED_FACTS_SQL,
)
FULL_TEXT_TABLES = (
    "messages_fts",
    "summaries_fts",
    "key_facts_fts",
    "corrections_fts",
    "chunks_fts",
    "graph_entities_fts",
)
