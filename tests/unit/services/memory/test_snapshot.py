"""Snapshots: what goes out comes back whole, once, and only from sound files."""

from __future__ import annotations

import gzip
import json

import pytest

from services import errors
from services.ids import content_hash
from services.jobs.models import EMBED_MESSAGES
from services.memory.models import NewMessage, Origin, Role
from services.memory.snapshot_file import FIELDS, KINDS, MAX_BYTES, read_records
from tests.builders import FallibleStore, assert_healthy, rows, work

SECOND = 1_000_000


@pytest.fixture
def other(build, tmp_path):
    return build(tmp_path / "other")


def talk(container, *messages, namespace="default", **facts):
    """A conversation of these texts or messages; (its id, their ids)."""
    with container.database.write() as unit:
        made = unit.messages.create_conversation(namespace, **facts)
        news = [it if isinstance(it, NewMessage) else NewMessage(Role.USER, it) for it in messages]
        return made, unit.messages.add(namespace, made, news)


def fill(container):
    """One of everything, with every field set somewhere."""
    first, ids = talk(
        container,
        NewMessage(Role.SYSTEM, "be kind", embeddable=False),
        NewMessage(
            Role.USER,
            'äöü 雨 🦀 \u2028 \\ " \x1b\n',
            speaker="Ann",
            created_at=-5,
            import_key="k1",
            parts=[{"kind": "tool_use", "input": {"n": 1.5e300, "deep": [[[[{"x": [None, True]}]]]]}}],
        ),
        NewMessage(Role.ASSISTANT, "hidden", origin=Origin.TOOL, agent_visible=False),
        NewMessage(Role.USER, "gone"),
        NewMessage(Role.USER, "same"),
        NewMessage(Role.USER, "same"),
        key="main",
        title="Title",
    )
    container.clock.advance(1)
    second, more = talk(container, "hello")
    talk(container)
    with container.database.write() as unit:
        unit.messages.touch({ids[1]: 3}, now=17)
        unit.messages.soft_delete("default", ids[3:4])
        state = {
            "compacted_at": 99,
            "last_accessed_at": None,
            "access_count": 0,
            "graph_extractor": "rules/1",
        }
        unit.snapshots.restore([(ids[2], state)])
        summary = {"content": "they spoke", "token_estimate": 2, "created_at": 44, "key_facts": ["b 雨", "a"]}
        unit.snapshots.add_summaries(
            "default",
            first,
            [
                summary | {"first_message_id": ids[0], "last_message_id": ids[2]},
                summary | {"first_message_id": None, "last_message_id": None, "key_facts": ["c", "B 雨."]},
            ],
        )
        correction = {
            "session_id": "s",
            "message_id": more[0],
            "target_message_id": ids[0],
            "lowers": True,
            "request_message_id": ids[1],
            "request": "q",
            "original_output": "a",
            "correction_text": "b",
            "skill_name": "git",
            "kind": "explicit_rejection",
            "confidence": 0.85,
            "created_at": 45,
            "retired_at": 46,
        }
        assert unit.snapshots.add_correction("default", correction)
        assert unit.snapshots.add_correction("default", correction | {"message_id": None, "lowers": False})
    store = container.sessions()
    store.create_acp_session("z", title="old", conversation_id=second)
    container.clock.advance(1)
    store.create_acp_session("a")
    store.import_acp_events("z", [("text", "x\x00y"), ("text", "x"), ("text", "x")])


def export(container, path, **options):
    return container.snapshots.export_to(path, namespace="default", **options)


def load(container, path, **options):
    return container.snapshots.import_from(path, **{"namespace": "default"} | options)


def everything(container):
    tables = "conversations messages summaries zeph_corrections acp_sessions acp_session_events jobs".split()
    return {table: rows(container, f"SELECT * FROM {table}") for table in tables}


def added(report):
    names = "conversations messages summaries corrections sessions events".split()
    return [getattr(report, name) for name in names]


