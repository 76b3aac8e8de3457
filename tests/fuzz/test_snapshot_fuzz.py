"""B3: mutated snapshots: each is refused with a reason and leaves the database as it was, or is imported whole."""

from __future__ import annotations

import json
import random
from dataclasses import asdict

import pytest

from services import errors
from services.ids import content_hash
from services.memory.models import NewMessage, Role
from services.memory.snapshot_file import KINDS
from tests.builders import rows
from tests.fuzz.amounts import MARKS, PROFILE, amount

pytestmark = MARKS

TABLES = (
    "conversations messages summaries zeph_corrections acp_sessions acp_session_events graph_entities "
    "graph_entity_aliases graph_entity_sources graph_edges graph_edge_sources graph_communities graph_metadata"
).split()
COMMIT = 300
NEW = "conversations messages summaries sessions events entities edges communities".split()
ODD = [None, True, -1, 0, 2**63, 1.5, "", "\x00", "x" * 300, [], {}, [[1]], {"a": 1}, "\u202e", "1"]
BYTES = b'{}[]",:\\0\xff\x00\n'


GRAPH = (
    (
        "INSERT INTO graph_entities(namespace, name, canonical_name, entity_type, scope, first_seen_at, last_seen_at)"
        " VALUES ('default', 'Ann', 'ann', 'person', '1', 1, 2), ('default', 'Brno', 'brno', 'concept', '1', 1, 2)"
    ),
    "INSERT INTO graph_entity_aliases(namespace, entity_id, alias_name, created_at) VALUES ('default', 1, 'annie', 3)",
    "INSERT INTO graph_entity_sources(entity_id, message_id, extractor, created_at) VALUES (1, 1, 'local', 3)",
    (
        "INSERT INTO graph_edges(namespace, source_entity_id, target_entity_id, relation, fact, confidence, valid_from,"
        " valid_to, created_at) VALUES ('default', 1, 2, 'lives_in', 'f', 0.5, 1, 2, 1),"
        " ('default', 1, 2, 'lives_in', 'f', 0.5, 1, NULL, 2)"
    ),
    (
        "INSERT INTO graph_edge_sources(edge_id, message_id, extractor, evidence, stated_at, created_at)"
        " VALUES (2, 1, 'local', 'e', 1, 1)"
    ),
    (
        "INSERT INTO graph_communities(namespace, name, summary, fingerprint, created_at, updated_at)"
        " VALUES ('default', 'n', 's', '', 1, 1)"
    ),
    "INSERT INTO graph_community_members(community_id, entity_id) VALUES (1, 1), (1, 2)",
    "INSERT INTO graph_metadata(namespace, key, value) VALUES ('default', 'k', '1')",
)


@pytest.fixture
def good(container, tmp_path):
    with container.database.write() as unit:
        for key in ("a", None):
            made = unit.messages.create_conversation("default", key=key)
            parts = [{"kind": "text", "text": "x"}]
            news = [NewMessage(Role.USER, f"{key} {number}", parts=parts) for number in range(3)]
            ids = unit.messages.add("default", made, news)
            summary = {"content": "s", "token_estimate": 1, "created_at": 1, "key_facts": []}
            ends = {"first_message_id": ids[0], "last_message_id": ids[2]}
            unit.snapshots.add_summaries("default", made, [summary | ends])
    with container.sqlite.write() as connection:
        for statement in GRAPH:
            connection.exec_driver_sql(statement)
    container.sessions().create_acp_session("s")
    container.sessions().save_acp_event("s", "text", "payload")
    container.snapshots.export_to(tmp_path / "good.json", namespace="default")
    return (tmp_path / "good.json").read_bytes()


def mutated_bytes(good, dice):
    data = bytearray(good)
    for _ in range(dice.randint(1, 4)):
        at = dice.randrange(len(data))
        action = dice.randrange(4)
        if action == 0:
            data[at] = dice.choice(BYTES)
        elif action == 1:
            del data[at : at + dice.randint(1, 40)]
        elif action == 2:
            data[at:at] = data[at // 2 : at // 2 + dice.randint(1, 40)]
        else:
            del data[at + 1 :]
    return bytes(data)


def mutated_records(good, dice):
    """A file whose counts and checksum are right, so that only the records can be wrong."""
    records = json.loads(good)["records"]
    for _ in range(dice.randint(1, 3)):
        at = dice.randrange(len(records))
        record = records[at]
        name = dice.choice(list(record))
        action = dice.randrange(5)
        if action == 0:
            record[name] = dice.choice(ODD)
        elif action == 1:
            records.insert(dice.randrange(len(records)), records.pop(at))
        elif action == 2:
            records.insert(at, dict(record))
        elif action == 3:
            record[name] = dice.choice([dice.choice(list(it.values())) for it in records])
        elif len(records) > 1:
            del records[at]
    lines = ",\n".join(json.dumps(record) for record in records)
    body = f'{{"format":"zeph-memory","version":2,"records":[\n{lines}\n'
    counts = dict.fromkeys(KINDS, 0)
    for record in records:
        if isinstance(record.get("type"), str) and record["type"] in counts:
            counts[record["type"]] += 1
    trailer = json.dumps({"counts": counts, "blake3": content_hash(body)})
    return f"{body}],{trailer[1:]}\n".encode()


@pytest.mark.parametrize("mutated", [mutated_bytes, mutated_records])
def test_a_mutated_snapshot_is_refused_or_imported_whole(container, build, good, tmp_path, mutated):
    seed = 7 if PROFILE == "commit" else random.randrange(2**32)
    dice = random.Random(seed)
    print(f"seed {seed}")
    target = build(tmp_path / "other")
    path = tmp_path / "mutated.json"
    outcomes = {"refused": 0, "imported": 0}
    count = amount(commit=COMMIT, nightly=10_000)
    for number in range(count):
        namespace = f"n{number}"
        path.write_bytes(mutated(good, dice))
        before = [rows(target, f"SELECT count(*) FROM {table}") for table in TABLES]
        try:
            first = target.snapshots.import_from(path, namespace=namespace)
        except errors.InputError:
            assert [rows(target, f"SELECT count(*) FROM {table}") for table in TABLES] == before
            outcomes["refused"] += 1
            continue
        second = target.snapshots.import_from(path, namespace=namespace)
        nothing = dict.fromkeys(NEW, 0)
        assert nothing.items() <= asdict(second).items(), (number, first, second)
        outcomes["imported"] += 1
    assert outcomes["refused"] > count * 0.3
    assert mutated is mutated_bytes or outcomes["imported"] > count * 0.05
