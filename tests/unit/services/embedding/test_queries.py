import pytest

from services import errors
from services.embedding import queries
from services.embedding.queries import RememberedQueries
from tests.builders import ScriptedEmbedder, work


class Counting(ScriptedEmbedder):
    def __init__(self):
        super().__init__()
        self.calls = 0

    def embed(self, texts, *, kind):
        self.calls += 1
        return super().embed(texts, kind=kind)


@pytest.fixture
def counting():
    return Counting()


@pytest.fixture
def remembering(counting):
    return RememberedQueries(counting)


def test_a_query_is_embedded_once(remembering, counting):
    first = remembering.embed(["winch"], kind="query")
    second = remembering.embed(["winch"], kind="query")
    assert (first == second).all()
    assert counting.calls == 1
    assert (remembering.embed(["mast"], kind="query") != first).any()


def test_nobody_can_change_what_is_remembered(remembering):
    with pytest.raises(ValueError, match="read-only"):
        remembering.embed(["winch"], kind="query")[0][0] = 1.0


def test_documents_and_several_texts_are_embedded_each_time(remembering, counting):
    for _ in range(2):
        remembering.embed(["winch"], kind="document")
        remembering.embed(["winch", "mast"], kind="query")
    assert counting.calls == 4


def test_failures_are_not_remembered(remembering, counting):
    counting.error = errors.ModelUnavailable("away")
    with pytest.raises(errors.ModelUnavailable):
        remembering.embed(["winch"], kind="query")
    counting.error = None
    assert remembering.embed(["winch"], kind="query").shape == (1, 64)


def test_only_the_last_queries_are_remembered(remembering, counting, monkeypatch):
    monkeypatch.setattr(queries, "_REMEMBERED", 2)
    for text in ("a", "b", "a", "c", "a", "b"):
        remembering.embed([text], kind="query")
    assert counting.calls == 4


def test_everything_else_is_the_embedders(remembering, counting):
    closed = []
    counting.close = lambda: closed.append(1)
    assert remembering.identity == counting.identity
    assert remembering.windows("a b") == counting.windows("a b")
    remembering.close()
    assert closed == [1]


def test_a_context_costs_one_call_of_the_embedder(build):
    container = build(memory__documents__rag_enabled=True)
    container.embedder = RememberedQueries(Counting())
    counting = container.embedder._embedder
    container.memory.remember("user", "the winch is broken")
    container.corrections.add("the winch is blue")
    work(container)
    before = counting.calls
    assert container.memory.build_context("winch").quotes
    assert counting.calls == before + 1
