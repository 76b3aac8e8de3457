import pytest

from services.adapters import message_search
from services.memory.models import MessageFilter, NewMessage, Role

ANY = MessageFilter()


@pytest.fixture
def unit(container):
    with container.database.write() as unit:
        yield unit


@pytest.fixture
def messages(unit):
    return unit.messages


def add(messages, namespace, *texts, key=None, apart=7_200_000_000):
    conversation = messages.create_conversation(namespace, key=key)
    new = [NewMessage(Role.USER, text, created_at=at * apart) for at, text in enumerate(texts, start=1)]
    return messages.add(namespace, conversation, new)


def found(messages, query, limit=5, where=ANY, namespace="default"):
    return messages.search(namespace, query, limit=limit, where=where)


@pytest.fixture
def harbour(messages):
    """Three hundred messages with a common word, thirty of them with a rarer one as well, and one very rare."""
    return add(
        messages,
        "default",
        *(
            f"harbour {'lantern' if number % 10 == 0 else 'gravel'} {'walnut' if number == 50 else ''} {number}"
            for number in range(300)
        ),
    )


@pytest.mark.parametrize("query", ["harbour lantern", "walnut harbour lantern", "lantern walnut", "harbour"])
@pytest.mark.parametrize("limit", [1, 3, 10])
def test_leaving_common_words_to_the_scores_alone_changes_no_answer(
    messages, harbour, monkeypatch, query, limit
):
    few = found(messages, query, limit)
    monkeypatch.setattr(message_search, "_ENOUGH", 10_000)
    every = found(messages, query, limit)
    assert list(few) == list(every)
    assert [score for score, _ in few.values()] == pytest.approx([score for score, _ in every.values()])


def test_common_words_are_left_out_only_where_rare_ones_are_held_by_enough(messages, harbour, unit):
    newest = message_search._newest(unit._connection)

    def split(*terms, limit):
        return message_search._split(unit._connection, [f'"{term}"' for term in terms], limit, newest)

    assert split("harbour", "lantern", limit=10) == (['"lantern"'], ['"harbour"'])
    assert split("harbour", "lantern", limit=20) == (['"lantern"', '"harbour"'], [])
    assert split("harbour", limit=1) == (['"harbour"'], [])


def test_where_a_filter_takes_the_rare_words_away_the_common_ones_still_find(messages, harbour):
    other = add(messages, "default", *["harbour walnut"] * 3, key="b")
    where = MessageFilter(messages.resolve("default", "b"))
    assert set(found(messages, "harbour lantern", 2, where)) < set(other)
    assert set(found(messages, "harbour lantern", 5, where)) == set(other)


@pytest.mark.parametrize("others", [2, 40])
def test_a_namespace_large_or_small_finds_its_own_and_nothing_else(messages, others):
    mine = add(messages, "default", *[f"harbour {number}" for number in range(10)])
    add(messages, "other", *[f"harbour harbour {number}" for number in range(others)])
    assert set(found(messages, "harbour", 99)) == set(mine)
    assert set(messages.holders("default", ["harbour"], "harbour 3", limit=99, where=ANY)) == set(mine)


@pytest.mark.parametrize(
    "where",
    [
        ANY,
        MessageFilter(conversation_id=1),
        MessageFilter(since=1, before=5, roles=(Role.USER,), agent_visible=None),
        MessageFilter(as_of=9, user_visible=True),
    ],
)
def test_no_filter_makes_sqlite_read_a_whole_namespace(messages, unit, where):
    """With an index of the namespace, one recall by time over 100,000 messages took minutes."""
    values = {"ids": "[1]", "limit": 1, "most": 2, "expression": "a", "narrower": "a"}
    values |= message_search.filter_values("default", where)
    passes, shown = message_search.filter_sql(where), message_search._shown(where)
    for statement in (
        message_search._ranked(passes, shown, twice=False),
        message_search._ranked(passes, shown, twice=True),
        message_search._passing(passes, shown, within=where.conversation_id is not None),
        message_search._places(passes, shown),
        message_search._ALIVE,
    ):
        plan = unit._connection.exec_driver_sql(
            f"EXPLAIN QUERY PLAN {statement.text}",
            {name: value for name, value in values.items() if f":{name}" in statement.text},
        )
        steps = [row[3] for row in plan if " messages " in row[3] + " "]
        assert steps == ["SEARCH messages USING INTEGER PRIMARY KEY (rowid=?)"]
