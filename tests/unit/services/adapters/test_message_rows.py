import logging

import pytest

from services import errors
from services.memory.models import MessageFilter, NewMessage, Role
from services.memory.store import MESSAGES_PER_BLOCK
from tests.builders import rows

PHYSICAL = "zeph_conversations__fake-hash-64__1"


@pytest.fixture
def unit(container):
    with container.database.write() as opened:
        yield opened


@pytest.fixture
def messages(unit):
    return unit.messages


@pytest.fixture
def talk(messages):
    return messages.create_conversation("default")


def add(messages, conversation, *texts, **fields):
    return messages.add("default", conversation, [NewMessage(Role.USER, text, **fields) for text in texts])


def contents(found):
    return [message.content for message in found]


# ---- conversations ---------------------------------------------------------------------------------------------


def test_the_first_conversation_is_number_one_and_the_latest_is_the_newest(messages):
    assert messages.resolve("default", None) is None
    first, second = (messages.create_conversation("default") for _ in range(2))
    assert (first, second) == (1, 2)
    assert messages.resolve("default", None) == 2
    assert messages.resolve("alice", None) is None


def test_a_key_names_one_conversation_of_its_namespace(messages):
    mine = messages.create_conversation("default", key="trip")
    assert messages.create_conversation("default", key="trip") == mine
    theirs = messages.create_conversation("alice", key="trip")
    assert theirs != mine
    assert messages.resolve("default", "trip") == messages.resolve("default", mine) == mine
    assert messages.find_conversation("alice", "trip").id == theirs
    assert messages.conversation("alice", mine) is None
    assert messages.resolve("alice", mine) is None


def test_a_page_of_conversations_continues_behind_an_id(messages):
    for key in "abc":
        messages.create_conversation("default", key=key)
    assert [it.key for it in messages.conversations("default", after=1, limit=1)] == ["b"]


# ---- messages --------------------------------------------------------------------------------------------------


def test_ids_grow_and_are_never_used_again(messages, talk):
    first, second = add(messages, talk, "one", "two")
    assert first < second
    messages.forget("default", [second])
    (third,) = add(messages, talk, "three")
    assert third > second


def test_many_added_at_once_know_their_neighbours_as_if_they_came_one_by_one(messages):
    texts = ["Where is it?", "In Brno. " * 60, "雨が降る", "", "two\nlines", "Fine.", "x" * 301]
    minutes = [0, 30, 95, 200, 201, 100, 160]
    news = [
        NewMessage(Role.USER, text, speaker=speaker, created_at=minute * 60_000_000)
        for text, minute, speaker in zip(
            texts * 2, minutes + [m + 50 for m in minutes], "AB" * 7, strict=True
        )
    ]

    def around(sizes, *, deleted_after=None):
        talk, left = messages.create_conversation("default"), list(news)
        for size in sizes:
            made = messages.add("default", talk, [left.pop(0) for _ in range(size)])
            if len(news) - len(left) == deleted_after:
                messages.soft_delete("default", made[-1:])
        wanted = f"SELECT around FROM messages WHERE conversation_id = {talk} ORDER BY id"
        return messages._connection.exec_driver_sql(wanted).scalars().all()

    assert around((14,)) == around((3, 11)) == around((1,) * 14)
    assert around((6, 8), deleted_after=6) == around((1,) * 14, deleted_after=6)
    messages._connection.exec_driver_sql(
        "INSERT INTO messages_fts(messages_fts, rank) VALUES ('integrity-check', 1)"
    )


def test_a_message_needs_a_conversation_of_its_namespace(messages, talk):
    for namespace, conversation in (("default", 99), ("alice", talk)):
        with pytest.raises(errors.NotFound):
            messages.add(namespace, conversation, [NewMessage(Role.USER, "x")])


