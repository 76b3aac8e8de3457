from services.documents.models import DocumentMetadata
from tests.builders import enqueue, new_job


def test_status_tells_what_is_stored_and_what_waits(zeph, opened, data_dir):
    opened.ingestion.add_text("text", DocumentMetadata("a.txt", "text/plain"))
    enqueue(opened, new_job(namespace="alice"))
    facts = zeph("status", "--json").json
    assert facts["database"] == str(data_dir / "zeph.db")
    assert facts["vector_store_healthy"] is True
    assert facts["embedder"] == "fake"
    assert facts["documents"] == [{"collection": "zeph_documents", "documents": 1, "chunks": 1}]
    (queue,) = facts["queues"]
    assert (queue["queue"], queue["pending"], queue["dead"], queue["eta_seconds"]) == (
        "embedding",
        2,
        0,
        None,
    )

    (mine,) = zeph("status", "--namespace", "alice", "--json").json["queues"]
    assert mine["pending"] == 1
    text = zeph("status").out
    assert "vector store healthy: True" in text
    assert "unknown" in text


def test_status_of_a_fresh_installation_is_empty(zeph, data_dir):
    (data_dir / "zeph.db").unlink()
    facts = zeph("status", "--json").json
    assert (facts["queues"], facts["documents"]) == ([], [])
    assert zeph("status").code == 0
