import json

import pytest

from tests.builders import rows
from workers.local import run_pending


@pytest.fixture
def talked(opened):
    for namespace in ("default", "alice"):
        for text in (f"the heron of {namespace}", "goodbye"):
            opened.memory.remember("user", text, conversation="main", namespace=namespace)
    run_pending(opened)


@pytest.fixture
def file(zeph, talked, tmp_path):
    result = zeph("memory", "export", tmp_path / "backup.json")
    assert result.code == 0, result
    assert "1 conversations, 2 messages" in result.out
    return tmp_path / "backup.json"


def test_an_exported_file_is_private_and_holds_one_namespace(file):
    assert file.stat().st_mode & 0o777 == 0o600
    texts = [record.get("content") for record in json.loads(file.read_text())["records"]]
    assert texts == [None, "the heron of default", "goodbye"]


@pytest.mark.parametrize("redacted", [True, False])
def test_an_export_says_that_secrets_are_in_it_as_they_were_said(
    zeph, talked, tmp_path, monkeypatch, redacted
):
    monkeypatch.setenv("ZEPH_MEMORY__REDACT_CREDENTIALS", str(redacted).lower())
    result = zeph("memory", "export", tmp_path / "again.json")
    assert (result.code, "word for word" in result.err) == (0, redacted)


def test_an_existing_file_is_only_replaced_by_force(zeph, file):
    result = zeph("memory", "export", file)
    assert (result.code, "exists already" in result.err) == (2, True)
    assert zeph("memory", "export", file, "--force").code == 0


def test_a_database_without_write_permission_is_exported_all_the_same_case_export_03(
    zeph, file, data_dir, tmp_path
):
    (data_dir / "zeph.db").chmod(0o444)
    assert zeph("memory", "export", tmp_path / "again.json").code == 0
    assert (tmp_path / "again.json").read_bytes() == file.read_bytes()


def test_an_import_adds_what_is_missing_with_vectors_and_says_so(zeph, file, opened):
    result = zeph("memory", "import", file, "--namespace", "bob")
    assert result.code == 0, result
    assert result.out.splitlines() == [
        "imported 1 conversations, 2 messages, 0 summaries, 0 corrections, 0 entities, 0 edges, 0 communities, 0 sessions, 0 events, 0 vectors",
        "0 were here already",
    ]
    physical = rows(opened, "SELECT physical FROM embedding_collections WHERE name = 'zeph_conversations'")
    assert opened.vectors.count(physical[0][0], "bob") == 2
    again = zeph("memory", "import", file, "--namespace", "bob", "--json").json
    assert (again["messages"], again["skipped"]) == (0, 3)


def test_vectors_travel_on_request(zeph, talked, tmp_path):
    assert "2 vectors" in zeph("memory", "export", tmp_path / "v.json.gz", "--vectors").out
    report = zeph("memory", "import", tmp_path / "v.json.gz", "-n", "bob", "--detach", "--json").json
    assert (report["messages"], report["vectors"]) == (2, 2)


def test_a_detached_import_leaves_the_vectors_to_workers(zeph, file):
    result = zeph("memory", "import", file, "--namespace", "bob", "--detach")
    assert "2 messages have no vectors yet: `zeph worker` makes them" in result.out


@pytest.mark.parametrize("content", ["", "{}", '{"version": 7}', "[" * 5_000])
def test_a_file_that_is_no_snapshot_is_refused_without_a_traceback(zeph, opened, tmp_path, content):
    (tmp_path / "bad.json").write_text(content)
    result = zeph("memory", "import", tmp_path / "bad.json")
    assert (result.code, result.out) == (2, "")
    assert "bad.json is no snapshot that can be imported: line 1: " in result.err
    assert "Traceback" not in result.err


def test_a_missing_file_and_one_over_the_limit_are_refused(zeph, file, tmp_path):
    assert zeph("memory", "import", tmp_path / "missing.json").code == 2
    with file.open("ab") as large:
        large.truncate(1024 * 1024 + 1)
    result = zeph("memory", "import", file, "--max-mib", 1)
    assert (result.code, "larger" in result.err) == (2, True)


def test_eviction_asks_for_a_number_when_none_is_set(zeph, talked):
    result = zeph("memory", "evict")
    assert (result.code, "say --max-entries N" in result.err) == (2, True)


def test_eviction_counts_first_and_then_erases_for_good(zeph, opened, monkeypatch, talked):
    monkeypatch.setenv("ZEPH_MEMORY__COMPACTION_PRESERVE_TAIL", "1")
    result = zeph("memory", "evict", "--max-entries", 1, "--dry-run")
    assert result.out == "1 of 2 messages would be evicted, 0 erased for good\n"
    assert zeph("memory", "evict", "--max-entries", 1).out == "1 of 2 messages evicted, 1 erased for good\n"
    assert rows(opened, "SELECT content FROM messages WHERE namespace = 'default'") == [("goodbye",)]
    assert rows(opened, "SELECT count(*) FROM messages WHERE namespace = 'alice'") == [(2,)]
    assert rows(opened, "SELECT count(*) FROM vector_tombstones") == [(0,)]


def test_eviction_says_what_is_protected(zeph, talked):
    result = zeph("memory", "evict", "--max-entries", 1)
    assert "1 more than that are protected" in result.out
    report = zeph("memory", "evict", "--max-entries", 1, "--json").json
    assert report == {"messages": 2, "evicted": 0, "protected": 1, "erased": 0, "dry_run": False}
