import pytest

from services.documents.models import DocumentMetadata
from workers.local import run_pending

TEXT = "# Pumps [v2]\n\nIntroduction.\n\n## Valves\n\nOpen the relief valve [red] slowly."


@pytest.fixture
def manual(opened):
    opened.ingestion.add_text(TEXT, DocumentMetadata("/manual.md", "text/markdown"))
    run_pending(opened)


def test_a_passage_is_printed_with_its_place_and_its_brackets(zeph, manual):
    result = zeph("search", "relief valve")
    assert result.code == 0
    start = TEXT.index("## Valves")
    assert result.out.startswith(f"1. /manual.md, characters {start}-{len(TEXT)}")
    assert "Open the relief valve [red] slowly." in result.out
    assert "Pumps [v2]" in result.out


def test_explain_shows_what_each_retriever_said(zeph, manual):
    assert "keyword" not in zeph("search", "relief valve").out
    assert "keyword" in zeph("search", "relief valve", "--explain").out


def test_json_has_everything_a_citation_needs(zeph, manual):
    result = zeph("search", "relief valve", "--json")
    hit = result.json["hits"][0]
    assert TEXT[hit["start"] : hit["end"]] == hit["text"]
    assert hit["source"] == "/manual.md"
    assert set(hit["legs"]) == {"keyword", "vector"}
    assert (result.json["query"], result.json["degraded"]) == ("relief valve", [])


def test_nothing_found_is_said_on_standard_error_and_no_failure(zeph):
    result = zeph("search", "relief valve")
    assert (result.code, result.out) == (0, "")
    assert "nothing found" in result.err
    assert zeph("search", "relief valve", "--json").json["hits"] == []


@pytest.mark.parametrize("query", ["", '"', "AND", "a\ud800b", "-x", "*", "x" * 100_000])
def test_any_text_is_a_query(zeph, manual, query):
    assert zeph("search", "--json", "--", query).code == 0


def test_namespace_collection_and_limit_are_kept(zeph, opened):
    for namespace in ("alice", "bob"):
        for number in range(3):
            opened.ingestion.add_text(
                f"secret {number} of {namespace}",
                DocumentMetadata(str(number), "text/plain"),
                collection="notes",
                namespace=namespace,
            )
    options = ("--namespace", "alice", "--collection", "notes", "--limit", "2", "--json")
    hits = zeph("search", "secret", *options).json["hits"]
    assert len(hits) == 2
    assert all("alice" in hit["text"] for hit in hits)
    assert zeph("search", "secret", "--json").json["hits"] == []


def test_a_degraded_search_says_so_on_standard_error_and_still_answers(zeph, manual, monkeypatch):
    monkeypatch.setenv("ZEPH_EMBEDDING__PROVIDER", "openai")
    monkeypatch.setenv("ZEPH_EMBEDDING__BASE_URL", "http://127.0.0.1:9/v1")
    monkeypatch.setenv("ZEPH_EMBEDDING__MODEL", "any")
    result = zeph("search", "relief valve")
    assert result.code == 0
    assert "degraded: no vector results: " in result.err
    assert "Open the relief valve" in result.out