# ---- round trips -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["a.json", "a.json.gz"])
def test_export_import_export_is_equal_to_the_byte_and_keeps_every_field_b35_b36(
    container, other, tmp_path, name
):
    fill(container)
    written = export(container, tmp_path / name)
    other.clock.advance(86_400)
    report = load(other, tmp_path / name)
    assert added(report) == added(written) == [3, 6, 2, 2, 2, 3]
    assert (report.skipped, report.dangling, report.keys_taken, written.parts_lost) == (0, 0, 0, 0)
    export(other, tmp_path / f"b{name[1:]}")
    assert (tmp_path / f"b{name[1:]}").read_bytes() == (tmp_path / name).read_bytes()
    kept = "role, speaker, origin, content, parts, agent_visible, user_visible, embeddable, import_key,"
    kept += " created_at, compacted_at, last_accessed_at, access_count"
    for select in (
        f"SELECT {kept} FROM messages WHERE deleted_at IS NULL ORDER BY id",
        "SELECT fact, created_at FROM key_facts ORDER BY id",
    ):
        assert rows(other, select) == rows(container, select) != []


def test_facts_that_several_conversations_tell_travel_with_each_of_them(container, other, tmp_path):
    older, _ = talk(container, "hello", key="older")
    newer, _ = talk(container, "hi", key="newer")
    with container.database.write() as unit:
        # The newer one was summarised first, and tells again what it had told.
        for conversation, told in ((newer, ["x", "y"]), (older, ["y", "z"]), (newer, ["Z.", "x", "new"])):
            summary = unit.summaries.add(
                "default", conversation, "s", first=None, last=None, token_estimate=1
            )
            unit.key_facts.add("default", conversation, summary, told)
    export(container, tmp_path / "a.json")
    load(other, tmp_path / "a.json")
    export(other, tmp_path / "b.json")
    assert (tmp_path / "b.json").read_bytes() == (tmp_path / "a.json").read_bytes()
    other.memory.forget(conversation="older")
    assert rows(other, "SELECT fact FROM key_facts ORDER BY fact") == [("Z.",), ("new",), ("x",), ("y",)]


def test_every_column_of_the_tables_is_in_the_file_or_left_out_on_purpose():
    from services.adapters import tables

    left_out = {
        "conversations": {"id"},
        "messages": {
            "conversation_id",
            "segmented",
            "around",
            "content_hash",
            "deleted_at",
        },
        "summaries": {"id", "conversation_id", "segmented"},
        "zeph_corrections": {"id", "segmented"},
        "acp_sessions": set(),
        "acp_session_events": {"id", "session_id"},
    }
    for kind, (table, derived) in zip(FIELDS, left_out.items(), strict=True):
        columns = {column.name for column in tables.metadata.tables[table].columns}
        assert columns - set(FIELDS[kind]) <= derived | {"namespace", "scope", "id"}, kind
        assert set(FIELDS[kind]) - {"key_facts"} <= columns, kind


def test_deleted_messages_are_not_exported_b36(container, tmp_path):
    fill(container)
    export(container, tmp_path / "a.json")
    assert "gone" not in (tmp_path / "a.json").read_text()


def test_importing_twice_adds_nothing_case_export_01(container, other, tmp_path):
    fill(container)
    export(container, tmp_path / "a.json")
    load(other, tmp_path / "a.json")
    before = everything(other)
    for target in (other, container):
        report = load(target, tmp_path / "a.json")
        assert added(report) == [0] * 6
        assert report.skipped == 18
    assert everything(other) == before


@pytest.mark.parametrize("text", ["plain", "héllo 日本", "\x1b\u2028\x7f", "half \ud83d"])
def test_importing_twice_adds_nothing_whatever_the_parts_say_case_export_01(container, other, tmp_path, text):
    talk(container, NewMessage(Role.USER, "x", parts=[{"text": text, "kind": "text", "n": 1.5, "a": 10**30}]))
    export(container, tmp_path / "a.json")
    load(other, tmp_path / "a.json")
    for target in (other, container):
        assert added(load(target, tmp_path / "a.json")) == [0] * 6


def test_damaged_parts_do_not_keep_a_file_from_being_imported(container, other, tmp_path):
    talk(container, "one", "two")
    export(container, tmp_path / "a.json")
    load(other, tmp_path / "a.json")
    with other.sqlite.write() as connection:
        connection.exec_driver_sql("UPDATE messages SET parts = '{' WHERE content = 'one'")
    assert load(other, tmp_path / "a.json").messages == 1


def test_times_of_last_year_are_kept_case_export_05(container, other, tmp_path):
    long_ago = container.clock.now() - 365 * 86_400 * SECOND
    talk(container, NewMessage(Role.USER, "old", created_at=long_ago))
    export(container, tmp_path / "a.json")
    load(other, tmp_path / "a.json")
    assert rows(other, "SELECT created_at FROM messages") == [(long_ago,)]


