import pytest


@pytest.fixture
def stored(opened):
    store = opened.sessions()
    store.create_acp_session("one", title="First [of] two")
    store.import_acp_events("one", [("user", "hello"), ("tool", "red \x1b[31m")])
    store.create_acp_session("two")
    opened.sessions("alice").create_acp_session("hers")
    return store


def test_sessions_are_listed_newest_first_up_to_a_limit(zeph, stored, monkeypatch):
    assert [info["id"] for info in zeph("sessions", "list", "--json").json] == ["two", "one"]
    lines = zeph("sessions", "list").out.splitlines()
    assert "First [of] two" in lines[2]
    monkeypatch.setenv("ZEPH_MEMORY__SESSIONS__MAX_HISTORY", "1")
    assert len(zeph("sessions", "list", "--json").json) == 1
    assert len(zeph("sessions", "list", "--limit", 0, "--json").json) == 2
    assert [info["id"] for info in zeph("sessions", "list", "-n", "alice", "--json").json] == ["hers"]


def test_a_session_is_shown_with_its_events_and_cannot_steer_the_terminal(zeph, stored):
    result = zeph("sessions", "show", "one")
    assert "title: First [of] two" in result.out
    assert result.out.index("user\nhello") < result.out.index("tool\nred \\x1b[31m")
    shown = zeph("sessions", "show", "one", "--json").json
    assert [event["payload"] for event in shown["events"]] == ["hello", "red \x1b[31m"]
    assert zeph("sessions", "show", "two").code == 0


def test_a_session_is_created_once_named_and_deleted(zeph, stored):
    assert zeph("sessions", "create", "new", "--title", "x").out == "session new is created\n"
    assert zeph("sessions", "create", "new").out == "session new exists already\n"
    assert zeph("sessions", "title", "new", "y" * 100).code == 0
    assert stored.acp_session("new").title == "y" * 60
    assert zeph("sessions", "title", "new", "").code == 0
    assert stored.acp_session("new").title is None
    assert zeph("sessions", "delete", "new").out == "session new is deleted\n"
    assert zeph("sessions", "delete", "new").code == 2


def test_a_session_is_created_for_a_conversation_by_its_key_or_its_id(zeph, opened):
    opened.memory.remember("user", "hello", conversation="chat")
    for name, conversation in (("by key", "chat"), ("by id", "id:1")):
        assert zeph("sessions", "create", name, "--conversation", conversation).code == 0
    assert {info.conversation_id for info in opened.sessions().list_acp_sessions()} >= {1}
    assert opened.sessions().acp_session("by key").conversation_id == 1
    assert opened.sessions().acp_session("by id").conversation_id == 1
    assert "an id is written id:1" in zeph("sessions", "create", "x", "--conversation", "1").err


def test_a_session_moves_to_another_namespace_and_importing_it_again_adds_nothing(zeph, stored, tmp_path):
    file = tmp_path / "one.json"
    assert "1 sessions, 2 events" in zeph("sessions", "export", "one", file).out
    counts = [zeph("sessions", "import", file, "-n", "bob", "--json").json["events"] for _ in range(2)]
    assert counts == [2, 0]
    theirs = zeph("sessions", "show", "one", "-n", "bob", "--json").json
    assert theirs == zeph("sessions", "show", "one", "--json").json


@pytest.mark.parametrize(
    "arguments",
    [
        ["show", "hers"],
        ["title", "ghost", "x"],
        ["export", "ghost", "/tmp/never-written.json"],
        ["create", ""],
        ["create", "x", "--conversation", "99"],
    ],
)
def test_what_does_not_exist_is_said_without_a_traceback(zeph, stored, arguments):
    result = zeph("sessions", *arguments)
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith("error: ")