def test_unknown_deleted_and_foreign_ids_are_left_out(messages, talk):
    first, second = add(messages, talk, "one", "two")
    messages.soft_delete("default", [first])
    assert list(messages.get("default", [first, second, 99])) == [second]
    assert messages.get("alice", [second]) == {}
    assert messages.get("default", []) == {}


def test_counts_and_pages_behind_an_id_leave_deleted_messages_out(messages, talk):
    ids = add(messages, talk, "one", "two", "three", "four")
    messages.soft_delete("default", [ids[2]])
    assert messages.count("default", talk) == 3
    assert messages.count("default", talk, after=ids[0]) == 2
    assert messages.count("default", 99) == 0
    assert contents(messages.after("default", talk, ids[0], limit=10)) == ["two", "four"]
    assert contents(messages.after("default", talk, ids[0], limit=1)) == ["two"]
    assert contents(messages.history("default", talk, limit=2)) == ["two", "four"]


def test_thousands_of_ids_fit_into_one_question(messages, talk):
    ids = messages.add("default", talk, [NewMessage(Role.USER, str(number)) for number in range(1_300)])
    assert len(messages.get("default", ids)) == 1_300
    assert set(messages.places("default", ids, MessageFilter(since=0))) == set(ids)


@pytest.mark.parametrize("stored", ["{", "7", '"text"', '["text"]', "\\x"])
def test_parts_that_cannot_be_read_cost_a_warning_and_not_the_message(container, stored, caplog):
    container.memory.remember("user", "hello", parts=[{"kind": "text"}])
    with container.sqlite.write() as connection:
        connection.exec_driver_sql("UPDATE messages SET parts = ?", (stored + " " * 500,))
    with caplog.at_level(logging.WARNING):
        (message,) = container.memory.history()
    assert (message.content, message.parts) == ("hello", ())
    logged = [record.getMessage() for record in caplog.records]
    assert all(len(line) < 200 for line in logged), "the row's text is cut in the log"


def test_what_is_written_is_read_back_whole(messages, talk):
    wanted = NewMessage(
        Role.ASSISTANT,
        "content\u00e9 \u4e2d",
        speaker="Ann",
        parts=[{"kind": "tool_use", "id": "\ud83d", "input": {"a": [1, None]}}],
        agent_visible=False,
        user_visible=False,
        created_at=-5,
    )
    (found,) = messages.get("default", messages.add("default", talk, [wanted])).values()
    for field in ("role", "content", "speaker", "agent_visible", "user_visible", "created_at"):
        assert getattr(found, field) == getattr(wanted, field), field
    assert list(found.parts) == list(wanted.parts)
    assert (found.compacted_at, found.deleted_at, found.last_accessed_at, found.access_count) == (
        None,
        None,
        None,
        0,
    )


def test_accesses_add_up_and_the_last_one_is_remembered(messages, talk):
    first, second = add(messages, talk, "one", "two")
    messages.touch({first: 2}, now=10)
    messages.touch({first: 1, second: 1, 99: 1}, now=20)
    messages.touch({}, now=30)
    found = messages.get("default", [first, second])
    assert [(it.access_count, it.last_accessed_at) for it in found.values()] == [(3, 20), (1, 20)]


# ---- filters ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("where", "wanted"),
    [
        (MessageFilter(), "abd"),
        (MessageFilter(agent_visible=None), "abcd"),
        (MessageFilter(agent_visible=False), "c"),
        (MessageFilter(user_visible=True), "abd"),
        (MessageFilter(roles=(Role.ASSISTANT,)), "b"),
        (MessageFilter(since=20), "bd"),
        (MessageFilter(before=20), "a"),
        (MessageFilter(since=20, before=40, agent_visible=None), "bc"),
        (MessageFilter(conversation_id=2), "d"),
    ],
)
def test_b34_filters_hold_for_the_index_before_it_is_cut_off(messages, talk, where, wanted):
    other = messages.create_conversation("default")
    named = {}
    for name, conversation, role, when, agent in (
        ("a", talk, Role.USER, 10, True),
        ("b", talk, Role.ASSISTANT, 20, True),
        ("c", talk, Role.USER, 30, False),
        ("d", other, Role.USER, 40, True),
    ):
        new = NewMessage(role, "the harbour closes", created_at=when, agent_visible=agent)
        named[messages.add("default", conversation, [new])[0]] = name
    found = messages.search("default", "harbour", limit=len(wanted), where=where)
    assert sorted(named[it] for it in found) == list(wanted)
    assert set(messages.places("default", list(named), where)) == set(found)


