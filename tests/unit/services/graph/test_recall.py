"""Graph recall on a real database: seeds, walk, scores, times, provenance."""

import pytest

from services.graph.models import CO_OCCURRENCE, AsOf, EntityType, Extraction, FoundEdge, FoundEntity, Source
from services.graph.ranking import Activation
from services.graph.recall import GraphRecall, GraphRecallConfig, find_seeds
from services.ports import Point
from tests.builders import FallibleStore, work

NS = "default"
DAY = 86_400_000_000


def know(container, source, relation, target, **options):
    return container.graph.add_fact(NS, source, relation, target, **options)


def ask(container, query, **options):
    return container.graph_recall.recall(query, namespace=options.pop("namespace", NS), **options)


def told(answer):
    return [(fact.entity_name, fact.relation, fact.target_name) for fact in answer.facts]


def seed_names(container, query):
    with container.database.read() as unit:
        found = find_seeds(unit, NS, query)
        entities = unit.graph.get(NS, [seed.entity_id for seed in found])
    return [(entities[seed.entity_id].name, seed.tier) for seed in found]


def describe(container, name, summary, kind=EntityType.CONCEPT):
    """Store an entity with a summary."""
    found = Extraction("manual", (FoundEntity(name, kind, summary),))
    container.graph.store(NS, found, Source(container.clock.now()))


def test_an_empty_graph_and_an_empty_question_have_no_facts(container):
    """Graph bug 3: nothing is never without a reason."""
    assert ask(container, "Alice").facts == ()
    assert ask(container, "Alice").reasons == ("the graph of namespace default is empty",)
    know(container, "Alice", "works_at", "Acme")
    assert ask(container, "  ").facts == ask(container, "Alice", limit=0).facts == ()
    assert ask(container, "Zoe").reasons == ("no entity of the graph is named",)
    assert ask(container, "Alice", namespace="other").facts == ()


def test_facts_come_with_score_distance_and_direction(container):
    """Graph bug 42: names and relation are part of every fact."""
    know(container, "Alice", "works_at", "Acme", confidence=0.9)
    know(container, "Acme", "based_in", "Paris", confidence=0.8)
    know(container, "Paris", "capital_of", "France", confidence=1.0)
    answer = ask(container, "Where does Alice work?")
    assert told(answer) == [("Alice", "works_at", "Acme"), ("Acme", "based_in", "Paris")]
    assert [fact.hop_distance for fact in answer.facts] == [0, 1]
    assert [fact.score for fact in answer.facts] == [pytest.approx(0.9), pytest.approx(0.4)]
    assert told(ask(container, "Paris", max_hops=1)) == [
        ("Paris", "capital_of", "France"),
        ("Acme", "based_in", "Paris"),
    ]


def test_two_names_of_one_fact_give_it_once(container):
    know(container, "Alice", "knows", "Bob")
    assert told(ask(container, "How is Alice related to Bob?")) == [("Alice", "knows", "Bob")]


def test_the_limit_keeps_the_best(container):
    for number in range(10):
        know(container, "Alice", "knows", f"Friend {number}", confidence=0.1 + number / 20)
    answer = ask(container, "Alice", limit=3)
    assert [fact.target_name for fact in answer.facts] == ["Friend 9", "Friend 8", "Friend 7"]
    scores = [fact.score for fact in ask(container, "Alice").facts]
    assert scores == sorted(scores, reverse=True)


def test_a_summary_that_mentions_a_name_does_not_beat_the_name(container):
    """Graph bug 39: /facts Alice showed Google."""
    describe(container, "Google", "Where Alice worked before.", EntityType.ORGANIZATION)
    know(container, "Google", "makes", "Maps")
    know(container, "Alice", "likes", "Tea")
    assert told(ask(container, "Alice"))[0] == ("Alice", "likes", "Tea")
    assert seed_names(container, "Alice") == [("Alice", "exact")]


def test_each_word_is_searched_for_itself(container):
    """Graph bug 41: joined by AND, long questions found nothing."""
    know(container, "PostgreSQL", "written_in", "C language")
    question = "could you please tell me whatever you remember about postgres and its replication internals"
    assert told(ask(container, question)) == [("PostgreSQL", "written_in", "C language")]


