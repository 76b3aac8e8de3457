import json
import re

import pytest

from services.graph.models import CO_OCCURRENCE, EntityType, Extraction, FoundEdge, FoundEntity, Source

NS = "default"
DAY = 86_400_000_000


@pytest.fixture
def graph(opened):
    """Two people, a firm, a past flat, and a co-occurrence from a message."""
    store, now = opened.graph, opened.clock.now()
    message = opened.memory.remember("user", "Ada met [Zed].", conversation="talk", speaker="Kim")
    local = Extraction(
        "local",
        (FoundEntity("Ada", EntityType.PERSON), FoundEntity("[Zed]", EntityType.PERSON)),
        (FoundEdge("Ada", "[Zed]", CO_OCCURRENCE, "Ada met [Zed].", 0.3),),
    )
    store.store(NS, local, Source(now, message_id=message))
    store.add_fact(NS, "Ada", "works_at", "Acme", source_type=EntityType.PERSON, fact="Ada works at Acme.")
    store.add_fact(NS, "Ben", "founded", "Acme", source_type=EntityType.PERSON)
    store.add_fact(
        NS, "Ada", "lives_in", "Paris", source_type=EntityType.PERSON, valid_from=_at("2020-05-08")
    )
    store.add_fact(NS, "Ada", "lives_in", "Rome", source_type=EntityType.PERSON, valid_from=_at("2024-05-08"))
    return opened


def _at(day):
    from workers.cli.session import microseconds

    return microseconds("day", day)


def test_facts_stand_with_the_texts_they_come_from(zeph, graph):
    result = zeph("graph", "facts", "ada")
    assert result.code == 0
    assert "Ada (person)" in result.out
    assert "Ada lives in Rome" in result.out
    assert "Paris" not in result.out
    assert "since 2024-05-08" in result.out
    assert "   by hand\n" in result.out
    block = result.out[result.out.index("Ada is mentioned with [Zed]") :]
    assert "seen together in a text, not stated" in block
    assert re.search(r"local from message 1, \d{4}-\d\d-\d\dT[\d:]{8}\+00:00, user \(Kim\)", block)
    assert result.out.count("not stated") == 1


def test_facts_for_machines_have_their_place(zeph, graph):
    found = zeph("graph", "facts", "Ada", "--json").json
    assert found["entity"]["name"] == "Ada"
    by_relation = {fact["relation"]: fact for fact in found["facts"]}
    (source,) = by_relation[CO_OCCURRENCE]["sources"]
    assert (source["extractor"], source["place"]["speaker"], source["place"]["message"]) == (
        "local",
        "Kim",
        1,
    )
    assert by_relation["works_at"]["sources"][0]["place"] == {}
    assert by_relation["lives_in"]["target"] == "Rome"


def test_facts_as_of_a_date_are_those_that_held_then(zeph, graph):
    result = zeph("graph", "facts", "Ada", "--as-of", "2022-01-01")
    assert "Ada lives in Paris" in result.out
    assert "since 2020-05-08 until 2024-05-08" in result.out
    assert "Rome" not in result.out
    nothing = zeph("graph", "facts", "Ada", "--as-of", "1999-01-01")
    assert (nothing.code, "nothing is known of it as of then" in nothing.err) == (0, True)
    assert zeph("graph", "facts", "Ada", "--known-at", "1999-01-01", "--json").json["facts"] == []
    wrong = zeph("graph", "facts", "Ada", "--as-of", "yesterday")
    assert (wrong.code, "--as-of is 'yesterday'" in wrong.err) == (2, True)


def test_history_tells_what_replaced_what(zeph, graph):
    result = zeph("graph", "facts", "Ada", "--history")
    assert "(replaced by fact " in result.out
    assert zeph("graph", "facts", "Ada", "--history", "--as-of", "2020-01-01").code == 2


def test_an_unknown_name_offers_those_that_resemble_it(zeph, graph):
    result = zeph("graph", "facts", "Acne")
    assert (result.code, result.out) == (2, "")
    assert "no entity 'Acne': did you mean Acme?" in result.err
    assert "zeph graph entities" in zeph("graph", "entity", "xyzzy").err


