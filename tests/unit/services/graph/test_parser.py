"""Whatever a model answers is read item by item; what nobody can read is an error, never "nothing found"."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services import errors
from services.graph.models import EntityType, FoundEdge, FoundEntity
from services.graph.parser import DEFAULT_CONFIDENCE, read_extraction

SAID = int(datetime(2024, 5, 15, tzinfo=UTC).timestamp()) * 1_000_000
ANN = {"name": "Ann", "type": "person", "summary": "a nurse"}
ROME = {"name": "Rome", "type": "concept", "summary": None}
LIVES = {
    "source": "Ann",
    "target": "Rome",
    "relation": "lives_in",
    "fact": "Ann lives in Rome.",
    "temporal_hint": None,
    "confidence": 0.9,
}
WHOLE = json.dumps({"entities": [ANN, ROME], "edges": [LIVES]})


def read(reply):
    return read_extraction(
        reply if isinstance(reply, str) else json.dumps(reply), extractor="llm:m", said_at=SAID
    )


def names(extraction):
    return [entity.name for entity in extraction.entities]


def triples(extraction):
    return [(edge.source, edge.relation, edge.target) for edge in extraction.edges]


def entities(*items):
    return {"entities": list(items), "edges": []}


def edges(*items):
    return {"entities": [ANN, ROME], "edges": list(items)}


@pytest.mark.parametrize(
    "reply",
    [
        WHOLE,
        f"```json\n{WHOLE}\n```",
        f"```\n{WHOLE}\n```",
        f"Here is the graph:\n{WHOLE}\nAnything else?",
        f'<think>Ann lives in... {{"entities": []}}</think>{WHOLE}',
        f"\ufeff{WHOLE}",
        f"[{WHOLE}]",
        json.dumps({"nodes": [ANN, ROME], "relationships": [LIVES]}),
        json.dumps({"thoughts": "none", "entities": [ANN, ROME], "edges": [LIVES], "done": True}),
        json.dumps([ANN, ROME, LIVES]),
        json.dumps(
            {
                "entities": {"Ann": {"type": "person", "summary": "a nurse"}, "Rome": {"type": "concept"}},
                "edges": [LIVES],
            }
        ),
        json.dumps({"entities": [ANN, ROME], "edges": LIVES}),
    ],
)
def test_the_answer_is_found_in_whatever_it_is_wrapped(reply):
    """Graph bug 19."""
    found = read(reply)
    assert found.entities == (
        FoundEntity("Ann", EntityType.PERSON, "a nurse"),
        FoundEntity("Rome", EntityType.CONCEPT, None),
    )
    assert found.edges == (FoundEdge("Ann", "Rome", "lives_in", "Ann lives in Rome.", 0.9),)


@pytest.mark.parametrize(
    "reply",
    [
        {"entities": [], "edges": []},
        {"entities": []},
        {"edges": []},
        {"entities": None, "edges": None},
        {"entities": {}, "edges": {}},
    ],
)
def test_nothing_found_is_an_answer(reply):
    found = read(reply)
    assert (found.entities, found.edges, found.dropped) == ((), (), ())


@pytest.mark.parametrize(
    "reply",
    [
        "",
        "   ",
        "I could not find anything.",
        "{}",
        "[]",
        "null",
        "42",
        '"entities"',
        '{"summary": "Ann lives in Rome"}',
        "{'entities': [{'name': 'Ann'}]}",
        "<entities><entity>Ann</entity></entities>",
        "entities:\n  - name: Ann",
        '{"entities": ["',
        '<think>still thinking about {"entities": [',
        '{"entities": "Ann"}',
        '{"entities": [null, true, [], {}]}',
        '{"entities": [{"type": "person"}], "edges": [{"source": "Ann"}]}',
        '{"edges": ["Ann lives in Rome"]}',
        '{"entities": 7}',
        "\x00\x01\x02",
        "{" * 10_000,
        "[" * 100_000,
        '{"entities": [' * 5_000,
        "9" * 400_000,
    ],
)
def test_a_reply_that_nobody_can_read_is_an_error_and_not_an_empty_graph(reply):
    with pytest.raises(errors.ReplyUnusable):
        read(reply)


@pytest.mark.parametrize(
    ("item", "entity"),
    [
        ({"entity_name": "Ann", "entity_type": "person"}, FoundEntity("Ann", EntityType.PERSON)),
        ({"entity": "Ann", "category": "Person"}, FoundEntity("Ann", EntityType.PERSON)),
        ({"name": "Ann", "type": " PERSON "}, FoundEntity("Ann", EntityType.PERSON)),
        (
            {"name": "Ann", "type": "person", "description": "a nurse"},
            FoundEntity("Ann", EntityType.PERSON, "a nurse"),
        ),
        (
            {"name": "  Ann\u202e\x07 ", "type": "person", "summary": "  "},
            FoundEntity("Ann", EntityType.PERSON),
        ),
        ({"name": "A &lt;|&gt; B", "type": "concept"}, FoundEntity("A <|> B")),
        ({"name": 2024, "type": "concept"}, FoundEntity("2024")),
        ({"name": "Ann", "type": "person", "age": 7, "tags": []}, FoundEntity("Ann", EntityType.PERSON)),
        ({"name": "李明", "type": "person"}, FoundEntity("李明", EntityType.PERSON)),
        ("Ann", FoundEntity("Ann")),
    ],
)
def test_an_entity_is_read_under_every_name_that_models_give_its_fields(item, entity):
    """graph-07: what looks like a delimiter inside a name stays in it."""
    assert read(entities(item)).entities == (entity,)


@pytest.mark.parametrize("kind", ["technology", "", None, 7, ["person"], {"a": 1}])
def test_a_type_that_we_do_not_know_becomes_a_concept_and_is_counted(kind):
    """Graph bug 18."""
    found = read(entities({"name": "Kafka", "type": kind}))
    assert found.entities == (FoundEntity("Kafka", EntityType.CONCEPT),)
    assert found.dropped == (("unknown_type", 1),)


@pytest.mark.parametrize(
    "bad",
    [
        None,
        True,
        1.5e400,
        [],
        ["Ann"],
        {},
        {"name": ""},
        {"name": None},
        {"name": ["Ann"]},
        {"type": "person"},
    ],
)
def test_one_bad_entity_costs_no_other(bad):
    reply = json.dumps(entities(bad, ANN)).replace("Infinity", "null")
    found = read(reply)
    assert names(found) == ["Ann"]
    assert dict(found.dropped)["bad_item"] == 1


@pytest.mark.parametrize(
    ("item", "triple"),
    [
        ({"subject": "Ann", "predicate": "knows", "object": "Rome"}, ("Ann", "knows", "Rome")),
        ({"from": "Ann", "relationship": "knows", "to": "Rome"}, ("Ann", "knows", "Rome")),
        ({"head": "Ann", "type": "knows", "tail": "Rome"}, ("Ann", "knows", "Rome")),
        ({"source": {"name": "Ann"}, "label": "knows", "target": {"name": "Rome"}}, ("Ann", "knows", "Rome")),
        (["Ann", "knows", "Rome"], ("Ann", "knows", "Rome")),
        ({"source": 1, "relation": "before", "target": 2}, ("1", "before", "2")),
    ],
)
def test_an_edge_is_read_under_every_name_that_models_give_its_fields(item, triple):
    assert triples(read(edges(item))) == [triple]


@pytest.mark.parametrize(
    "bad",
    [
        None,
        "Ann knows Rome",
        [],
        ["Ann", "Rome"],
        ["Ann", "knows", "Rome", 0.9],
        {},
        {"source": "Ann", "target": "Rome"},
        {"source": "Ann", "relation": "knows"},
        {"source": "", "relation": "knows", "target": "Rome"},
        {"source": None, "relation": "knows", "target": "Rome"},
        {"source": ["Ann"], "relation": "knows", "target": "Rome"},
        {"source": "Ann", "relation": " ", "target": "Rome"},
    ],
)
def test_one_bad_edge_costs_no_other(bad):
    found = read(edges(bad, LIVES))
    assert triples(found) == [("Ann", "lives_in", "Rome")]
    assert dict(found.dropped)["bad_item"] == 1


def test_an_edge_without_a_sentence_says_what_it_says():
    assert read(edges(["Ann", "works_at", "Rome"])).edges[0].fact == "Ann works at Rome"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (0.4, 0.4),
        (1, 1.0),
        ("0.75", 0.75),
        ("85%", 0.85),
        (85, 0.85),
        (0, 0.0),
        (None, DEFAULT_CONFIDENCE),
        ("high", DEFAULT_CONFIDENCE),
        (True, DEFAULT_CONFIDENCE),
        (-1, DEFAULT_CONFIDENCE),
        (1e9, DEFAULT_CONFIDENCE),
        ([0.5], DEFAULT_CONFIDENCE),
        ("9" * 400, DEFAULT_CONFIDENCE),
    ],
)
def test_a_confidence_is_between_nothing_and_certain_whatever_was_written(given, expected):
    assert read(edges({**LIVES, "confidence": given})).edges[0].confidence == pytest.approx(expected)


def test_a_hint_becomes_the_period_of_the_fact_and_one_that_is_no_date_is_counted():
    dated, undated = {**LIVES, "temporal_hint": "from 2019 to 2021"}, {**LIVES, "when": "in her youth"}
    found = read(edges(dated, undated))
    start, end = (int(datetime(year, 1, 1, tzinfo=UTC).timestamp()) * 1_000_000 for year in (2019, 2022))
    assert [(edge.valid_from, edge.valid_to) for edge in found.edges] == [(start, end), (None, None)]
    assert found.dropped == (("unread_hint", 1),)


def test_a_reply_that_was_cut_off_gives_what_is_complete_in_it():
    found = read(WHOLE[: WHOLE.index("lives_in")])
    assert (names(found), triples(found)) == (["Ann", "Rome"], [])
    assert dict(found.dropped)["reply_cut_off"] == 1


def test_a_list_without_end_is_read_to_a_limit():
    found = read(entities(*[{"name": f"Name{at}", "type": "concept"} for at in range(2_500)]))
    assert len(found.entities) == 2_000
    assert dict(found.dropped)["bad_item"] == 500


@settings(max_examples=200, deadline=None)
@given(
    st.recursive(
        st.none() | st.booleans() | st.floats(allow_nan=False) | st.integers() | st.text(max_size=20),
        lambda inner: (
            st.lists(inner, max_size=4)
            | st.dictionaries(
                st.sampled_from(["entities", "edges", "name", "type", "source", "target", "relation"]), inner
            )
        ),
        max_leaves=30,
    )
)
@pytest.mark.slow
def test_no_json_at_all_makes_the_parser_fail_in_any_other_way(value):
    try:
        found = read(json.dumps(value))
    except errors.ReplyUnusable:
        return
    assert all(entity.name for entity in found.entities)
    assert all(edge.source and edge.target and edge.relation and edge.fact for edge in found.edges)
