"""What the tables of the graph hold and refuse, whoever writes to them."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from services.errors import MemoryError as OurError
from tests.builders import rows
from tests.graph_builders import PERSON, THEN, found, message

NS = "default"
_EDGE = (
    "INSERT INTO graph_edges (namespace, source_entity_id, target_entity_id, relation, fact, confidence, "
    "valid_from, valid_to, created_at) VALUES "
)


@pytest.fixture
def graph(container):
    """Ann (1) knows Bob (2)."""
    container.graph.store(NS, found("Ann|knows|Bob", kind=PERSON), message(container))
    return container


def run(container, statement):
    with container.sqlite.write() as connection:
        return connection.exec_driver_sql(statement)


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        (f"{_EDGE}('{NS}', 1, 1, 'knows', 'x', 1, 1, NULL, 1)", "no_self_loop"),
        (f"{_EDGE}('{NS}', 2, 1, 'knows', 'x', 1.1, 1, NULL, 1)", "confidence"),
        (f"{_EDGE}('{NS}', 1, 2, 'knows', 'x', 1, 1, NULL, 1)", "UNIQUE"),
        (f"{_EDGE}('{NS}', 1, 99, 'knows', 'x', 1, 1, NULL, 1)", "FOREIGN KEY"),
        ("UPDATE graph_entities SET entity_type = 'technology'", "entity_type"),
        ("UPDATE graph_entities SET canonical_name = 'ann'", "UNIQUE"),
        ("UPDATE graph_entity_aliases SET alias_name = 'ann', entity_id = 1", "UNIQUE"),
    ],
)
def test_the_tables_refuse_what_no_graph_may_hold(graph, statement, reason):
    """Graph bugs 4, 18 and 34: the last of several levels."""
    with pytest.raises((sa.exc.IntegrityError, OurError), match=reason):
        run(graph, statement)


def test_a_fact_that_is_over_stands_beside_the_one_that_holds(graph):
    """Graph bug 36: only active rows are unique."""
    run(graph, f"{_EDGE}('{NS}', 1, 2, 'knows', 'x', 1, 1, 2, 1)")
    assert len(graph.graph.history(NS, "Ann")) == 2


def test_an_entity_takes_its_names_and_facts_along_and_its_id_is_not_used_again(graph):
    run(graph, "DELETE FROM graph_entities WHERE id = 2")
    for table in ("graph_edges", "graph_edge_sources"):
        assert rows(graph, f"SELECT * FROM {table}") == []
    assert rows(graph, "SELECT entity_id FROM graph_entity_aliases") == [(1,)]
    stored = graph.graph.store(NS, found("Cid", kind=PERSON), message(graph, at=THEN))
    assert stored.created_ids == (3,)


def test_being_seen_again_does_not_write_to_the_index(graph):
    """Every mention rewrote the row of the full-text index."""

    def written(statement):
        with graph.sqlite.write() as connection:
            raw = connection.connection.dbapi_connection
            before = raw.total_changes
            connection.exec_driver_sql(statement)
            return raw.total_changes - before

    assert written("UPDATE graph_entities SET last_seen_at = last_seen_at + 1 WHERE id = 1") == 1
    assert written("UPDATE graph_entities SET summary = 'An engineer.' WHERE id = 1") > 1