def test_deleted_and_compacted_messages_are_in_no_answer(messages, talk):
    kept, deleted, compacted = add(messages, talk, "harbour one", "harbour two", "harbour three")
    messages.soft_delete("default", [deleted])
    short = NewMessage(Role.SYSTEM, "short")
    new = messages.replace("default", talk, first=compacted, last=compacted, summary=short)
    # The summary may be found by what was said just before it.
    assert set(messages.search("default", "harbour", limit=9, where=MessageFilter())) <= {kept, new}
    assert set(messages.places("default", [kept, deleted, compacted, new], MessageFilter())) == {kept, new}


# ---- vectors ---------------------------------------------------------------------------------------------------


def test_what_is_hidden_deleted_or_not_meant_to_have_vectors_is_not_waiting(messages, talk):
    (kept, deleted) = add(messages, talk, "kept", "deleted")
    add(messages, talk, "hidden", agent_visible=False)
    add(messages, talk, "never", embeddable=False)
    messages.soft_delete("default", [deleted])
    assert messages.waiting("default", PHYSICAL) == 1
    assert messages.waiting("alice", PHYSICAL) == 0
    assert [it.id for it in messages.unembedded("default", 0, PHYSICAL, limit=9)] == [kept]
    assert messages.incomplete("any", PHYSICAL, limit=9) == [("default", 0)]
    assert messages.mark_embedded(PHYSICAL, [(kept, 2), (deleted, 1)]) == {deleted}
    assert messages.waiting("default", PHYSICAL) == 0
    assert messages.embedded_windows("default", PHYSICAL, after=0, limit=9) == [(kept, 2)]
    messages.unmark_embedded(PHYSICAL, [kept])
    assert messages.waiting("default", PHYSICAL) == 1


def test_blocks_divide_the_ids(messages, talk):
    add(messages, talk, *(str(number) for number in range(MESSAGES_PER_BLOCK)))
    assert messages.incomplete("any", PHYSICAL, limit=9) == [("default", 0), ("default", 1)]
    first = messages.unembedded("default", 0, PHYSICAL, limit=1_000)
    second = messages.unembedded("default", 1, PHYSICAL, limit=1_000)
    assert [it.id for it in (*first, *second)] == list(range(1, MESSAGES_PER_BLOCK + 1))
    assert [it.id for it in second] == [MESSAGES_PER_BLOCK]


def test_deletion_buries_every_window_of_a_message(messages, unit, talk):
    first, second = add(messages, talk, "one", "two")
    messages.mark_embedded(PHYSICAL, [(first, 3), (second, 1)])
    assert messages.forget("default", [first]).vectors == 3
    messages.soft_delete("default", [second])
    assert len(unit.collections.tombstones(limit=99)) == 4


def test_no_row_outlives_its_conversation(container):
    container.memory.remember("user", "hello")
    container.message_vectors.embed_missing()
    with container.sqlite.write() as connection:
        connection.exec_driver_sql(
            f"INSERT INTO message_embeddings (message_id, collection, windows, created_at) VALUES (1, '{PHYSICAL}', 1, 1)"
        )
        connection.exec_driver_sql("DELETE FROM conversations")
    for table in ("messages", "message_embeddings"):
        assert rows(container, f"SELECT count(*) FROM {table}") == [(0,)]
