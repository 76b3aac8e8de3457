"""What leaves the graph: by age, by size, and with its texts."""

from __future__ import annotations

import pytest

from services.graph.models import CO_OCCURRENCE, LOCAL_EXTRACTOR, Extraction, FoundEdge, FoundEntity, Source
from services.jobs.models import EVICT_GRAPH, GRAPH_REFRESH
from tests.builders import enqueue, ingest, job, new_job, rows, work, write_files
from tests.graph_builders import DAY, LLM, PERSON, THEN, facts, found, line, message

NS = "default"
DAYS = 86_400


def store(container, *given, at=THEN, source=None, **options):
    return container.graph.store(NS, found(*given, **options), source or message(container, at=at))


def names(container):
    return {entity.name for entity in container.graph.entities(NS)}


# ---- age and size --------------------------------------------------------------------------------------------------


def test_bug_48_retired_facts_go_after_their_time_and_fresh_history_stays(container):
    """Graph bug 48: the orphan sweep deletes fresh history."""
    store(container, "Ann|lives_in|Oslo", at=THEN)
    container.clock.advance(100 * DAYS)
    store(container, "Ann|lives_in|Rome", at=THEN + DAY)

    container.clock.advance(90 * DAYS)
    assert container.graph_eviction.evict(NS).expired_edges == 0
    assert len(container.graph.history(NS, "Ann")) == 2
    assert "Oslo" in names(container)
    container.clock.advance(1)
    report = container.graph_eviction.evict(NS)

    # Oslo is an orphan only now, and was last seen long before.
    assert (report.expired_edges, report.orphan_entities) == (1, 1)
    assert [line(each) for each in container.graph.history(NS, "Ann")] == ["Ann lives_in Rome"]
    assert names(container) == {"Ann", "Rome"}


def test_an_entity_without_facts_stays_while_it_is_seen(container):
    store(container, "Ann", "Bob")
    container.clock.advance(60 * DAYS)
    store(container, "Ann")
    container.clock.advance(60 * DAYS)

    assert container.graph_eviction.evict(NS).orphan_entities == 1
    assert names(container) == {"Ann"}


def test_an_entity_that_gets_a_fact_while_it_is_to_be_evicted_stays_with_it(container, monkeypatch):
    store(container, "Ann")
    container.clock.advance(200 * DAYS)
    write, begun = container.database.write, []

    def beside_another_worker(**options):
        begun.append(options)
        # Behind the step that deletes facts, at the moment in which that of entities could begin to write.
        if len(begun) == 2:
            store(container, "Ann|knows|Bob", at=THEN + 200 * DAY)
        return write(**options)

    monkeypatch.setattr(container.database, "write", beside_another_worker)
    assert container.graph_eviction.evict(NS).orphan_entities == 0
    assert facts(container, "Ann") == ["Ann knows Bob"]


def test_no_retention_deletes_all_that_is_retired_and_nothing_that_holds(build):
    container = build(memory__graph__expired_edge_retention_days=0)
    store(container, "Ann|lives_in|Oslo", "Ann|knows|Bob", at=THEN)
    store(container, "Ann|lives_in|Rome", at=THEN + DAY)
    container.clock.advance(1)

    assert container.graph_eviction.evict(NS).expired_edges == 1
    assert facts(container, "Ann") == ["Ann knows Bob", "Ann lives_in Rome"]


def test_bug_48_the_cap_leaves_exactly_so_many_and_those_with_most_facts(build):
    """Graph bug 48: the cap ranks in- and out-degree apart and deletes too few."""
    container = build(memory__graph__max_entities=3)
    store(container, "Hub|a|One", "Two|b|Hub", "Hub|c|Three", "One|d|Two", "Alone")
    container.clock.advance(1)
    store(container, "Three")
    report = container.graph_eviction.evict(NS)

    assert report.capped_entities == 2
    assert names(container) == {"Hub", "One", "Two"}
    assert container.graph_eviction.evict(NS).capped_entities == 0


def test_the_cap_deletes_in_steps(container):
    entities = tuple(FoundEntity(f"Name {number}", PERSON) for number in range(1_203))
    container.graph.store(NS, Extraction(LLM, entities), message(container))

    assert container.graph_eviction.evict(NS, max_entities=1).capped_entities == 1_202
    assert len(names(container)) == 1


