"""The graph in snapshots: whole, under new ids, and twice as well as once."""

from __future__ import annotations

import json

import pytest

from services.adapters import tables as t
from services.documents.models import DocumentMetadata
from services.jobs.models import EMBED_ENTITIES
from services.memory.models import NewMessage
from services.memory.snapshot_file import GRAPH_FIELDS
from tests.builders import enqueue, new_job, rows, work

TABLES = {
    "entity": t.graph_entities,
    "alias": t.graph_entity_aliases,
    "mention": t.graph_entity_sources,
    "edge": t.graph_edges,
    "edge_source": t.graph_edge_sources,
    "edge_correction": t.correction_facts,
    "community": t.graph_communities,
    "graph_counter": t.graph_metadata,
}
NOBODY = {"message_id": None, "chunk_id": None}


@pytest.fixture
def other(build, tmp_path):
    return build(tmp_path / "other")


def insert(connection, table, **values):
    if "namespace" in table.c:
        values["namespace"] = "default"
    return connection.execute(table.insert().values(values)).inserted_primary_key[0]


def entity(connection, name, kind="person", **values):
    times = {"first_seen_at": 10, "last_seen_at": 20}
    names = {"name": name, "canonical_name": name.casefold(), "entity_type": kind, "scope": "1"}
    return insert(connection, t.graph_entities, **(times | names | values))


def edge(connection, source, target, relation="knows", **values):
    facts = {"relation": relation, "fact": f"{source} {relation} {target}", "confidence": 0.5}
    times = {"valid_from": 3, "valid_to": None, "created_at": 5, "expired_at": None}
    ends = {"source_entity_id": source, "target_entity_id": target}
    return insert(connection, t.graph_edges, **(facts | times | ends | values))


def told(connection, edge_id, **values):
    facts = {"extractor": "local", "evidence": "they said so", "stated_at": 4, "created_at": 6, "job_id": 9}
    return insert(connection, t.graph_edge_sources, edge_id=edge_id, **(NOBODY | facts | values))


def mention(connection, entity_id, **values):
    facts = {"extractor": "local", "summary": None, "created_at": 7}
    return insert(connection, t.graph_entity_sources, entity_id=entity_id, **(NOBODY | facts | values))


def fill(container):
    """One of everything; the first edge was superseded by the last one."""
    container.memory.remember_many("c", [NewMessage("user", text) for text in ("Ann", "Bob", "gone")])
    container.ingestion.add_text("A page about Ann.", DocumentMetadata("a.md", "text/markdown"))
    with container.database.write() as unit:
        unit.messages.soft_delete("default", [3])
    with container.sqlite.write() as connection:
        ann, bob = entity(connection, "Ann", summary="A potter."), entity(connection, "Bob 雨")
        lone = entity(connection, "Brno", "concept", first_seen_at=1)
        for name in ("ann", "annie"):
            insert(connection, t.graph_entity_aliases, entity_id=ann, alias_name=name, created_at=8)
        mention(connection, ann, message_id=1, summary="She makes pots.")
        mention(connection, ann)
        mention(connection, bob, chunk_id=1)
        old = edge(connection, ann, bob, valid_to=8, expired_at=9)
        new = edge(connection, ann, bob, created_at=9, confidence=0.75)
        edge(connection, bob, lone, "lives_in")
        connection.execute(
            t.graph_edges.update().where(t.graph_edges.c.id == old).values(superseded_by_id=new)
        )
        for source in (
            {"message_id": 1},
            {"message_id": 2, "extractor": "llm:x"},
            {"chunk_id": 1},
            {"message_id": 3},
        ):
            told(connection, new, **source)
        told(connection, old)
        texts = {"name": "Ann, Bob", "summary": "Two friends.", "fingerprint": "f"}
        made = insert(connection, t.graph_communities, **texts, created_at=1, updated_at=2)
        for member in (ann, bob):
            insert(connection, t.graph_community_members, community_id=made, entity_id=member)
        insert(
            connection,
            t.graph_communities,
            name="empty",
            summary="",
            fingerprint="",
            created_at=1,
            updated_at=1,
        )
        insert(connection, t.graph_metadata, key="stored", value="3")


def export(container, path, **options):
    return container.snapshots.export_to(path, namespace="default", **options)


def load(container, path, **options):
    return container.snapshots.import_from(path, **{"namespace": "default"} | options)


def graph(container):
    return {
        name: rows(container, f"SELECT * FROM {table.name}")
        for name, table in TABLES.items() | {("member", t.graph_community_members)}
    }


def test_every_column_of_the_graph_is_in_the_file_or_left_out_on_purpose():
    left_out = {
        "entity": {"segmented", "scope"},
        "alias": {"entity_id"},
        "mention": {"entity_id", "chunk_id"},
        "edge": set(),
        "edge_source": {"edge_id", "chunk_id", "job_id"},
        "edge_correction": {"edge_id"},
        "community": set(),
        "graph_counter": set(),
    }
    for kind, fields in GRAPH_FIELDS.items():
        columns = {column.name for column in TABLES[kind].columns}
        assert columns - set(fields) <= left_out[kind] | {"namespace", "id"}, kind
        assert set(fields) - {"members"} <= columns, kind


