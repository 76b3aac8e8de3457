import io

import pytest

from tests.builders import rows
from workers.local import run_pending


@pytest.fixture
def stored(opened):
    opened.memory.remember("user", "the harbour closes", conversation="a")
    opened.memory.remember("user", "the ferry leaves", conversation="a")
    opened.memory.remember("user", "plums", conversation="b")
    opened.memory.remember("user", "alice's", namespace="alice")
    run_pending(opened)


def vectors(opened):
    return opened.vectors.count(rows(opened, "SELECT physical FROM embedding_collections")[0][0])


def test_stats_say_what_is_remembered(zeph, stored):
    facts = zeph("memory", "stats", "--json").json
    assert (facts["conversations"], facts["messages"], facts["embedded"], facts["waiting"]) == (2, 3, 3, 0)
    assert "messages: 1" in zeph("memory", "stats", "--namespace", "alice").out.splitlines()
    assert "oldest at: -" in zeph("memory", "stats", "--namespace", "nobody").out.splitlines()


def test_conversations_are_listed_with_their_sizes(zeph, stored):
    lines = [line.split() for line in zeph("memory", "conversations").out.splitlines()]
    assert lines == [["id", "key", "messages"], ["1", "a", "2"], ["2", "b", "1"]]
    assert [it["key"] for it in zeph("memory", "conversations", "--after", "1", "--json").json] == ["b"]


def test_forgotten_messages_take_their_vectors_along_at_once(zeph, stored, opened):
    result = zeph("memory", "forget", 1, 3)
    assert (result.code, result.out) == (0, "forgotten: 2 messages, 2 vectors\n")
    assert rows(opened, "SELECT id FROM messages") == [(2,), (4,)]
    assert vectors(opened) == 2


def test_a_forgotten_conversation_is_counted(zeph, stored, opened):
    gone = zeph("memory", "forget", "--conversation", "a", "--json").json
    assert (gone["messages"], gone["vectors"], gone["conversations"]) == (2, 2, 1)
    assert rows(opened, "SELECT key FROM conversations WHERE namespace = 'default'") == [("b",)]


def test_everything_is_forgotten_only_when_that_is_confirmed(zeph, stored, opened, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("n\n"))
    assert zeph("memory", "forget", "--everything").code == 1
    assert rows(opened, "SELECT count(*) FROM messages") == [(4,)]
    result = zeph("memory", "forget", "--everything", "--yes")
    assert result.out == "forgotten: 3 messages, 3 vectors, 2 conversations\n"
    assert rows(opened, "SELECT namespace FROM messages") == [("alice",)]
    assert vectors(opened) == 1


def test_a_wrong_request_forgets_nothing(zeph, stored, opened):
    for arguments in (
        (),
        (1, "--conversation", "a"),
        (4,),
        (99,),
        ("x",),
        ("--conversation", "c"),
        (2**70,),
        (1, 99),
    ):
        result = zeph("memory", "forget", *arguments)
        assert (result.code, result.out) == (2, ""), arguments
    assert rows(opened, "SELECT count(*) FROM messages") == [(4,)]


def test_messages_without_vectors_get_them_on_demand(zeph, stored, opened):
    with opened.sqlite.write() as connection:
        connection.exec_driver_sql("DELETE FROM message_embeddings WHERE message_id > 2")
    detached = zeph("memory", "reembed", "--detach")
    assert "2 messages have no vectors yet: `zeph worker` makes them" in detached.out
    assert zeph("memory", "reembed").out == "2 messages lacked vectors, 2 have them now\n"
    assert zeph("memory", "reembed", "--json").json == {"waiting": 0, "embedded": 0, "left": 0}


def test_messages_move_to_the_configured_embedder(zeph, stored, opened, monkeypatch):
    monkeypatch.setenv("ZEPH_EMBEDDING__DIMENSIONS", "32")
    assert zeph("collections", "reembed", "zeph_conversations").code == 0
    (active,) = zeph("collections", "list", "--json").json
    assert (active["embedder"], active["vectors"]) == ("fake/hash/32", 4)