def test_a_sentence_that_says_no_more_than_the_relation_is_not_repeated(zeph, graph):
    assert zeph("graph", "path", "Ada", "Acme").out.count("Ada works at Acme") == 1


def test_a_path_is_told_fact_by_fact(zeph, graph):
    result = zeph("graph", "path", "Ada", "Ben")
    assert [line for line in result.out.splitlines() if not line.startswith(" ")] == [
        "Ada works at Acme",
        "Ben founded Acme",
    ]
    assert [fact["relation"] for fact in zeph("graph", "path", "Ada", "Ben", "--json").json] == [
        "works_at",
        "founded",
    ]
    graph.graph.add_fact(NS, "Lone", "is", "Apart")
    none = zeph("graph", "path", "Ada", "Lone")
    assert (none.code, "no way" in none.err) == (0, True)
    assert zeph("graph", "path", "Ada", "Lone", "--json").json is None


def test_a_question_is_answered_with_facts(zeph, graph):
    result = zeph("graph", "recall", "Where does Ada work?")
    assert result.out.splitlines()[0].startswith("1. ")
    assert "Ada works at Acme  [1.000]" in result.out
    found = zeph("graph", "recall", "Where does Ada work?", "--json", "--limit", "2").json
    assert len(found["facts"]) == 2
    assert found["named"] == [{"entity": "Ada", "score": 1.0, "by": "exact"}]
    nothing = zeph("graph", "recall", "whoever")
    assert (nothing.code, nothing.out, "no entity of the graph is named" in nothing.err) == (0, "", True)
    then = zeph("graph", "recall", "Ada", "--as-of", "2022-01-01", "--json").json["facts"]
    assert "Paris" in [fact["target_name"] for fact in then]


def test_an_entity_is_shown_with_its_names_and_its_community(zeph, graph):
    zeph("graph", "alias", "Ada", "Countess")
    zeph("graph", "refresh")
    result = zeph("graph", "entity", "countess")
    assert "Ada (person), id:1" in result.out
    assert "also: countess" in result.out
    assert "in community" in result.out
    assert zeph("graph", "entity", "id:1", "--json").json["community"]["entity_ids"]
    listed = zeph("graph", "entities", "--type", "person", "--json").json
    assert {one["name"] for one in listed} == {"Ada", "Ben", "[Zed]"}
    assert "[Zed]" in zeph("graph", "entities").out
    assert zeph("graph", "entities", "--type", "robot").code == 2


def test_communities_are_refreshed_and_listed(zeph, graph):
    assert "no communities yet" in zeph("graph", "communities").err
    assert "1 communities: 1 changed" in zeph("graph", "refresh").out
    assert zeph("graph", "refresh", "--json").json["changed"] == 0
    result = zeph("graph", "communities")
    assert "[5 entities]" in result.out
    found = zeph("graph", "communities", "--json").json
    assert (found["stats"]["communities"], found["stats"]["drift"]) == (1, 0.0)
    assert len(found["communities"][0]["entity_ids"]) == 5
    graph.graph.add_fact(NS, "Uma", "likes", "Xylophones", source_type=EntityType.PERSON)
    zeph("graph", "refresh")
    assert len(zeph("graph", "communities", "--json").json["communities"]) == 2
    assert zeph("graph", "communities", "-k", 1, "--json").json["communities"] == found["communities"]


def test_stats_count_the_graph(zeph, graph):
    found = zeph("graph", "stats", "--json").json
    assert (found["entities"], found["edges"], found["history"]) == (6, 4, 1)
    assert found["communities"]["refreshed_at"] is None
    assert "never" in zeph("graph", "stats").out


def test_names_are_merged_and_split(zeph, graph):
    graph.graph.add_fact(NS, "Ada Byron", "likes", "Tea", source_type=EntityType.PERSON)
    assert "ada byron" in zeph("graph", "merge", "Ada", "Ada Byron").out
    assert "Ada likes Tea" in zeph("graph", "facts", "ada byron").out
    likes = next(
        fact for fact in zeph("graph", "facts", "Ada", "--json").json["facts"] if fact["relation"] == "likes"
    )
    result = zeph("graph", "split", "Ada", "Ada Byron", "--fact", likes["id"], "--json")
    assert result.json["name"] == "Ada Byron"
    assert "Tea" not in zeph("graph", "facts", "Ada").out
    assert "Ada Byron likes Tea" in zeph("graph", "facts", f"id:{result.json['id']}").out
    assert zeph("graph", "merge", "Ada", "id:x").code == 2


