"""The graph as a file: complete, escaped, the same every time."""

import io
import json

import pytest

from services import errors
from services.graph.export import FORMATS, as_text, read_whole
from services.graph.models import CO_OCCURRENCE, EntityType, Extraction, FoundEdge, FoundEntity, Source

NS = "default"
DAY = 86_400_000_000
EVIL = 'Evil "quoted" <b> & \\N name'


@pytest.fixture
def graph(container):
    store = container.graph
    message = container.memory.remember("user", "Ada and Ben met.", conversation="talk")
    local = Extraction(
        "local",
        (FoundEntity("Ada", EntityType.PERSON, "A pilot."), FoundEntity("Ben", EntityType.PERSON)),
        (FoundEdge("Ada", "Ben", CO_OCCURRENCE, "Ada and Ben met.", 0.3),),
    )
    store.store(NS, local, Source(container.clock.now(), message_id=message))
    store.add_fact(NS, "Ada", "lives_in", "Paris", fact='Ada said: "Paris"\\o/')
    container.clock.advance(DAY / 1_000_000)
    store.add_fact(NS, "Ada", "lives_in", "Rome")
    store.add_fact(NS, "Ada", "knows", EVIL)
    store.add_alias(NS, "Ada", "Countess")
    store.add_fact("other", "Somebody", "lives_in", "Elsewhere")
    container.communities.refresh(NS)
    return container


def whole(container, **options):
    return read_whole(container.database, NS, **options)


def test_json_holds_everything_of_the_namespace_and_nothing_else(graph):
    found = json.loads(as_text(whole(graph), "json"))
    assert [entity["name"] for entity in found["entities"]] == ["Ada", "Ben", "Paris", "Rome", EVIL]
    assert found["entities"][0]["aliases"] == ["countess"]
    assert found["entities"][0]["summary"] == "A pilot."
    assert [edge["relation"] for edge in found["edges"]] == [CO_OCCURRENCE, "lives_in", "knows"]
    assert found["edges"][0]["sources"][0]["extractor"] == "local"
    assert found["edges"][0]["sources"][0]["message_id"]
    assert len(found["communities"][0]["entity_ids"]) == 4
    past = json.loads(as_text(whole(graph, history=True), "json"))["edges"]
    assert [edge["valid_to"] is None for edge in past] == [True, False, True, True]


def test_graphml_is_read_by_networkx(graph):
    import networkx as nx

    read = nx.read_graphml(io.BytesIO(as_text(whole(graph, history=True), "graphml").encode()))
    assert sorted(data["name"] for _, data in read.nodes(data=True)) == ["Ada", "Ben", EVIL, "Paris", "Rome"]
    facts = {data["fact"]: data for _, _, data in read.edges(data=True)}
    assert facts['Ada said: "Paris"\\o/']["valid_to"] > facts['Ada said: "Paris"\\o/']["valid_from"]
    assert facts["Ada and Ben met."]["extractors"] == "local"
    assert read.number_of_edges() == 4


def test_dot_is_quoted_and_tells_stated_from_seen_and_past_from_present(graph):
    text = as_text(whole(graph, history=True), "dot")
    assert text.startswith('digraph "default" {\n')
    assert text.endswith("}\n")
    assert 'label="Evil \\"quoted\\" <b> & \\\\N name\\n(concept)"' in text
    lines = {line.split('label="')[1].split('"')[0]: line for line in text.splitlines() if " -> " in line}
    assert "dotted" in lines[CO_OCCURRENCE]
    assert "dotted" not in lines["knows"]
    assert text.count("color=gray,") == 1


@pytest.mark.parametrize("form", FORMATS)
def test_the_same_graph_gives_the_same_bytes(graph, form):
    assert as_text(whole(graph), form) == as_text(whole(graph), form)
    assert as_text(read_whole(graph.database, "nobody"), form)


def test_an_unknown_format_is_refused(graph):
    with pytest.raises(errors.InputError, match="graphml, json, dot"):
        as_text(whole(graph), "png")