def test_a_newer_file_adds_only_the_new_messages(container, other, tmp_path):
    made, _ = talk(container, "one")
    export(container, tmp_path / "a.json")
    load(other, tmp_path / "a.json")
    with container.database.write() as unit:
        unit.messages.add("default", made, [NewMessage(Role.USER, "two")])
    export(container, tmp_path / "b.json")
    report = load(other, tmp_path / "b.json")
    assert (report.conversations, report.messages, report.skipped) == (0, 1, 2)
    assert rows(other, "SELECT content FROM messages ORDER BY id") == [("one",), ("two",)]


def test_a_summary_that_a_backup_brings_back_goes_with_the_message_that_came_back_with_it(
    container, tmp_path
):
    first, ids = talk(container, *(NewMessage(Role.USER, f"m {number}") for number in range(9)), key="c")
    with container.database.write() as unit:
        summary = unit.summaries.add(
            "default", first, "m 3 was said", first=ids[0], last=ids[6], token_estimate=1
        )
        unit.key_facts.add("default", first, summary, ["m 3 was said."])
    export(container, tmp_path / "a.json")
    for found in (ids[3], ids[-1] + 1):
        assert container.memory.forget(messages=[found]).summaries == 1
        assert (rows(container, "SELECT * FROM summaries"), rows(container, "SELECT * FROM key_facts")) == (
            [],
            [],
        )
        load(container, tmp_path / "a.json")


def test_unrelated_conversations_with_equal_ids_stay_apart_b37(container, other, tmp_path):
    talk(other, "mine")
    talk(container, "theirs")
    export(container, tmp_path / "a.json")
    report = load(other, tmp_path / "a.json")
    assert (report.conversations, report.messages, report.skipped) == (1, 1, 0)
    assert rows(other, "SELECT conversation_id, content FROM messages") == [(1, "mine"), (2, "theirs")]


def test_another_conversation_under_the_same_key_keeps_its_messages_and_loses_the_key_b37(
    container, other, tmp_path
):
    talk(other, "mine", key="main")
    container.clock.advance(1)
    talk(container, "theirs", key="main")
    export(container, tmp_path / "a.json")
    assert load(other, tmp_path / "a.json").keys_taken == 1
    assert rows(other, "SELECT key FROM conversations ORDER BY id") == [("main",), (None,)]
    report = load(other, tmp_path / "a.json")
    assert (report.conversations, report.messages, report.keys_taken) == (0, 0, 0)


def test_equal_conversations_of_one_moment_are_not_merged(container, other, tmp_path):
    for _ in range(2):
        talk(container, "hi")
    talk(container, "hi", "there")
    export(container, tmp_path / "a.json")
    assert load(other, tmp_path / "a.json").conversations == 3
    assert added(load(other, tmp_path / "a.json")) == [0] * 6
    export(other, tmp_path / "b.json")
    assert (tmp_path / "b.json").read_bytes() == (tmp_path / "a.json").read_bytes()


def test_the_namespace_is_the_importers(container, other, tmp_path):
    fill(container)
    talk(container, "secret", namespace="alice")
    export(container, tmp_path / "a.json")
    assert "secret" not in (tmp_path / "a.json").read_text()
    load(other, tmp_path / "a.json", namespace="bob")
    for table in "conversations messages summaries zeph_corrections acp_sessions acp_session_events".split():
        assert {row[0] for row in rows(other, f"SELECT namespace FROM {table}")} == {"bob"}, table


def test_imported_messages_are_found_and_get_vectors_by_jobs(container, other, tmp_path):
    talk(container, "the heron spectrograph", NewMessage(Role.SYSTEM, "x", embeddable=False))
    export(container, tmp_path / "a.json")
    load(other, tmp_path / "a.json")
    assert rows(other, "SELECT kind, namespace FROM jobs") == [(EMBED_MESSAGES.name, "default")]
    found = "SELECT rowid FROM messages_fts WHERE messages_fts MATCH 'content : spectrograph'"
    assert rows(other, found) == [(1,)]


def test_sessions_follow_their_conversation_under_its_new_id(container, other, tmp_path):
    talk(other, "mine")
    fill(container)
    export(container, tmp_path / "a.json")
    load(other, tmp_path / "a.json")
    conversation = other.sessions().acp_session("z").conversation_id
    assert rows(other, f"SELECT content FROM messages WHERE conversation_id = {conversation}") == [("hello",)]


