"""What was said and then taken back: the newer holds, the older is kept as what it is."""

from __future__ import annotations

import json

import pytest

from tests.builders import rows, work
from tests.fake_openai import FakeOpenAi


@pytest.fixture
def server():
    with FakeOpenAi() as running:
        yield running


def test_a_change_of_mind_supersedes_what_was_felt_before_and_loses_nothing_case_memory_01(build, server):
    def read(request):
        said = "hates" if "I hate Chinese food" in request["messages"][-1]["content"] else "loves"
        people = [{"name": "Ann", "type": "person"}, {"name": "Chinese food", "type": "concept"}]
        fact = {"source": "Ann", "relation": "feels_about", "target": "Chinese food"}
        return json.dumps({"entities": people, "edges": [fact | {"fact": f"Ann {said} Chinese food."}]})

    server.chat = read
    model = {"llm__provider": "openai", "llm__base_url": server.base_url, "llm__model": "m"}
    container = build(memory__graph__enabled=True, **model)
    for said in ("I love Chinese food.", "I hate Chinese food."):
        container.memory.remember("user", said, speaker="Ann", conversation="a")
        work(container)
        container.clock.advance(60)
    facts = rows(container, "SELECT fact, valid_to IS NULL, superseded_by_id FROM graph_edges ORDER BY id")
    assert facts == [("Ann loves Chinese food.", 0, 2), ("Ann hates Chinese food.", 1, None)]
    assert [hit.message.content for hit in container.memory.recall("Chinese food").hits] != []
    assert len(container.memory.history("a")) == 2


def test_what_was_put_right_comes_before_what_was_wrong_and_both_stay_in_history_case_memory_03(build):
    container = build(memory__autosave_assistant=True)
    said = (
        ("user", "Which stack do we use?"),
        ("assistant", "The stack is FastAPI + PostgreSQL + Redis."),
        ("user", "No, that's wrong. The stack is FastAPI + MySQL + Redis."),
    )
    for role, text in said:
        container.memory.remember(role, text, conversation="b")
        work(container)
        container.clock.advance(60)
    for mode in ("keyword", "hybrid", None):
        hits = container.memory.recall("FastAPI stack Redis", mode=mode).hits
        found = [hit.message.content for hit in hits]
        wrong = found.index(said[1][1])
        assert found.index(said[2][1]) < wrong
        assert "corrected" in hits[wrong].legs
    assert [message.content for message in container.memory.history("b")] == [text for _, text in said]
