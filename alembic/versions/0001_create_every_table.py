"""Create every table in its final shape.

Revision ID: 0001
Revises:

Self-contained: imports nothing from services. Runs inside one transaction; a crash leaves the schema as it was.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision: str = "0001"
down_revision: str | None = None
branch_labels: None = None
depends_on: None = None

# SQLAlchemy knows no virtual tables: each full-text index with the triggers that keep it in step.
FULL_TEXT_SQL = (
    "CREATE VIEW messages_fts_source(id, who, content, around, scope) AS SELECT id, format('%s %d %s %s', speaker, strftime('%d', created_at / 1000000, 'unixepoch'), rtrim(substr('January  February March    April    May      June     July     August   SeptemberOctober  November December', 9 * strftime('%m', created_at / 1000000, 'unixepoch') - 8, 9)), strftime('%Y', created_at / 1000000, 'unixepoch')), coalesce(segmented, content), around, scope FROM messages",
    'CREATE VIRTUAL TABLE messages_fts USING fts5(who, content, around, scope, content=\'messages_fts_source\', content_rowid=\'id\', tokenize="porter unicode61 remove_diacritics 2 categories \'L* N* Co M*\'")',
    "CREATE TRIGGER messages_fts_insert AFTER INSERT ON messages BEGIN INSERT INTO messages_fts(rowid, who, content, around, scope) VALUES (new.id, format('%s %d %s %s', new.speaker, strftime('%d', new.created_at / 1000000, 'unixepoch'), rtrim(substr('January  February March    April    May      June     July     August   SeptemberOctober  November December', 9 * strftime('%m', new.created_at / 1000000, 'unixepoch') - 8, 9)), strftime('%Y', new.created_at / 1000000, 'unixepoch')), coalesce(new.segmented, new.content), new.around, new.scope); UPDATE messages SET around = coalesce((SELECT substr(coalesce(n.segmented, n.content), 1, 300) FROM messages AS n WHERE n.id = (SELECT s.id FROM messages AS s WHERE s.namespace = messages.namespace AND s.conversation_id = messages.conversation_id AND s.deleted_at IS NULL AND s.id < messages.id ORDER BY s.id DESC LIMIT 1) AND abs(n.created_at - messages.created_at) <= 3600000000), '') || char(10) || coalesce((SELECT substr(coalesce(n.segmented, n.content), 1, 300) FROM messages AS n WHERE n.id = (SELECT s.id FROM messages AS s WHERE s.namespace = messages.namespace AND s.conversation_id = messages.conversation_id AND s.deleted_at IS NULL AND s.id > messages.id ORDER BY s.id ASC LIMIT 1) AND abs(n.created_at - messages.created_at) <= 3600000000), '') WHERE id IN ((SELECT s.id FROM messages AS s WHERE s.namespace = new.namespace AND s.conversation_id = new.conversation_id AND s.deleted_at IS NULL AND s.id < new.id ORDER BY s.id DESC LIMIT 1), (SELECT s.id FROM messages AS s WHERE s.namespace = new.namespace AND s.conversation_id = new.conversation_id AND s.deleted_at IS NULL AND s.id > new.id ORDER BY s.id ASC LIMIT 1), new.id) AND new.around = ''; END",
    "CREATE TRIGGER messages_fts_delete AFTER DELETE ON messages BEGIN INSERT INTO messages_fts(messages_fts, rowid, who, content, around, scope) VALUES ('delete', old.id, format('%s %d %s %s', old.speaker, strftime('%d', old.created_at / 1000000, 'unixepoch'), rtrim(substr('January  February March    April    May      June     July     August   SeptemberOctober  November December', 9 * strftime('%m', old.created_at / 1000000, 'unixepoch') - 8, 9)), strftime('%Y', old.created_at / 1000000, 'unixepoch')), coalesce(old.segmented, old.content), old.around, old.scope); END",
    "CREATE TRIGGER messages_fts_update AFTER UPDATE ON messages WHEN format('%s %d %s %s', old.speaker, strftime('%d', old.created_at / 1000000, 'unixepoch'), rtrim(substr('January  February March    April    May      June     July     August   SeptemberOctober  November December', 9 * strftime('%m', old.created_at / 1000000, 'unixepoch') - 8, 9)), strftime('%Y', old.created_at / 1000000, 'unixepoch')) IS NOT format('%s %d %s %s', new.speaker, strftime('%d', new.created_at / 1000000, 'unixepoch'), rtrim(substr('January  February March    April    May      June     July     August   SeptemberOctober  November December', 9 * strftime('%m', new.created_at / 1000000, 'unixepoch') - 8, 9)), strftime('%Y', new.created_at / 1000000, 'unixepoch')) OR coalesce(old.segmented, old.content) IS NOT coalesce(new.segmented, new.content) OR old.around IS NOT new.around OR old.scope IS NOT new.scope BEGIN INSERT INTO messages_fts(messages_fts, rowid, who, content, around, scope) VALUES ('delete', old.id, format('%s %d %s %s', old.speaker, strftime('%d', old.created_at / 1000000, 'unixepoch'), rtrim(substr('January  February March    April    May      June     July     August   SeptemberOctober  November December', 9 * strftime('%m', old.created_at / 1000000, 'unixepoch') - 8, 9)), strftime('%Y', old.created_at / 1000000, 'unixepoch')), coalesce(old.segmented, old.content), old.around, old.scope); INSERT INTO messages_fts(rowid, who, content, around, scope) VALUES (new.id, format('%s %d %s %s', new.speaker, strftime('%d', new.created_at / 1000000, 'unixepoch'), rtrim(substr('January  February March    April    May      June     July     August   SeptemberOctober  November December', 9 * strftime('%m', new.created_at / 1000000, 'unixepoch') - 8, 9)), strftime('%Y', new.created_at / 1000000, 'unixepoch')), coalesce(new.segmented, new.content), new.around, new.scope); END",
    "CREATE TRIGGER messages_around_delete AFTER DELETE ON messages BEGIN UPDATE messages SET around = coalesce((SELECT substr(coalesce(n.segmented, n.content), 1, 300) FROM messages AS n WHERE n.id = (SELECT s.id FROM messages AS s WHERE s.namespace = messages.namespace AND s.conversation_id = messages.conversation_id AND s.deleted_at IS NULL AND s.id < messages.id ORDER BY s.id DESC LIMIT 1) AND abs(n.created_at - messages.created_at) <= 3600000000), '') || char(10) || coalesce((SELECT substr(coalesce(n.segmented, n.content), 1, 300) FROM messages AS n WHERE n.id = (SELECT s.id FROM messages AS s WHERE s.namespace = messages.namespace AND s.conversation_id = messages.conversation_id AND s.deleted_at IS NULL AND s.id > messages.id ORDER BY s.id ASC LIMIT 1) AND abs(n.created_at - messages.created_at) <= 3600000000), '') WHERE id IN ((SELECT s.id FROM messages AS s WHERE s.namespace = old.namespace AND s.conversation_id = old.conversation_id AND s.deleted_at IS NULL AND s.id < old.id ORDER BY s.id DESC LIMIT 1), (SELECT s.id FROM messages AS s WHERE s.namespace = old.namespace AND s.conversation_id = old.conversation_id AND s.deleted_at IS NULL AND s.id > old.id ORDER BY s.id ASC LIMIT 1)); END",
    "CREATE TRIGGER messages_around_update AFTER UPDATE OF content, segmented, speaker, deleted_at ON messages BEGIN UPDATE messages SET around = coalesce((SELECT substr(coalesce(n.segmented, n.content), 1, 300) FROM messages AS n WHERE n.id = (SELECT s.id FROM messages AS s WHERE s.namespace = messages.namespace AND s.conversation_id = messages.conversation_id AND s.deleted_at IS NULL AND s.id < messages.id ORDER BY s.id DESC LIMIT 1) AND abs(n.created_at - messages.created_at) <= 3600000000), '') || char(10) || coalesce((SELECT substr(coalesce(n.segmented, n.content), 1, 300) FROM messages AS n WHERE n.id = (SELECT s.id FROM messages AS s WHERE s.namespace = messages.namespace AND s.conversation_id = messages.conversation_id AND s.deleted_at IS NULL AND s.id > messages.id ORDER BY s.id ASC LIMIT 1) AND abs(n.created_at - messages.created_at) <= 3600000000), '') WHERE id IN ((SELECT s.id FROM messages AS s WHERE s.namespace = new.namespace AND s.conversation_id = new.conversation_id AND s.deleted_at IS NULL AND s.id < new.id ORDER BY s.id DESC LIMIT 1), (SELECT s.id FROM messages AS s WHERE s.namespace = new.namespace AND s.conversation_id = new.conversation_id AND s.deleted_at IS NULL AND s.id > new.id ORDER BY s.id ASC LIMIT 1)); END",
    'CREATE VIEW summaries_fts_source(id, content, scope) AS SELECT id, coalesce(segmented, content), scope FROM summaries',
    'CREATE VIRTUAL TABLE summaries_fts USING fts5(content, scope, content=\'summaries_fts_source\', content_rowid=\'id\', tokenize="porter unicode61 remove_diacritics 2 categories \'L* N* Co M*\'")',
    'CREATE TRIGGER summaries_fts_insert AFTER INSERT ON summaries BEGIN INSERT INTO summaries_fts(rowid, content, scope) VALUES (new.id, coalesce(new.segmented, new.content), new.scope);  END',
    "CREATE TRIGGER summaries_fts_delete AFTER DELETE ON summaries BEGIN INSERT INTO summaries_fts(summaries_fts, rowid, content, scope) VALUES ('delete', old.id, coalesce(old.segmented, old.content), old.scope); END",
    "CREATE TRIGGER summaries_fts_update AFTER UPDATE ON summaries WHEN coalesce(old.segmented, old.content) IS NOT coalesce(new.segmented, new.content) OR old.scope IS NOT new.scope BEGIN INSERT INTO summaries_fts(summaries_fts, rowid, content, scope) VALUES ('delete', old.id, coalesce(old.segmented, old.content), old.scope); INSERT INTO summaries_fts(rowid, content, scope) VALUES (new.id, coalesce(new.segmented, new.content), new.scope); END",
    'CREATE VIEW key_facts_fts_source(id, fact, scope) AS SELECT id, coalesce(segmented, fact), scope FROM key_facts',
    'CREATE VIRTUAL TABLE key_facts_fts USING fts5(fact, scope, content=\'key_facts_fts_source\', content_rowid=\'id\', tokenize="porter unicode61 remove_diacritics 2 categories \'L* N* Co M*\'")',
    'CREATE TRIGGER key_facts_fts_insert AFTER INSERT ON key_facts BEGIN INSERT INTO key_facts_fts(rowid, fact, scope) VALUES (new.id, coalesce(new.segmented, new.fact), new.scope);  END',
    "CREATE TRIGGER key_facts_fts_delete AFTER DELETE ON key_facts BEGIN INSERT INTO key_facts_fts(key_facts_fts, rowid, fact, scope) VALUES ('delete', old.id, coalesce(old.segmented, old.fact), old.scope); END",
    "CREATE TRIGGER key_facts_fts_update AFTER UPDATE ON key_facts WHEN coalesce(old.segmented, old.fact) IS NOT coalesce(new.segmented, new.fact) OR old.scope IS NOT new.scope BEGIN INSERT INTO key_facts_fts(key_facts_fts, rowid, fact, scope) VALUES ('delete', old.id, coalesce(old.segmented, old.fact), old.scope); INSERT INTO key_facts_fts(rowid, fact, scope) VALUES (new.id, coalesce(new.segmented, new.fact), new.scope); END",
    'CREATE VIEW corrections_fts_source(id, correction_text, scope) AS SELECT id, coalesce(segmented, correction_text), scope FROM zeph_corrections',
    'CREATE VIRTUAL TABLE corrections_fts USING fts5(correction_text, scope, content=\'corrections_fts_source\', content_rowid=\'id\', tokenize="porter unicode61 remove_diacritics 2 categories \'L* N* Co M*\'")',
    'CREATE TRIGGER corrections_fts_insert AFTER INSERT ON zeph_corrections BEGIN INSERT INTO corrections_fts(rowid, correction_text, scope) VALUES (new.id, coalesce(new.segmented, new.correction_text), new.scope);  END',
    "CREATE TRIGGER corrections_fts_delete AFTER DELETE ON zeph_corrections BEGIN INSERT INTO corrections_fts(corrections_fts, rowid, correction_text, scope) VALUES ('delete', old.id, coalesce(old.segmented, old.correction_text), old.scope); END",
    "CREATE TRIGGER corrections_fts_update AFTER UPDATE ON zeph_corrections WHEN coalesce(old.segmented, old.correction_text) IS NOT coalesce(new.segmented, new.correction_text) OR old.scope IS NOT new.scope BEGIN INSERT INTO corrections_fts(corrections_fts, rowid, correction_text, scope) VALUES ('delete', old.id, coalesce(old.segmented, old.correction_text), old.scope); INSERT INTO corrections_fts(rowid, correction_text, scope) VALUES (new.id, coalesce(new.segmented, new.correction_text), new.scope); END",
    'CREATE VIEW chunks_fts_source(id, context, text, scope) AS SELECT id, context, coalesce(segmented, text), scope FROM chunks',
    'CREATE VIRTUAL TABLE chunks_fts USING fts5(context, text, scope, content=\'chunks_fts_source\', content_rowid=\'id\', tokenize="porter unicode61 remove_diacritics 2 categories \'L* N* Co M*\'")',
    'CREATE TRIGGER chunks_fts_insert AFTER INSERT ON chunks BEGIN INSERT INTO chunks_fts(rowid, context, text, scope) VALUES (new.id, new.context, coalesce(new.segmented, new.text), new.scope);  END',
    "CREATE TRIGGER chunks_fts_delete AFTER DELETE ON chunks BEGIN INSERT INTO chunks_fts(chunks_fts, rowid, context, text, scope) VALUES ('delete', old.id, old.context, coalesce(old.segmented, old.text), old.scope); END",
    "CREATE TRIGGER chunks_fts_update AFTER UPDATE ON chunks WHEN old.context IS NOT new.context OR coalesce(old.segmented, old.text) IS NOT coalesce(new.segmented, new.text) OR old.scope IS NOT new.scope BEGIN INSERT INTO chunks_fts(chunks_fts, rowid, context, text, scope) VALUES ('delete', old.id, old.context, coalesce(old.segmented, old.text), old.scope); INSERT INTO chunks_fts(rowid, context, text, scope) VALUES (new.id, new.context, coalesce(new.segmented, new.text), new.scope); END",
    'CREATE VIEW graph_entities_fts_source(id, name, summary, scope) AS SELECT id, coalesce(segmented, name), summary, scope FROM graph_entities',
    'CREATE VIRTUAL TABLE graph_entities_fts USING fts5(name, summary, scope, content=\'graph_entities_fts_source\', content_rowid=\'id\', tokenize="porter unicode61 remove_diacritics 2 categories \'L* N* Co M*\'")',
    'CREATE TRIGGER graph_entities_fts_insert AFTER INSERT ON graph_entities BEGIN INSERT INTO graph_entities_fts(rowid, name, summary, scope) VALUES (new.id, coalesce(new.segmented, new.name), new.summary, new.scope);  END',
    "CREATE TRIGGER graph_entities_fts_delete AFTER DELETE ON graph_entities BEGIN INSERT INTO graph_entities_fts(graph_entities_fts, rowid, name, summary, scope) VALUES ('delete', old.id, coalesce(old.segmented, old.name), old.summary, old.scope); END",
    "CREATE TRIGGER graph_entities_fts_update AFTER UPDATE ON graph_entities WHEN coalesce(old.segmented, old.name) IS NOT coalesce(new.segmented, new.name) OR old.summary IS NOT new.summary OR old.scope IS NOT new.scope BEGIN INSERT INTO graph_entities_fts(graph_entities_fts, rowid, name, summary, scope) VALUES ('delete', old.id, coalesce(old.segmented, old.name), old.summary, old.scope); INSERT INTO graph_entities_fts(rowid, name, summary, scope) VALUES (new.id, coalesce(new.segmented, new.name), new.summary, new.scope); END",
    "CREATE TRIGGER messages_response_delete AFTER DELETE ON messages BEGIN DELETE FROM response_cache WHERE (namespace, cache_key) IN (SELECT namespace, cache_key FROM response_sources WHERE kind = 'message' AND source_id = old.id); END",
    "CREATE TRIGGER messages_response_update AFTER UPDATE OF content, deleted_at, agent_visible ON messages WHEN old.content IS NOT new.content OR old.deleted_at IS NOT new.deleted_at OR old.agent_visible IS NOT new.agent_visible BEGIN DELETE FROM response_cache WHERE (namespace, cache_key) IN (SELECT namespace, cache_key FROM response_sources WHERE kind = 'message' AND source_id = old.id); END",
    "CREATE TRIGGER summaries_response_delete AFTER DELETE ON summaries BEGIN DELETE FROM response_cache WHERE (namespace, cache_key) IN (SELECT namespace, cache_key FROM response_sources WHERE kind = 'summary' AND source_id = old.id); END",
    "CREATE TRIGGER summaries_response_update AFTER UPDATE OF content ON summaries WHEN old.content IS NOT new.content BEGIN DELETE FROM response_cache WHERE (namespace, cache_key) IN (SELECT namespace, cache_key FROM response_sources WHERE kind = 'summary' AND source_id = old.id); END",
    "CREATE TRIGGER key_facts_response_delete AFTER DELETE ON key_facts BEGIN DELETE FROM response_cache WHERE (namespace, cache_key) IN (SELECT namespace, cache_key FROM response_sources WHERE kind = 'key_fact' AND source_id = old.id); END",
    "CREATE TRIGGER key_facts_response_update AFTER UPDATE OF fact ON key_facts WHEN old.fact IS NOT new.fact BEGIN DELETE FROM response_cache WHERE (namespace, cache_key) IN (SELECT namespace, cache_key FROM response_sources WHERE kind = 'key_fact' AND source_id = old.id); END",
    "CREATE TRIGGER documents_response_delete AFTER DELETE ON documents BEGIN DELETE FROM response_cache WHERE (namespace, cache_key) IN (SELECT namespace, cache_key FROM response_sources WHERE kind = 'document' AND source_id = old.id); END",
    "CREATE TRIGGER documents_response_update AFTER UPDATE OF content_hash ON documents WHEN old.content_hash IS NOT new.content_hash BEGIN DELETE FROM response_cache WHERE (namespace, cache_key) IN (SELECT namespace, cache_key FROM response_sources WHERE kind = 'document' AND source_id = old.id); END",
    "CREATE TRIGGER chunks_response_delete AFTER DELETE ON chunks BEGIN DELETE FROM response_cache WHERE (namespace, cache_key) IN (SELECT namespace, cache_key FROM response_sources WHERE kind = 'chunk' AND source_id = old.id); END",
    "CREATE TRIGGER chunks_response_update AFTER UPDATE OF text ON chunks WHEN old.text IS NOT new.text BEGIN DELETE FROM response_cache WHERE (namespace, cache_key) IN (SELECT namespace, cache_key FROM response_sources WHERE kind = 'chunk' AND source_id = old.id); END",
    "CREATE TRIGGER zeph_corrections_response_delete AFTER DELETE ON zeph_corrections BEGIN DELETE FROM response_cache WHERE (namespace, cache_key) IN (SELECT namespace, cache_key FROM response_sources WHERE kind = 'correction' AND source_id = old.id); END",
    "CREATE TRIGGER zeph_corrections_response_update AFTER UPDATE OF correction_text, retired_at ON zeph_corrections WHEN old.correction_text IS NOT new.correction_text OR old.retired_at IS NOT new.retired_at BEGIN DELETE FROM response_cache WHERE (namespace, cache_key) IN (SELECT namespace, cache_key FROM response_sources WHERE kind = 'correction' AND source_id = old.id); END",
    "CREATE TRIGGER graph_edges_response_delete AFTER DELETE ON graph_edges BEGIN DELETE FROM response_cache WHERE (namespace, cache_key) IN (SELECT namespace, cache_key FROM response_sources WHERE kind = 'edge' AND source_id = old.id); END",
    "CREATE TRIGGER graph_edges_response_update AFTER UPDATE OF fact, valid_to, expired_at ON graph_edges WHEN old.fact IS NOT new.fact OR old.valid_to IS NOT new.valid_to OR old.expired_at IS NOT new.expired_at BEGIN DELETE FROM response_cache WHERE (namespace, cache_key) IN (SELECT namespace, cache_key FROM response_sources WHERE kind = 'edge' AND source_id = old.id); END",
    "CREATE TRIGGER corrected_response_insert AFTER INSERT ON zeph_corrections BEGIN DELETE FROM response_cache WHERE (namespace, cache_key) IN (SELECT namespace, cache_key FROM response_sources WHERE kind = 'message' AND source_id = new.target_message_id); END",
    "CREATE TRIGGER corrected_response_update AFTER UPDATE OF target_message_id, lowers, retired_at ON zeph_corrections BEGIN DELETE FROM response_cache WHERE (namespace, cache_key) IN (SELECT namespace, cache_key FROM response_sources WHERE kind = 'message' AND source_id = new.target_message_id); END",
    'CREATE TRIGGER correction_facts_delete AFTER DELETE ON correction_facts BEGIN UPDATE graph_edges SET expired_at = NULL WHERE id = old.edge_id AND valid_to IS NULL AND NOT EXISTS (SELECT 1 FROM graph_edges AS twin WHERE twin.namespace = graph_edges.namespace AND twin.source_entity_id = graph_edges.source_entity_id AND twin.target_entity_id = graph_edges.target_entity_id AND twin.relation = graph_edges.relation AND twin.valid_to IS NULL AND twin.expired_at IS NULL); END',
)
FULL_TEXT_TABLES = ('messages_fts', 'summaries_fts', 'key_facts_fts', 'corrections_fts', 'chunks_fts', 'graph_entities_fts')


def upgrade() -> None:
    op.create_table('conversations',
    sa.Column('id', sa.Integer(), nullable=False),
    sa.Column('namespace', sa.Text(), nullable=False),
    sa.Column('key', sa.Text(), nullable=True),
    sa.Column('title', sa.Text(), nullable=True),
    sa.Column('created_at', sa.Integer(), nullable=False),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_conversations')),
    sa.UniqueConstraint('namespace', 'key', name=op.f('uq_conversations_namespace_key')),
    sqlite_autoincrement=True
    )
    op.create_index(op.f('ix_conversations_namespace_created_at'), 'conversations', ['namespace', 'created_at'], unique=False)
    op.create_table('documents',
    sa.Column('id', sa.Integer(), nullable=False),
    sa.Column('namespace', sa.Text(), nullable=False),
    sa.Column('collection', sa.Text(), nullable=False),
    sa.Column('source', sa.Text(), nullable=False),
    sa.Column('title', sa.Text(), nullable=False),
    sa.Column('content_type', sa.Text(), nullable=False),
    sa.Column('content_hash', sa.Text(), nullable=False),
    sa.Column('size_bytes', sa.Integer(), nullable=False),
    sa.Column('splitter', sa.Text(), nullable=False),
    sa.Column('extra', sa.Text(), server_default=sa.text("'{}'"), nullable=False),
    sa.Column('warnings', sa.Text(), server_default=sa.text("'[]'"), nullable=False),
    sa.Column('created_at', sa.Integer(), nullable=False),
    sa.Column('updated_at', sa.Integer(), nullable=False),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_documents')),
    sa.UniqueConstraint('namespace', 'collection', 'source', name=op.f('uq_documents_namespace_collection_source')),
    sqlite_autoincrement=True
    )
    op.create_table('embedding_collections',
    sa.Column('physical', sa.Text(), nullable=False),
    sa.Column('name', sa.Text(), nullable=False),
    sa.Column('provider', sa.Text(), nullable=False),
    sa.Column('model', sa.Text(), nullable=False),
    sa.Column('dimension', sa.Integer(), nullable=False),
    sa.Column('state', sa.Text(), nullable=False),
    sa.Column('created_at', sa.Integer(), nullable=False),
    sa.CheckConstraint("state IN ('active', 'building', 'retired')", name=op.f('ck_embedding_collections_state')),
    sa.PrimaryKeyConstraint('physical', name=op.f('pk_embedding_collections'))
    )
    op.create_index('uq_embedding_collections_active', 'embedding_collections', ['name'], unique=True, sqlite_where=sa.text("state = 'active'"))
    op.create_table('graph_communities',
    sa.Column('id', sa.Integer(), nullable=False),
    sa.Column('namespace', sa.Text(), nullable=False),
    sa.Column('name', sa.Text(), nullable=False),
    sa.Column('summary', sa.Text(), nullable=False),
    sa.Column('fingerprint', sa.Text(), nullable=False),
    sa.Column('created_at', sa.Integer(), nullable=False),
    sa.Column('updated_at', sa.Integer(), nullable=False),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_graph_communities')),
    sqlite_autoincrement=True
    )
    op.create_index(op.f('ix_graph_communities_namespace'), 'graph_communities', ['namespace'], unique=False)
    op.create_table('graph_entities',
    sa.Column('id', sa.Integer(), nullable=False),
    sa.Column('namespace', sa.Text(), nullable=False),
    sa.Column('name', sa.Text(), nullable=False),
    sa.Column('canonical_name', sa.Text(), nullable=False),
    sa.Column('entity_type', sa.Text(), nullable=False),
    sa.Column('summary', sa.Text(), nullable=True),
    sa.Column('segmented', sa.Text(), nullable=True),
    sa.Column('scope', sa.Text(), nullable=False),
    sa.Column('first_seen_at', sa.Integer(), nullable=False),
    sa.Column('last_seen_at', sa.Integer(), nullable=False),
    sa.CheckConstraint("entity_type IN ('person', 'tool', 'concept', 'project', 'language', 'file', 'config', 'organization')", name=op.f('ck_graph_entities_entity_type')),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_graph_entities')),
    sa.UniqueConstraint('namespace', 'canonical_name', 'entity_type', name=op.f('uq_graph_entities_namespace_canonical_name_entity_type')),
    sqlite_autoincrement=True
    )
    op.create_index(op.f('ix_graph_entities_namespace_last_seen_at'), 'graph_entities', ['namespace', 'last_seen_at'], unique=False)
    op.create_table('graph_metadata',
    sa.Column('namespace', sa.Text(), nullable=False),
    sa.Column('key', sa.Text(), nullable=False),
    sa.Column('value', sa.Text(), nullable=False),
    sa.PrimaryKeyConstraint('namespace', 'key', name=op.f('pk_graph_metadata'))
    )
    op.create_table('jobs',
    sa.Column('id', sa.Integer(), nullable=False),
    sa.Column('namespace', sa.Text(), nullable=False),
    sa.Column('kind', sa.Text(), nullable=False),
    sa.Column('queue', sa.Text(), nullable=False),
    sa.Column('dedupe_key', sa.Text(), nullable=True),
    sa.Column('payload', sa.Text(), nullable=False),
    sa.Column('state', sa.Text(), server_default=sa.text("'pending'"), nullable=False),
    sa.Column('priority', sa.Integer(), server_default=sa.text('0'), nullable=False),
    sa.Column('attempts', sa.Integer(), server_default=sa.text('0'), nullable=False),
    sa.Column('lost_leases', sa.Integer(), server_default=sa.text('0'), nullable=False),
    sa.Column('cancel_requested', sa.Integer(), server_default=sa.text('0'), nullable=False),
    sa.Column('run_after', sa.Integer(), nullable=False),
    sa.Column('dispatched_at', sa.Integer(), nullable=True),
    sa.Column('lease_token', sa.Text(), nullable=True),
    sa.Column('lease_until', sa.Integer(), nullable=True),
    sa.Column('lapsed_at', sa.Integer(), nullable=True),
    sa.Column('error_type', sa.Text(), nullable=True),
    sa.Column('error_message', sa.Text(), nullable=True),
    sa.Column('outcome', sa.Text(), nullable=True),
    sa.Column('parent_id', sa.Integer(), nullable=True),
    sa.Column('children_open', sa.Integer(), server_default=sa.text('0'), nullable=False),
    sa.Column('created_at', sa.Integer(), nullable=False),
    sa.Column('started_at', sa.Integer(), nullable=True),
    sa.Column('finished_at', sa.Integer(), nullable=True),
    sa.CheckConstraint("state IN ('pending', 'running', 'waiting', 'done', 'dead')", name=op.f('ck_jobs_state')),
    sa.ForeignKeyConstraint(['parent_id'], ['jobs.id'], name=op.f('fk_jobs_parent_id_jobs'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_jobs')),
    sqlite_autoincrement=True
    )
    op.create_index('ix_jobs_due', 'jobs', ['queue', 'namespace', 'priority', 'run_after', 'id'], unique=False, sqlite_where=sa.text("state = 'pending'"))
    op.create_index('ix_jobs_finished', 'jobs', ['state', 'finished_at'], unique=False)
    op.create_index('ix_jobs_leases', 'jobs', ['lease_until'], unique=False, sqlite_where=sa.text("state = 'running'"))
    op.create_index('ix_jobs_parent', 'jobs', ['parent_id', 'state'], unique=False)
    op.create_index('uq_jobs_child', 'jobs', ['parent_id', 'kind', 'dedupe_key'], unique=True, sqlite_where=sa.text('parent_id IS NOT NULL AND dedupe_key IS NOT NULL'))
    op.create_index('uq_jobs_live', 'jobs', ['namespace', 'kind', 'dedupe_key'], unique=True, sqlite_where=sa.text("state IN ('pending', 'running', 'waiting')"))
    op.create_table('model_replies',
    sa.Column('namespace', sa.Text(), nullable=False),
    sa.Column('key', sa.Text(), nullable=False),
    sa.Column('model', sa.Text(), nullable=False),
    sa.Column('reply', sa.Text(), nullable=False),
    sa.Column('prompt_tokens', sa.Integer(), nullable=False),
    sa.Column('completion_tokens', sa.Integer(), nullable=False),
    sa.Column('unusable', sa.Integer(), server_default=sa.text('0'), nullable=False),
    sa.Column('created_at', sa.Integer(), nullable=False),
    sa.PrimaryKeyConstraint('namespace', 'key', name=op.f('pk_model_replies'))
    )
    op.create_index(op.f('ix_model_replies_created_at'), 'model_replies', ['created_at'], unique=False)
    op.create_table('periodic_runs',
    sa.Column('kind', sa.Text(), nullable=False),
    sa.Column('period', sa.Integer(), nullable=False),
    sa.PrimaryKeyConstraint('kind', name=op.f('pk_periodic_runs'))
    )
    op.create_table('response_cache',
    sa.Column('namespace', sa.Text(), nullable=False),
    sa.Column('cache_key', sa.Text(), nullable=False),
    sa.Column('model', sa.Text(), nullable=False),
    sa.Column('response', sa.Text(), nullable=False),
    sa.Column('size_bytes', sa.Integer(), server_default=sa.text('0'), nullable=False),
    sa.Column('hits', sa.Integer(), server_default=sa.text('0'), nullable=False),
    sa.Column('frame_key', sa.Text(), nullable=True),
    sa.Column('embedding', sa.LargeBinary(), nullable=True),
    sa.Column('embedding_space', sa.Text(), nullable=True),
    sa.Column('created_at', sa.Integer(), nullable=False),
    sa.Column('expires_at', sa.Integer(), nullable=False),
    sa.PrimaryKeyConstraint('namespace', 'cache_key', name=op.f('pk_response_cache'))
    )
    op.create_index('ix_response_cache_age', 'response_cache', ['created_at', 'size_bytes'], unique=False)
    op.create_index(op.f('ix_response_cache_expires_at'), 'response_cache', ['expires_at'], unique=False)
    op.create_index('ix_response_cache_similar', 'response_cache', ['namespace', 'frame_key', 'embedding_space', 'created_at'], unique=False, sqlite_where=sa.text('frame_key IS NOT NULL'))
    op.create_table('response_leases',
    sa.Column('namespace', sa.Text(), nullable=False),
    sa.Column('cache_key', sa.Text(), nullable=False),
    sa.Column('token', sa.Text(), nullable=False),
    sa.Column('lease_until', sa.Integer(), nullable=False),
    sa.PrimaryKeyConstraint('namespace', 'cache_key', name=op.f('pk_response_leases'))
    )
    op.create_table('vector_collections',
    sa.Column('name', sa.Text(), nullable=False),
    sa.Column('dimension', sa.Integer(), nullable=False),
    sa.PrimaryKeyConstraint('name', name=op.f('pk_vector_collections'))
    )
    op.create_table('vector_tombstones',
    sa.Column('id', sa.Integer(), nullable=False),
    sa.Column('namespace', sa.Text(), nullable=False),
    sa.Column('collection', sa.Text(), nullable=False),
    sa.Column('point_id', sa.Text(), nullable=False),
    sa.Column('created_at', sa.Integer(), nullable=False),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_vector_tombstones')),
    sa.UniqueConstraint('namespace', 'collection', 'point_id', name=op.f('uq_vector_tombstones_namespace_collection_point_id')),
    sqlite_autoincrement=True
    )
    op.create_table('acp_sessions',
    sa.Column('namespace', sa.Text(), nullable=False),
    sa.Column('id', sa.Text(), nullable=False),
    sa.Column('title', sa.Text(), nullable=True),
    sa.Column('conversation_id', sa.Integer(), nullable=True),
    sa.Column('created_at', sa.Integer(), nullable=False),
    sa.Column('updated_at', sa.Integer(), nullable=False),
    sa.ForeignKeyConstraint(['conversation_id'], ['conversations.id'], name=op.f('fk_acp_sessions_conversation_id_conversations'), ondelete='SET NULL'),
    sa.PrimaryKeyConstraint('namespace', 'id', name=op.f('pk_acp_sessions'))
    )
    op.create_index(op.f('ix_acp_sessions_namespace_created_at'), 'acp_sessions', ['namespace', 'created_at'], unique=False)
    op.create_table('chunks',
    sa.Column('id', sa.Integer(), nullable=False),
    sa.Column('namespace', sa.Text(), nullable=False),
    sa.Column('document_id', sa.Integer(), nullable=False),
    sa.Column('position', sa.Integer(), nullable=False),
    sa.Column('start_offset', sa.Integer(), nullable=False),
    sa.Column('end_offset', sa.Integer(), nullable=False),
    sa.Column('page', sa.Integer(), nullable=True),
    sa.Column('tokens', sa.Integer(), nullable=False),
    sa.Column('heading', sa.Text(), nullable=False),
    sa.Column('context', sa.Text(), nullable=False),
    sa.Column('text', sa.Text(), nullable=False),
    sa.Column('segmented', sa.Text(), nullable=True),
    sa.Column('scope', sa.Text(), nullable=False),
    sa.Column('content_hash', sa.Text(), nullable=False),
    sa.Column('occurrence', sa.Integer(), nullable=False),
    sa.Column('graph_extractor', sa.Text(), nullable=True),
    sa.Column('created_at', sa.Integer(), nullable=False),
    sa.ForeignKeyConstraint(['document_id'], ['documents.id'], name=op.f('fk_chunks_document_id_documents'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_chunks')),
    sa.UniqueConstraint('namespace', 'document_id', 'content_hash', 'occurrence', name=op.f('uq_chunks_namespace_document_id_content_hash_occurrence')),
    sqlite_autoincrement=True
    )
    op.create_index(op.f('ix_chunks_document_id_position'), 'chunks', ['document_id', 'position'], unique=False)
    op.create_table('entity_embeddings',
    sa.Column('entity_id', sa.Integer(), nullable=False),
    sa.Column('collection', sa.Text(), nullable=False),
    sa.Column('windows', sa.Integer(), nullable=False),
    sa.Column('created_at', sa.Integer(), nullable=False),
    sa.ForeignKeyConstraint(['entity_id'], ['graph_entities.id'], name=op.f('fk_entity_embeddings_entity_id_graph_entities'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('entity_id', 'collection', name=op.f('pk_entity_embeddings'))
    )
    op.create_table('graph_community_members',
    sa.Column('entity_id', sa.Integer(), nullable=False),
    sa.Column('community_id', sa.Integer(), nullable=False),
    sa.ForeignKeyConstraint(['community_id'], ['graph_communities.id'], name=op.f('fk_graph_community_members_community_id_graph_communities'), ondelete='CASCADE'),
    sa.ForeignKeyConstraint(['entity_id'], ['graph_entities.id'], name=op.f('fk_graph_community_members_entity_id_graph_entities'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('entity_id', name=op.f('pk_graph_community_members'))
    )
    op.create_index(op.f('ix_graph_community_members_community_id'), 'graph_community_members', ['community_id'], unique=False)
    op.create_table('graph_edges',
    sa.Column('id', sa.Integer(), nullable=False),
    sa.Column('namespace', sa.Text(), nullable=False),
    sa.Column('source_entity_id', sa.Integer(), nullable=False),
    sa.Column('target_entity_id', sa.Integer(), nullable=False),
    sa.Column('relation', sa.Text(), nullable=False),
    sa.Column('fact', sa.Text(), nullable=False),
    sa.Column('confidence', sa.REAL(), nullable=False),
    sa.Column('valid_from', sa.Integer(), nullable=False),
    sa.Column('valid_to', sa.Integer(), nullable=True),
    sa.Column('created_at', sa.Integer(), nullable=False),
    sa.Column('expired_at', sa.Integer(), nullable=True),
    sa.Column('superseded_by_id', sa.Integer(), nullable=True),
    sa.CheckConstraint('confidence BETWEEN 0 AND 1', name=op.f('ck_graph_edges_confidence')),
    sa.CheckConstraint('source_entity_id <> target_entity_id', name=op.f('ck_graph_edges_no_self_loop')),
    sa.ForeignKeyConstraint(['source_entity_id'], ['graph_entities.id'], name=op.f('fk_graph_edges_source_entity_id_graph_entities'), ondelete='CASCADE'),
    sa.ForeignKeyConstraint(['superseded_by_id'], ['graph_edges.id'], name=op.f('fk_graph_edges_superseded_by_id_graph_edges'), ondelete='SET NULL'),
    sa.ForeignKeyConstraint(['target_entity_id'], ['graph_entities.id'], name=op.f('fk_graph_edges_target_entity_id_graph_entities'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_graph_edges')),
    sqlite_autoincrement=True
    )
    op.create_index('ix_graph_edges_expired', 'graph_edges', ['expired_at'], unique=False, sqlite_where=sa.text('expired_at IS NOT NULL'))
    op.create_index(op.f('ix_graph_edges_namespace_source_entity_id_confidence'), 'graph_edges', ['namespace', 'source_entity_id', 'confidence'], unique=False)
    op.create_index(op.f('ix_graph_edges_namespace_target_entity_id_confidence'), 'graph_edges', ['namespace', 'target_entity_id', 'confidence'], unique=False)
    op.create_index(op.f('ix_graph_edges_source_entity_id_relation_target_entity_id'), 'graph_edges', ['source_entity_id', 'relation', 'target_entity_id'], unique=False)
    op.create_index('ix_graph_edges_superseded', 'graph_edges', ['superseded_by_id'], unique=False, sqlite_where=sa.text('superseded_by_id IS NOT NULL'))
    op.create_index(op.f('ix_graph_edges_target_entity_id'), 'graph_edges', ['target_entity_id'], unique=False)
    op.create_index('uq_graph_edges_active', 'graph_edges', ['namespace', 'source_entity_id', 'target_entity_id', 'relation'], unique=True, sqlite_where=sa.text('valid_to IS NULL AND expired_at IS NULL'))
    op.create_table('graph_entity_aliases',
    sa.Column('id', sa.Integer(), nullable=False),
    sa.Column('namespace', sa.Text(), nullable=False),
    sa.Column('entity_id', sa.Integer(), nullable=False),
    sa.Column('alias_name', sa.Text(), nullable=False),
    sa.Column('created_at', sa.Integer(), nullable=False),
    sa.ForeignKeyConstraint(['entity_id'], ['graph_entities.id'], name=op.f('fk_graph_entity_aliases_entity_id_graph_entities'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_graph_entity_aliases')),
    sa.UniqueConstraint('namespace', 'alias_name', 'entity_id', name=op.f('uq_graph_entity_aliases_namespace_alias_name_entity_id')),
    sqlite_autoincrement=True
    )
    op.create_index(op.f('ix_graph_entity_aliases_entity_id'), 'graph_entity_aliases', ['entity_id'], unique=False)
    op.create_table('messages',
    sa.Column('id', sa.Integer(), nullable=False),
    sa.Column('namespace', sa.Text(), nullable=False),
    sa.Column('conversation_id', sa.Integer(), nullable=False),
    sa.Column('role', sa.Text(), nullable=False),
    sa.Column('speaker', sa.Text(), nullable=True),
    sa.Column('origin', sa.Text(), server_default=sa.text("'user'"), nullable=False),
    sa.Column('content', sa.Text(), nullable=False),
    sa.Column('segmented', sa.Text(), nullable=True),
    sa.Column('around', sa.Text(), server_default=sa.text("''"), nullable=False),
    sa.Column('scope', sa.Text(), nullable=False),
    sa.Column('parts', sa.Text(), server_default=sa.text("'[]'"), nullable=False),
    sa.Column('content_hash', sa.Text(), nullable=False),
    sa.Column('import_key', sa.Text(), nullable=True),
    sa.Column('embeddable', sa.Integer(), server_default=sa.text('1'), nullable=False),
    sa.Column('agent_visible', sa.Integer(), server_default=sa.text('1'), nullable=False),
    sa.Column('user_visible', sa.Integer(), server_default=sa.text('1'), nullable=False),
    sa.Column('created_at', sa.Integer(), nullable=False),
    sa.Column('compacted_at', sa.Integer(), nullable=True),
    sa.Column('deleted_at', sa.Integer(), nullable=True),
    sa.Column('last_accessed_at', sa.Integer(), nullable=True),
    sa.Column('access_count', sa.Integer(), server_default=sa.text('0'), nullable=False),
    sa.Column('graph_extractor', sa.Text(), nullable=True),
    sa.CheckConstraint("role IN ('system', 'user', 'assistant')", name=op.f('ck_messages_role')),
    sa.ForeignKeyConstraint(['conversation_id'], ['conversations.id'], name=op.f('fk_messages_conversation_id_conversations'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_messages')),
    sqlite_autoincrement=True
    )
    op.create_index('ix_messages_conversation_id', 'messages', ['conversation_id'], unique=False)
    op.create_index(op.f('ix_messages_namespace_conversation_id_id'), 'messages', ['namespace', 'conversation_id', 'id'], unique=False)
    op.create_index(op.f('ix_messages_namespace_created_at'), 'messages', ['namespace', 'created_at'], unique=False)
    op.create_index('uq_messages_import_key', 'messages', ['conversation_id', 'import_key'], unique=True, sqlite_where=sa.text('import_key IS NOT NULL'))
    op.create_table('response_sources',
    sa.Column('namespace', sa.Text(), nullable=False),
    sa.Column('cache_key', sa.Text(), nullable=False),
    sa.Column('kind', sa.Text(), nullable=False),
    sa.Column('source_id', sa.Integer(), nullable=False),
    sa.ForeignKeyConstraint(['namespace', 'cache_key'], ['response_cache.namespace', 'response_cache.cache_key'], name=op.f('fk_response_sources_namespace_cache_key_response_cache'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('namespace', 'cache_key', 'kind', 'source_id', name=op.f('pk_response_sources'))
    )
    op.create_index(op.f('ix_response_sources_kind_source_id'), 'response_sources', ['kind', 'source_id'], unique=False)
    op.create_table('vector_namespaces',
    sa.Column('collection', sa.Text(), nullable=False),
    sa.Column('namespace', sa.Text(), nullable=False),
    sa.Column('change', sa.Integer(), server_default=sa.text('0'), nullable=False),
    sa.Column('purged', sa.Integer(), server_default=sa.text('0'), nullable=False),
    sa.ForeignKeyConstraint(['collection'], ['vector_collections.name'], name=op.f('fk_vector_namespaces_collection_vector_collections'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('collection', 'namespace', name=op.f('pk_vector_namespaces'))
    )
    op.create_table('vector_points',
    sa.Column('rowid', sa.Integer(), nullable=False),
    sa.Column('collection', sa.Text(), nullable=False),
    sa.Column('namespace', sa.Text(), nullable=False),
    sa.Column('id', sa.Text(), nullable=False),
    sa.Column('change', sa.Integer(), nullable=False),
    sa.Column('vector', sa.LargeBinary(), nullable=True),
    sa.Column('payload', sa.Text(), nullable=False),
    sa.ForeignKeyConstraint(['collection'], ['vector_collections.name'], name=op.f('fk_vector_points_collection_vector_collections'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('rowid', name=op.f('pk_vector_points')),
    sa.UniqueConstraint('namespace', 'collection', 'id', name=op.f('uq_vector_points_namespace_collection_id'))
    )
    op.create_index('ix_vector_points_deleted', 'vector_points', ['namespace', 'collection'], unique=False, sqlite_where=sa.text('vector IS NULL'))
    op.create_index(op.f('ix_vector_points_namespace_collection_change'), 'vector_points', ['namespace', 'collection', 'change'], unique=False)
    op.create_table('acp_session_events',
    sa.Column('id', sa.Integer(), nullable=False),
    sa.Column('namespace', sa.Text(), nullable=False),
    sa.Column('session_id', sa.Text(), nullable=False),
    sa.Column('event_type', sa.Text(), nullable=False),
    sa.Column('payload', sa.Text(), nullable=False),
    sa.Column('created_at', sa.Integer(), nullable=False),
    sa.ForeignKeyConstraint(['namespace', 'session_id'], ['acp_sessions.namespace', 'acp_sessions.id'], name=op.f('fk_acp_session_events_namespace_session_id_acp_sessions'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_acp_session_events')),
    sqlite_autoincrement=True
    )
    op.create_index(op.f('ix_acp_session_events_namespace_session_id_id'), 'acp_session_events', ['namespace', 'session_id', 'id'], unique=False)
    op.create_table('chunk_embeddings',
    sa.Column('chunk_id', sa.Integer(), nullable=False),
    sa.Column('collection', sa.Text(), nullable=False),
    sa.Column('windows', sa.Integer(), nullable=False),
    sa.Column('created_at', sa.Integer(), nullable=False),
    sa.ForeignKeyConstraint(['chunk_id'], ['chunks.id'], name=op.f('fk_chunk_embeddings_chunk_id_chunks'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('chunk_id', 'collection', name=op.f('pk_chunk_embeddings'))
    )
    op.create_table('graph_edge_sources',
    sa.Column('id', sa.Integer(), nullable=False),
    sa.Column('edge_id', sa.Integer(), nullable=False),
    sa.Column('message_id', sa.Integer(), nullable=True),
    sa.Column('chunk_id', sa.Integer(), nullable=True),
    sa.Column('extractor', sa.Text(), nullable=False),
    sa.Column('evidence', sa.Text(), nullable=False),
    sa.Column('stated_at', sa.Integer(), nullable=False),
    sa.Column('job_id', sa.Integer(), nullable=True),
    sa.Column('created_at', sa.Integer(), nullable=False),
    sa.ForeignKeyConstraint(['chunk_id'], ['chunks.id'], name=op.f('fk_graph_edge_sources_chunk_id_chunks'), ondelete='CASCADE'),
    sa.ForeignKeyConstraint(['edge_id'], ['graph_edges.id'], name=op.f('fk_graph_edge_sources_edge_id_graph_edges'), ondelete='CASCADE'),
    sa.ForeignKeyConstraint(['message_id'], ['messages.id'], name=op.f('fk_graph_edge_sources_message_id_messages'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_graph_edge_sources')),
    sa.UniqueConstraint('edge_id', 'chunk_id', 'extractor', name=op.f('uq_graph_edge_sources_edge_id_chunk_id_extractor')),
    sa.UniqueConstraint('edge_id', 'message_id', 'extractor', name=op.f('uq_graph_edge_sources_edge_id_message_id_extractor')),
    sqlite_autoincrement=True
    )
    op.create_index(op.f('ix_graph_edge_sources_chunk_id'), 'graph_edge_sources', ['chunk_id'], unique=False)
    op.create_index(op.f('ix_graph_edge_sources_message_id'), 'graph_edge_sources', ['message_id'], unique=False)
    op.create_table('graph_entity_sources',
    sa.Column('id', sa.Integer(), nullable=False),
    sa.Column('entity_id', sa.Integer(), nullable=False),
    sa.Column('message_id', sa.Integer(), nullable=True),
    sa.Column('chunk_id', sa.Integer(), nullable=True),
    sa.Column('extractor', sa.Text(), nullable=False),
    sa.Column('summary', sa.Text(), nullable=True),
    sa.Column('created_at', sa.Integer(), nullable=False),
    sa.ForeignKeyConstraint(['chunk_id'], ['chunks.id'], name=op.f('fk_graph_entity_sources_chunk_id_chunks'), ondelete='CASCADE'),
    sa.ForeignKeyConstraint(['entity_id'], ['graph_entities.id'], name=op.f('fk_graph_entity_sources_entity_id_graph_entities'), ondelete='CASCADE'),
    sa.ForeignKeyConstraint(['message_id'], ['messages.id'], name=op.f('fk_graph_entity_sources_message_id_messages'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_graph_entity_sources')),
    sa.UniqueConstraint('entity_id', 'chunk_id', 'extractor', name=op.f('uq_graph_entity_sources_entity_id_chunk_id_extractor')),
    sa.UniqueConstraint('entity_id', 'message_id', 'extractor', name=op.f('uq_graph_entity_sources_entity_id_message_id_extractor')),
    sqlite_autoincrement=True
    )
    op.create_index(op.f('ix_graph_entity_sources_chunk_id'), 'graph_entity_sources', ['chunk_id'], unique=False)
    op.create_index(op.f('ix_graph_entity_sources_message_id'), 'graph_entity_sources', ['message_id'], unique=False)
    op.create_table('message_embeddings',
    sa.Column('message_id', sa.Integer(), nullable=False),
    sa.Column('collection', sa.Text(), nullable=False),
    sa.Column('windows', sa.Integer(), nullable=False),
    sa.Column('created_at', sa.Integer(), nullable=False),
    sa.ForeignKeyConstraint(['message_id'], ['messages.id'], name=op.f('fk_message_embeddings_message_id_messages'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('message_id', 'collection', name=op.f('pk_message_embeddings'))
    )
    op.create_table('summaries',
    sa.Column('id', sa.Integer(), nullable=False),
    sa.Column('namespace', sa.Text(), nullable=False),
    sa.Column('conversation_id', sa.Integer(), nullable=False),
    sa.Column('content', sa.Text(), nullable=False),
    sa.Column('first_message_id', sa.Integer(), nullable=True),
    sa.Column('last_message_id', sa.Integer(), nullable=True),
    sa.Column('token_estimate', sa.Integer(), nullable=False),
    sa.Column('segmented', sa.Text(), nullable=True),
    sa.Column('scope', sa.Text(), nullable=False),
    sa.Column('created_at', sa.Integer(), nullable=False),
    sa.ForeignKeyConstraint(['conversation_id'], ['conversations.id'], name=op.f('fk_summaries_conversation_id_conversations'), ondelete='CASCADE'),
    sa.ForeignKeyConstraint(['first_message_id'], ['messages.id'], name=op.f('fk_summaries_first_message_id_messages'), ondelete='SET NULL'),
    sa.ForeignKeyConstraint(['last_message_id'], ['messages.id'], name=op.f('fk_summaries_last_message_id_messages'), ondelete='SET NULL'),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_summaries')),
    sqlite_autoincrement=True
    )
    op.create_index('ix_summaries_conversation_id', 'summaries', ['conversation_id'], unique=False)
    op.create_index(op.f('ix_summaries_namespace_conversation_id_id'), 'summaries', ['namespace', 'conversation_id', 'id'], unique=False)
    op.create_table('undetected_messages',
    sa.Column('message_id', sa.Integer(), nullable=False),
    sa.ForeignKeyConstraint(['message_id'], ['messages.id'], name=op.f('fk_undetected_messages_message_id_messages'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('message_id', name=op.f('pk_undetected_messages'))
    )
    op.create_table('zeph_corrections',
    sa.Column('id', sa.Integer(), nullable=False),
    sa.Column('namespace', sa.Text(), nullable=False),
    sa.Column('session_id', sa.Text(), nullable=True),
    sa.Column('message_id', sa.Integer(), nullable=True),
    sa.Column('target_message_id', sa.Integer(), nullable=True),
    sa.Column('lowers', sa.Integer(), server_default=sa.text('0'), nullable=False),
    sa.Column('standing', sa.Integer(), server_default=sa.text('0'), nullable=False),
    sa.Column('request_message_id', sa.Integer(), nullable=True),
    sa.Column('request', sa.Text(), server_default=sa.text("''"), nullable=False),
    sa.Column('original_output', sa.Text(), nullable=False),
    sa.Column('correction_text', sa.Text(), nullable=False),
    sa.Column('segmented', sa.Text(), nullable=False),
    sa.Column('scope', sa.Text(), nullable=False),
    sa.Column('skill_name', sa.Text(), nullable=True),
    sa.Column('kind', sa.Text(), nullable=False),
    sa.Column('confidence', sa.REAL(), nullable=False),
    sa.Column('created_at', sa.Integer(), nullable=False),
    sa.Column('retired_at', sa.Integer(), nullable=True),
    sa.ForeignKeyConstraint(['message_id'], ['messages.id'], name=op.f('fk_zeph_corrections_message_id_messages'), ondelete='SET NULL'),
    sa.ForeignKeyConstraint(['request_message_id'], ['messages.id'], name=op.f('fk_zeph_corrections_request_message_id_messages'), ondelete='SET NULL'),
    sa.ForeignKeyConstraint(['target_message_id'], ['messages.id'], name=op.f('fk_zeph_corrections_target_message_id_messages'), ondelete='SET NULL'),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_zeph_corrections')),
    sa.UniqueConstraint('namespace', 'message_id', name=op.f('uq_zeph_corrections_namespace_message_id')),
    sqlite_autoincrement=True
    )
    op.create_index(op.f('ix_zeph_corrections_message_id'), 'zeph_corrections', ['message_id'], unique=False)
    op.create_index(op.f('ix_zeph_corrections_namespace_session_id_id'), 'zeph_corrections', ['namespace', 'session_id', 'id'], unique=False)
    op.create_index(op.f('ix_zeph_corrections_namespace_skill_name_id'), 'zeph_corrections', ['namespace', 'skill_name', 'id'], unique=False)
    op.create_index(op.f('ix_zeph_corrections_namespace_standing_id'), 'zeph_corrections', ['namespace', 'standing', 'id'], unique=False)
    op.create_index(op.f('ix_zeph_corrections_request_message_id'), 'zeph_corrections', ['request_message_id'], unique=False)
    op.create_index(op.f('ix_zeph_corrections_target_message_id'), 'zeph_corrections', ['target_message_id'], unique=False)
    op.create_table('correction_embeddings',
    sa.Column('correction_id', sa.Integer(), nullable=False),
    sa.Column('collection', sa.Text(), nullable=False),
    sa.Column('windows', sa.Integer(), nullable=False),
    sa.Column('created_at', sa.Integer(), nullable=False),
    sa.ForeignKeyConstraint(['correction_id'], ['zeph_corrections.id'], name=op.f('fk_correction_embeddings_correction_id_zeph_corrections'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('correction_id', 'collection', name=op.f('pk_correction_embeddings'))
    )
    op.create_table('correction_facts',
    sa.Column('correction_id', sa.Integer(), nullable=False),
    sa.Column('edge_id', sa.Integer(), nullable=False),
    sa.ForeignKeyConstraint(['correction_id'], ['zeph_corrections.id'], name=op.f('fk_correction_facts_correction_id_zeph_corrections'), ondelete='CASCADE'),
    sa.ForeignKeyConstraint(['edge_id'], ['graph_edges.id'], name=op.f('fk_correction_facts_edge_id_graph_edges'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('correction_id', 'edge_id', name=op.f('pk_correction_facts'))
    )
    op.create_index(op.f('ix_correction_facts_edge_id'), 'correction_facts', ['edge_id'], unique=False)
    op.create_table('key_facts',
    sa.Column('id', sa.Integer(), nullable=False),
    sa.Column('namespace', sa.Text(), nullable=False),
    sa.Column('conversation_id', sa.Integer(), nullable=False),
    sa.Column('summary_id', sa.Integer(), nullable=False),
    sa.Column('fact', sa.Text(), nullable=False),
    sa.Column('segmented', sa.Text(), nullable=True),
    sa.Column('scope', sa.Text(), nullable=False),
    sa.Column('content_hash', sa.Text(), nullable=False),
    sa.Column('created_at', sa.Integer(), nullable=False),
    sa.ForeignKeyConstraint(['conversation_id'], ['conversations.id'], name=op.f('fk_key_facts_conversation_id_conversations'), ondelete='CASCADE'),
    sa.ForeignKeyConstraint(['summary_id'], ['summaries.id'], name=op.f('fk_key_facts_summary_id_summaries'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_key_facts')),
    sa.UniqueConstraint('namespace', 'content_hash', name=op.f('uq_key_facts_namespace_content_hash')),
    sqlite_autoincrement=True
    )
    op.create_index(op.f('ix_key_facts_conversation_id'), 'key_facts', ['conversation_id'], unique=False)
    op.create_index(op.f('ix_key_facts_summary_id'), 'key_facts', ['summary_id'], unique=False)
    op.create_table('summary_embeddings',
    sa.Column('summary_id', sa.Integer(), nullable=False),
    sa.Column('collection', sa.Text(), nullable=False),
    sa.Column('windows', sa.Integer(), nullable=False),
    sa.Column('created_at', sa.Integer(), nullable=False),
    sa.ForeignKeyConstraint(['summary_id'], ['summaries.id'], name=op.f('fk_summary_embeddings_summary_id_summaries'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('summary_id', 'collection', name=op.f('pk_summary_embeddings'))
    )
    op.create_table('key_fact_embeddings',
    sa.Column('key_fact_id', sa.Integer(), nullable=False),
    sa.Column('collection', sa.Text(), nullable=False),
    sa.Column('windows', sa.Integer(), nullable=False),
    sa.Column('created_at', sa.Integer(), nullable=False),
    sa.ForeignKeyConstraint(['key_fact_id'], ['key_facts.id'], name=op.f('fk_key_fact_embeddings_key_fact_id_key_facts'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('key_fact_id', 'collection', name=op.f('pk_key_fact_embeddings'))
    )
    for statement in FULL_TEXT_SQL:
        op.execute(statement)


def downgrade() -> None:
    # Dropping a table deletes its rows first, which would fire the triggers.
    for name in FULL_TEXT_TABLES:
        for event in ("insert", "delete", "update"):
            op.execute(f"DROP TRIGGER {name}_{event}")
        op.execute(f"DROP TABLE {name}")
        op.execute(f"DROP VIEW {name}_source")
    op.drop_table('key_fact_embeddings')
    op.drop_table('summary_embeddings')
    op.drop_index(op.f('ix_key_facts_summary_id'), table_name='key_facts')
    op.drop_index(op.f('ix_key_facts_conversation_id'), table_name='key_facts')
    op.drop_table('key_facts')
    op.drop_index(op.f('ix_correction_facts_edge_id'), table_name='correction_facts')
    op.drop_table('correction_facts')
    op.drop_table('correction_embeddings')
    op.drop_index(op.f('ix_zeph_corrections_target_message_id'), table_name='zeph_corrections')
    op.drop_index(op.f('ix_zeph_corrections_request_message_id'), table_name='zeph_corrections')
    op.drop_index(op.f('ix_zeph_corrections_namespace_standing_id'), table_name='zeph_corrections')
    op.drop_index(op.f('ix_zeph_corrections_namespace_skill_name_id'), table_name='zeph_corrections')
    op.drop_index(op.f('ix_zeph_corrections_namespace_session_id_id'), table_name='zeph_corrections')
    op.drop_index(op.f('ix_zeph_corrections_message_id'), table_name='zeph_corrections')
    op.drop_table('zeph_corrections')
    op.drop_table('undetected_messages')
    op.drop_index(op.f('ix_summaries_namespace_conversation_id_id'), table_name='summaries')
    op.drop_index('ix_summaries_conversation_id', table_name='summaries')
    op.drop_table('summaries')
    op.drop_table('message_embeddings')
    op.drop_index(op.f('ix_graph_entity_sources_message_id'), table_name='graph_entity_sources')
    op.drop_index(op.f('ix_graph_entity_sources_chunk_id'), table_name='graph_entity_sources')
    op.drop_table('graph_entity_sources')
    op.drop_index(op.f('ix_graph_edge_sources_message_id'), table_name='graph_edge_sources')
    op.drop_index(op.f('ix_graph_edge_sources_chunk_id'), table_name='graph_edge_sources')
    op.drop_table('graph_edge_sources')
    op.drop_table('chunk_embeddings')
    op.drop_index(op.f('ix_acp_session_events_namespace_session_id_id'), table_name='acp_session_events')
    op.drop_table('acp_session_events')
    op.drop_index(op.f('ix_vector_points_namespace_collection_change'), table_name='vector_points')
    op.drop_index('ix_vector_points_deleted', table_name='vector_points', sqlite_where=sa.text('vector IS NULL'))
    op.drop_table('vector_points')
    op.drop_table('vector_namespaces')
    op.drop_index(op.f('ix_response_sources_kind_source_id'), table_name='response_sources')
    op.drop_table('response_sources')
    op.drop_index('uq_messages_import_key', table_name='messages', sqlite_where=sa.text('import_key IS NOT NULL'))
    op.drop_index(op.f('ix_messages_namespace_created_at'), table_name='messages')
    op.drop_index(op.f('ix_messages_namespace_conversation_id_id'), table_name='messages')
    op.drop_index('ix_messages_conversation_id', table_name='messages')
    op.drop_table('messages')
    op.drop_index(op.f('ix_graph_entity_aliases_entity_id'), table_name='graph_entity_aliases')
    op.drop_table('graph_entity_aliases')
    op.drop_index('uq_graph_edges_active', table_name='graph_edges', sqlite_where=sa.text('valid_to IS NULL AND expired_at IS NULL'))
    op.drop_index(op.f('ix_graph_edges_target_entity_id'), table_name='graph_edges')
    op.drop_index('ix_graph_edges_superseded', table_name='graph_edges', sqlite_where=sa.text('superseded_by_id IS NOT NULL'))
    op.drop_index(op.f('ix_graph_edges_source_entity_id_relation_target_entity_id'), table_name='graph_edges')
    op.drop_index(op.f('ix_graph_edges_namespace_target_entity_id_confidence'), table_name='graph_edges')
    op.drop_index(op.f('ix_graph_edges_namespace_source_entity_id_confidence'), table_name='graph_edges')
    op.drop_index('ix_graph_edges_expired', table_name='graph_edges', sqlite_where=sa.text('expired_at IS NOT NULL'))
    op.drop_table('graph_edges')
    op.drop_index(op.f('ix_graph_community_members_community_id'), table_name='graph_community_members')
    op.drop_table('graph_community_members')
    op.drop_table('entity_embeddings')
    op.drop_index(op.f('ix_chunks_document_id_position'), table_name='chunks')
    op.drop_table('chunks')
    op.drop_index(op.f('ix_acp_sessions_namespace_created_at'), table_name='acp_sessions')
    op.drop_table('acp_sessions')
    op.drop_table('vector_tombstones')
    op.drop_table('vector_collections')
    op.drop_table('response_leases')
    op.drop_index('ix_response_cache_similar', table_name='response_cache', sqlite_where=sa.text('frame_key IS NOT NULL'))
    op.drop_index(op.f('ix_response_cache_expires_at'), table_name='response_cache')
    op.drop_index('ix_response_cache_age', table_name='response_cache')
    op.drop_table('response_cache')
    op.drop_table('periodic_runs')
    op.drop_index(op.f('ix_model_replies_created_at'), table_name='model_replies')
    op.drop_table('model_replies')
    op.drop_index('uq_jobs_live', table_name='jobs', sqlite_where=sa.text("state IN ('pending', 'running', 'waiting')"))
    op.drop_index('uq_jobs_child', table_name='jobs', sqlite_where=sa.text('parent_id IS NOT NULL AND dedupe_key IS NOT NULL'))
    op.drop_index('ix_jobs_parent', table_name='jobs')
    op.drop_index('ix_jobs_leases', table_name='jobs', sqlite_where=sa.text("state = 'running'"))
    op.drop_index('ix_jobs_finished', table_name='jobs')
    op.drop_index('ix_jobs_due', table_name='jobs', sqlite_where=sa.text("state = 'pending'"))
    op.drop_table('jobs')
    op.drop_table('graph_metadata')
    op.drop_index(op.f('ix_graph_entities_namespace_last_seen_at'), table_name='graph_entities')
    op.drop_table('graph_entities')
    op.drop_index(op.f('ix_graph_communities_namespace'), table_name='graph_communities')
    op.drop_table('graph_communities')
    op.drop_index('uq_embedding_collections_active', table_name='embedding_collections', sqlite_where=sa.text("state = 'active'"))
    op.drop_table('embedding_collections')
    op.drop_table('documents')
    op.drop_index(op.f('ix_conversations_namespace_created_at'), table_name='conversations')
    op.drop_table('conversations')
