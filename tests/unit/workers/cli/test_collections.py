import pytest

from services.documents.models import DocumentMetadata
from tests.builders import rows
from workers.local import run_pending


@pytest.fixture
def stored(opened):
    opened.ingestion.add_text("text", DocumentMetadata("a.txt", "text/plain"))
    run_pending(opened)


def test_collections_are_listed_with_model_state_and_vectors(zeph, stored):
    assert zeph("collections", "list", "--json").json == [
        {
            "name": "zeph_documents",
            "embedder": "fake/hash/64",
            "state": "active",
            "vectors": 1,
            "physical": "zeph_documents__fake-hash-64__1",
        }
    ]
    assert "fake/hash/64" in zeph("collections", "list").out


def test_a_fresh_database_has_no_collections(zeph):
    assert zeph("collections", "list", "--json").json == []


def test_a_collection_moves_to_the_configured_embedder(zeph, stored, monkeypatch):
    monkeypatch.setenv("ZEPH_EMBEDDING__DIMENSIONS", "32")
    result = zeph("collections", "reembed", "zeph_documents")
    assert (result.code, result.out) == (0, "zeph_documents now answers from the configured embedder\n")
    (active,) = [it for it in zeph("collections", "list", "--json").json if it["state"] == "active"]
    assert (active["embedder"], active["vectors"]) == ("fake/hash/32", 1)
    assert zeph("search", "text", "--mode", "vector", "--json").json["hits"]


def test_a_detached_move_waits_for_a_worker(zeph, stored, opened):
    result = zeph("collections", "reembed", "zeph_documents", "--detach")
    assert "accepted as job" in result.out
    assert rows(opened, "SELECT state FROM jobs WHERE kind = 'vectors.reembed'") == [("pending",)]
