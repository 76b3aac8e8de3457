import json

import pytest

from services.memory.models import NewMessage
from tests.fake_openai import FakeOpenAi, Reply

REPLY = json.dumps(
    {"summary": "Ana moved the [backup] to Lisbon.", "key_facts": ["Ana lives in Lisbon."], "entities": []}
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
def conversation(model, opened):
    opened.memory.remember_many("trip", [NewMessage("user", f"message {number}") for number in range(12)])
    return "trip"


def test_a_conversation_is_summarised_listed_and_found(zeph, conversation):
    result = zeph("summaries", "run", "--conversation", "trip", "--messages", "5")
    assert result.code == 0
    assert [line.partition(": ")[2] for line in result.out.splitlines()] == [
        "Ana moved the [backup] to Lisbon."
    ] * 2
    listed = zeph("summaries", "list", "--conversation", "trip", "--json").json
    assert [summary["content"] for summary in listed] == ["Ana moved the [backup] to Lisbon."] * 2
    assert listed[0]["last_message_id"] < listed[1]["first_message_id"]
    found = zeph("summaries", "search", "Ana moved the backup", "--json").json
    assert (len(found["hits"]), found["degraded"]) == (2, "")
    assert "Ana lives in Lisbon. (conversation id:" in zeph("facts", "search", "Lisbon").out
    assert zeph("facts", "search", "Lisbon", "--json").json["hits"][0]["fact"] == "Ana lives in Lisbon."


def test_too_few_messages_are_said_to_be_too_few_and_no_failure(zeph, conversation):
    result = zeph("summaries", "run")
    assert (result.code, result.out) == (0, "")
    assert "too few messages" in result.err
    assert zeph("summaries", "run", "--json").json == []


def test_detached_work_is_left_in_the_queue(zeph, conversation, model):
    result = zeph("summaries", "run", "--messages", "5", "--detach")
    assert "zeph jobs show" in result.out
    assert zeph("summaries", "run", "--messages", "5", "--detach", "--json").json["job_id"] > 0
    assert model.requests == []


def test_without_a_language_model_the_command_says_how_to_get_one(zeph, opened):
    opened.memory.remember("user", "hello")
    result = zeph("summaries", "run")
    assert (result.code, result.out) == (2, "")
    assert "llm.provider" in result.err


def test_nothing_found_and_unknown_conversations_are_told_apart(zeph, conversation):
    assert "no summary yet" in zeph("summaries", "list").err
    assert "nothing found" in zeph("facts", "search", "x").err
    unknown = zeph("summaries", "list", "--conversation", "other")
    assert (unknown.code, "no conversation other" in unknown.err) == (2, True)


def test_an_answer_by_words_alone_says_so(zeph, conversation, monkeypatch):
    zeph("summaries", "run", "--messages", "5")
    monkeypatch.setenv("ZEPH_EMBEDDING__PROVIDER", "openai")
    monkeypatch.setenv("ZEPH_EMBEDDING__BASE_URL", "http://127.0.0.1:9/v1")
    monkeypatch.setenv("ZEPH_EMBEDDING__MODEL", "any")
    result = zeph("facts", "search", "Lisbon")
    assert result.code == 0
    assert "degraded: found by words alone: " in result.err
    assert "Ana lives in Lisbon." in result.out


def test_a_model_that_is_away_is_named_at_once_and_the_work_stays_queued(
    zeph, conversation, monkeypatch, opened
):
    monkeypatch.setenv("ZEPH_LLM__BASE_URL", "http://127.0.0.1:9/v1")
    result = zeph("summaries", "run", "--messages", "5")
    assert (result.code, result.out) == (3, "")
    assert "llm server http://127.0.0.1:9/v1/chat/completions does not answer" in result.err
    assert "stays queued" in result.err
    with opened.database.read() as unit:
        (job,) = unit.jobs.select(kind="memory.summarize")
    assert job.state == "pending"


def test_a_model_that_refuses_is_named_with_its_reason(zeph, conversation, model):
    model.replies.append(Reply(401, {"error": {"message": "no such key"}}))
    result = zeph("summaries", "run", "--messages", "5")
    assert result.code == 2
    assert "no such key (check llm.api_key)" in result.err
