"""Two entities made one, and one made two."""

from __future__ import annotations

import random

import pytest

from services import errors
from services.graph.models import CO_OCCURRENCE, LOCAL_EXTRACTOR, EntityType, Extraction, FoundEntity
from tests.builders import rows
from tests.graph_builders import CONCEPT, DAY, LLM, PERSON, THEN, facts, found, line, message

NS = "default"


def store(container, *given, at=THEN, **options):
    return container.graph.store(NS, found(*given, **options), message(container, at=at))


def test_a_confirmed_merge_teaches_the_name(container):
    store(container, "kubernetes", "k8s")
    kept = container.graph.merge(NS, "kubernetes", "k8s")

    assert container.graph.entity(NS, "K8s") == kept
    assert container.graph.aliases(NS, "kubernetes") == ["k8s"]
    assert store(container, "K8S").created_ids == ()
    assert container.graph.merge(NS, "kubernetes", "k8s") == kept
    assert container.graph.stats(NS)["merges_by_hand"] == 1


def test_bug_30_everything_of_the_loser_becomes_the_winners(container):
    """Graph bug 30: a merge deletes the loser with its edges, or makes self-loops."""
    ends = (FoundEntity("Robert", CONCEPT, "Tall."), FoundEntity("Bob", PERSON, "Tall. A cook."))
    container.graph.store(NS, Extraction(LLM, ends), message(container))
    store(container, "Bob|knows|Ann|They are friends.", "Cid|likes|Bob", "Bob|is|Robert", at=THEN + DAY)
    store(container, "Robert|knows|Ann|They are friends.", kind=CONCEPT)
    bob = container.graph.entity(NS, "Bob")
    container.graph.add_alias(NS, bob.id, "Bobby")

    merged = container.graph.merge(NS, "Robert", "Bob")

    assert (merged.name, merged.type, merged.summary) == ("Robert", PERSON, "Tall. A cook.")
    assert container.graph.aliases(NS, "Robert") == ["bob", "bobby"]
    assert facts(container, "bobby") == ["Cid likes Robert", "Robert knows Ann"]
    assert container.graph.entity(NS, bob.id) is None
    (twice,) = (each for each in container.graph.facts(NS, "Ann") if each.edge.relation == "knows")
    assert (len(twice.sources), twice.edge.valid_from) == (2, THEN)
    assert rows(container, f"SELECT * FROM graph_entity_sources WHERE entity_id = {bob.id}") == []


def test_facts_that_cannot_both_hold_are_settled_by_time(container):
    store(container, "Bob|lives_in|Oslo", "Bob|knows|Ann|since school", at=THEN + DAY)
    store(container, "Robert|lives_in|Rome", "Robert|knows|Ann|since work", at=THEN)
    container.graph.merge(NS, "Robert", "Bob")

    assert facts(container, "Robert") == ["Robert knows Ann", "Robert lives_in Oslo"]
    told = {line(each): (each.edge.fact, each.ended_by) for each in container.graph.history(NS, "Robert")}
    assert told["Robert lives_in Rome"][1] == "replaced"
    assert [each.edge.fact for each in container.graph.history(NS, "Ann")] == ["since school", "since work"]


def test_what_stands_together_stays_one_fact_in_any_direction(container):
    store(container, "Ann", "Bob", "Robert")
    for name in ("Bob", "Robert"):
        store(container, ("Ann", CO_OCCURRENCE, name, f"Ann and {name}"), extractor=LOCAL_EXTRACTOR)
    container.graph.merge(NS, "Robert", "Bob")

    (record,) = container.graph.history(NS, "Ann")
    assert [source.evidence for source in record.sources] == ["Ann and Bob", "Ann and Robert"]


def test_history_moves_too(container):
    store(container, "Bob|lives_in|Oslo", at=THEN)
    store(container, "Bob|lives_in|Rome", at=THEN + DAY)
    store(container, "Robert")
    container.graph.merge(NS, "Robert", "Bob")

    newest, oldest = container.graph.history(NS, "Robert")
    assert (line(newest), line(oldest)) == ("Robert lives_in Rome", "Robert lives_in Oslo")
    assert oldest.replaced_by == newest.edge


def test_merging_in_any_order_and_before_or_after_reading_gives_the_same_facts(build, tmp_path):
    """A merge moves facts the way in which they would have been stored under one name."""
    for seed in range(3):
        dice = random.Random(seed)
        texts = [
            (dice.choice(["Bob", "Robert"]), dice.choice(["Oslo", "Rome"]), THEN + day * DAY)
            for day in dice.sample(range(50), 5)
        ]
        seen = []
        for early in (True, False):
            container = build(tmp_path / f"data{seed}{early}")
            store(container, "Robert", "Bob")
            if early:
                container.graph.merge(NS, "Robert", "Bob")
            for who, where, at in sorted(texts, key=lambda each: each[2]) if early else texts:
                store(container, f"{who}|lives_in|{where}|lives there", at=at)
            if not early:
                container.graph.merge(NS, "Robert", "Bob")
            seen.append(facts(container, "Robert"))
            container.close()
        assert seen[0] == seen[1], seed


