"""`zeph graph extract`, `zeph graph backfill` and `zeph ingest --graph`."""

from __future__ import annotations

import gzip
import json

import pytest

from services.memory.models import NewMessage
from tests.builders import write_files
from tests.fake_openai import FakeOpenAi

REPLY = json.dumps(
    {
        "entities": [
            {"name": "Ann", "type": "person", "summary": "a nurse"},
            {"name": "Rome", "type": "concept"},
        ],
        "edges": [{"source": "Ann", "target": "Rome", "relation": "lives_in", "fact": "Ann lives in Rome."}],
    }
)


@pytest.fixture
def model(monkeypatch, data_dir):
    with FakeOpenAi() as running:
        running.chat = lambda _request: REPLY
        monkeypatch.setenv("ZEPH_LLM__PROVIDER", "openai")
        monkeypatch.setenv("ZEPH_LLM__BASE_URL", running.base_url)
        monkeypatch.setenv("ZEPH_LLM__MODEL", "m")
        yield running


@pytest.fixture
def said(opened):
    texts = ("We met Ana in Porto.", "Then Ben flew to Rome.", "Good morning.")
    opened.memory.remember_many("trip", [NewMessage("user", text) for text in texts])


def test_a_text_shows_what_would_be_found_and_stores_nothing(zeph, opened):
    result = zeph("graph", "extract", "We met Ana in Porto.", "--speaker", "Zoe")
    assert result.code == 0
    assert result.out.splitlines()[:3] == ["Zoe (person)", "Ana (concept)", "Porto (concept)"]
    found = zeph("graph", "extract", "We met Ana in Porto.", "--json").json
    assert [entity["name"] for entity in found["entities"]] == ["Ana", "Porto"]
    assert found["extractor"] == "local"
    assert zeph("graph", "extract", "hello").err == "nothing found\n"
    assert opened.graph.entities("default") == []


def test_a_text_is_read_by_the_model_where_there_is_one(zeph, model):
    assert zeph("graph", "extract", "Ann lives in Rome.").out.splitlines() == [
        "Ann (person): a nurse",
        "Rome (concept)",
        "Ann lives_in Rome  [0.80] Ann lives in Rome.",
    ]


def test_a_conversation_or_some_messages_are_read_once(zeph, said):
    assert zeph("graph", "extract", "--message", 2).out.startswith("1 texts read by local: ")
    result = zeph("graph", "extract", "--conversation", "trip", "--json")
    assert (result.code, result.json["texts"], result.json["open_jobs"]) == (0, 2, 0)
    assert zeph("graph", "extract", "--conversation", "trip", "--json").json["texts"] == 0


@pytest.mark.parametrize(
    "arguments",
    [(), ("text", "--conversation", "c"), ("text", "--message", 1), ("--conversation", "no such")],
)
def test_what_to_read_must_be_one_thing_that_exists(zeph, arguments):
    result = zeph("graph", "extract", *arguments)
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith("error: ")


def test_a_backfill_reads_what_nobody_has_read_and_can_be_repeated(zeph, said):
    assert zeph("graph", "backfill", "--limit", 1, "--json").json["texts"] == 1
    result = zeph("graph", "backfill")
    assert (result.code, result.out) == (0, "2 texts read by local: 2 mentions of entities, 1 statements\n")
    assert zeph("graph", "backfill", "--json").json["texts"] == 0


def test_what_the_local_extractor_read_is_read_again_only_when_asked(zeph, said, model, monkeypatch):
    monkeypatch.setenv("ZEPH_LLM__PROVIDER", "none")
    zeph("graph", "backfill")
    refused = zeph("graph", "backfill", "--replace-local")
    assert refused.code == 2
    assert "no language model is configured" in refused.err
    monkeypatch.setenv("ZEPH_LLM__PROVIDER", "openai")
    assert zeph("graph", "backfill", "--json").json["texts"] == 0
    replaced = zeph("graph", "backfill", "--replace-local", "--json").json
    assert (replaced["texts"], replaced["extractor"], replaced["prompt_tokens"]) == (3, "llm:openai/m", 30)