def test_eviction_takes_names_mentions_memberships_and_vectors_along(build):
    """Graph bug 49: points outlive rows. Bug 10.3 [D]: communities keep dead ids."""
    container = build(memory__graph__use_embedding_resolution=True)
    store(container, "Ann|knows|Bob", "Cid")
    work(container)
    ids = {entity.name: entity.id for entity in container.graph.entities(NS)}
    with container.database.write() as unit:
        community = unit.communities.add(NS, "all", "")
        unit.communities.set_members(community, list(ids.values()))
        unit.communities.describe(community, "all", "", "abc")
    assert points(container) == 3
    container.graph_eviction.evict(NS, max_entities=2)
    work(container)

    assert points(container) == 2
    for table in (
        "graph_entity_aliases",
        "graph_entity_sources",
        "graph_community_members",
        "entity_embeddings",
    ):
        assert rows(container, f"SELECT count(*) FROM {table} WHERE entity_id = {ids['Cid']}") == [(0,)]
    with container.database.read() as unit:
        assert unit.communities.listed(NS)[0].fingerprint == ""


def points(container):
    space = container.spaces.for_reading("zeph_graph_entities")
    return container.vectors.count(space.collection.physical)


def test_bug_50_the_job_cleans_every_namespace_in_a_process_that_never_wrote(build, tmp_path):
    """Graph bug 50: cleanup skipped in a process that never wrote."""
    first = build(tmp_path / "data")
    for namespace in ("one", "two"):
        first.graph.store(namespace, found("Ann"), message(first, namespace=namespace))
    first.close()
    second = build(tmp_path / "data")
    second.clock.advance(91 * DAYS)
    (job_id,) = enqueue(second, new_job(EVICT_GRAPH))
    work(second)

    assert job(second, job_id).outcome == {"expired_edges": 0, "orphan_entities": 2, "capped_entities": 0}


def test_the_job_of_one_namespace_leaves_the_others(container):
    for namespace in ("one", "two"):
        container.graph.store(namespace, found("Ann"), message(container, namespace=namespace))
    container.clock.advance(91 * DAYS)
    enqueue(container, new_job(EVICT_GRAPH, payload={"namespace": "one"}))
    work(container)

    assert [len(container.graph.entities(each)) for each in ("one", "two")] == [0, 1]


def test_eviction_is_scheduled(container):
    assert EVICT_GRAPH in [periodic.kind for periodic in container.periodic]


# ---- with their texts ----------------------------------------------------------------------------------------------


def test_bug_51_a_fact_goes_with_its_last_text_and_not_before(container):
    """Graph bug 51: deleting one document removes facts others also support, or nothing at all."""
    first, second = message(container), message(container)
    store(container, "Ann|knows|Bob|same", "Ann|likes|Cid", source=first)
    store(container, "Ann|knows|Bob|same", source=second)

    receipt = container.memory.forget(messages=[first.message_id])
    assert (receipt.graph_facts, receipt.graph_entities) == (1, 1)
    assert facts(container, "Ann") == ["Ann knows Bob"]
    receipt = container.memory.forget(messages=[second.message_id])
    assert (receipt.graph_facts, receipt.graph_entities) == (1, 2)
    assert container.graph.stats(NS)["edges"] == 0


@pytest.mark.parametrize("also_told", [False, True])
def test_no_community_tells_of_a_forgotten_message(container, also_told):
    secret, other = message(container), message(container)
    store(container, f"Ann|{CO_OCCURRENCE}|Bob|Ann met Bob in prison.", source=secret)
    if also_told:
        store(container, f"Ann|{CO_OCCURRENCE}|Bob|Ann and Bob are friends.", source=other)
    container.communities.refresh(NS)
    assert "prison" in container.communities.listed(namespace=NS)[0].summary

    container.memory.forget(messages=[secret.message_id])
    assert container.communities.listed(namespace=NS) == []
    # What is left is described anew on the next day.
    enqueue(container, new_job(GRAPH_REFRESH))
    work(container)
    told = [one.summary for one in container.communities.listed(namespace=NS)]
    assert told == (["Ann, Bob. Ann and Bob are friends."] if also_told else [])


def test_no_community_tells_of_a_fact_that_was_erased(container):
    store(container, "Ann|knows|Bob|Ann knows Bob from prison.", "Ann|likes|Bob|Ann likes Bob.")
    container.communities.refresh(NS)
    (wrong,) = [each.edge.id for each in container.graph.facts(NS, "Ann") if "prison" in each.edge.fact]
    container.graph.forget_edge(NS, wrong, erase=True)
    assert container.communities.listed(namespace=NS) == []


