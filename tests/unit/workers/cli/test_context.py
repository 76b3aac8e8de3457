import pytest

from services.documents.models import DocumentMetadata


@pytest.fixture
def stored(opened):
    for text in ("the winch is broken", "the winch was repaired by Hanne"):
        opened.memory.remember("user", text, conversation="ops", speaker="Ann")
    opened.ingestion.add_text("The winch needs 3 kW.", DocumentMetadata("power.md", "text/markdown"))


def test_the_context_is_printed_and_what_it_costs_goes_to_standard_error(zeph, stored):
    result = zeph("context", "winch", "--budget", "500")
    assert result.out.startswith("<memory>\n")
    assert result.out.endswith("</memory>\n")
    assert "[Ann] the winch is broken</message>" in result.out
    assert "of 500 tokens, 2 quoted, 0 left out" in result.err


def test_the_budget_is_kept_and_what_did_not_fit_is_counted(zeph, stored):
    result = zeph("context", "winch", "--budget", "80", "--json").json
    assert result["tokens"] <= 80
    assert (len(result["quotes"]), result["left_out"]) == (1, 1)


def test_json_has_the_text_and_every_quotation_with_its_citation(zeph, stored):
    result = zeph("context", "winch", "--documents", "--json").json
    assert (result["budget"], result["degraded"]) == (None, {})
    parts = {quote["id"]: quote for quote in result["quotes"]}
    assert set(parts) == {"message:1", "message:2", "chunk:1"}
    assert (parts["message:1"]["role"], parts["message:1"]["origin"]) == ("user", "Ann")
    assert parts["chunk:1"]["origin"] == "power.md"


def test_documents_come_only_when_wanted(zeph, stored, monkeypatch):
    assert "chunk:1" not in zeph("context", "winch").out
    monkeypatch.setenv("ZEPH_MEMORY__DOCUMENTS__RAG_ENABLED", "true")
    assert "chunk:1" in zeph("context", "winch").out
    assert "chunk:1" not in zeph("context", "winch", "--no-documents").out


def test_a_conversation_that_is_not_there_is_named(zeph, stored):
    result = zeph("context", "winch", "--conversation", "nope")
    assert (result.code, "no conversation 'nope'" in result.err) == (2, True)


def test_nothing_remembered_is_nothing_to_quote(zeph, opened):
    result = zeph("context", "winch")
    assert (result.code, result.out) == (0, "")
    assert result.err == "nothing to quote\n0 tokens, 0 quoted, 0 left out\n"


def test_markup_of_the_terminal_is_made_visible(zeph, opened):
    opened.memory.remember("user", "winch \x1b[2J gone")
    assert "\x1b" not in zeph("context", "winch").out