def test_names_are_found_by_word_by_beginning_by_alias_and_by_summary(container):
    describe(container, "Albert Einstein", "Worked out relativity.", EntityType.PERSON)
    describe(container, "SQLite", None, EntityType.TOOL)
    know(container, "Kubernetes", "runs_on", "Linux")
    with container.database.write() as unit:
        unit.graph.add_aliases(NS, [("k8s cluster", container.graph.entity(NS, "Kubernetes").id)])
    assert seed_names(container, "where was einstein born") == [("Albert Einstein", "word")]
    assert seed_names(container, "sql") == [("SQLite", "prefix")]
    assert seed_names(container, "k8s") == [("Kubernetes", "alias")]
    assert seed_names(container, "k8s cluster") == [("Kubernetes", "exact")]
    assert seed_names(container, "relativity") == [("Albert Einstein", "summary")]
    assert seed_names(container, "who what where") == []


@pytest.mark.parametrize(
    "query",
    [
        'graph"()*:^',
        "AND OR NOT NEAR",
        "\x00",
        "%_\\",
        "'; DROP TABLE graph_edges; --",
        "((((",
        "a" * 100_000,
        "\ud800",
    ],
)
def test_any_text_is_a_question(container, query):
    """Graph bug 47."""
    know(container, "Graph", "is_a", "Structure")
    ask(container, query)
    assert seed_names(container, 'graph"()*:^') == [("Graph", "word")]


def test_names_without_blanks_are_found_inside_a_question(container):
    """Graph trap T3."""
    know(container, "北京大学", "based_in", "北京市")
    assert told(ask(container, "北京大学在哪里")) == [("北京大学", "based_in", "北京市")]
    assert seed_names(container, "大学") == [("北京大学", "word")]


def test_old_words_of_a_summary_stop_matching(container):
    describe(container, "Acme", "A bakery.", EntityType.ORGANIZATION)
    assert seed_names(container, "bakery") == [("Acme", "summary")]
    with container.sqlite.write() as connection:
        connection.exec_driver_sql("UPDATE graph_entities SET summary = 'A brewery.'")
    assert seed_names(container, "bakery") == []
    assert seed_names(container, "brewery") == [("Acme", "summary")]


def test_what_stands_together_is_told_apart_and_ranked_below_what_is_stated(container):
    local = Extraction(
        "local",
        (FoundEntity("Alice"), FoundEntity("Bob"), FoundEntity("Carol")),
        (FoundEdge("Alice", "Bob", CO_OCCURRENCE, "Alice met Bob.", 0.5),),
    )
    container.graph.store(NS, local, Source(container.clock.now()))
    know(container, "Alice", "knows", "Carol", confidence=0.5)
    stated, seen = ask(container, "Alice").facts
    assert (stated.relation, stated.stated, stated.extractors) == ("knows", True, ("manual",))
    assert (seen.relation, seen.stated, seen.extractors) == (CO_OCCURRENCE, False, ("local",))
    assert stated.score == seen.score


def test_a_fact_names_the_messages_that_state_it(container):
    message = container.memory.remember("user", "Alice works at Acme.", conversation="talk")
    found = Extraction(
        "llm:fake/m",
        (FoundEntity("Alice"), FoundEntity("Acme")),
        (FoundEdge("Alice", "Acme", "works_at", "Alice works at Acme."),),
    )
    container.graph.store(NS, found, Source(container.clock.now(), message_id=message))
    (fact,) = ask(container, "Acme").facts
    assert (fact.message_ids, fact.chunk_ids, fact.extractors) == ((message,), (), ("llm:fake/m",))
    assert fact.fact == "Alice works at Acme."


def test_only_what_holds_is_recalled_unless_another_time_is_asked_for(container):
    start = container.clock.now()
    know(container, "Alice", "lives_in", "Paris", valid_from=start - 100 * DAY)
    container.clock.advance(86_400)
    know(container, "Alice", "lives_in", "Berlin", valid_from=start - 10 * DAY)
    assert told(ask(container, "Alice")) == [("Alice", "lives_in", "Berlin")]
    then = AsOf(valid_at=start - 50 * DAY)
    assert told(ask(container, "Alice", as_of=then)) == [("Alice", "lives_in", "Paris")]
    assert told(ask(container, "Paris", as_of=then)) == [("Alice", "lives_in", "Paris")]
    before_all = AsOf(valid_at=start - 200 * DAY)
    answer = ask(container, "Alice", as_of=before_all)
    assert (answer.facts, answer.reasons) == ((), ("nothing is known of Alice",))
    # What was known before Berlin was heard of.
    assert told(ask(container, "Alice", as_of=AsOf(known_at=start))) == [("Alice", "lives_in", "Paris")]


