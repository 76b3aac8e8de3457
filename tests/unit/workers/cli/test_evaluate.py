import gzip
import json

import pytest


def write(path, *objects):
    path.write_bytes(gzip.compress("\n".join(json.dumps(one) for one in objects).encode()))


@pytest.fixture
def locomo(tmp_path):
    folder = tmp_path / "locomo"
    folder.mkdir()
    turns = [
        {
            "conv_id": f"c{chat}",
            "session": 1,
            "session_datetime": "1:56 pm on 8 May, 2031",
            "dia_id": f"D1:{number}",
            "speaker": "Ann",
            "text": text,
        }
        for chat in (1, 2)
        for number, text in enumerate(("green tea", "black coffee", "red wine"))
    ]
    write(folder / "turns.jsonl.gz", *turns)
    write(
        folder / "questions.jsonl.gz",
        {"conv_id": "c1", "question": "who likes green tea", "category": 4, "evidence": ["D1:0"]},
        {"conv_id": "c2", "question": "black coffee", "category": 1, "evidence": ["D1:1; D9:9"]},
        {"conv_id": "c2", "question": "nothing", "category": 5, "evidence": []},
    )
    return folder


def test_each_mode_is_scored_inside_the_conversation_that_is_asked_about(zeph, locomo):
    found = zeph("eval", "retrieval", locomo, "--json").json
    assert (found["set"], found["stored"], found["asked"]) == ("locomo", 6, 2)
    assert [scores["mode"] for scores in found["scores"]] == ["keyword", "vector", "hybrid", "routed"]
    for scores in found["scores"]:
        assert scores["metrics"]["recall@5"] == scores["metrics"]["session@5"] == 1.0
        assert set(scores["categories"]) == {"1", "4"}
    assert found["scores"][0]["metrics"]["mrr"] == 1.0


def test_a_second_run_stores_nothing_again_and_prints_the_categories(zeph, locomo, opened):
    zeph("eval", "retrieval", locomo, "--mode", "keyword")
    result = zeph("eval", "retrieval", locomo, "--mode", "keyword")
    assert result.out.startswith("locomo: 6 stored, 2 asked\n")
    assert "category" in result.out
    assert opened.memory.stats(namespace="locomo").messages == 6


def test_documents_are_scored_by_the_same_command(zeph, tmp_path):
    write(
        tmp_path / "corpus.jsonl.gz",
        {"id": "a", "title": "", "text": "green tea"},
        {"id": "b", "text": "wine"},
    )
    write(tmp_path / "queries.jsonl.gz", {"id": "q", "text": "tea"})
    (tmp_path / "qrels.tsv").write_text("q\ta\t1\n")
    found = zeph("eval", "retrieval", tmp_path, "--set", "documents", "--mode", "keyword", "--json").json
    assert found["scores"][0]["metrics"]["recall@5"] == 1.0


def test_a_folder_that_is_no_such_set_and_an_unknown_mode_are_refused(zeph, tmp_path, locomo):
    result = zeph("eval", "retrieval", tmp_path, "--set", "beam")
    assert (result.code, "turns.jsonl.gz is missing" in result.err) == (2, True)
    assert "mode is 'psychic'" in zeph("eval", "retrieval", locomo, "--mode", "psychic").err


def test_documents_are_read_for_the_graph_before_they_are_scored(zeph, tmp_path, opened):
    write(
        tmp_path / "corpus.jsonl.gz",
        {
            "id": "film",
            "title": "Der Strohhut",
            "text": "Der Strohhut is a film with music by Isaak Schwarz.",
        },
        {"id": "man", "title": "Isaak Schwarz", "text": "Born in Romny, he lived until 2009."},
        *(
            {"id": f"other {n}", "title": f"{n}", "text": "A film with music: who wrote it?"}
            for n in range(9)
        ),
    )
    write(
        tmp_path / "queries.jsonl.gz",
        {"id": "q", "text": "When did the composer of the film Der Strohhut die?"},
    )
    (tmp_path / "qrels.tsv").write_text("q\tfilm\t1\nq\tman\t1\n")
    arguments = ("eval", "retrieval", tmp_path, "--set", "documents", "--mode", "hybrid", "--json")
    before = zeph(*arguments).json["scores"][0]["metrics"]
    after = zeph(*arguments, "--graph").json["scores"][0]["metrics"]
    assert (before["recall@5"], after["recall@5"]) == (0.5, 1.0)
    assert opened.graph.entity(tmp_path.name, "Isaak Schwarz")
