"""The graph store: texts in, entities and facts out, each once and with its source."""

from __future__ import annotations

import threading

import pytest

from services import errors
from services.graph.models import (
    CO_OCCURRENCE,
    LOCAL_EXTRACTOR,
    AsOf,
    EntityType,
    Extraction,
    FoundEdge,
    FoundEntity,
    Source,
)
from services.jobs.models import BACKFILL_GRAPH, EVICT_GRAPH, GRAPH_REFRESH, RECONCILE
from tests.builders import enqueue, in_processes, new_job, rows, work
from tests.graph_builders import (
    CONCEPT,
    DAY,
    LANGUAGE,
    LLM,
    PERSON,
    THEN,
    TOOL,
    facts,
    found,
    line,
    message,
    whole_graph,
)

NS = "default"


def store(container, *given, at=THEN, source=None, **options):
    return container.graph.store(NS, found(*given, **options), source or message(container, at=at))


def named(container, *entities, source=None):
    return container.graph.store(NS, Extraction(LLM, entities), source or message(container))


# ---- entities ------------------------------------------------------------------------------------------------------


def test_one_name_is_one_entity_however_it_is_written(container):
    first = named(container, FoundEntity("Rust", LANGUAGE))
    again = named(container, FoundEntity(" RUST\u200b", LANGUAGE), FoundEntity("rust", LANGUAGE))

    assert again.entity_ids == first.created_ids
    assert again.created_ids == ()
    assert [entity.name for entity in container.graph.entities(NS)] == ["Rust"]


def test_the_type_is_part_of_what_a_name_means(container):
    named(container, FoundEntity("python", LANGUAGE))
    named(container, FoundEntity("python", TOOL))

    assert {entity.type for entity in container.graph.entities(NS)} == {LANGUAGE, TOOL}
    assert container.graph.stats(NS)["ambiguous_names"] == 1


def test_a_text_that_tells_two_types_apart_gets_both_however_often_it_is_read(container):
    named(container, FoundEntity("Python", CONCEPT))
    source = message(container)
    both = (FoundEntity("Python", LANGUAGE), FoundEntity("Python", TOOL), FoundEntity("Python", CONCEPT))
    first = named(container, *both, source=source)
    before = whole_graph(container)

    assert named(container, *both, source=source).entity_ids == first.entity_ids
    assert whole_graph(container) == before
    assert {entity.type for entity in container.graph.entities(NS)} == {LANGUAGE, TOOL}


def test_bug_29_a_name_of_no_particular_type_is_the_entity_that_has_one(container):
    """Graph bug 29: the same name under two types gives two entities of one thing."""
    named(container, FoundEntity("Rust", CONCEPT))
    named(container, FoundEntity("Rust", LANGUAGE))
    named(container, FoundEntity("Rust", CONCEPT))

    assert [(entity.name, entity.type) for entity in container.graph.entities(NS)] == [("Rust", LANGUAGE)]


def test_graph_03_a_new_person_is_not_the_country_in_its_name(container):
    """Case graph-03."""
    named(container, FoundEntity("Iran", EntityType.ORGANIZATION))
    named(container, FoundEntity("Tigran", PERSON))

    assert {entity.name for entity in container.graph.entities(NS)} == {"Iran", "Tigran"}


def test_what_several_texts_say_of_an_entity_is_told_once(container):
    """Graph bug 32: a merge or replay appends the same description again and again."""
    for _ in range(2):
        named(container, FoundEntity("Ann", PERSON, "An engineer."))
        named(container, FoundEntity("ann", PERSON, "an engineer. Lives in Oslo."))
        named(container, FoundEntity("Ann", PERSON))

    found_entity = container.graph.entity(NS, "Ann")
    assert found_entity is not None
    assert (found_entity.name, found_entity.summary) == ("Ann", "An engineer. Lives in Oslo.")


