import pytest

from services.documents.models import DocumentMetadata
from tests.builders import rows
from workers.local import run_pending


@pytest.fixture
def stored(opened):
    for namespace, source in (("default", "a [1].txt"), ("default", "b.txt"), ("alice", "c.txt")):
        opened.ingestion.add_text("text", DocumentMetadata(source, "text/plain"), namespace=namespace)
    run_pending(opened)


def test_documents_are_listed_with_their_chunks_and_vectors(zeph, stored):
    lines = zeph("documents", "list").out.splitlines()
    assert [line.split()[0] for line in lines] == ["source", "a", "b.txt"]
    assert "a [1].txt" in lines[1]
    (facts,) = zeph("documents", "list", "--namespace", "alice", "--json").json
    assert (facts["source"], facts["chunks"], facts["embedded"]) == ("c.txt", 1, 1)
    assert [it["source"] for it in zeph("documents", "list", "--after", "a [1].txt", "--json").json] == [
        "b.txt"
    ]
    assert zeph("documents", "list", "--collection", "other", "--json").json == []


def test_a_removed_document_takes_its_vectors_along_at_once(zeph, stored, opened):
    result = zeph("documents", "remove", "a [1].txt", "b.txt")
    assert (result.code, result.out) == (0, "2 documents removed\n")
    assert rows(opened, "SELECT source FROM documents") == [("c.txt",)]
    assert rows(opened, "SELECT count(*) FROM vector_tombstones") == [(0,)]
    physical = rows(opened, "SELECT physical FROM embedding_collections")[0][0]
    assert opened.vectors.count(physical) == 1


def test_a_document_of_another_namespace_is_not_removed(zeph, stored, opened):
    for sources in (["c.txt"], ["b.txt", "c.txt"]):
        result = zeph("documents", "remove", *sources)
        assert result.code == 2
        assert "no document is called c.txt" in result.err
    assert rows(opened, "SELECT count(*) FROM documents") == [(3,)]