def test_a_graph_comes_back_equal_to_the_byte_and_what_documents_tell_is_counted(container, other, tmp_path):
    fill(container)
    first, second = tmp_path / "a.json", tmp_path / "b.json"
    report = export(container, first)
    assert (report.entities, report.edges, report.communities, report.sources_left_out) == (3, 3, 2, 3)
    done = load(other, first)
    assert (done.entities, done.edges, done.communities, done.dangling) == (3, 3, 2, 0)
    export(other, second)
    assert second.read_bytes() == first.read_bytes()
    assert rows(other, "SELECT count(*) FROM graph_edges WHERE superseded_by_id IS NOT NULL") == [(1,)]
    assert rows(other, "SELECT count(*) FROM graph_edge_sources WHERE message_id = 3") == [(0,)]


def test_importing_a_graph_twice_adds_nothing_there_or_here(container, other, tmp_path):
    fill(container)
    export(container, tmp_path / "a.json")
    load(other, tmp_path / "a.json")
    for target in (other, container):
        before = graph(target)
        report = load(target, tmp_path / "a.json")
        assert (report.entities, report.edges, report.communities) == (0, 0, 0)
        assert graph(target) == before


def test_a_graph_joins_one_that_knows_some_of_it_under_other_ids(container, other, tmp_path):
    fill(container)
    export(container, tmp_path / "a.json")
    with other.sqlite.write() as connection:
        entity(connection, "Somebody")
        bob, ann = entity(connection, "Bob 雨"), entity(connection, "Ann", last_seen_at=99)
        known = edge(connection, ann, bob, created_at=77, fact="told in other words")
        made = insert(
            connection, t.graph_communities, name="x", summary="", fingerprint="", created_at=1, updated_at=1
        )
        insert(connection, t.graph_community_members, community_id=made, entity_id=bob)
    report = load(other, tmp_path / "a.json")
    assert (report.entities, report.edges, report.communities) == (1, 2, 1)
    assert rows(other, f"SELECT fact, superseded_by_id FROM graph_edges WHERE id = {known}") == [
        ("told in other words", None)
    ]
    old = rows(other, "SELECT superseded_by_id FROM graph_edges WHERE expired_at = 9")
    assert old == [(known,)]
    assert rows(other, f"SELECT alias_name FROM graph_entity_aliases WHERE entity_id = {ann} ORDER BY 1") == [
        ("ann",),
        ("annie",),
    ]
    assert rows(other, f"SELECT count(*) FROM graph_edge_sources WHERE edge_id = {known}") == [(2,)]


@pytest.mark.parametrize("wanted", [False, True])
def test_new_entities_are_found_by_their_name_and_have_vectors_only_where_that_is_set(
    build, container, tmp_path, wanted
):
    other = build(tmp_path / "other", memory__graph__use_embedding_resolution=wanted)
    fill(container)
    export(container, tmp_path / "a.json")
    load(other, tmp_path / "a.json")
    with other.database.read() as unit:
        assert [match.entity.name for match in unit.graph.named("default", ["annie"])] == ["Ann"]
    work(other)
    assert bool(rows(other, "SELECT * FROM entity_embeddings")) is wanted


def test_a_job_left_from_before_embeds_no_entities_where_that_is_not_set(container):
    fill(container)
    enqueue(container, new_job(EMBED_ENTITIES, payload={"block": 0}))
    work(container)
    assert rows(container, "SELECT * FROM entity_embeddings") == []


def test_an_edge_whose_end_is_missing_is_dropped_and_counted(container, other, tmp_path):
    fill(container)
    export(container, tmp_path / "a.json")
    lines = (tmp_path / "a.json").read_text(encoding="utf-8").splitlines(keepends=True)
    assert any('"type":"entity","id":3,' in line for line in lines)
    write_snapshot(tmp_path / "b.json", [line for line in lines if '"type":"entity","id":3,' not in line])
    report = load(other, tmp_path / "b.json")
    assert (report.entities, report.edges, report.dangling) == (2, 2, 1)


def write_snapshot(path, lines):
    """The lines with a trailer that fits them."""
    from services.ids import new_hasher

    body = [line.rstrip("\n").removesuffix(",") for line in lines[1:-1]]
    hasher = new_hasher()
    text = lines[0] + ",\n".join(body) + "\n"
    hasher.update(text.encode())
    counts = dict.fromkeys(json.loads("{" + lines[-1].removeprefix("],"))["counts"], 0)
    for line in body:
        counts[json.loads(line)["type"]] += 1
    trailer = json.dumps({"counts": counts, "blake3": hasher.hexdigest()}, separators=(",", ":"))
    path.write_text(f"{text}],{trailer[1:]}\n", encoding="utf-8")