def test_bug_17_short_words_that_nothing_speaks_for_are_left_out_and_counted(container):
    """Graph bug 17: a graph full of command words."""
    stored = named(container, FoundEntity("cd"), FoundEntity("\u202e"), FoundEntity("git"))

    assert stored.skipped == (("unusable_names", 2),)
    assert container.graph.stats(NS)["unusable_names"] == 2
    assert [entity.name for entity in container.graph.entities(NS)] == ["git"]


def test_names_are_as_long_as_their_cap(container):
    named(container, FoundEntity("x" * 1_024))

    (entity,) = container.graph.entities(NS)
    assert (len(entity.name), len(entity.canonical_name)) == (512, 512)


def test_an_alias_leads_to_its_entity_and_the_older_alias_wins(container):
    """Graph bug 26: alias hijack."""
    named(container, FoundEntity("Robert", PERSON), FoundEntity("Bobby", PERSON))
    container.graph.add_alias(NS, "Bobby", "Bob")
    container.graph.add_alias(NS, "Robert", "bob")
    container.graph.add_alias(NS, "Robert", "BOB ")

    assert container.graph.aliases(NS, "Robert") == ["bob"]
    assert container.graph.entity(NS, "BOB").name == "Bobby"
    assert named(container, FoundEntity("Bob", PERSON)).created_ids == ()
    container.graph.remove_alias(NS, "Bobby", "bob")
    assert container.graph.entity(NS, "Bob").name == "Robert"


def test_bug_26_an_alias_cannot_take_the_name_of_another_entity(container):
    """Graph bug 26: a later alias pulls an existing name to another entity."""
    named(container, FoundEntity("Robert", PERSON), FoundEntity("Bobby", PERSON))

    with pytest.raises(errors.InputError, match="merge the two"):
        container.graph.add_alias(NS, "Robert", "Bobby")
    with pytest.raises(errors.InputError, match="own name"):
        container.graph.remove_alias(NS, "Robert", "robert")
    with pytest.raises(errors.NotFound):
        container.graph.remove_alias(NS, "Robert", "Rob")


def test_unknown_names_are_named_in_the_error(container):
    assert container.graph.entity(NS, "Nobody") is None
    with pytest.raises(errors.NotFound, match="'Nobody'"):
        container.graph.facts(NS, "Nobody")
    with pytest.raises(errors.NotFound, match="fact 7"):
        container.graph.history(NS, 7)


# ---- facts ---------------------------------------------------------------------------------------------------------


def test_a_fact_is_stored_with_its_source(container):
    source = message(container, "Ann knows Bob")
    stored = store(container, "Ann|knows|Bob|Ann knows Bob well.", source=source)

    (record,) = container.graph.facts(NS, "ann")
    assert stored.edge_ids == (record.edge.id,)
    assert line(record) == "Ann knows Bob"
    assert (record.edge.fact, record.edge.valid_from, record.edge.active) == (
        "Ann knows Bob well.",
        THEN,
        True,
    )
    (origin,) = record.sources
    assert (origin.message_id, origin.extractor, origin.stated_at) == (source.message_id, LLM, THEN)


def test_bug_4_reading_a_text_again_changes_nothing(container):
    """Graph bug 4: the same fact from re-read context makes a new row each time."""
    texts = [
        (found("Ann|knows|Bob", "Ann|lives_in|Oslo"), message(container, at=THEN)),
        (found("Ann|lives_in|Rome", "Ann|knows|Bob|Ann met Bob."), message(container, at=THEN + DAY)),
        (found("Ann|lives_in|Oslo"), message(container, at=THEN + 2 * DAY)),
        (found(("Ann", CO_OCCURRENCE, "Bob", "Ann, Bob."), extractor=LOCAL_EXTRACTOR), message(container)),
    ]
    for extraction, source in texts:
        container.graph.store(NS, extraction, source)
    before = whole_graph(container)
    container.clock.advance(100)

    for extraction, source in [*texts, *texts[::-1]]:
        container.graph.store(NS, extraction, source)

    assert whole_graph(container) == before