def test_imported_summaries_facts_and_corrections_get_vectors_by_jobs_too(container, other, tmp_path):
    fill(container)
    export(container, tmp_path / "a.json")
    load(other, tmp_path / "a.json")
    assert_healthy(other)
    work(other)
    assert list(other.upkeep.unqueued()) == []
    assert rows(other, "SELECT count(*) FROM summary_embeddings")[0][0] >= 1
    assert_healthy(other)


def test_one_session_can_travel_alone_and_importing_it_twice_is_idempotent_case_session_03(
    container, other, tmp_path
):
    fill(container)
    written = export(container, tmp_path / "s.json", session_id="z")
    assert added(written) == [0, 0, 0, 0, 1, 3]
    assert added(load(other, tmp_path / "s.json")) == [0, 0, 0, 0, 1, 3]
    assert added(load(other, tmp_path / "s.json")) == [0] * 6
    theirs, ours = container.sessions(), other.sessions()
    assert ours.load_acp_events("z") == theirs.load_acp_events("z")
    assert ours.acp_session("z").updated_at == theirs.acp_session("z").updated_at
    theirs.save_acp_event("z", "text", "later")
    export(container, tmp_path / "t.json", session_id="z")
    assert load(other, tmp_path / "t.json").events == 1
    assert ours.load_acp_events("z") == theirs.load_acp_events("z")


def test_whatever_the_database_accepts_can_be_imported_again(container, other, tmp_path):
    odd = "a\x00b\x1b\u202e"
    message = NewMessage(Role.USER, "x", speaker=odd, import_key=odd, created_at=-(10**16))
    made, _ = talk(container, message, key=odd, title=odd)
    store = container.sessions()
    store.create_acp_session("s", title=odd, conversation_id=made)
    store.save_acp_event("s", odd, odd)
    export(container, tmp_path / "a.json")
    load(other, tmp_path / "a.json")
    export(other, tmp_path / "b.json")
    assert (tmp_path / "b.json").read_bytes() == (tmp_path / "a.json").read_bytes()


def test_parts_that_nobody_can_read_are_counted_and_do_not_spoil_the_file(container, other, tmp_path):
    talk(container, "one")
    with container.sqlite.write() as connection:
        connection.exec_driver_sql("UPDATE messages SET parts = '[{\"x\": NaN}]'")
    assert export(container, tmp_path / "a.json").parts_lost == 1
    assert load(other, tmp_path / "a.json").messages == 1


# ---- vectors -----------------------------------------------------------------------------------------------------


def embed(container):
    container.message_vectors.embed_missing()
    work(container)


def stored_vectors(container, namespace="default"):
    ((physical,),) = rows(container, "SELECT physical FROM embedding_collections WHERE state = 'active'")
    found = dict(container.vectors.scroll(physical, namespace))
    vectors = container.vectors.fetch(physical, namespace, list(found))
    return {found[point]["message_id"]: vector.tobytes() for point, vector in vectors.items()}


def test_vectors_travel_on_request_and_nothing_is_embedded_again(container, other, tmp_path):
    talk(container, "the heron", "gone", NewMessage(Role.SYSTEM, "x", embeddable=False), "goodbye")
    with container.database.write() as unit:
        unit.messages.soft_delete("default", [2])
    embed(container)
    assert export(container, tmp_path / "a.json", vectors=True).vectors == 2
    report = load(other, tmp_path / "a.json")
    assert (report.messages, report.vectors, report.dangling) == (3, 2, 0)
    assert rows(other, "SELECT count(*) FROM jobs") == [(0,)]
    assert list(stored_vectors(other).values()) == list(stored_vectors(container).values())
    assert set(stored_vectors(other)) == {1, 3}
    export(other, tmp_path / "b.json", vectors=True)
    assert (tmp_path / "b.json").read_bytes() == (tmp_path / "a.json").read_bytes()
    assert load(other, tmp_path / "a.json").vectors == 0


def test_vectors_of_another_model_are_left_out_and_made_anew(container, build, tmp_path):
    talk(container, "the heron")
    embed(container)
    export(container, tmp_path / "a.json", vectors=True)
    other = build(tmp_path / "other", embedding__dimensions=32)
    assert load(other, tmp_path / "a.json").vectors == 0
    assert rows(other, "SELECT kind FROM jobs") == [(EMBED_MESSAGES.name,)]
    work(other)
    assert len(stored_vectors(other)) == 1


