import pytest

from services import errors
from services.documents.models import DocumentMetadata, SplitterConfig
from services.documents.search import MAX_LIMIT
from services.ports import Point
from tests.builders import FallibleStore, ScriptedEmbedder, found_texts, work


@pytest.fixture
def container(build):
    made = build()
    made.embedder = ScriptedEmbedder()
    return made


def store(container, *texts, namespace="default", collection="zeph_documents", embed=True):
    for text in texts:
        metadata = DocumentMetadata(f"source of {text}", "text/markdown", title="Manual")
        container.ingestion.add_text(text, metadata, namespace=namespace, collection=collection)
    if embed:
        work(container)


def test_a_hit_cites_its_place(container):
    text = "# Pumps\n\nIntroduction.\n\n## Valves\n\nOpen the relief valve slowly."
    store(container, text)
    answer = container.documents.search("relief valve", collection="zeph_documents")
    passage = answer.hits[0].passage
    assert passage.source == f"source of {text}"
    assert (passage.title, passage.heading[0], passage.page) == ("Manual", "Pumps", None)
    assert text[passage.start : passage.end] == passage.text
    assert set(answer.hits[0].legs) == {"keyword", "vector"}
    assert answer.degraded == ()


def test_both_legs_count_and_each_can_be_asked_alone(container):
    store(container, "alpha beta", "alpha gamma")
    for mode, legs in (("keyword", {"keyword"}), ("vector", {"vector"}), ("hybrid", {"keyword", "vector"})):
        answer = container.documents.search("alpha beta", collection="zeph_documents", mode=mode)
        assert answer.hits[0].passage.text == "alpha beta"
        assert set(answer.hits[0].legs) == legs


def test_an_unknown_mode_is_refused(container):
    with pytest.raises(errors.InputError, match="use hybrid, keyword or vector"):
        container.documents.search("x", collection="zeph_documents", mode="magic")


@pytest.mark.parametrize(("limit", "count"), [(1, 1), (3, 3), (0, 1), (-5, 1), (MAX_LIMIT * 10, 4)])
def test_the_limit_is_kept(container, limit, count):
    store(container, *(f"alpha {number}" for number in range(4)))
    assert len(found_texts(container, "alpha", limit=limit)) == count


def test_stored_texts_are_found_by_words_before_they_have_vectors(container):
    store(container, "alpha beta", embed=False)
    answer = container.documents.search("beta", collection="zeph_documents")
    assert [hit.passage.text for hit in answer.hits] == ["alpha beta"]
    assert answer.degraded == ()


@pytest.mark.parametrize("query", ["", "  ", "\x00", "\ud800", "?"])
def test_a_query_without_words_is_no_error(container, query):
    store(container, "alpha")
    assert container.documents.search(query, collection="zeph_documents").degraded == ()


def test_no_search_crosses_a_namespace_or_a_collection(container):
    store(container, "the secret of alice", namespace="alice")
    store(container, "the secret of bob", namespace="bob")
    store(container, "the secret of the archive", namespace="alice", collection="archive")
    for mode in ("keyword", "vector", "hybrid"):
        assert found_texts(container, "secret", namespace="alice", mode=mode) == ["the secret of alice"]
        assert found_texts(container, "secret", namespace="bob", mode=mode) == ["the secret of bob"]
        assert found_texts(container, "secret", "archive", namespace="alice", mode=mode) == [
            "the secret of the archive"
        ]
        assert found_texts(container, "secret", "archive", namespace="bob", mode=mode) == []
        assert found_texts(container, "secret", mode=mode) == []


@pytest.mark.parametrize(
    "error",
    [errors.ModelUnavailable("connection refused"), errors.ModelRejected("no such model")],
)
def test_an_embedder_that_cannot_answer_degrades_the_search_and_says_so(container, error):
    store(container, "alpha beta")
    container.embedder.error = error
    answer = container.documents.search("alpha", collection="zeph_documents")
    assert [hit.passage.text for hit in answer.hits] == ["alpha beta"]
    assert (answer.degraded, answer.reasons) == (("vector",), (str(error),))
    assert container.documents.search("alpha", collection="zeph_documents", mode="vector").hits == ()


def test_a_vector_store_that_is_down_degrades_the_search_and_comes_back(container):
    container.vectors = FallibleStore()
    store(container, "alpha beta")
    container.vectors.down = True
    answer = container.documents.search("alpha", collection="zeph_documents")
    assert [hit.passage.text for hit in answer.hits] == ["alpha beta"]
    assert answer.degraded == ("vector",)
    container.vectors.down = False
    assert container.documents.search("alpha", collection="zeph_documents").degraded == ()


def test_vectors_of_another_model_degrade_the_search_and_name_the_way_out(container):
    store(container, "alpha beta")
    container.spaces.embedder = ScriptedEmbedder(dimension=32)
    container.spaces._other = lambda _identity: None
    answer = container.documents.search("alpha", collection="zeph_documents")
    assert [hit.passage.text for hit in answer.hits] == ["alpha beta"]
    assert answer.degraded == ("vector",)
    assert "zeph collections reembed zeph_documents" in answer.reasons[0]


def test_a_vector_whose_chunk_is_gone_is_no_hit(container):
    store(container, "alpha beta", "alpha gamma")
    container.ingestion.remove(["source of alpha beta"])
    assert found_texts(container, "alpha beta", mode="vector") == ["alpha gamma"]


def test_the_best_window_of_a_long_chunk_counts_once(container):
    long = " ".join(["noise"] * 250 + ["needle in the hay"] + ["noise"] * 250)
    container.ingestion.add_text(
        long,
        DocumentMetadata("long", "text/plain"),
        splitter=SplitterConfig(8_000, 0),
    )
    work(container)
    answer = container.documents.search("needle in the hay", collection="zeph_documents", mode="vector")
    assert [hit.passage.source for hit in answer.hits] == ["long"]


def test_a_vector_that_names_no_chunk_is_passed_over(container):
    container.ingestion.add_text("needle in the hay", DocumentMetadata("one", "text/plain"))
    work(container)
    space = container.spaces.for_reading("zeph_documents")
    here = space.embedder.embed(["needle in the hay"], kind="document")[0]
    container.spaces.write(space, "default", [Point("00000000-0000-4000-8000-000000000001", here, {})])
    answer = container.documents.search("needle in the hay", collection="zeph_documents", mode="vector")
    assert [hit.passage.source for hit in answer.hits] == ["one"]


def test_searching_vectors_only_without_an_embedder_says_why_nothing_is_found(build):
    container = build(embedding__provider="none")
    container.ingestion.add_text("some words", DocumentMetadata("one", "text/plain"))

    answer = container.documents.search("words", collection="zeph_documents", mode="vector")

    assert (answer.hits, answer.degraded) == ((), ("vector",))
    assert "provider is none" in answer.reasons[0]