def test_the_order_in_which_texts_are_read_changes_no_fact(build, tmp_path):
    """Back-fill reads old texts late: they find their place in the past, and what is newer holds."""
    texts = [
        ("Ann|lives_in|Oslo", 1),
        ("Ann|lives_in|Rome", 2),
        ("Ann|lives_in|Oslo", 3),
        ("Ann|lives_in|Rome", 4),
    ]
    seen = []
    for number, order in enumerate(([0, 1, 2, 3], [3, 2, 1, 0], [0, 2, 1, 3], [3, 0, 2, 1])):
        container = build(tmp_path / f"data{number}")
        for each in order:
            store(container, texts[each][0], at=THEN + texts[each][1] * DAY)
        records = container.graph.history(NS, "Ann")
        lines = {
            (line(each), each.edge.valid_from, each.edge.valid_to, len(each.sources)) for each in records
        }
        seen.append(lines)
    assert seen == [seen[0]] * 4
    assert len(seen[0]) == 4


def test_bug_5_what_replaces_a_fact_keeps_the_old_one_as_history(container):
    """Graph bug 5: supersede fails or loses the fact."""
    store(container, "Ann|works_at|Acme|for 5 years", at=THEN)
    changed = store(container, "Ann|works_at|Acme|for 6 years", at=THEN + DAY)
    store(container, "Ann|works_at|Initech", at=THEN + 2 * DAY)

    assert (changed.edges_created, changed.edges_superseded) == (1, 1)
    assert facts(container, "Ann") == ["Ann works_at Initech"]
    newest, middle, oldest = container.graph.history(NS, "Ann")
    assert (newest.ended_by, middle.ended_by, oldest.ended_by) == (None, "replaced", "restated")
    assert (middle.replaced_by, oldest.replaced_by) == (newest.edge, middle.edge)
    assert (oldest.edge.valid_from, oldest.edge.valid_to) == (THEN, THEN + DAY)
    assert oldest.edge.expired_at == container.clock.now()
    assert {record.edge.id for record in container.graph.history(NS, newest.edge.id)} == {
        record.edge.id for record in (newest, middle, oldest)
    }


def test_bug_5_a_crash_between_retiring_and_storing_leaves_the_old_fact_in_force(container):
    """Graph bug 5: retired in one transaction and replaced in another, a fact was lost when the second one failed."""
    store(container, "Ann|works_at|Acme")
    with container.sqlite.write() as connection:
        connection.exec_driver_sql(
            "CREATE TRIGGER full BEFORE INSERT ON graph_edges BEGIN SELECT RAISE(ABORT, 'full'); END"
        )
    with pytest.raises(Exception, match="full"):
        store(container, "Ann|works_at|Initech", at=THEN + DAY)

    (record,) = container.graph.history(NS, "Ann")
    assert (line(record), record.edge.active, record.replaced_by) == ("Ann works_at Acme", True, None)


def test_graph_01_a_new_fact_ends_nothing_but_what_it_contradicts(container):
    """Case graph-01, graph bug 35: a new fact retires unrelated ones."""
    store(container, "Ann|works_at|Acme", at=THEN)
    store(container, "Ann|administers|Acme", "Ann|knows|Bob", "Bob|works_at|Initech", at=THEN + DAY)

    assert facts(container, "Ann") == ["Ann administers Acme", "Ann knows Bob", "Ann works_at Acme"]
    assert facts(container, "Acme") == ["Ann administers Acme", "Ann works_at Acme"]


def test_direction_counts_and_the_wording_of_a_relation_does_not(container):
    store(container, "Ann|likes|Bob", "Bob|likes|Ann|Bob likes Ann.")
    store(container, "Ann|LIKES|Bob|Ann likes Bob")

    assert facts(container, "Ann") == ["Ann likes Bob", "Bob likes Ann"]


