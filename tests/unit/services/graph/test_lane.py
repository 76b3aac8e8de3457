"""What the graph adds to searching documents: the next step of a question."""

import pytest

from services.documents.models import DocumentMetadata
from services.graph.models import EntityType, Extraction, FoundEdge, FoundEntity, Source
from tests.builders import rows, work

NS, COLLECTION = "default", "zeph_documents"
FILM = "Der Strohhut is a film of 1971. Its score is by Isaak Schwarz."
COMPOSER = "He was born in Romny and lived until 2009."
QUESTION = "When did the composer of the film Der Strohhut die?"


def store(container, source, title, text, *names):
    """A document, and what an extractor found in it."""
    container.ingestion.add_text(text, DocumentMetadata(source, "text/plain", title=title))
    ((chunk,),) = rows(
        container,
        f"SELECT chunks.id FROM chunks JOIN documents ON documents.id = document_id WHERE source = '{source}'",
    )
    found = Extraction("local", tuple(FoundEntity(name) for name in names))
    container.graph.store(NS, found, Source(container.clock.now(), chunk_id=chunk))
    return chunk


def fill(container):
    """Two documents that answer together, and others that share words with the question."""
    film = store(container, "film", "Der Strohhut", FILM, "Der Strohhut", "Isaak Schwarz")
    for number in range(6):
        store(
            container,
            f"other{number}",
            f"Film {number}",
            f"When did the composer of film {number} die? Who knows.",
        )
    composer = store(container, "man", "Isaak Schwarz (composer)", COMPOSER, "Romny")
    work(container)
    return film, composer


def found(container, query=QUESTION, limit=4, **options):
    answer = container.documents.search(query, collection=COLLECTION, limit=limit, **options)
    return [hit.passage.chunk_id for hit in answer.hits], answer.hits


def test_the_passage_about_what_the_best_one_names_is_found(build):
    container = build()
    film, composer = fill(container)
    ids, hits = found(container)
    assert ids[0] == film
    assert ids[2] == composer
    assert hits[2].legs["graph"] == (1.0, 1)
    scores = [hit.score for hit in hits]
    assert scores == sorted(scores, reverse=True)
    assert len(set(ids)) == 4


def test_the_lane_is_a_matter_of_settings_and_of_the_hybrid_search(build):
    container = build(memory__documents__graph_lane=False)
    _, composer = fill(container)
    assert composer not in found(container)[0]
    on = build()
    assert composer in found(on)[0]
    for mode in ("keyword", "vector"):
        assert all("graph" not in hit.legs for hit in found(on, mode=mode)[1])


def test_documents_that_nobody_read_for_the_graph_are_searched_as_ever(build):
    container = build()
    for number in range(5):
        container.ingestion.add_text(
            f"Der Strohhut {number} by Isaak Schwarz.",
            DocumentMetadata(f"{number}", "text/plain", title="Isaak Schwarz"),
        )
    with_lane = found(container)[1]
    without = found(build(memory__documents__graph_lane=False))[1]
    assert with_lane == without
    assert all("graph" not in hit.legs for hit in with_lane)


def test_what_the_question_names_itself_is_no_next_step(build):
    container = build()
    film, composer = fill(container)
    scores = {film: 1.0}

    def step(query):
        return container.graph_lane.passages(query, scores, namespace=NS, collection=COLLECTION)

    assert step(QUESTION) == [composer]
    assert step("Is Der Strohhut by Isaak Schwarz?") == []
    assert container.graph_lane.passages(QUESTION, scores, namespace="other", collection=COLLECTION) == []
    assert container.graph_lane.passages(QUESTION, scores, namespace=NS, collection="other") == []
    assert container.graph_lane.passages(QUESTION, {}, namespace=NS, collection=COLLECTION) == []


def test_another_name_in_the_title_leads_there_too(build):
    container = build()
    film = store(container, "film", "Der Strohhut", FILM, "Der Strohhut", "Isaak Schwarz")
    man = store(container, "man", "Isaac Schwartz", COMPOSER, "Romny")
    container.graph.add_alias(NS, "Isaak Schwarz", "Isaac Schwartz")
    assert container.graph_lane.passages(QUESTION, {film: 1.0}, namespace=NS, collection=COLLECTION) == [man]


