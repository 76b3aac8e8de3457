"""A store in which everything there is stands once, the ways in which it can be damaged, and what the doctor says."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
import sqlalchemy as sa

from services import errors
from services.adapters.scopes import scope_token
from services.adapters.sqlite import driver
from services.bootstrap import Container
from services.doctor.models import Report
from services.documents.models import DocumentMetadata, SplitterConfig
from services.jobs.models import EMBED_DOCUMENT, JobKind, NewJob, Queue
from services.memory.models import Role
from services.memory.summary_vectors import embed_summary_job
from services.ports import Point
from tests.builders import (
    FallibleStore,
    assert_healthy,
    claim,
    enqueue,
    finish,
    rows,
    submit,
    work,
    write_files,
)

NOTE = JobKind("test.note", Queue.GRAPH)
TEXT = "\n\n".join(f"Paragraph {n} tells of dome {n}, its winch and its two hatches." for n in range(12))


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """Where the healthy store is kept, made by the first test that needs it."""
    return tmp_path_factory.mktemp("stored") / "zeph.db"


@pytest.fixture
def container(build, stored, tmp_path):
    """A healthy store with a bit of everything."""
    if not stored.exists():
        fill(build(stored.parent), tmp_path)
    (tmp_path / "data").mkdir()
    shutil.copy(stored, tmp_path / "data" / "zeph.db")
    return build()


def fill(made: Container, folder: Path) -> None:
    for namespace in ("default", "zoe"):
        ids = [
            made.memory.remember(
                Role.USER, f"The winch {n} was repaired.", conversation="ops", namespace=namespace
            )
            for n in range(4)
        ]
        conversation = rows(made, f"SELECT conversation_id FROM messages WHERE id = {ids[0]}")[0][0]
        with made.database.write() as unit:
            summary = unit.summaries.add(
                namespace, conversation, "Winches.", first=ids[0], last=ids[2], token_estimate=3
            )
            unit.key_facts.add(namespace, conversation, summary, ["The winch was repaired.", "Hanne did it."])
            unit.jobs.enqueue([embed_summary_job(namespace, summary)])
        for text, source in ((TEXT, "dome"), ("Alone.", "note")):
            about = DocumentMetadata(source, "text/plain", source.title())
            made.ingestion.add_text(text, about, namespace=namespace, splitter=SplitterConfig(60, 10))
        graph(made, namespace)
    submit(made, write_files(folder / "files", {"a.txt": "The first file.", "b.txt": "The second file."}))
    work(made)
    failing = claim(made, enqueue(made, NewJob(NOTE))[0])
    with made.database.write() as unit:
        unit.jobs.fail(
            failing.job, now=made.clock.now(), run_after=None, error_type="ValueError", message="no"
        )
    made.close()


def graph(made: Container, namespace: str) -> None:
    """Two entities with a fact, an alias and a community, and a fact that no longer holds."""
    scope = scope_token("entities", namespace)
    base = 1 if namespace == "default" else 101
    entity = "INSERT INTO graph_entities(id, namespace, name, canonical_name, entity_type, scope, first_seen_at, last_seen_at)"
    edge = (
        "INSERT INTO graph_edges(id, namespace, source_entity_id, target_entity_id, relation, fact, confidence, "
        "valid_from, valid_to, created_at)"
    )
    statements = [
        f"{entity} VALUES ({base}, '{namespace}', 'Hanne', 'hanne', 'person', '{scope}', 1, 1)",
        f"{entity} VALUES ({base + 1}, '{namespace}', 'Winch', 'winch', 'tool', '{scope}', 1, 1)",
        f"{edge} VALUES ({base}, '{namespace}', {base}, {base + 1}, 'repaired', 'f', 0.9, 10, NULL, 20)",
        f"{edge} VALUES ({base + 1}, '{namespace}', {base}, {base + 1}, 'owns', 'f', 0.9, 10, 15, 20)",
        (
            "INSERT INTO graph_entity_aliases(namespace, entity_id, alias_name, created_at) "
            f"VALUES ('{namespace}', {base}, 'hanne k', 1)"
        ),
        (
            "INSERT INTO graph_communities(id, namespace, name, summary, fingerprint, created_at, updated_at) "
            f"VALUES ({base}, '{namespace}', 'n', '', '', 1, 1)"
        ),
        f"INSERT INTO graph_community_members(community_id, entity_id) VALUES ({base}, {base}), ({base}, {base + 1})",
    ]
    run(made, *statements)


def run(made: Container, *statements: str) -> None:
    """SQL in one transaction, as the store itself would do it."""
    with made.sqlite.write() as connection:
        for statement in statements:
            connection.exec_driver_sql(statement)


def raw(made: Container, *statements: str) -> None:
    """SQL that nothing guards."""
    with closing(driver().connect(str(made.sqlite.path), isolation_level=None)) as connection:
        connection.execute("PRAGMA writable_schema = ON")
        for statement in statements:
            connection.execute(statement)


def unindexed(made: Container) -> None:
    """A row that an index does not hold, as after a lost write."""
    sql = rows(made, "SELECT sql FROM sqlite_master WHERE name = 'ix_messages_namespace_created_at'")[0][0]
    change = "UPDATE sqlite_master SET sql = ? WHERE name = 'ix_messages_namespace_created_at'"
    message = (
        "INSERT INTO messages(namespace, conversation_id, role, content, scope, content_hash, embeddable, created_at) "
        "SELECT namespace, conversation_id, role, 'unindexed', scope, 'h', 0, 5 FROM messages WHERE id = 1"
    )
    made.sqlite.close()
    for text, statement in ((f"{sql} WHERE 0", message), (sql, "SELECT 1")):
        with closing(driver().connect(str(made.sqlite.path), isolation_level=None)) as connection:
            connection.execute("PRAGMA writable_schema = ON")
            connection.execute(change, (text,))
        raw(made, statement)


def points(made: Container, namespace: str = "default") -> list[str]:
    physical = rows(made, "SELECT physical FROM embedding_collections WHERE name = 'zeph_documents'")[0][0]
    return [point for point, _ in made.vectors.scroll(physical, namespace)]


@dataclass(frozen=True)
class Damage:
    """SQL (or a function) that damages the healthy store, what must be found then, and whether it can be repaired."""

    codes: str
    statements: Sequence[str] = ()
    plant: Callable[[Container], object] | None = None
    repaired: bool = True


def late(made: Container) -> None:
    claim(made, enqueue(made, NewJob(NOTE))[0])
    made.clock.advance(3_600)


def overdue(made: Container) -> None:
    enqueue(made, NewJob(NOTE))
    made.clock.advance(3_600)


def parent_with_child(made: Container) -> None:
    taken = claim(made, enqueue(made, NewJob(NOTE))[0])
    (child,) = enqueue(made, NewJob(NOTE, parent_id=taken.job.id))
    with made.database.write() as unit:
        taken.wait_for_children(unit)
    run(made, f"UPDATE jobs SET state = 'done', finished_at = 1 WHERE id = {child}")


def other_namespace(made: Container) -> None:
    physical = rows(made, "SELECT physical FROM embedding_collections WHERE name = 'zeph_documents'")[0][0]
    run(
        made,
        f"UPDATE vector_points SET namespace = 'zoe' WHERE collection = '{physical}' AND id = '{points(made)[0]}'",
    )


def dropped_collection(made: Container) -> None:
    for (physical,) in rows(made, "SELECT physical FROM embedding_collections"):
        made.vectors.drop_collection(physical)


def overlapping(made: Container) -> None:
    """A document whose neighbouring chunks share sentences, and then one of them differently."""
    about = DocumentMetadata("rope", "text/plain", "Rope")
    text = " ".join(f"Rope {n} is new." for n in range(60))
    made.ingestion.add_text(text, about, splitter=SplitterConfig(60, 20))
    work(made)
    sql = (
        "SELECT b.id FROM chunks AS a JOIN chunks AS b ON b.document_id = a.document_id AND b.position = a.position + 1 "
        "JOIN documents AS d ON d.id = b.document_id WHERE b.start_offset < a.end_offset AND d.source = 'rope'"
    )
    run(made, f"UPDATE chunks SET text = 'X' || substr(text, 2) WHERE id = ({sql} LIMIT 1)")


# What is said to state something of `default` is a message of `zoe`.
ALIEN = "SELECT 1, min(id), 'llm:test/m', 1{} FROM messages WHERE namespace = 'zoe'"


def corrected(made: Container) -> None:
    made.memory.remember(Role.USER, "No, that is wrong.", conversation="ops")
    made.corrections.add("It is dome 7.", namespace="default")
    work(made)


LEASED = "UPDATE jobs SET state = 'running', finished_at = NULL, lease_token = {}, lease_until = {} WHERE kind = 'test.note'"
DAMAGES = {
    "an index lost a row": Damage("index_damaged", plant=unindexed),
    "an index is gone": Damage("schema_differs", ["DROP INDEX ix_jobs_due"]),
    "a trigger is gone, and a row came meanwhile": Damage(
        "schema_differs full_text vector_missing fact_source",
        [
            "DROP TRIGGER key_facts_fts_insert",
            (
                "INSERT INTO key_facts(namespace, conversation_id, summary_id, fact, scope, content_hash, created_at) "
                "SELECT namespace, conversation_id, summary_id, 'new', scope, 'h', 1 FROM key_facts LIMIT 1"
            ),
        ],
    ),
    "a full-text table is gone": Damage("schema_differs full_text", ["DROP TABLE chunks_fts"]),
    "a column is gone": Damage(
        "schema_differs", ["ALTER TABLE documents DROP COLUMN warnings"], repaired=False
    ),
    "an index holds a word that no row has": Damage(
        "full_text", ["INSERT INTO chunks_fts(rowid, text) VALUES (77, 'ghost')"]
    ),
    "an index lacks a row": Damage("full_text", ["DELETE FROM messages_fts_docsize WHERE id = 1"]),
    "a mark of a chunk that does not exist": Damage(
        "foreign_key",
        plant=lambda made: raw(
            made, "INSERT INTO chunk_embeddings SELECT 4711, collection, 1, 0 FROM chunk_embeddings LIMIT 1"
        ),
    ),
    "a conversation is gone, its messages are not": Damage(
        "foreign_key", plant=lambda made: raw(made, "DELETE FROM conversations WHERE namespace = 'zoe'")
    ),
    "a batch is gone, its children are not": Damage(
        "foreign_key", plant=lambda made: raw(made, "DELETE FROM jobs WHERE kind = 'documents.ingest_batch'")
    ),
    "an entity is gone, its facts are not": Damage(
        "foreign_key", plant=lambda made: raw(made, "DELETE FROM graph_entities WHERE id = 1")
    ),
    "two rows under one key": Damage(
        "schema_differs duplicate",
        [
            "DROP INDEX uq_graph_edges_active",
            (
                "INSERT INTO graph_edges(namespace, source_entity_id, target_entity_id, relation, fact, confidence, valid_from, "
                "created_at) SELECT namespace, source_entity_id, target_entity_id, relation, fact, confidence, 11, 20 "
                "FROM graph_edges WHERE id = 1"
            ),
        ],
        repaired=False,
    ),
    "two live jobs of one key": Damage(
        "schema_differs duplicate",
        [
            "DROP INDEX uq_jobs_live",
            *[
                (
                    "INSERT INTO jobs(namespace, kind, queue, dedupe_key, payload, run_after, created_at) "
                    "VALUES ('default', 'k', 'graph', 'same', '{}', 1750003600000000, 1)"
                )
            ]
            * 2,
        ],
        repaired=False,
    ),
    "a job runs without a lease": Damage("job_without_lease", [LEASED.format("NULL", "NULL")]),
    "a job's worker vanished long ago": Damage("job_lapsed", plant=late),
    "a lease ends in a year": Damage(
        "job_lease_in_future", [LEASED.format("'t'", "1750000000000000 + 31536000000000")]
    ),
    "a finished job holds a lease": Damage(
        "job_lease_left", ["UPDATE jobs SET lease_token = 't' WHERE state = 'done'"]
    ),
    "a job is to wait for a year": Damage(
        "job_in_future",
        [
            (
                "UPDATE jobs SET state = 'pending', finished_at = NULL, run_after = run_after + 31536000000000 "
                "WHERE kind = 'test.note' AND state = 'dead'"
            )
        ],
    ),
    "a job waits and nobody works": Damage("job_overdue", plant=overdue, repaired=False),
    "a job was tried too often": Damage(
        "job_attempts",
        [
            (
                "UPDATE jobs SET state = 'pending', finished_at = NULL, attempts = 99, run_after = run_after + 3600000000 "
                "WHERE kind = 'test.note' AND state = 'dead'"
            )
        ],
        repaired=False,
    ),
    "a dead job does not say why": Damage(
        "job_without_reason", ["UPDATE jobs SET error_message = NULL WHERE state = 'dead'"]
    ),
    "a finished job never ended": Damage(
        "job_without_end", ["UPDATE jobs SET finished_at = NULL WHERE state = 'done'"]
    ),
    "a payload is no JSON": Damage("job_unreadable", ["UPDATE jobs SET payload = '{' WHERE state = 'dead'"]),
    "a batch counts a child too many": Damage(
        "job_children", ["UPDATE jobs SET children_open = 1 WHERE kind = 'documents.ingest_batch'"]
    ),
    "a batch waits for children that ended": Damage("job_children job_parent_waits", plant=parent_with_child),
    "a message in another namespace than its conversation": Damage(
        "message_namespace scope vector_stray",
        ["UPDATE messages SET namespace = 'eve' WHERE id = 2"],
        repaired=False,
    ),
    "a message that searches find elsewhere": Damage(
        "scope", ["UPDATE messages SET scope = '123' WHERE id = 2"]
    ),
    "a chunk that searches find elsewhere": Damage("scope", ["UPDATE chunks SET scope = '123' WHERE id = 2"]),
    "a hidden message has vectors": Damage(
        "message_vectors_hidden", ["UPDATE messages SET agent_visible = 0 WHERE id = 2"]
    ),
    "parts that are no JSON": Damage(
        "message_parts", ["UPDATE messages SET parts = '[' WHERE id = 2"], repaired=False
    ),
    "a summary that ends before it begins": Damage(
        "summary_range",
        ["UPDATE summaries SET first_message_id = last_message_id, last_message_id = first_message_id"],
    ),
    "a summary that ends in another conversation": Damage(
        "summary_range", ["UPDATE summaries SET last_message_id = 5 WHERE namespace = 'default'"]
    ),
    "a fact in another namespace than its summary": Damage(
        "evidence_namespace fact_place scope vector_lost vector_stray",
        ["UPDATE key_facts SET namespace = 'eve' WHERE id = 1"],
        repaired=False,
    ),
    "a fact that nobody tells": Damage("fact_source", ["DELETE FROM key_fact_sources WHERE key_fact_id = 1"]),
    "a document without chunks": Damage(
        "document_empty vector_stray", ["DELETE FROM chunks WHERE document_id = 2"]
    ),
    "a chunk in the middle is gone": Damage(
        "chunk_order vector_stray",
        ["DELETE FROM chunks WHERE document_id = 1 AND position = 1"],
        repaired=False,
    ),
    "a chunk ends behind its text": Damage(
        "chunk_order", ["UPDATE chunks SET end_offset = end_offset + 1 WHERE document_id = 2"], repaired=False
    ),
    "a heading that is no JSON": Damage(
        "document_unreadable", ["UPDATE chunks SET heading = '[' WHERE id = 1"], repaired=False
    ),
    "a fact about an entity of another namespace": Damage(
        "edge_namespace", ["UPDATE graph_edges SET target_entity_id = 102 WHERE id = 1"], repaired=False
    ),
    "a fact that ends before it begins": Damage(
        "edge_period", ["UPDATE graph_edges SET valid_to = 5 WHERE id = 2"], repaired=False
    ),
    "a fact superseded by itself": Damage(
        "edge_superseded", ["UPDATE graph_edges SET superseded_by_id = id WHERE id = 2"]
    ),
    "an entity whose name is not normalised": Damage(
        "entity_name", ["UPDATE graph_entities SET canonical_name = 'Hanne' WHERE id = 1"], repaired=False
    ),
    "an alias in another namespace than its entity": Damage(
        "alias_namespace", ["UPDATE graph_entity_aliases SET namespace = 'eve' WHERE entity_id = 1"]
    ),
    "a community with an entity of another namespace": Damage(
        "community_member", ["UPDATE graph_communities SET namespace = 'zoe' WHERE id = 1"]
    ),
    "a document whose chunks do not join": Damage("chunk_overlap", plant=overlapping, repaired=False),
    "a fact with evidence of another namespace": Damage(
        "evidence_namespace",
        [
            "INSERT INTO graph_edge_sources(edge_id, message_id, extractor, created_at, evidence, stated_at) "
            + ALIEN.format(", 'e', 1")
        ],
        repaired=False,
    ),
    "an entity with evidence of another namespace": Damage(
        "evidence_namespace",
        [
            "INSERT INTO graph_entity_sources(entity_id, message_id, extractor, created_at) "
            + ALIEN.format("")
        ],
        repaired=False,
    ),
    "a correction of an answer of another namespace": Damage(
        "correction_namespace",
        plant=lambda made: (
            corrected(made),
            run(
                made,
                "UPDATE zeph_corrections SET target_message_id = (SELECT min(id) FROM messages WHERE namespace = 'zoe')",
            ),
        ),
        repaired=False,
    ),
    "a correction that takes back a fact of another namespace": Damage(
        "evidence_namespace",
        plant=lambda made: (
            corrected(made),
            run(made, "INSERT INTO correction_facts SELECT id, 101 FROM zeph_corrections"),
        ),
        repaired=False,
    ),
    "a file in another namespace than its batch": Damage(
        "job_namespace",
        [
            "UPDATE jobs SET namespace = 'zoe' WHERE id = (SELECT max(id) FROM jobs WHERE parent_id IS NOT NULL)"
        ],
        repaired=False,
    ),
    "a cached response made of another namespace's document": Damage(
        "cache_namespace",
        [
            (
                "INSERT INTO response_cache(namespace, cache_key, model, response, created_at, expires_at) "
                f"VALUES ('zoe', 'k', 'm', 'r', 10, {2**60})"
            ),
            "INSERT INTO response_sources SELECT 'zoe', 'k', 'document', min(id) FROM documents WHERE namespace = 'default'",
        ],
    ),
    "a cached response that ends before it begins": Damage(
        "cache_row",
        [
            (
                "INSERT INTO response_cache(namespace, cache_key, model, response, created_at, expires_at) "
                "VALUES ('default', 'k', 'm', 'r', 10, 5)"
            )
        ],
    ),
    "marks in a collection that does not exist": Damage(
        "mark_strange",
        ["INSERT INTO chunk_embeddings SELECT chunk_id, 'gone', windows, 0 FROM chunk_embeddings"],
    ),
    "a tombstone without a job": Damage(
        "tombstone_left",
        [
            "INSERT INTO vector_tombstones(namespace, collection, point_id, created_at) VALUES ('default', 'c', 'p', 1)"
        ],
    ),
    "a retired collection without a job": Damage(
        "collection_retired",
        ["INSERT INTO embedding_collections VALUES ('old', 'old', 'fake', 'hash', 64, 'retired', 1)"],
    ),
    "a collection that nobody goes on filling": Damage(
        "collection_unfinished",
        [
            "INSERT INTO embedding_collections VALUES ('new', 'zeph_documents', 'fake', 'other', 8, 'building', 1)"
        ],
        repaired=False,
    ),
    "a vector of the wrong length": Damage(
        "point_length", ["UPDATE vector_points SET vector = zeroblob(12) WHERE rowid = 1"]
    ),
    "vectors that no search sees": Damage("point_unseen", ["UPDATE vector_namespaces SET change = 1"]),
    "a vector is gone": Damage("vector_lost", ["DELETE FROM vector_points WHERE rowid = 1"]),
    "a vector belongs to another row": Damage(
        "vector_lost vector_stray",
        ["UPDATE vector_points SET payload = replace(payload, '_id\": ', '_id\": 9') WHERE rowid = 1"],
    ),
    "all collections are gone": Damage("vector_lost", plant=dropped_collection),
    "a vector in another namespace than its row": Damage("vector_lost vector_stray", plant=other_namespace),
    "a mark is gone, and no job": Damage(
        "vector_missing", ["DELETE FROM message_embeddings WHERE message_id = 2"]
    ),
    "vectors of a namespace that nobody knows": Damage(
        "vector_lost vector_strange_namespace",
        [
            "UPDATE vector_points SET namespace = 'eve' WHERE rowid = 1",
            (
                "INSERT INTO vector_namespaces "
                "SELECT collection, 'eve', change, 0 FROM vector_points WHERE rowid = 1"
            ),
        ],
        repaired=False,
    ),
}


def plant(made: Container, damage: Damage) -> None:
    run(made, *damage.statements)
    if damage.plant is not None:
        damage.plant(made)


def codes(report: Report) -> set[str]:
    return {finding.code for finding in report.findings}


def test_nothing_is_found_in_a_healthy_store_with_a_bit_of_everything(container):
    filled = {name for (name,) in rows(container, "SELECT name FROM sqlite_master WHERE type = 'table'")}
    assert {"vector_points", "graph_edges"} < filled
    assert_healthy(container)


@pytest.mark.slow
@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES.keys())
def test_planted_damage_is_named_and_repaired_where_it_can_be(container, damage):
    plant(container, damage)

    before = container.doctor.examine()
    assert codes(before) == set(damage.codes.split())
    assert not before.healthy
    for finding in before.findings:
        assert finding.count >= max(1, len(finding.examples))
        assert finding.remedy

    repaired = container.doctor.examine(repair=True)
    assert (repaired.remaining == ()) == damage.repaired, repaired
    if damage.repaired:
        work(container)
        assert_healthy(container)


def test_no_content_is_ever_printed(container):
    for name, damage in DAMAGES.items():
        if not name.endswith("is gone"):
            with suppress(sa.exc.IntegrityError, IndexError):  # what an earlier damage took away
                plant(container, damage)
    found = json.dumps([str(finding) for finding in container.doctor.examine().findings])
    assert "winch" not in found.casefold()
    assert "hanne" not in found.casefold()


def test_messages_of_a_lost_conversation_are_kept_and_found(container):
    raw(container, "DELETE FROM conversations WHERE namespace = 'zoe'")
    container.doctor.examine(repair=True)
    answer = container.memory.recall("winch", namespace="zoe")
    assert len(answer.hits) == 4


def test_vectors_of_an_emptied_store_are_made_again_and_answer_as_before_f15(container):
    asked = "which hatches does dome 7 have"
    before = [(hit.passage.chunk_id, round(hit.score, 6)) for hit in search(container, asked)]
    dropped_collection(container)
    container.doctor.examine(repair=True)
    work(container)
    assert_healthy(container)
    assert [(hit.passage.chunk_id, round(hit.score, 6)) for hit in search(container, asked)] == before


def test_a_worker_that_knew_the_collections_makes_them_again_when_the_store_lost_them(container):
    container.memory.remember(Role.USER, "Known before.", conversation="ops")
    work(container)
    dropped_collection(container)
    container.memory.remember(Role.USER, "Said afterwards.", conversation="ops")
    work(container)
    assert (
        rows(container, "SELECT id, error_message FROM jobs WHERE state = 'dead' AND kind <> 'test.note'")
        == []
    )
    container.doctor.examine(repair=True)
    work(container)
    assert_healthy(container)


def test_a_collection_that_was_replaced_is_not_made_again(container):
    space = container.spaces.for_writing("zeph_conversations")
    physical = space.collection.physical
    run(container, f"UPDATE embedding_collections SET state = 'retired' WHERE physical = '{physical}'")
    container.vectors.drop_collection(physical)
    point = Point("00000000-0000-4000-8000-000000000001", space.embedder.embed(["x"], kind="document")[0], {})
    with pytest.raises(errors.TransientError, match="was replaced meanwhile"):
        container.spaces.write(space, "default", [point])
    assert not container.vectors.collection_exists(physical)


def search(made, query):
    return made.documents.search(query, collection="zeph_documents").hits


def test_without_an_embedder_vectors_are_not_looked_at_and_that_is_said(build):
    made = build(embedding__provider="none")
    made.memory.remember(Role.USER, "Only words.", conversation="ops")
    report = made.doctor.examine()
    assert report.healthy
    assert report.skipped == ("vectors: embedding.provider is none",)


def test_a_vector_store_that_is_down_is_said_and_is_no_damage(build):
    made = build()
    made.vectors = FallibleStore()
    made.memory.remember(Role.USER, "The winch.", conversation="ops")
    work(made)
    made.vectors.down = True
    report = made.doctor.examine()
    assert report.findings == ()
    assert report.unchecked == ("rows and vectors, rows without vectors: the vector store does not answer",)
    assert not report.healthy


def test_work_that_is_queued_or_runs_is_no_damage(container):
    container.memory.remember(Role.USER, "Not embedded yet.", conversation="ops")
    assert_healthy(container)
    taken = container.ledger.claim_next([EMBED_DOCUMENT.queue])
    assert_healthy(container)
    container.message_vectors.embed_block(taken)
    finish_late = claim(container, enqueue(container, NewJob(NOTE))[0])
    assert_healthy(container)
    finish(container, finish_late)


def test_a_vector_stored_before_its_row_is_marked_is_no_damage(container):
    run(container, "DELETE FROM message_embeddings WHERE message_id = 2")
    enqueue(container, *(job for _, job, _ in container.upkeep.unqueued()))
    assert_healthy(container)


def test_a_job_that_waits_while_others_of_its_queue_are_worked_on_is_no_damage(container):
    overdue(container)
    finish(container, claim(container, enqueue(container, NewJob(NOTE))[0]))
    assert_healthy(container)