def test_a_hub_is_cut_at_the_surest_and_the_cut_is_told(container):
    """Graph bug 43."""
    hub = [FoundEntity(f"Leaf {number:04}") for number in range(1_500)]
    edges = [
        FoundEdge("Hub", leaf.name, "links", "A link.", 0.3 + (number == 700) * 0.5)
        for number, leaf in enumerate(hub)
    ]
    found = Extraction("manual", (FoundEntity("Hub"), *hub), tuple(edges))
    container.graph.store(NS, found, Source(container.clock.now()))
    answer = ask(container, "Hub", limit=5)
    assert answer.truncated
    assert answer.facts[0].target_name == "Leaf 0700"
    assert ask(container, "Hub", limit=5) == answer
    assert not ask(container, "Leaf 0001", limit=5, max_hops=1).truncated


def test_hops_and_limit_come_from_the_settings(build):
    container = build(memory__graph__max_hops=1, memory__graph__recall_limit=2)
    for number in range(4):
        know(container, f"Node {number}", "next", f"Node {number + 1}")
    assert len(ask(container, "Node 2").facts) == 2
    assert {fact.hop_distance for fact in ask(container, "Node 0", limit=10).facts} == {0}
    assert len(ask(container, "Node 0", limit=10, max_hops=3).facts) > 1


def test_recency_is_a_matter_of_settings(build):
    container = build(memory__graph__temporal_decay_rate=1.0)
    now = container.clock.now()
    know(container, "Alice", "knows", "Old friend", confidence=0.9, valid_from=now - 1_000 * DAY)
    know(container, "Alice", "knows", "New friend", confidence=0.8, valid_from=now)
    assert told(ask(container, "Alice"))[0][2] == "New friend"
    plain = GraphRecall(container.database, container.clock)
    assert plain.recall("Alice", namespace=NS).facts[0].target_name == "Old friend"


def test_activation_is_a_matter_of_settings(build):
    """A fact that two ways lead to beats one that a single way leads to, although it is as near and less sure."""
    container = build(memory__graph__spreading_activation__enabled=True)
    for middle in ("North", "South"):
        know(container, "Start", "leads", middle, confidence=0.6)
        know(container, middle, "leads", "Meeting", confidence=0.6)
    know(container, "Start", "leads", "East", confidence=0.6)
    know(container, "East", "leads", "Desert", confidence=0.7)

    def place(answer, target):
        return [fact.target_name for fact in answer.facts].index(target)

    spread = ask(container, "Start")
    assert place(spread, "Meeting") < place(spread, "Desert")
    plain = GraphRecall(container.database, container.clock, GraphRecallConfig())
    by_distance = plain.recall("Start", namespace=NS)
    assert place(by_distance, "Desert") < place(by_distance, "Meeting")
    one_step = GraphRecallConfig(activation=Activation(max_hops=1))
    short = GraphRecall(container.database, container.clock, one_step).recall("Start", namespace=NS)
    assert {fact.entity_name for fact in short.facts} == {"Start"}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("decay_lambda", 0.5),
        ("max_hops", 1),
        ("activation_threshold", 0.4),
        ("inhibition_threshold", 0.2),
        ("max_activated_nodes", 2),
    ],
)
def test_every_setting_of_activation_matters(build, tmp_path, key, value):
    """Graph bug 1: what is parsed is used."""
    scores = []
    for changed in ({}, {f"memory__graph__spreading_activation__{key}": value}):
        container = build(
            tmp_path / f"data{len(scores)}", memory__graph__spreading_activation__enabled=True, **changed
        )
        for middle in ("North", "South"):
            know(container, "Start", "leads", middle, confidence=0.6)
            know(container, middle, "leads", "Meeting", confidence=0.6)
        know(container, "Meeting", "leads", "End", confidence=0.9)
        scores.append([(fact.target_name, round(fact.score, 6)) for fact in ask(container, "Start").facts])
    assert scores[0] != scores[1]