def test_a_repeated_fact_gains_a_source_and_the_higher_confidence(container):
    ends = (FoundEntity("Ann", PERSON), FoundEntity("Bob", PERSON))
    for confidence in (0.5, 0.9, 0.7, 7.0, float("nan")):
        edge = FoundEdge("Ann", "Bob", "knows", "Ann knows Bob", confidence)
        container.graph.store(NS, Extraction(LLM, ends, (edge,)), message(container))

    (record,) = container.graph.facts(NS, "Ann")
    assert record.edge.confidence == 1.0
    assert len(record.sources) == 5


def test_bug_20_an_end_is_found_by_its_normal_form_or_a_stored_alias(container):
    """Graph bug 20: edges name entities that differ in case, or that are not in the list."""
    named(container, FoundEntity("Kubernetes", TOOL))
    container.graph.add_alias(NS, "Kubernetes", "k8s")
    edges = (
        FoundEdge("RUST", " rust-lang\u200b", "alias_of", ""),
        FoundEdge("Rust", "K8S", "runs_on", ""),
        FoundEdge("Rust", "nowhere", "runs_on", ""),
        FoundEdge("Rust", "", "runs_on", ""),
        FoundEdge("Rust", "K8s", " - ", ""),
    )
    names = (FoundEntity("rust", LANGUAGE), FoundEntity("Rust-Lang", LANGUAGE))
    stored = container.graph.store(NS, Extraction(LLM, names, edges), message(container))

    assert facts(container, "rust") == ["rust alias_of Rust-Lang", "rust runs_on Kubernetes"]
    assert stored.skipped == (("unknown_ends", 1), ("unusable_facts", 2))
    (record,) = container.graph.facts(NS, "k8s")
    assert record.edge.fact == "Rust runs on K8S"


def test_graph_11_nothing_relates_to_itself(container):
    """Case graph-11, graph bug 34: source = target, also after an alias was resolved."""
    named(container, FoundEntity("Robert", PERSON))
    container.graph.add_alias(NS, "Robert", "Bob")
    stored = store(container, "Robert|knows|Bob", "Bob|knows|BOB", "Bob|knows|Ann")

    assert stored.skipped == (("self_loops", 2),)
    assert facts(container, "Bob") == ["Robert knows Ann"]
    with pytest.raises(errors.InputError, match="self loops"):
        container.graph.add_fact(NS, "Bob", "knows", "Robert")
    with pytest.raises(Exception, match="no_self_loop"), container.database.write() as unit:
        unit.connection.exec_driver_sql("UPDATE graph_edges SET target_entity_id = source_entity_id")


def test_one_text_says_a_thing_once(container):
    stored = store(container, "Ann|knows|Bob|one", "Ann|knows|Bob|two")

    assert len(stored.edge_ids) == 1
    assert [record.edge.fact for record in container.graph.history(NS, "Ann")] == ["one"]


def test_standing_together_has_no_direction_and_replaces_nothing_stated(container):
    store(container, ("Ann", CO_OCCURRENCE, "Bob", "Ann saw Bob."), extractor=LOCAL_EXTRACTOR)
    store(container, ("Bob", CO_OCCURRENCE, "Ann", "Bob saw Ann."), extractor=LOCAL_EXTRACTOR, at=THEN + DAY)
    store(container, "Ann|knows|Bob", at=THEN + 2 * DAY)

    together = [each for each in container.graph.history(NS, "Ann") if each.edge.relation == CO_OCCURRENCE]
    assert [source.evidence for source in together[0].sources] == ["Ann saw Bob.", "Bob saw Ann."]
    assert len(together) == 1
    assert facts(container, "Ann") == ["Ann knows Bob", f"Ann {CO_OCCURRENCE} Bob"]