def test_what_stays_says_nothing_that_only_the_forgotten_text_said(container):
    first, second = message(container), message(container)
    for source, words in ((first, "Ann told Bob her secret."), (second, "Ann saw Bob.")):
        ends = (FoundEntity("Ann", PERSON, words), FoundEntity("Bob", PERSON))
        together = FoundEdge("Ann", "Bob", CO_OCCURRENCE, words, 0.3)
        container.graph.store(NS, Extraction(LOCAL_EXTRACTOR, ends, (together,)), source)
    with container.database.write() as unit:
        community = unit.communities.add(NS, "Ann, Bob", "They share a secret.")
        unit.communities.set_members(community, [entity.id for entity in container.graph.entities(NS)])

    container.memory.forget(messages=[first.message_id])

    (record,) = container.graph.facts(NS, "Ann")
    assert record.edge.fact == "Ann saw Bob."
    assert container.graph.entity(NS, "Ann").summary == "Ann saw Bob."
    assert "secret" not in str(rows(container, "SELECT * FROM graph_edges, graph_entities"))


def test_a_community_that_tells_of_what_was_forgotten_goes(container):
    source = message(container)
    store(container, "Ann|knows|Bob", source=source)
    store(container, "Ann|likes|Cid")
    with container.database.write() as unit:
        community = unit.communities.add(NS, "Ann, Bob", "Ann knows Bob.")
        unit.communities.set_members(community, [entity.id for entity in container.graph.entities(NS)])
    container.memory.forget(messages=[source.message_id])

    assert rows(container, "SELECT * FROM graph_communities") == []


def test_a_forgotten_conversation_and_a_forgotten_namespace_leave_nothing(build):
    container = build(memory__graph__use_embedding_resolution=True)
    store(container, "Ann|knows|Bob", source=message(container, conversation="one"))
    store(container, "Ann|knows|Cid", source=message(container, conversation="two"))
    work(container)
    assert points(container) == 3

    receipt = container.memory.forget(conversation="one")
    assert (receipt.graph_facts, receipt.graph_entities) == (1, 1)
    work(container)
    assert (points(container), names(container)) == (2, {"Ann", "Cid"})

    receipt = container.memory.forget(everything=True)
    assert (receipt.graph_facts, receipt.graph_entities) == (1, 2)
    work(container)
    assert points(container) == 0
    for table in (
        "graph_entities",
        "graph_edges",
        "graph_edge_sources",
        "graph_entity_sources",
        "graph_metadata",
    ):
        assert rows(container, f"SELECT * FROM {table}") == []


def test_an_evicted_message_states_nothing_any_more(build):
    container = build(memory__eviction__max_entries=1, memory__compaction_preserve_tail=0)
    store(container, "Ann|knows|Bob", source=message(container, at=THEN))
    store(container, "Ann|knows|Cid", source=message(container, at=THEN + DAY))
    container.eviction.evict(NS)

    assert names(container) == {"Ann", "Cid"}


def test_a_hidden_message_still_states_its_facts(container):
    """Compaction hides messages from the agent; what they said stays known."""
    source = message(container)
    store(container, "Ann|knows|Bob", source=source)
    with container.database.write() as unit:
        unit.connection.exec_driver_sql("UPDATE messages SET agent_visible = 0")

    assert facts(container, "Ann") == ["Ann knows Bob"]


@pytest.fixture
def folder(tmp_path):
    return write_files(tmp_path / "docs", {"a.txt": "Ann knows Bob.", "b.txt": "Ann knows Cid."})


def chunk_of(container, name):
    statement = "SELECT c.id, d.source FROM chunks c JOIN documents d ON d.id = c.document_id"
    return next(Source(THEN, chunk_id=row[0]) for row in rows(container, statement) if row[1].endswith(name))


def test_a_document_that_changes_or_goes_takes_its_facts_along(container, folder):
    ingest(container, folder)
    store(container, "Ann|knows|Bob", source=chunk_of(container, "a.txt"))
    store(container, "Ann|knows|Cid", source=chunk_of(container, "b.txt"))

    write_files(folder, {"a.txt": "Something else."})
    ingest(container, folder)
    assert names(container) == {"Ann", "Cid"}
    (folder / "b.txt").unlink()
    ingest(container, folder, prune=True)
    assert names(container) == set()
