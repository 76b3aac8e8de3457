"""ACP sessions: their order, their events, and who may see them."""

from __future__ import annotations

import pytest

from services import errors
from services.memory.models import NewMessage, Role
from tests.builders import rows


@pytest.fixture
def store(container):
    return container.sessions()


def conversation(container, *contents, namespace="default"):
    with container.database.write() as unit:
        made = unit.messages.create_conversation(namespace, title="talk")
        ids = unit.messages.add(namespace, made, [NewMessage(Role.USER, text) for text in contents])
    return made, ids


def pairs(store, session_id):
    return [(event.event_type, event.payload) for event in store.load_acp_events(session_id)]


def test_sessions_are_listed_newest_first_and_ties_by_id_b41(container, store):
    for moment in (["b", "a", "c"], ["newest"]):
        for session_id in moment:
            store.create_acp_session(session_id)
        container.clock.advance(1)
    assert [info.id for info in store.list_acp_sessions()] == ["newest", "a", "b", "c"]
    assert [info.id for info in store.list_acp_sessions(limit=2)] == ["newest", "a"]
    assert len(store.list_acp_sessions(0)) == 4


def test_creating_a_session_again_changes_nothing(container, store):
    assert store.create_acp_session("s", title="first") is True
    container.clock.advance(1)
    before = store.acp_session("s")
    assert store.create_acp_session("s", title="second") is False
    assert store.acp_session("s") == before


def test_a_session_exists_once_it_was_created(store):
    assert store.acp_session_exists("s") is False
    store.create_acp_session("s")
    assert store.acp_session_exists("s") is True
    with pytest.raises(errors.NotFound, match="no session other"):
        store.acp_session("other")


def test_events_come_back_as_they_went_in_and_in_their_order(store):
    wanted = [
        ("tool", '{"b": 1,  "a": "\\ud83d"}'),
        ("text", "üñí 雨\r\n\x00\x1b[1m"),
        ("a", ""),
        ("text", "x"),
    ]
    store.create_acp_session("s")
    for event in wanted:
        store.save_acp_event("s", *event)
    assert pairs(store, "s") == wanted
    assert store.acp_session("s").events == 4


def test_more_events_than_one_page_keep_their_order(store):
    wanted = [("text", str(number)) for number in range(1_201)]
    store.create_acp_session("s")
    store.import_acp_events("s", wanted)
    assert pairs(store, "s") == wanted


def test_loading_a_session_three_times_adds_nothing_case_session_01(container, store):
    store.create_acp_session("s")
    store.import_acp_events("s", [("text", str(number)) for number in range(30)])
    for _ in range(3):
        assert len(store.load_acp_events("s")) == 30
    assert rows(container, "SELECT count(*) FROM acp_session_events") == [(30,)]


def test_an_unknown_session_has_no_events(store):
    assert store.load_acp_events("s") == []


def test_an_event_moves_updated_at_and_not_created_at(container, store):
    store.create_acp_session("s")
    created = store.acp_session("s").created_at
    container.clock.advance(5)
    store.save_acp_event("s", "text", "x")
    info = store.acp_session("s")
    assert (info.created_at, info.updated_at) == (created, created + 5_000_000)


def test_an_import_into_an_unknown_session_writes_nothing(container, store):
    with pytest.raises(errors.NotFound, match="no session ghost"):
        store.import_acp_events("ghost", [("text", "x")])
    with pytest.raises(errors.NotFound):
        store.save_acp_event("ghost", "text", "x")
    assert rows(container, "SELECT count(*) FROM acp_session_events") == [(0,)]


def test_an_import_that_breaks_in_the_middle_writes_nothing(container, store):
    store.create_acp_session("s")
    before = store.acp_session("s")
    container.clock.advance(1)
    with pytest.raises(errors.InputError):
        store.import_acp_events("s", [("text", "fine"), ("text", "half a pair \ud83d")])
    assert store.load_acp_events("s") == []
    assert store.acp_session("s") == before


def test_an_empty_import_succeeds_and_imports_append(container, store):
    store.create_acp_session("s")
    before = store.acp_session("s")
    container.clock.advance(1)
    store.import_acp_events("s", [])
    assert store.acp_session("s") == before
    for _ in range(2):
        store.import_acp_events("s", [("text", "a"), ("text", "b")])
    assert [payload for _, payload in pairs(store, "s")] == ["a", "b", "a", "b"]


def test_deleting_a_session_takes_its_events_along_and_no_others(container, store):
    for session_id in ("s", "t"):
        store.create_acp_session(session_id)
        store.save_acp_event(session_id, "text", session_id)
    assert store.delete_acp_session("s") is True
    assert rows(container, "SELECT payload FROM acp_session_events") == [("t",)]
    assert store.delete_acp_session("s") is False


def test_titles_are_cut_by_characters(build):
    store = build(memory__sessions__title_max_chars=5).sessions()
    store.create_acp_session("s", title="日本語のタイトル")
    assert store.acp_session("s").title == "日本語のタ"
    store.set_acp_title("s", "🦀🦀🦀🦀🦀🦀")
    assert store.acp_session("s").title == "🦀" * 5
    store.set_acp_title("s", None)
    assert store.acp_session("s").title is None
    with pytest.raises(errors.NotFound):
        store.set_acp_title("ghost", "x")