def test_a_model_takes_the_place_of_the_local_extractor(container):
    """What the local extractor read from a text goes when a model reads it; other texts keep theirs."""
    first, second = message(container), message(container)
    for source in (first, second):
        store(container, ("Ann", CO_OCCURRENCE, "Bob", "x"), "Cid", extractor=LOCAL_EXTRACTOR, source=source)
    ann = container.graph.entity(NS, "Ann")
    store(container, "Ann|knows|Bob", source=first)
    assert facts(container, "Ann") == ["Ann knows Bob", f"Ann {CO_OCCURRENCE} Bob"]

    store(container, "Ann|knows|Bob", source=second)

    assert facts(container, "Ann") == ["Ann knows Bob"]
    assert container.graph.entity(NS, "Ann") == ann
    assert container.graph.entity(NS, "Cid") is None


def test_a_text_that_is_gone_states_nothing(container):
    source = message(container)
    container.memory.forget(messages=[source.message_id])

    stored = store(container, "Ann|knows|Bob", source=source)

    assert stored.skipped == (("text_gone", 1),)
    assert container.graph.entities(NS) == []


def test_a_text_of_another_namespace_states_nothing(container):
    """Graph bug 44: everything is scoped."""
    source = message(container, namespace="other")

    assert store(container, "Ann|knows|Bob", source=source).skipped == (("text_gone", 1),)


# ---- time ----------------------------------------------------------------------------------------------------------


def timed(container, *edges, at=THEN):
    ends = (FoundEntity("Ann", PERSON), FoundEntity("Acme", EntityType.ORGANIZATION))
    facts_of = tuple(FoundEdge("Ann", "Acme", "works_at", words, 0.8, *span) for words, *span in edges)
    return container.graph.store(NS, Extraction(LLM, ends, facts_of), message(container, at=at))


def spans(container):
    return sorted((each.edge.valid_from, each.edge.valid_to) for each in container.graph.history(NS, "Ann"))


def test_a_fact_holds_from_when_it_says_or_from_when_it_was_said(container):
    timed(container, ("since then", THEN - 100 * DAY, None))
    assert spans(container) == [(THEN - 100 * DAY, None)]


def test_a_fact_told_to_be_over_is_history_at_once_and_is_not_evicted_as_retired(container):
    timed(container, ("from to", THEN - 100 * DAY, THEN - 50 * DAY))

    assert facts(container, "Ann") == []
    (record,) = container.graph.history(NS, "Ann")
    assert (record.ended_by, record.edge.expired_at) == ("ended", None)
    assert spans(container) == [(THEN - 100 * DAY, THEN - 50 * DAY)]


def test_told_to_be_over_a_known_fact_ends_on_that_day(container):
    timed(container, ("works there", None, None))
    timed(container, ("left it", None, THEN + 5 * DAY), at=THEN + 9 * DAY)

    assert spans(container) == [(THEN, THEN + 5 * DAY)]
    (record,) = container.graph.history(NS, "Ann")
    assert (record.ended_by, len(record.sources)) == ("ended", 2)
    timed(container, ("works there", None, None), at=THEN + 20 * DAY)
    assert spans(container) == [(THEN, THEN + 5 * DAY), (THEN + 20 * DAY, None)]


def test_ends_in_the_future_and_before_the_beginning_end_nothing(container):
    timed(container, ("one", None, container.clock.now() + DAY))
    assert spans(container) == [(THEN, None)]
    timed(container, ("one", THEN, THEN - DAY))
    assert spans(container) == [(THEN, None)]


def test_over_and_back_again_in_one_text_are_two_stretches(container):
    timed(container, ("again", THEN - DAY, None), ("before", THEN - 9 * DAY, THEN - 5 * DAY))
    assert spans(container) == [(THEN - 9 * DAY, THEN - 5 * DAY), (THEN - DAY, None)]