def test_messages_are_imported_while_the_vector_store_is_down(container, other, tmp_path):
    talk(container, "the heron")
    embed(container)
    export(container, tmp_path / "a.json", vectors=True)
    other.__dict__["vectors"] = FallibleStore()
    other.vectors.ensure_collection("x", 64)
    other.vectors.down = True
    report = load(other, tmp_path / "a.json")
    assert (report.messages, report.vectors) == (1, 0)
    assert rows(other, "SELECT kind FROM jobs") == [(EMBED_MESSAGES.name,)]


def test_a_file_without_vectors_creates_no_collection(container, other, tmp_path):
    talk(container, "the heron")
    assert export(container, tmp_path / "a.json", vectors=True).vectors == 0
    load(other, tmp_path / "a.json")
    for database in (container, other):
        assert rows(database, "SELECT count(*) FROM embedding_collections") == [(0,)]


# ---- the file ----------------------------------------------------------------------------------------------------


def test_the_file_is_private_one_json_document_and_appears_whole(container, tmp_path):
    fill(container)
    written = export(container, tmp_path / "a.json")
    path = tmp_path / "a.json"
    assert path.stat().st_mode & 0o777 == 0o600
    document = json.loads(path.read_text())
    assert (document["format"], document["version"], len(document["records"])) == ("zeph-memory", 2, 18)
    assert document["blake3"] == content_hash(path.read_bytes().rpartition(b"],")[0])
    assert written.bytes == path.stat().st_size
    assert sorted(it.name for it in tmp_path.iterdir() if it.is_file()) == ["a.json"]


def test_an_existing_file_is_replaced_only_on_request(container, tmp_path):
    path = tmp_path / "a.json"
    path.write_text("precious")
    with pytest.raises(errors.InputError, match="exists already"):
        export(container, path)
    assert path.read_text() == "precious"
    export(container, path, overwrite=True)
    assert json.loads(path.read_text())["version"] == 2


def test_an_export_that_fails_leaves_nothing_behind(container, tmp_path):
    with pytest.raises(errors.NotFound):
        export(container, tmp_path / "a.json", session_id="ghost")
    with pytest.raises(errors.InputError, match="cannot be written"):
        export(container, tmp_path / "nowhere" / "a.json")
    assert [it.name for it in tmp_path.iterdir() if it.is_file()] == []


def test_an_empty_memory_makes_a_file_that_can_be_imported(container, other, tmp_path):
    export(container, tmp_path / "a.json")
    assert added(load(other, tmp_path / "a.json")) == [0] * 6


# ---- version 1 ---------------------------------------------------------------------------------------------------


def version_1(**changes):
    message = {
        "id": 7,
        "conversation_id": 3,
        "role": "user",
        "content": "hello",
        "parts_json": '[{"kind":"text","text":"hello"}]',
        "created_at": 1_700_000_000,
    }
    summary = {
        "id": 1,
        "conversation_id": 3,
        "content": "greeting",
        "first_message_id": 7,
        "last_message_id": 99,
        "token_estimate": 1,
    }
    conversation = {"id": 3, "messages": [message], "summaries": [summary]}
    found = {"version": 1, "exported_at": "2026-03-06T00:00:00Z", "conversations": [conversation]}
    return found | changes


def test_a_file_of_version_1_is_read_as_imported_messages(container, tmp_path):
    path = tmp_path / "old.json"
    path.write_text(json.dumps(version_1(), indent=2))
    report = load(container, path)
    assert added(report) == [1, 1, 1, 0, 0, 0]
    assert report.dangling == 1
    assert rows(container, "SELECT role, origin, content, created_at, agent_visible FROM messages") == [
        ("user", "import", "hello", 1_700_000_000 * SECOND, 1)
    ]
    assert rows(container, "SELECT first_message_id, last_message_id FROM summaries") == [(None, None)]
    assert added(load(container, path)) == [0] * 6


def test_summaries_of_a_version_1_conversation_without_messages_are_kept(container, tmp_path):
    old = version_1()
    old["conversations"][0]["messages"] = []
    old["conversations"].append({"id": 4, "messages": [], "summaries": []})
    path = tmp_path / "old.json"
    path.write_text(json.dumps(old))
    assert added(load(container, path)) == [1, 0, 1, 0, 0, 0]
    assert added(load(container, path)) == [0] * 6


@pytest.mark.parametrize("version", [0, 3, "1", True, None, 1.0, [1]])
def test_another_version_is_named_and_refused(container, tmp_path, version):
    path = tmp_path / "a.json"
    path.write_text(json.dumps(version_1(version=version)))
    with pytest.raises(errors.InputError, match="version"):
        load(container, path)