def test_a_section_is_about_its_heading_and_never_about_itself(build):
    container = build()
    text = (
        "# Handbook\n\n## Dome\n\nThe Dome is turned by the Tower Crane.\n\n## Tower Crane\n\nIt lifts 4 t.\n"
    )
    container.ingestion.add_text(text, DocumentMetadata("handbook", "text/markdown", title="Handbook"))
    chunks = [found for (found,) in rows(container, "SELECT id FROM chunks ORDER BY id")]
    dome, crane = chunks[-2:]
    names = Extraction("local", tuple(FoundEntity(name) for name in ("Dome", "Tower Crane", "Handbook")))
    container.graph.store(NS, names, Source(container.clock.now(), chunk_id=dome))
    container.graph.store(NS, names, Source(container.clock.now(), chunk_id=crane))
    step = container.graph_lane.passages("what turns it", {dome: 1.0}, namespace=NS, collection=COLLECTION)
    assert step == [crane]
    assert container.graph_lane.passages("?", {crane: 1.0}, namespace=NS, collection=COLLECTION) == [dome]


def test_messages_count_by_the_facts_they_state(container):
    first = container.memory.remember("user", "Ada works at Acme. Ada knows Ben.", conversation="talk")
    second = container.memory.remember("user", "Ben founded Initech.", conversation="talk")

    def state(message, *triples):
        names = dict.fromkeys(name for source, _, target in triples for name in (source, target))
        found = Extraction(
            "llm:m",
            tuple(FoundEntity(name, EntityType.PERSON) for name in names),
            tuple(FoundEdge(*triple[:1], triple[2], triple[1], " ".join(triple), 1.0) for triple in triples),
        )
        container.graph.store(NS, found, Source(container.clock.now(), message_id=message))

    state(first, ("Ada", "works_at", "Acme"), ("Ada", "knows", "Ben"))
    state(second, ("Ben", "founded", "Initech"))
    assert container.graph_lane.messages("What about Ada?", namespace=NS) == {
        first: pytest.approx(2.0),
        second: pytest.approx(0.5),
    }
    assert container.graph_lane.messages("nobody", namespace=NS) == {}
    before = container.clock.now() - 1
    assert container.graph_lane.messages("Ada", namespace=NS, as_of=before) == {}


def test_a_question_of_relations_finds_the_message_that_states_the_fact(build):
    """The message has no word of the question: only the graph knows whom it is about."""
    container = build(memory__graph__enabled=True)
    stating = container.memory.remember(
        "user", "She opened the bakery together with her brother.", conversation="talk"
    )
    for number in range(8):
        text = f"The relationship between the {number} towns is good."
        container.memory.remember("user", text, conversation=f"other {number}")
    found = Extraction(
        "llm:m",
        (FoundEntity("Ada", EntityType.PERSON), FoundEntity("Ben", EntityType.PERSON)),
        (FoundEdge("Ada", "Ben", "sister_of", "Ada is Ben's sister."),),
    )
    container.graph.store(NS, found, Source(container.clock.now(), message_id=stating))
    question = "What is the relationship between Ada and Ben?"
    answer = container.memory.recall(question, limit=5)
    hits = {hit.message.id: hit.legs for hit in answer.hits}
    assert "graph" in hits[stating]
    assert all("graph" not in legs for message, legs in hits.items() if message != stating)
    # A filter holds for this leg as for the others, and other routes and modes have none.
    other = container.memory.recall(question, limit=5, conversation="other 1")
    assert [hit for hit in other.hits if hit.message.id == stating] == []
    for plain in (
        container.memory.recall(question, mode="hybrid"),
        container.memory.recall("Ada and Ben and who else"),
    ):
        assert all("graph" not in hit.legs for hit in plain.hits)
    off = build()
    assert all("graph" not in hit.legs for hit in off.memory.recall(question, limit=9).hits)
    everywhere = build(memory__graph__enabled=True, memory__semantic__graph_weight=0.5)
    asked = everywhere.memory.recall("What did Ada open together with whom and when was it")
    assert "graph" in next(hit.legs for hit in asked.hits if hit.message.id == stating)
