import pytest


@pytest.fixture
def stored(opened):
    memory = opened.memory
    memory.remember("user", "hello [red]", conversation="a", created_at=1_700_000_000_000_000)
    memory.remember(
        "assistant", "hi\x1b[2J", conversation="a", speaker="Ann", created_at=1_700_000_001_000_000
    )
    memory.remember("user", "elsewhere", conversation="b", created_at=1_700_000_002_000_000)


def test_a_conversation_is_printed_oldest_first_with_time_id_and_speaker(zeph, stored):
    assert zeph("history", "--conversation", "a").out.splitlines() == [
        "2023-11-14 22:13:20 1 user: hello [red]",
        "2023-11-14 22:13:21 2 assistant (Ann): hi\\x1b[2J",
    ]


def test_the_latest_conversation_is_the_default_and_the_limit_takes_the_newest(zeph, stored):
    assert zeph("history").out.splitlines() == ["2023-11-14 22:13:22 3 user: elsewhere"]
    newest = zeph("history", "--conversation", "a", "--limit", "1").out
    assert newest.startswith("2023-11-14 22:13:21 2")


def test_hidden_messages_and_tool_calls_are_marked(zeph, opened):
    memory = opened.memory
    memory.remember("assistant", "", parts=[{"kind": "tool_use", "id": "1"}], created_at=0)
    memory.remember("user", "", parts=[{"kind": "tool_result", "tool_use_id": "1"}], created_at=0)
    memory.remember("user", "aside", agent_visible=False, created_at=0)
    assert zeph("history").out.splitlines() == [
        "1970-01-01 00:00:00 1 assistant:  [tool_use]",
        "1970-01-01 00:00:00 2 user:  [tool_result]",
        "1970-01-01 00:00:00 3 user (hidden from the agent): aside",
    ]


def test_json_has_every_field(zeph, stored):
    first, second = zeph("history", "--conversation", "id:1", "--json").json
    assert (first["content"], first["role"], first["created_at"]) == (
        "hello [red]",
        "user",
        "2023-11-14T22:13:20+00:00",
    )
    assert (second["speaker"], second["parts"], second["agent_visible"]) == ("Ann", [], True)


def test_nothing_remembered_is_an_empty_history_and_an_unknown_conversation_an_error(zeph):
    assert (zeph("history").code, zeph("history", "--json").json) == (0, [])
    result = zeph("history", "--conversation", "nothing")
    assert (result.code, result.out) == (2, "")
    assert "no conversation nothing" in result.err