def test_what_was_true_then_is_answered_for_any_time_and_as_known_at_any_time(container):
    store(container, "Ann|lives_in|Oslo", at=THEN)
    first_known = container.clock.now()
    container.clock.advance(86_400)
    store(container, "Ann|lives_in|Rome", at=THEN + 10 * DAY)

    def at(valid, known=None):
        return facts(container, "Ann", as_of=AsOf(valid, known))

    assert at(THEN - 1) == []
    assert at(THEN) == at(THEN + 10 * DAY - 1) == ["Ann lives_in Oslo"]
    assert at(THEN + 10 * DAY) == at(None) == ["Ann lives_in Rome"]
    # Before the second text was read, nobody knew that she would move.
    assert at(THEN + 10 * DAY, first_known) == ["Ann lives_in Oslo"]
    assert at(THEN, first_known - 1) == []


def test_bug_38_taking_back_and_contradicting_are_told_apart(container):
    """Graph bug 38: forgetting and contradicting set the same two stamps."""
    store(container, "Ann|lives_in|Oslo", "Ann|knows|Bob")
    known = container.clock.now()
    container.clock.advance(1)
    wrong = next(each.edge for each in container.graph.facts(NS, "Ann") if each.edge.relation == "lives_in")
    container.graph.forget_edge(NS, wrong.id)

    assert facts(container, "Ann") == ["Ann knows Bob"]
    (record,) = (each for each in container.graph.history(NS, "Ann") if each.edge.id == wrong.id)
    assert (record.ended_by, record.edge.valid_to) == ("retracted", None)
    assert facts(container, "Ann", as_of=AsOf(THEN + 1)) == ["Ann knows Bob"]
    assert facts(container, "Ann", as_of=AsOf(THEN + 1, known)) == ["Ann knows Bob", "Ann lives_in Oslo"]
    with pytest.raises(errors.InputError, match="erase"):
        container.graph.forget_edge(NS, wrong.id)
    container.graph.forget_edge(NS, wrong.id, erase=True)
    assert wrong.id not in {each.edge.id for each in container.graph.history(NS, "Ann")}
    with pytest.raises(errors.NotFound):
        container.graph.forget_edge(NS, wrong.id)


def test_what_was_taken_back_stays_so_when_its_text_is_read_again_but_not_when_told_anew(container):
    source = message(container)
    (edge_id,) = store(container, "Ann|knows|Bob", source=source).edge_ids
    container.graph.forget_edge(NS, edge_id)

    store(container, "Ann|knows|Bob", source=source)
    assert facts(container, "Ann") == []
    store(container, "Ann|knows|Bob")
    assert facts(container, "Ann") == ["Ann knows Bob"]


# ---- by hand -------------------------------------------------------------------------------------------------------


def test_bug_33_a_fact_by_hand_goes_the_way_of_all_facts(container):
    """Graph bug 33: manual paths skip the normaliser."""
    edge = container.graph.add_fact(NS, " Ann\u200b", "Works At", "ACME", source_type=PERSON)
    again = container.graph.add_fact(NS, "ann", "works-at", "acme")
    moved = container.graph.add_fact(NS, "Ann", "works_at", "Initech", valid_from=container.clock.now() + 1)

    assert (edge.relation, edge.confidence) == ("works_at", 1.0)
    assert again.id == edge.id
    assert facts(container, "Ann") == ["Ann works_at Initech"]
    assert moved.active
    container.graph.forget_edge(NS, moved.id)
    assert container.graph.add_fact(NS, "Ann", "works_at", "Initech").id != moved.id
    with pytest.raises(errors.InputError, match="unusable facts"):
        container.graph.add_fact(NS, "Ann", "-", "Bob")


# ---- one transaction -----------------------------------------------------------------------------------------------


def test_the_caller_marks_the_text_in_the_same_transaction(container):
    """A crash between the graph and the mark is impossible: both are stored or neither."""

    def fail(_unit, stored):
        assert stored.edges_created == 1
        raise RuntimeError("power cut")

    with pytest.raises(RuntimeError):
        container.graph.store(NS, found("Ann|knows|Bob"), message(container), also=fail)
    assert container.graph.stats(NS)["entities"] == 0