def test_each_session_has_its_own_conversation_b49(container, store):
    first, second = conversation(container)[0], conversation(container)[0]
    store.create_acp_session("a", conversation_id=first)
    store.create_acp_session("b")
    store.set_acp_conversation("b", second)
    assert {info.id: info.conversation_id for info in store.list_acp_sessions()} == {"a": first, "b": second}
    store.set_acp_conversation("b", None)
    assert store.acp_session("b").conversation_id is None


def test_a_conversation_of_another_namespace_cannot_be_mapped_b49(container, store):
    foreign, _ = conversation(container, namespace="alice")
    with pytest.raises(errors.NotFound, match="no conversation"):
        store.create_acp_session("s", conversation_id=foreign)
    store.create_acp_session("s")
    with pytest.raises(errors.NotFound, match="no conversation"):
        store.set_acp_conversation("s", foreign)
    assert store.acp_session("s").conversation_id is None


def test_no_method_sees_the_sessions_of_another_namespace_b49(container, store):
    alice = container.sessions("alice")
    alice.create_acp_session("s", title="hers")
    alice.save_acp_event("s", "text", "hers")
    assert store.list_acp_sessions() == []
    assert store.load_acp_events("s") == []
    assert not store.acp_session_exists("s")
    for call in (
        lambda: store.acp_session("s"),
        lambda: store.save_acp_event("s", "text", "x"),
        lambda: store.set_acp_title("s", "x"),
        lambda: store.set_acp_conversation("s", None),
        lambda: store.fork_acp_session("s", "t"),
    ):
        with pytest.raises(errors.NotFound):
            call()
    assert store.delete_acp_session("s") is False
    store.create_acp_session("s", title="mine")
    assert store.load_acp_events("s") == []
    assert (alice.acp_session("s").title, pairs(alice, "s")) == ("hers", [("text", "hers")])


def test_a_fork_copies_messages_in_order_under_fresh_ids_and_nothing_else_b50(container, store):
    made, ids = conversation(container, "one", "two", "three", "gone")
    with container.database.write() as unit:
        unit.messages.touch({ids[0]: 7}, now=5)
        unit.messages.soft_delete("default", ids[3:])
    with container.sqlite.write() as connection:
        connection.exec_driver_sql(
            "INSERT INTO summaries (namespace, conversation_id, content, scope, first_message_id, last_message_id,"
            f" token_estimate, created_at) VALUES ('default', {made}, 'sum', '1', {ids[0]}, {ids[1]}, 1, 1)"
        )
    store.create_acp_session("s", title="title", conversation_id=made)
    store.save_acp_event("s", "text", "x")
    container.clock.advance(1)
    fork = store.fork_acp_session("s", "t")
    assert fork == store.acp_session("t")
    assert (fork.title, fork.events, fork.conversation_id != made) == ("title", 0, True)
    with container.database.read() as unit:
        old, new = (unit.messages.after("default", talk, 0, limit=9) for talk in (made, fork.conversation_id))
    assert [message.content for message in new] == ["one", "two", "three"]
    assert min(message.id for message in new) > max(ids)
    assert [message.created_at for message in new] == [message.created_at for message in old]
    assert [message.access_count for message in new] == [0, 0, 0]
    assert rows(container, "SELECT conversation_id FROM summaries") == [(made,)]
    assert rows(container, "SELECT kind FROM jobs") == [("memory.embed_messages",)]


@pytest.mark.parametrize(
    ("settings", "waiting"), [({"jobs__max_live_jobs": 1}, 1), ({"embedding__provider": "none"}, 0)]
)
def test_a_fork_needs_neither_room_in_the_ledger_nor_an_embedder(build, settings, waiting):
    container = build(**settings)
    container.memory.remember("user", "one", conversation="c")
    store = container.sessions()
    store.create_acp_session("s", conversation_id=rows(container, "SELECT id FROM conversations")[0][0])
    assert store.fork_acp_session("s", "t").conversation_id is not None
    live = "SELECT count(*) FROM jobs WHERE kind = 'memory.embed_messages' AND state = 'pending'"
    assert rows(container, live) == [(waiting,)]


def test_a_fork_needs_a_source_and_a_free_id(container, store):
    made, _ = conversation(container, "one")
    store.create_acp_session("s", conversation_id=made)
    with pytest.raises(errors.NotFound):
        store.fork_acp_session("ghost", "t")
    with pytest.raises(errors.InputError, match="exists already"):
        store.fork_acp_session("s", "s")
    assert rows(container, "SELECT count(*) FROM conversations") == [(1,)]
    store.create_acp_session("bare")
    assert store.fork_acp_session("bare", "t").conversation_id is None


@pytest.mark.parametrize("session_id", ["", "x" * 513, "a\nb", "a\x00", "\x1b[1m", "\ud83d"])
def test_an_id_that_nobody_could_type_is_refused(store, session_id):
    with pytest.raises(errors.InputError, match="no session id"):
        store.create_acp_session(session_id)
