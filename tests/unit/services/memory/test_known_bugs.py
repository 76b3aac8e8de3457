"""Bugs that memories of this kind had, where no other file of these tests shows that ours has not."""

from __future__ import annotations

import json
import logging

import pytest

from services import errors
from services.documents.models import DocumentMetadata
from services.memory.models import NewMessage
from services.memory.vectors import COLLECTION
from tests.builders import FallibleStore, ScriptedEmbedder, rows, work
from tests.fake_openai import FakeOpenAi


@pytest.fixture
def servers():
    with FakeOpenAi() as chat, FakeOpenAi() as embedding:
        chat.chat = lambda _request: json.dumps(
            {"summary": "Ann wrote five notes about Brno.", "key_facts": ["Ann is in Brno."], "entities": []}
        )
        yield chat, embedding


def test_b_07_whatever_has_vectors_gets_them_from_the_configured_embedder_alone(build, servers):
    chat, embedding = servers
    container = build(
        llm__provider="openai",
        llm__base_url=chat.base_url,
        llm__model="chat",
        embedding__provider="openai",
        embedding__base_url=embedding.base_url,
        embedding__model="vectors",
        memory__summarization_threshold=2,
    )
    container.memory.remember_many("c", [NewMessage("user", f"note {number}") for number in range(5)])
    container.ingestion.add_text("A page.", DocumentMetadata("a.md", "text/markdown"))
    work(container)
    container.memory.recall("note", mode="vector")
    container.summaries.search_key_facts("Brno", namespace="default")
    assert {request.path for request in chat.requests} == {"/v1/chat/completions"}
    assert {request.path for request in embedding.requests} == {"/v1/embeddings"}
    known = rows(container, "SELECT DISTINCT provider, model, dimension FROM embedding_collections")
    assert known == [("openai", "vectors", 8)]
    names = rows(container, "SELECT name FROM embedding_collections ORDER BY name")
    assert [name for (name,) in names] == [
        "zeph_conversations",
        "zeph_documents",
        "zeph_key_facts",
        "zeph_session_summaries",
    ]


def test_b_10_a_message_of_many_windows_is_one_hit(build):
    container = build()
    container.embedder = ScriptedEmbedder()
    long = container.memory.remember("user", "the harbour closes early " * 200)
    short = container.memory.remember("user", "a harbour")
    work(container)
    assert rows(container, f"SELECT windows > 1 FROM message_embeddings WHERE message_id = {long}") == [(1,)]
    for mode in ("vector", "hybrid"):
        found = [hit.message.id for hit in container.memory.recall("harbour", mode=mode, limit=10).hits]
        assert sorted(found) == [long, short]


def test_b_18_vectors_that_cannot_be_fetched_cost_diversity_and_are_logged(build, caplog):
    class NoFetch(FallibleStore):
        def fetch(self, *_arguments):
            raise errors.VectorStoreUnavailable("down in the middle")

    container = build()
    container.embedder = ScriptedEmbedder()
    container.vectors = NoFetch()
    twice = [container.memory.remember("user", "green tea in the garden") for _ in range(2)]
    work(container)
    with caplog.at_level(logging.WARNING):
        answer = container.memory.recall("green tea in the garden", mode="hybrid", limit=2)
    assert [hit.message.id for hit in answer.hits] == twice
    assert "recall_without_mmr reason=VectorStoreUnavailable" in caplog.text


def test_4_4_recall_by_meaning_without_vectors_is_empty_and_no_error(build):
    container = build(embedding__provider="none")
    container.memory.remember("user", "tea")
    assert container.memory.recall("tea", mode="vector").hits == ()


def test_4_4_recall_by_meaning_before_anything_is_embedded_is_empty_and_no_error(build):
    container = build()
    container.memory.remember("user", "tea")
    assert container.spaces.for_reading(COLLECTION) is None
    assert container.memory.recall("tea", mode="vector").hits == ()