def test_bug_26_an_alias_is_no_way_to_merge_its_owner_away(container):
    """Graph bug 26: alias hijack. Alex is Alexander here; naming him so must not merge Alexander into Alexandra."""
    store(container, "Alexander", "Alexandra")
    container.graph.add_alias(NS, "Alexander", "Alex")

    with pytest.raises(errors.InputError, match="another name of 'Alexander'"):
        container.graph.merge(NS, "Alexandra", "Alex")
    with pytest.raises(errors.NotFound):
        container.graph.merge(NS, "Alexandra", "Nobody")


def test_the_community_of_a_merged_entity_is_described_anew(container):
    store(container, "Ann", "Bob", "Robert")
    ids = [container.graph.entity(NS, name).id for name in ("Ann", "Bob")]
    robert = container.graph.entity(NS, "Robert").id
    with container.database.write() as unit:
        community = unit.communities.add(NS, "Ann, Bob", "Friends.")
        unit.communities.set_members(community, ids)
        unit.communities.describe(community, "Ann, Bob", "Friends.", "abc")
    container.graph.merge(NS, "Robert", "Bob")

    with container.database.read() as unit:
        (listed,) = unit.communities.listed(NS)
    assert (set(listed.entity_ids), listed.fingerprint) == ({ids[0], robert}, "")


def test_bug_28_two_of_one_name_can_be_told_apart_again(container):
    """Graph bug 28: two people of one name become one."""
    store(container, "John Smith|lives_in|Oslo", "John Smith|plays|Chess")
    container.graph.add_alias(NS, "John Smith", "Johnny")
    chess = next(each.edge for each in container.graph.facts(NS, "Chess"))

    split = container.graph.split(NS, "John Smith", ["John Smith (chess)", "Johnny"], [chess.id])

    assert split.name == "John Smith (chess)"
    assert container.graph.entity(NS, "johnny") == split
    assert facts(container, "Johnny") == ["John Smith (chess) plays Chess"]
    assert facts(container, "John Smith") == ["John Smith lives_in Oslo"]


def test_a_merge_can_be_undone_by_a_split(container):
    store(container, "Robert|knows|Ann", "Bob|knows|Cid")
    moved = container.graph.facts(NS, "Cid")[0].edge.id
    container.graph.merge(NS, "Robert", "Bob")
    container.graph.split(NS, "Robert", ["Bob"], [moved])

    assert facts(container, "Robert") == ["Robert knows Ann"]
    assert facts(container, "Bob") == ["Bob knows Cid"]
    assert container.graph.aliases(NS, "Robert") == []


def test_a_split_that_makes_no_sense_is_refused(container):
    store(container, "Ann|knows|Bob", "Cid|knows|Dan")
    foreign = container.graph.facts(NS, "Cid")[0].edge.id

    for names, edges, reason in (
        ([], [], "needs a name"),
        (["\u200b"], [], "needs a name"),
        (["ann"], [], "own name"),
        (["Bob"], [], "another entity"),
        (["Anna"], [], "not called 'Anna'"),
        (["Anna"], [foreign], "no fact"),
        (["Anna"], [4_711], "no fact"),
    ):
        with pytest.raises(errors.InputError, match=reason):
            container.graph.split(NS, "Ann", names, edges)
    assert {entity.name for entity in container.graph.entities(NS)} == {"Ann", "Bob", "Cid", "Dan"}


def test_one_entity_cannot_be_merged_with_itself(container):
    store(container, "Ann|knows|Bob")
    found = container.graph.entity(NS, "Ann").id
    for one, other in (("Ann", "ann"), (found, "Ann"), ("Ann", found), (found, found)):
        with pytest.raises(errors.InputError, match="one entity already"):
            container.graph.merge(NS, one, other)


def test_what_was_split_off_goes_with_the_texts_of_both(container):
    source = message(container)
    container.graph.store(NS, found("Ann|knows|Bob"), source)
    container.graph.split(NS, "Ann", ["Anna"], [container.graph.facts(NS, "Ann")[0].edge.id])
    container.memory.forget(messages=[source.message_id])

    assert container.graph.entities(NS) == []


def test_entities_of_two_types_are_merged_by_their_ids(container):
    for kind in (EntityType.LANGUAGE, EntityType.TOOL):
        store(container, "Python", kind=kind)
    ids = sorted(entity.id for entity in container.graph.entities(NS))
    assert container.graph.merge(NS, *ids).type is EntityType.LANGUAGE
    assert len(container.graph.entities(NS)) == 1