def test_refresh_is_claimed_once_in_each_interval_of_extractions(build):
    """Graph bug of 10.3: `count % interval` misses a refresh or makes two of it."""
    container = build(memory__graph__community_refresh_interval=3)
    claims = []
    for number in range(10):
        store(container, f"Name {number}")
        with container.database.write() as unit:
            claims.append(unit.jobs.select(kind=GRAPH_REFRESH.name)[:1])
    jobs = rows(container, f"SELECT count(*) FROM jobs WHERE kind = '{GRAPH_REFRESH.name}'")
    # The ledger keeps one while it waits.
    assert jobs == [(1,)]
    assert rows(container, f"SELECT payload FROM jobs WHERE kind = '{EVICT_GRAPH.name}'") != []
    assert [bool(each) for each in claims] == [False, False] + [True] * 8
    with container.database.write() as unit:
        assert not unit.graph.claim_refresh(NS, 3)
        unit.graph.count(NS, {"extractions_stored": 2})
        assert unit.graph.claim_refresh(NS, 3)
        assert not unit.graph.claim_refresh(NS, 3)
        assert not unit.graph.claim_refresh(NS, 0)


def test_a_refresh_that_becomes_due_while_one_runs_follows_it(build):
    container = build(memory__graph__community_refresh_interval=2)
    for number in range(2):
        store(container, f"Ann {number}|knows|Bob {number}")
    (first,) = job_ids(container)
    describe, during = container.communities._describe_all, []

    def while_more_is_said(*given):
        if not during:
            during.extend(store(container, f"Cleo {number}|knows|Dora {number}") for number in range(2))
            assert job_ids(container) == [first]
        return describe(*given)

    container.communities._describe_all = while_more_is_said
    work(container)
    assert len(job_ids(container)) == 2
    assert container.communities.stats(namespace=NS).unassigned == 0


def job_ids(container):
    return [
        row[0]
        for row in rows(container, f"SELECT id FROM jobs WHERE kind = '{GRAPH_REFRESH.name}' ORDER BY id")
    ]


def test_without_an_interval_nothing_is_refreshed(build):
    container = build(memory__graph__community_refresh_interval=0)
    store(container, "Ann")
    assert rows(container, f"SELECT * FROM jobs WHERE kind = '{GRAPH_REFRESH.name}'") == []


def test_counters_add_up_and_outlive_the_process(build, tmp_path):
    """Silent drops are the commonest complaint, so what is dropped is counted for good."""
    container = build(tmp_path / "data")
    container.graph.store(NS, Extraction(LLM, dropped=(("e_mail_names", 2),)), message(container))
    container.graph.count(NS, extraction_count=1, parse_failures=3)
    container.graph.count(NS, extraction_count=1)
    container.close()

    stats = build(tmp_path / "data").graph.stats(NS)
    assert (stats["e_mail_names"], stats["extraction_count"], stats["parse_failures"]) == (2, 2, 3)
    assert stats["extractions_stored"] == 1


# ---- apart ---------------------------------------------------------------------------------------------------------


def test_bug_44_no_namespace_sees_or_changes_another_one(container):
    """Graph bugs 8 and 44: data lands in, or is read from, another tenant's graph."""
    store(container, "Ann|knows|Bob")
    graph = container.graph
    other = graph.store("other", found("Ann|knows|Cid"), message(container, namespace="other"))
    (record,) = graph.facts(NS, "Ann")

    assert [line(each) for each in graph.facts("other", "Ann")] == ["Ann knows Cid"]
    assert graph.entity("other", "Bob") is None
    assert graph.entity(NS, other.entity_ids[0]) is None
    for refused in (
        lambda: graph.forget_edge("other", record.edge.id),
        lambda: graph.history("other", record.edge.id),
        lambda: graph.merge("other", "Ann", record.edge.target_id),
        lambda: graph.split("other", "Ann", ["Anna"], [record.edge.id]),
    ):
        with pytest.raises(errors.NotFound):
            refused()
    assert facts(container, "Ann") == ["Ann knows Bob"]