def test_a_version_2_file_whose_lines_were_rearranged_is_refused_with_the_way_out(container, tmp_path):
    export(container, tmp_path / "a.json")
    path = tmp_path / "b.json"
    path.write_text(json.dumps(json.loads((tmp_path / "a.json").read_text()), indent=1))
    with pytest.raises(errors.InputError, match="rearranged: import the file as it was exported"):
        load(container, path)


# ---- hostile files -----------------------------------------------------------------------------------------------

HEADER = '{"format":"zeph-memory","version":2,"records":[\n'
CONVERSATION = {"type": "conversation", "id": 1, "key": None, "title": None, "created_at": 1}
MESSAGE = {
    "type": "message",
    "id": 1,
    "role": "user",
    "speaker": None,
    "origin": "user",
    "content": "x",
    "parts": "[]",
    "agent_visible": True,
    "user_visible": True,
    "embeddable": True,
    "import_key": None,
    "created_at": 1,
    "compacted_at": None,
    "last_accessed_at": None,
    "access_count": 0,
    "graph_extractor": None,
}
SUMMARY = {
    "type": "summary",
    "content": "x",
    "first_message_id": None,
    "last_message_id": None,
    "token_estimate": 1,
    "created_at": 1,
    "key_facts": ["fact"],
}
SESSION = {
    "type": "session",
    "id": "s",
    "title": None,
    "conversation_id": None,
    "created_at": 1,
    "updated_at": 1,
}
EVENT = {"type": "event", "event_type": "t", "payload": "p", "created_at": 1}
EMBEDDER = {"type": "embedder", "provider": "fake", "model": "hash", "dimension": 2}
VECTORS = {"type": "vectors", "message_id": 1, "vectors": ["AACAPwAAAAA="]}


def sound(*records):
    """A file with these records (objects, or lines as they are) whose counts and checksum are right."""
    lines = [record if isinstance(record, str) else json.dumps(record) for record in records]
    body = HEADER + ",\n".join(lines) + ("\n" if lines else "")
    counts = dict.fromkeys(KINDS, 0)
    for record in records:
        kind = record.get("type") if isinstance(record, dict) else None
        if isinstance(kind, str) and kind in counts:
            counts[kind] += 1
    trailer = json.dumps({"counts": counts, "blake3": content_hash(body.encode())})
    return body + "]," + trailer[1:] + "\n"


def changed(record, **fields):
    return {**record, **fields}


def without(record, name):
    return {key: value for key, value in record.items() if key != name}