def test_detached_work_waits_for_workers(zeph, said, opened):
    result = zeph("graph", "backfill", "--detach")
    assert (result.code, result.out.startswith("queued as job ")) == (0, True)
    assert opened.graph_extraction.waiting("default") == 3
    assert zeph("graph", "stats", "--json").json["unread"] == 3
    (job_id,) = zeph("graph", "backfill", "--detach", "--json").json["jobs"]
    assert zeph("jobs", "show", job_id).code == 0


def test_what_cannot_be_read_is_named_and_the_exit_code_tells(zeph, said, model, monkeypatch):
    monkeypatch.setenv("ZEPH_JOBS__MAX_ATTEMPTS", "1")
    model.chat = lambda request: (
        "no JSON" if "Porto" in request["messages"][1]["content"].rpartition("<message")[2] else REPLY
    )
    result = zeph("graph", "backfill")
    assert result.code == 1
    assert "the model's reply cannot be used" in result.out
    assert "2 texts read by llm:openai/m" in result.out


def test_ingested_files_are_read_for_the_graph_when_asked(zeph, opened, tmp_path):
    folder = write_files(tmp_path / "docs", {"a.md": "# Trip\n\nWe met Ana in Porto."})
    assert zeph("ingest", folder).code == 0
    assert opened.graph.entities("default") == []
    assert zeph("ingest", folder, "--graph").code == 0
    assert {entity.name for entity in opened.graph.entities("default")} == {"Ana", "Porto"}


def test_the_graph_is_scored_on_a_set_by_the_configured_extractor(zeph, tmp_path):
    paragraph = {
        "id": "d1",
        "sents": ["We met Ana Pereira in Porto ."],
        "entities": [{"type": "PER", "names": ["Ana Pereira"]}, {"type": "LOC", "names": ["Porto"]}],
        "triples": [[0, "residence", 1, [0]]],
    }
    file = tmp_path / "set.jsonl.gz"
    file.write_bytes(gzip.compress(json.dumps(paragraph).encode()))
    found = zeph("eval", "graph", file, "--json").json
    assert (found["extractor"], found["documents"], found["unread"]) == ("local", 1, 0)
    assert (found["name_precision"], found["name_recall"], found["invented"]) == (1.0, 1.0, 0)
    assert "name precision: 1.000" in zeph("eval", "graph", file, "--limit", 1).out


def test_bug_1_two_lines_of_a_settings_file_are_enough(zeph, monkeypatch, tmp_path):
    """Graph bug 1: on in the settings, and nothing happens."""
    file = tmp_path / "zeph.toml"
    file.write_text("[memory.graph]\nenabled = true\n")
    monkeypatch.setenv("ZEPH_CONFIG", str(file))
    assert zeph("remember", "We met Ana in Porto.").code == 0
    assert zeph("worker", "--until-idle").code == 0
    (fact,) = zeph("graph", "facts", "Ana", "--json").json["facts"]
    assert {fact["source"], fact["target"]} == {"Ana", "Porto"}
    assert zeph("graph", "stats", "--json").json["extraction_count"] == 1


@pytest.mark.parametrize(
    ("with_model", "relation", "extractor"),
    [(False, "mentioned_with", "local"), (True, "lives_in", "llm:openai/m")],
)
def test_an_imported_chat_answers_what_is_known_of_somebody_with_provenance(
    zeph, model, monkeypatch, tmp_path, with_model, relation, extractor
):
    """Settings on, a file imported, a question answered: nothing else to do."""
    monkeypatch.setenv("ZEPH_MEMORY__GRAPH__ENABLED", "true")
    if not with_model:
        monkeypatch.setenv("ZEPH_LLM__PROVIDER", "none")
    file = tmp_path / "chat.jsonl"
    file.write_text(json.dumps({"role": "user", "content": "I saw Ann in Rome.", "created_at": "2031-05-08"}))
    assert zeph("chat", "import", file).code == 0
    (fact,) = zeph("graph", "facts", "Ann", "--json").json["facts"]
    assert {fact["source"], fact["target"]} == {"Ann", "Rome"}
    (source,) = fact["sources"]
    assert (fact["relation"], source["extractor"], source["message_id"]) == (relation, extractor, 1)
    assert fact["valid_from"] == "2031-05-08T00:00:00+00:00"