def test_bug_8_one_store_serves_many_namespaces_at_the_same_moment(build):
    """Graph bug 8: a client that is re-pointed per tenant while others use it writes into the wrong graph."""
    container = build(real_time=True)
    tenants = ("one", "two", "three")
    barrier = threading.Barrier(len(tenants))
    sources = {tenant: [message(container, namespace=tenant) for _ in range(10)] for tenant in tenants}
    seen: list[tuple[str, str]] = []

    def work(tenant):
        for number, source in enumerate(sources[tenant]):
            barrier.wait()
            container.graph.store(tenant, found(f"Ann|knows|{tenant.title()} {number}"), source)
            seen.extend((tenant, each.target) for each in container.graph.facts(tenant, "Ann"))

    threads = [threading.Thread(target=work, args=(tenant,)) for tenant in tenants]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert {(tenant, name.split()[0].lower()) for tenant, name in seen} == {(each, each) for each in tenants}
    assert [len(container.graph.facts(tenant, "Ann")) for tenant in tenants] == [10, 10, 10]


# ---- at once -------------------------------------------------------------------------------------------------------


def meet(container, pairs):
    """Two threads store the same new entities and fact at the same moment, `pairs` times."""
    barrier = threading.Barrier(2)
    sources = [(message(container), message(container)) for _ in range(pairs)]

    def work(side):
        for number, both in enumerate(sources):
            barrier.wait()
            container.graph.store(NS, found(f"Ann {number}|knows|Bob {number}|f"), both[side])

    threads = [threading.Thread(target=work, args=(side,)) for side in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number in range(pairs):
        (record,) = container.graph.history(NS, f"Ann {number}")
        assert record.edge.active
        assert {source.message_id for source in record.sources} == {
            each.message_id for each in sources[number]
        }
    assert container.graph.stats(NS)["entities"] == 2 * pairs


def test_bug_7_two_workers_that_meet_at_one_new_entity_make_one(build):
    """Graph bugs 4 and 7: parallel writers both miss and both insert."""
    meet(build(real_time=True), 40)


@pytest.mark.slow
def test_bug_7_a_thousand_pairs_of_workers_make_one_entity_and_one_fact_each(build):
    """Graph bugs 4 and 7, at length."""
    meet(build(real_time=True), 1_000)


def test_bug_7_processes_that_meet_at_one_new_entity_make_one(build, tmp_path):
    """Graph bug 7: locks inside a process do not span workers."""
    container = build(tmp_path / "data", real_time=True)
    sources = [message(container) for _ in range(3)]

    def work(number):
        for each in range(10):
            container.graph.store(NS, found(f"Ann {each}|knows|Bob|f"), sources[number])

    in_processes(3, work)

    assert container.graph.stats(NS)["entities"] == 11
    assert [len(each.sources) for each in container.graph.history(NS, "Bob")] == [3] * 10


def test_a_manual_source_has_no_text(container):
    stored = container.graph.store(NS, found("Ann|knows|Bob", extractor="manual"), Source(THEN))
    (record,) = container.graph.facts(NS, "Ann")
    assert stored.edge_ids == (record.edge.id,)
    assert [(source.message_id, source.chunk_id) for source in record.sources] == [(None, None)]


def test_a_full_ledger_keeps_no_text_from_being_stored(build, caplog):
    container = build(
        jobs__max_live_jobs=1,
        memory__graph__use_embedding_resolution=True,
        memory__graph__community_refresh_interval=1,
    )
    enqueue(container, new_job(BACKFILL_GRAPH))
    container.graph.add_fact(NS, "Ann", "knows", "Bob")
    assert facts(container, "Ann") == ["Ann knows Bob"]
    assert "graph_waits_for_reconciliation" in caplog.text
    # Once there is room the vectors are made all the same.
    work(container)
    enqueue(container, new_job(RECONCILE))
    work(container)
    assert rows(container, "SELECT count(DISTINCT entity_id) FROM entity_embeddings") == [(2,)]