def test_a_wrong_alias_can_be_removed(zeph, graph):
    """Graph bug 26."""
    assert zeph("graph", "alias", "Ada", "Countess").out == "Ada, also: countess\n"
    assert zeph("graph", "alias", "Ada", "Countess", "--remove").out == "Ada has no other name\n"
    assert zeph("graph", "alias", "Ada", "Countess", "--json").json == ["countess"]
    assert zeph("graph", "alias", "Ada", "Nobody", "--remove").code == 2


def test_a_fact_is_taken_back_or_erased(zeph, graph):
    works = next(
        fact
        for fact in zeph("graph", "facts", "Ada", "--json").json["facts"]
        if fact["relation"] == "works_at"
    )
    assert zeph("graph", "forget", works["id"]).code == 0
    assert "works at" not in zeph("graph", "facts", "Ada").out
    assert "(retracted)" in zeph("graph", "facts", "Ada", "--history").out
    assert zeph("graph", "forget", works["id"], "--erase").code == 0
    assert "works at" not in zeph("graph", "facts", "Ada", "--history").out
    assert zeph("graph", "forget", 999).code == 2


def test_eviction_tells_what_went(zeph, graph):
    found = zeph("graph", "evict", "--max-entities", "2", "--json").json
    assert found["capped_entities"] == 4
    assert "deleted 0 retired facts" in zeph("graph", "evict").out


def test_the_graph_is_exported_to_a_file_or_to_a_pipe(zeph, graph, tmp_path):
    assert len(json.loads(zeph("graph", "export").out)["entities"]) == 6
    assert zeph("graph", "export", "--format", "dot").out.startswith("digraph")
    target = tmp_path / "graph.graphml"
    result = zeph("graph", "export", "-f", "graphml", "-o", target)
    assert (result.out, "6 entities, 4 facts" in result.err) == ("", True)
    assert target.read_text().startswith("<?xml")
    assert zeph("graph", "export", "-f", "png").code == 2
    refused = zeph("graph", "export", "-o", tmp_path / "no" / "folder.json")
    assert (refused.code, "cannot be written" in refused.err) == (2, True)


def test_a_picture_is_one_file(zeph, graph, tmp_path):
    target = tmp_path / "ada.html"
    result = zeph("graph", "draw", "Ada", "-o", target)
    assert (result.code, "5 entities, 4 facts" in result.out) == (0, True)
    assert "<svg" in target.read_text()
    assert zeph("graph", "draw", "Nobody", "-o", target).code == 2
    before = target.read_text()
    assert "use --force to replace it" in zeph("graph", "draw", "Ada", "-o", target, "--hops", "1").err
    assert "use --force" in zeph("graph", "export", "-o", target).err
    assert target.read_text() == before
    assert zeph("graph", "export", "-o", "/dev/null").code == 0
    then = zeph("graph", "draw", "Ada", "-o", target, "--as-of", "2022-01-01", "--hops", "1", "--force")
    assert then.code == 0
    assert "Paris" in target.read_text()


def test_a_message_that_is_not_there_is_named_and_queues_nothing(zeph, graph):
    result = zeph("graph", "extract", "--message", "1", "--message", "999")
    assert (result.code, result.err.strip()) == (2, "error: namespace default has no message 999")
    assert zeph("graph", "extract", "--message", str(2**63)).code == 2
    assert zeph("graph", "forget", str(2**63)).code == 2
    with graph.database.read() as unit:
        assert unit.jobs.select(kind="memory.extract_graph") == []


def test_an_entity_that_is_not_there_is_named_as_it_was_asked_for(zeph, graph):
    said = [zeph("graph", "merge", name, "Ada").err.strip() for name in ("id:999", "Nobody")]
    assert said == [f"error: namespace default has no entity {name}" for name in ("id:999", "'Nobody'")]
