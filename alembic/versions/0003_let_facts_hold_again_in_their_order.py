"""Let a fact hold again only when no correction rejects it, and in its place among those told since.

Revision ID: 0003
Revises: 0002

Triggers alone. A correction that is taken up again also keeps answers that are made just then from being stored.
"""

from __future__ import annotations

from alembic import op

revision: str = "0003"
down_revision: str | None = "0002"
branch_labels: None = None
depends_on: None = None

BEFORE = {
    "corrected_response_update": (
        "CREATE TRIGGER corrected_response_update AFTER UPDATE OF target_message_id, lowers, retired_at "
        "ON zeph_corrections BEGIN DELETE FROM response_cache WHERE (namespace, cache_key) IN (SELECT "
        "namespace, cache_key FROM response_sources WHERE kind = 'message' AND source_id = "
        "new.target_message_id); END"
    ),
    "correction_facts_delete": (
        "CREATE TRIGGER correction_facts_delete AFTER DELETE ON correction_facts BEGIN UPDATE "
        "graph_edges SET expired_at = NULL WHERE id = old.edge_id AND valid_to IS NULL AND NOT EXISTS "
        "(SELECT 1 FROM graph_edges AS twin WHERE twin.namespace = graph_edges.namespace AND "
        "twin.source_entity_id = graph_edges.source_entity_id AND twin.target_entity_id = "
        "graph_edges.target_entity_id AND twin.relation = graph_edges.relation AND twin.valid_to IS NULL "
        "AND twin.expired_at IS NULL); END"
    ),
}
AFTER = {
    "corrected_response_update": (
        "CREATE TRIGGER corrected_response_update AFTER UPDATE OF target_message_id, lowers, retired_at "
        "ON zeph_corrections BEGIN DELETE FROM response_cache WHERE (namespace, cache_key) IN (SELECT "
        "namespace, cache_key FROM response_sources WHERE kind = 'message' AND source_id = "
        "new.target_message_id); DELETE FROM response_leases WHERE namespace = new.namespace; END"
    ),
    "correction_facts_delete": (
        "CREATE TRIGGER correction_facts_delete AFTER DELETE ON correction_facts WHEN NOT EXISTS (SELECT "
        "1 FROM correction_facts AS other WHERE other.edge_id = old.edge_id) BEGIN UPDATE graph_edges "
        "SET (expired_at, valid_to, superseded_by_id) = (SELECT it.created_at, it.valid_from, it.id FROM "
        "graph_edges AS again JOIN graph_edges AS it ON it.namespace = again.namespace AND "
        "it.source_entity_id = again.source_entity_id AND it.relation = again.relation AND "
        "(it.expired_at IS NULL OR it.valid_to IS NOT NULL) AND it.valid_from > again.valid_from WHERE "
        "again.id = old.edge_id AND again.valid_to IS NULL AND again.expired_at IS NOT NULL AND "
        "again.relation IN ('born_in', 'lives_in', 'manages', 'works_at', 'works_for') ORDER BY "
        "it.valid_from, it.id LIMIT 1) WHERE id = old.edge_id AND (SELECT it.target_entity_id <> "
        "again.target_entity_id FROM graph_edges AS again JOIN graph_edges AS it ON it.namespace = "
        "again.namespace AND it.source_entity_id = again.source_entity_id AND it.relation = "
        "again.relation AND (it.expired_at IS NULL OR it.valid_to IS NOT NULL) AND it.valid_from > "
        "again.valid_from WHERE again.id = old.edge_id AND again.valid_to IS NULL AND again.expired_at "
        "IS NOT NULL AND again.relation IN ('born_in', 'lives_in', 'manages', 'works_at', 'works_for') "
        "ORDER BY it.valid_from, it.id LIMIT 1); UPDATE graph_edges SET (valid_from, created_at) = "
        "(SELECT min(again.valid_from, graph_edges.valid_from), min(again.created_at, "
        "graph_edges.created_at) FROM graph_edges AS again WHERE again.id = old.edge_id) WHERE id = "
        "(SELECT it.id FROM graph_edges AS again JOIN graph_edges AS it ON it.namespace = "
        "again.namespace AND it.source_entity_id = again.source_entity_id AND it.relation = "
        "again.relation AND it.target_entity_id = again.target_entity_id AND (it.expired_at IS NULL OR "
        "it.valid_to IS NOT NULL) WHERE again.id = old.edge_id AND again.valid_to IS NULL AND "
        "again.expired_at IS NOT NULL AND (it.valid_to IS NULL OR it.valid_from > again.valid_from) "
        "ORDER BY it.valid_from, it.id LIMIT 1); UPDATE OR IGNORE graph_edge_sources SET edge_id = "
        "(SELECT it.id FROM graph_edges AS again JOIN graph_edges AS it ON it.namespace = "
        "again.namespace AND it.source_entity_id = again.source_entity_id AND it.relation = "
        "again.relation AND it.target_entity_id = again.target_entity_id AND (it.expired_at IS NULL OR "
        "it.valid_to IS NOT NULL) WHERE again.id = old.edge_id AND again.valid_to IS NULL AND "
        "again.expired_at IS NOT NULL AND (it.valid_to IS NULL OR it.valid_from > again.valid_from) "
        "ORDER BY it.valid_from, it.id LIMIT 1) WHERE edge_id = old.edge_id AND EXISTS (SELECT it.id "
        "FROM graph_edges AS again JOIN graph_edges AS it ON it.namespace = again.namespace AND "
        "it.source_entity_id = again.source_entity_id AND it.relation = again.relation AND "
        "it.target_entity_id = again.target_entity_id AND (it.expired_at IS NULL OR it.valid_to IS NOT "
        "NULL) WHERE again.id = old.edge_id AND again.valid_to IS NULL AND again.expired_at IS NOT NULL "
        "AND (it.valid_to IS NULL OR it.valid_from > again.valid_from) ORDER BY it.valid_from, it.id "
        "LIMIT 1); UPDATE graph_edges SET superseded_by_id = (SELECT it.id FROM graph_edges AS again "
        "JOIN graph_edges AS it ON it.namespace = again.namespace AND it.source_entity_id = "
        "again.source_entity_id AND it.relation = again.relation AND it.target_entity_id = "
        "again.target_entity_id AND (it.expired_at IS NULL OR it.valid_to IS NOT NULL) WHERE again.id = "
        "old.edge_id AND again.valid_to IS NULL AND again.expired_at IS NOT NULL AND (it.valid_to IS "
        "NULL OR it.valid_from > again.valid_from) ORDER BY it.valid_from, it.id LIMIT 1) WHERE "
        "superseded_by_id = old.edge_id AND EXISTS (SELECT it.id FROM graph_edges AS again JOIN "
        "graph_edges AS it ON it.namespace = again.namespace AND it.source_entity_id = "
        "again.source_entity_id AND it.relation = again.relation AND it.target_entity_id = "
        "again.target_entity_id AND (it.expired_at IS NULL OR it.valid_to IS NOT NULL) WHERE again.id = "
        "old.edge_id AND again.valid_to IS NULL AND again.expired_at IS NOT NULL AND (it.valid_to IS "
        "NULL OR it.valid_from > again.valid_from) ORDER BY it.valid_from, it.id LIMIT 1); DELETE FROM "
        "graph_edges WHERE id = old.edge_id AND EXISTS (SELECT it.id FROM graph_edges AS again JOIN "
        "graph_edges AS it ON it.namespace = again.namespace AND it.source_entity_id = "
        "again.source_entity_id AND it.relation = again.relation AND it.target_entity_id = "
        "again.target_entity_id AND (it.expired_at IS NULL OR it.valid_to IS NOT NULL) WHERE again.id = "
        "old.edge_id AND again.valid_to IS NULL AND again.expired_at IS NOT NULL AND (it.valid_to IS "
        "NULL OR it.valid_from > again.valid_from) ORDER BY it.valid_from, it.id LIMIT 1); UPDATE "
        "graph_edges SET expired_at = NULL WHERE id = old.edge_id AND valid_to IS NULL; UPDATE "
        "graph_edges SET (expired_at, valid_to) = (SELECT max(again.created_at, graph_edges.created_at), "
        "again.valid_from FROM graph_edges AS again WHERE again.id = old.edge_id), superseded_by_id = "
        "old.edge_id WHERE id IN (SELECT it.id FROM graph_edges AS again JOIN graph_edges AS it ON "
        "it.namespace = again.namespace AND it.source_entity_id = again.source_entity_id AND it.relation "
        "= again.relation AND it.id <> again.id AND it.valid_to IS NULL AND it.expired_at IS NULL AND "
        "it.valid_from < again.valid_from WHERE again.id = old.edge_id AND again.valid_to IS NULL AND "
        "again.relation IN ('born_in', 'lives_in', 'manages', 'works_at', 'works_for')); END"
    ),
}


def upgrade() -> None:
    replace(AFTER)


def downgrade() -> None:
    replace(BEFORE)


def replace(triggers: dict[str, str]) -> None:
    for name, statement in triggers.items():
        op.execute(f"DROP TRIGGER {name}")
        op.execute(statement)