def test_a_path_between_two_entities_is_told_in_order(container):
    know(container, "Alice", "works_at", "Acme")
    know(container, "Bob", "founded", "Acme")
    know(container, "Bob", "lives_in", "Paris")
    start, goal = (container.graph.entity(NS, name) for name in ("Alice", "Paris"))
    path = container.graph_recall.path(start, goal, namespace=NS)
    assert [(fact.source, fact.edge.relation, fact.target) for fact in path] == [
        ("Alice", "works_at", "Acme"),
        ("Bob", "founded", "Acme"),
        ("Bob", "lives_in", "Paris"),
    ]
    know(container, "Lone", "is", "Apart")
    lone = container.graph.entity(NS, "Lone")
    assert container.graph_recall.path(start, lone, namespace=NS) is None


def test_an_unknown_name_brings_up_those_that_resemble_it(container):
    know(container, "Katherine Johnson", "worked_at", "NASA")
    know(container, "Kathmandu", "is_in", "Nepal")
    assert container.graph_recall.near_names("Katharine Jonson", namespace=NS)[0] == "Katherine Johnson"
    assert container.graph_recall.near_names("xq", namespace=NS) == []


def test_memory_recalls_facts_where_the_graph_is_enabled(build):
    """Graph bug 1: the setting is what decides, through the public entry point."""
    on = build(memory__graph__enabled=True)
    know(on, "Alice", "works_at", "Acme")
    (fact,) = on.memory.recall_graph("Where does Alice work?")
    assert (fact.entity_name, fact.relation, fact.target_name) == ("Alice", "works_at", "Acme")
    assert (
        on.memory.recall_graph("Alice", namespace="other") == on.memory.recall_graph("Alice", limit=0) == []
    )
    off = build()
    assert off.graph_recall.recall("Alice", namespace=NS).facts
    assert off.memory.recall_graph("Alice") == []


def test_a_question_without_a_known_word_finds_what_is_near_in_meaning(build):
    container = build(memory__graph__use_embedding_resolution=True)
    know(container, "Internationalization", "needs", "Unicode")
    # The embedder of the tests knows letters: a misspelt name is near.
    assert told(ask(container, "internationalizationx")) == []
    work(container)
    answer = ask(container, "internationalizationx")
    assert told(answer) == [("Internationalization", "needs", "Unicode")]
    assert [seed.tier for _, seed in answer.seeds] == ["meaning"]
    assert told(ask(container, "something else altogether")) == []
    without = GraphRecall(container.database, container.clock)
    assert without.recall("internationalizationx", namespace=NS).facts == ()


def test_vectors_of_entities_that_are_gone_lead_nowhere(build):
    """Graph bugs 31 and 49."""
    container = build(memory__graph__use_embedding_resolution=True)
    know(container, "Internationalization", "needs", "Unicode")
    work(container)
    with container.sqlite.write() as connection:
        connection.exec_driver_sql("DELETE FROM graph_entities WHERE name = 'Internationalization'")
    assert ask(container, "internationalizationx").facts == ()


def test_a_vector_that_names_no_entity_is_passed_over(build):
    """Graph bug 31: a point without an id broke everything off."""
    container = build(memory__graph__use_embedding_resolution=True)
    know(container, "Internationalization", "needs", "Unicode")
    work(container)
    space = container.spaces.for_reading("zeph_graph_entities")
    here = space.embedder.embed(["internationalizationx"], kind="document")[0]
    container.spaces.write(space, NS, [Point("00000000-0000-4000-8000-000000000001", here, {})])
    assert told(ask(container, "internationalizationx")) == [("Internationalization", "needs", "Unicode")]


def test_a_vector_store_that_is_down_costs_no_answer(build):
    container = build(memory__graph__use_embedding_resolution=True)
    container.vectors = store = FallibleStore()
    know(container, "Internationalization", "needs", "Unicode")
    work(container)
    assert ask(container, "internationalizationx").facts
    store.down = True
    assert ask(container, "internationalizationx").reasons == ("no entity of the graph is named",)
    assert ask(container, "internationalization").facts
