import io

from tests.builders import rows


def feed(monkeypatch, data):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))


def test_a_message_is_stored_at_once_and_the_worker_makes_its_vector(zeph, opened):
    result = zeph("remember", "My dog is called Rex")
    assert (result.code, result.out.splitlines()) == (
        0,
        ["remembered as message 1", "no broker is configured: `zeph worker` makes the vectors"],
    )
    assert rows(opened, "SELECT role, content FROM messages") == [("user", "My dog is called Rex")]
    assert rows(opened, "SELECT count(*) FROM message_embeddings") == [(0,)]
    assert zeph("worker", "--until-idle").code == 0
    assert rows(opened, "SELECT message_id FROM message_embeddings") == [(1,)]


def test_options_reach_the_message(zeph, opened):
    options = ("--role", "assistant", "--conversation", "trip", "--speaker", "Ann", "--namespace", "alice")
    assert zeph("remember", "hello", *options, "--json").json == {"message": 1}
    assert rows(opened, "SELECT namespace, role, speaker FROM messages") == [("alice", "assistant", "Ann")]
    assert rows(opened, "SELECT namespace, key FROM conversations") == [("alice", "trip")]
    assert zeph("remember", "again", "--conversation", "id:1", "--namespace", "alice").code == 0
    assert rows(opened, "SELECT DISTINCT conversation_id FROM messages") == [(1,)]


def test_a_dash_reads_the_text_from_standard_input(zeph, opened, monkeypatch):
    feed(monkeypatch, "två\nlines\n\n".encode())
    assert zeph("remember", "-").code == 0
    assert rows(opened, "SELECT content FROM messages") == [("två\nlines",)]


def test_what_is_no_text_is_refused_and_what_is_left_out_of_one_is_said(zeph, opened, monkeypatch):
    feed(monkeypatch, b"two\xff\n")
    result = zeph("remember", "-")
    assert (result.code, "not UTF-8 at byte 3" in result.err) == (2, True)
    feed(monkeypatch, b"a\0b\0")
    assert "without 2 NUL characters" in zeph("remember", "-").err
    assert rows(opened, "SELECT content FROM messages") == [("ab",)]


def test_nothing_is_remembered_of_a_wrong_request(zeph, opened, monkeypatch):
    feed(monkeypatch, b"  \n")
    for arguments, reason in (
        (("-",), "nothing to remember"),
        (("",), "nothing to remember"),
        (("x", "--role", "robot"), "role is 'robot'"),
        (("x", "--conversation", "id:7"), "no conversation 7"),
        (("x", "--conversation", "id:many"), "conversation is 'id:many'"),
        (("x", "--conversation", "id:" + "9" * 30), "conversation is"),
        (("x", "--conversation", ""), "key of a conversation is empty"),
    ):
        result = zeph("remember", *arguments)
        assert (result.code, result.out) == (2, ""), arguments
        assert reason in result.err
    assert rows(opened, "SELECT count(*) FROM messages") == [(0,)]


def test_a_text_that_the_shell_could_not_decode_is_stored_repaired(zeph, opened):
    assert zeph("remember", "caf\udce9").code == 0
    assert rows(opened, "SELECT content FROM messages") == [("caf\ufffd",)]