GOOD = sound(CONVERSATION, MESSAGE, SUMMARY, SESSION, EVENT, EMBEDDER, VECTORS)
_BOMB = "[" * 100_000 + "]" * 100_000
HOSTILE = {
    "nothing": "",
    "no JSON": "hello",
    "no UTF-8": b"\xff\xfe{\x00}",
    "UTF-8 of a surrogate": HEADER.encode() + b'{"type":"\xed\xa0\x80"}\n',
    "a number": "4",
    "a list": "[]",
    "null": "null",
    "an empty object": "{}",
    "nested brackets": _BOMB,
    "nested objects": '{"a":' * 100_000 + "1" + "}" * 100_000,
    "a number of 5,000 digits": '{"version":' + "1" * 5_000 + "}",
    "NaN as version": '{"version":NaN}',
    "two versions": '{"version":2,"version":1,"exported_at":"","conversations":[]}',
    "version 1 with another key": json.dumps(version_1(namespace="root")),
    "version 1 without conversations": '{"version":1,"exported_at":""}',
    "version 1 with conversations of another type": json.dumps(version_1(conversations={"id": 1})),
    "version 1 with a list as conversation": json.dumps(version_1(conversations=[[]])),
    "a header with another version": GOOD.replace('"version":2', '"version":9', 1),
    "a header with a float version": GOOD.replace('"version":2', '"version":2.0', 1),
    "a header with another key": GOOD.replace('"version":2', '"version":2,"x":1', 1),
    "the header alone": HEADER,
    "no end": GOOD.rpartition("],")[0],
    "half of a line": GOOD[: len(GOOD) // 2],
    "another byte": GOOD.replace('"content": "x"', '"content": "y"', 1),
    "a line less": "\n".join(line for line in GOOD.split("\n") if '"event"' not in line),
    "a line twice": GOOD.replace(json.dumps(EVENT), json.dumps(EVENT) + ",\n" + json.dumps(EVENT)),
    "something after the end": GOOD + "\n{}",
    "no checksum": GOOD.replace('"blake3"', '"blake2"'),
    "a checksum of another type": GOOD.rpartition('"blake3"')[0] + '"blake3": 0}\n',
    "an empty line": sound(CONVERSATION, "", MESSAGE),
    "a record that is a list": sound("[]"),
    "a record that is text": sound('"conversation"'),
    "an unknown type": sound({"type": "job", "id": 1}),
    "a type of another type": sound({"type": ["conversation"]}),
    "no type": sound({"id": 1}),
    "an unknown key": sound(changed(CONVERSATION, namespace="root")),
    "a missing key": sound(without(CONVERSATION, "title")),
    "a key given twice": sound(
        '{"type":"conversation","id":1,"id":2,"key":null,"title":null,"created_at":1}'
    ),
    "NaN": sound(CONVERSATION, json.dumps(changed(MESSAGE, access_count=float("nan")))),
    "Infinity": sound(CONVERSATION, json.dumps(changed(MESSAGE, created_at=float("inf")))),
    "an infinite number": sound(json.dumps(CONVERSATION).replace(": 1}", ": 1e999}")),
    "half of a surrogate pair": sound(CONVERSATION, changed(MESSAGE, content="\ud83d")),
    "half of a surrogate pair as key": sound('{"\\ud83d": 1}'),
    "a NUL in a message": sound(CONVERSATION, changed(MESSAGE, content="a\x00b")),
    "an id as text": sound(changed(CONVERSATION, id="1")),
    "an id as float": sound(changed(CONVERSATION, id=1.0)),
    "an id as boolean": sound(changed(CONVERSATION, id=True)),
    "an id below 1": sound(changed(CONVERSATION, id=0)),
    "an id beyond 64 bits": sound(changed(CONVERSATION, id=2**63)),
    "an id of null": sound(changed(CONVERSATION, id=None)),
    "an id as list": sound(changed(CONVERSATION, id=[1])),
    "an id twice": sound(CONVERSATION, CONVERSATION),
    "a message twice": sound(CONVERSATION, MESSAGE, MESSAGE),
    "a session twice": sound(SESSION, SESSION),
    "an import key twice": sound(
        CONVERSATION, changed(MESSAGE, import_key="k"), changed(MESSAGE, id=2, import_key="k")
    ),
    "more accesses than can be counted on": sound(CONVERSATION, changed(MESSAGE, access_count=2**63 - 1)),
    "a time as text": sound(changed(CONVERSATION, created_at="2026-01-01")),
    "a time in the year 10000": sound(changed(SESSION, updated_at=253_402_300_800_000_000)),
    "version 1 with a time beyond all years": json.dumps(version_1()).replace("1700000000", "253402300800"),
    "version 1 with a time as text": json.dumps(version_1()).replace("1700000000", '"now"'),
    "version 1 with parts that are no list": json.dumps(version_1()).replace("[{", "{").replace("}]", "}"),
    "a time beyond 64 bits": sound(changed(CONVERSATION, created_at=-(2**63) - 1)),
    "another role": sound(CONVERSATION, changed(MESSAGE, role="root")),
    "a role as object": sound(CONVERSATION, changed(MESSAGE, role={})),
    "another origin": sound(CONVERSATION, changed(MESSAGE, origin="owner")),
    "visibility as number": sound(CONVERSATION, changed(MESSAGE, agent_visible=1)),
    "accesses below 0": sound(CONVERSATION, changed(MESSAGE, access_count=-1)),
    "content of another type": sound(CONVERSATION, changed(MESSAGE, content={"text": "x"})),
    "parts that are no JSON": sound(CONVERSATION, changed(MESSAGE, parts="{")),
    "parts that are no list": sound(CONVERSATION, changed(MESSAGE, parts="{}")),
    "parts that are no objects": sound(CONVERSATION, changed(MESSAGE, parts="[1]")),
    "parts with NaN": sound(CONVERSATION, changed(MESSAGE, parts='[{"x": NaN}]')),
    "parts nested too deep": sound(CONVERSATION, changed(MESSAGE, parts=_BOMB)),
    "a record nested too deep": sound('{"type":' + "[" * 20 + "]" * 20 + "}"),
    "a message without conversation": sound(MESSAGE),
    "a summary under a session": sound(SESSION, SUMMARY),
    "an event without session": sound(CONVERSATION, EVENT),
    "a session id that steers the terminal": sound(changed(SESSION, id="\x1b[2J")),
    "a session id of nothing": sound(changed(SESSION, id="")),
    "vectors without an embedder": sound(CONVERSATION, MESSAGE, VECTORS),
    "vectors that are no list": sound(EMBEDDER, changed(VECTORS, vectors="AACAPwAAAAA=")),
    "a vector that is a list": sound(EMBEDDER, changed(VECTORS, vectors=[[1, 0]])),
    "a vector that is no Base64": sound(EMBEDDER, changed(VECTORS, vectors=["AACAPwAAAA!="])),
    "a vector of another dimension": sound(EMBEDDER, changed(VECTORS, vectors=["AACAPw=="])),
    "a vector of half a number": sound(EMBEDDER, changed(VECTORS, vectors=["AACAPwA="])),
    "a vector of zeros": sound(EMBEDDER, changed(VECTORS, vectors=["AAAAAAAAAAA="])),
    "a vector with NaN": sound(EMBEDDER, changed(VECTORS, vectors=["AADAfwAAAAA="])),
    "an embedder without dimension": sound(changed(EMBEDDER, dimension=0)),
    "a key fact of another type": sound(CONVERSATION, changed(SUMMARY, key_facts=[1])),
    "key facts of another type": sound(CONVERSATION, changed(SUMMARY, key_facts="fact")),
    "compressed and cut": gzip.compress(GOOD.encode())[:-20],
    "compressed and changed": gzip.compress(GOOD.encode())[:30] + b"\x00" * 40,
    "a gzip head alone": b"\x1f\x8b",
}


def test_the_file_that_the_hostile_ones_are_made_of_is_sound(container, tmp_path):
    (tmp_path / "a.json").write_text(GOOD)
    assert added(load(container, tmp_path / "a.json")) == [1, 1, 1, 0, 1, 1]


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_is_refused_with_a_reason_and_nothing_is_written(container, tmp_path, name):
    data = HOSTILE[name]
    path = tmp_path / "hostile.json"
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    before = everything(container)
    with pytest.raises(errors.InputError, match=r"hostile\.json"):
        load(container, path)
    assert everything(container) == before


def test_there_are_at_least_sixty_hostile_files():
    assert len(HOSTILE) >= 60


def test_a_large_file_is_refused_compressed_and_expanded(container, tmp_path):
    plain, packed = tmp_path / "a.json", tmp_path / "b.json"
    plain.write_bytes(GOOD.encode())
    packed.write_bytes(gzip.compress(b" " * 5_000_000 + GOOD.encode()))
    for path, limit in ((plain, len(GOOD) - 1), (packed, 1_000_000), (packed, 100)):
        with pytest.raises(errors.InputError, match="larger"):
            load(container, path, max_bytes=limit)
    assert len(list(read_records(plain, len(GOOD)))) == 7
    assert MAX_BYTES == 256 * 1024 * 1024


def test_what_is_no_file_is_refused(container, tmp_path):
    for path in (tmp_path, tmp_path / "missing", tmp_path / "x\x00"):
        with pytest.raises(errors.InputError):
            load(container, path)


def test_a_file_that_changes_once_it_was_read_changes_nothing_of_what_is_imported(
    container, tmp_path, monkeypatch
):
    path = tmp_path / "a.json"
    path.write_text(GOOD)
    opened = container.snapshots._database.write
    monkeypatch.setattr(container.database, "write", lambda: (path.write_text("{}"), opened())[1])
    load(container, path)
    assert rows(container, "SELECT payload FROM acp_session_events") == [("p",)]


def test_a_file_is_read_and_checked_before_others_have_to_wait(container, tmp_path, monkeypatch):
    path = tmp_path / "a.json"
    path.write_text(GOOD.replace('"payload": "p"', '"payload": "q"'))
    monkeypatch.setattr(container.database, "write", lambda: pytest.fail("the database was locked"))
    with pytest.raises(errors.InputError, match="checksum"):
        load(container, path)


def test_a_dangling_range_is_dropped_and_counted_b37(container, tmp_path):
    (tmp_path / "a.json").write_text(
        sound(CONVERSATION, MESSAGE, changed(SUMMARY, first_message_id=1, last_message_id=5))
    )
    assert load(container, tmp_path / "a.json").dangling == 1
    assert rows(container, "SELECT first_message_id, last_message_id FROM summaries") == [(None, None)]
