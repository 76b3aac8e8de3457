import json

import pytest

from tests.builders import rows


@pytest.fixture
def chat(tmp_path):
    path = tmp_path / "holiday.jsonl"
    lines = [
        {"role": "user", "content": f"note {number}", "created_at": 1_700_000_000 + number}
        for number in range(5)
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_a_file_is_imported_with_its_vectors_and_once_only(zeph, chat, opened):
    result = zeph("chat", "import", chat)
    assert (result.code, result.out.startswith("5 added, 0 known, 0 bad in ")) == (0, True)
    assert rows(opened, "SELECT key FROM conversations") == [("holiday",)]
    assert rows(opened, "SELECT count(*) FROM message_embeddings") == [(5,)]
    again = zeph("chat", "import", chat)
    assert (again.code, again.out.startswith("0 added, 5 known, 0 bad in ")) == (0, True)
    assert rows(opened, "SELECT count(*) FROM messages") == [(5,)]


def test_another_file_of_the_same_name_loses_none_of_its_lines_to_the_first_ones_conversation(
    zeph, chat, opened, tmp_path
):
    zeph("chat", "import", chat)
    other = tmp_path / "other" / "holiday.jsonl"
    other.parent.mkdir()
    lines = chat.read_text().splitlines(keepends=True)
    other.write_text(lines[0] + '{"role": "user", "content": "elsewhere"}\n')
    refused = zeph("chat", "import", other)
    assert (refused.code, "--conversation" in refused.err) == (2, True)
    assert rows(opened, "SELECT count(*) FROM messages") == [(5,)]
    assert zeph("chat", "import", other, "--conversation", "second").code == 0
    assert rows(opened, "SELECT count(*) FROM messages") == [(7,)]


def test_files_whose_lines_name_their_conversation_may_be_called_alike(zeph, tmp_path, opened):
    for folder in ("one", "two"):
        file = tmp_path / folder / "ops.jsonl"
        file.parent.mkdir()
        file.write_text(json.dumps({"role": "user", "content": f"in {folder}", "conversation": "ops"}) + "\n")
        assert zeph("chat", "import", file).code == 0
    assert rows(opened, "SELECT count(*) FROM messages") == [(2,)]


@pytest.mark.parametrize("change", ["grown", "cut"])
def test_the_same_file_grown_or_cut_short_is_imported_as_before(zeph, chat, opened, change):
    zeph("chat", "import", chat)
    lines = chat.read_text().splitlines(keepends=True)
    more = '{"role": "user", "content": "one more"}\n'
    chat.write_text("".join([*lines, more] if change == "grown" else lines[:2]))
    assert zeph("chat", "import", chat).code == 0
    assert rows(opened, "SELECT count(*) FROM messages") == [(6 if change == "grown" else 5,)]


def test_a_bad_line_is_named_the_rest_is_stored_and_the_exit_code_tells(zeph, chat, opened):
    with chat.open("a") as file:
        file.write('nonsense\n{"role": "user", "content": "nul \\u0000"}\n')
    result = zeph("chat", "import", chat)
    assert result.code == 1
    first, last = result.out.splitlines()
    assert first.startswith("line 6: not JSON")
    assert last.startswith("6 added, 0 known, 1 bad, 1 NUL characters left out in ")
    assert rows(opened, "SELECT count(*) FROM messages") == [(6,)]


def test_many_bad_lines_are_cut_on_the_screen_and_whole_in_json(zeph, chat):
    chat.write_text("nonsense\n" * 30)
    assert "... and 10 more bad lines (--json lists all)" in zeph("chat", "import", chat).out
    result = zeph("chat", "import", chat, "--json")
    assert (result.code, len(result.json["bad"]), result.json["added"]) == (1, 30, 0)


def test_a_detached_import_leaves_the_vectors_to_the_worker(zeph, chat, opened):
    result = zeph("chat", "import", chat, "--detach", "--conversation", "notes", "--namespace", "alice")
    assert "5 messages have no vectors yet: `zeph worker` makes them" in result.out
    assert rows(opened, "SELECT namespace, key FROM conversations") == [("alice", "notes")]
    assert rows(opened, "SELECT count(*) FROM message_embeddings") == [(0,)]
    zeph("worker", "--until-idle")
    assert rows(opened, "SELECT count(*) FROM message_embeddings") == [(5,)]


def test_with_a_broker_it_says_that_the_workers_make_the_vectors(zeph, chat, monkeypatch):
    monkeypatch.setenv("ZEPH_JOBS__BROKER_URL", "redis://127.0.0.1:1/0")
    assert "5 messages have no vectors yet: the Celery workers make them" in zeph("chat", "import", chat).out


def test_without_an_embedder_nothing_waits(zeph, chat, monkeypatch):
    monkeypatch.setenv("ZEPH_EMBEDDING__PROVIDER", "none")
    result = zeph("chat", "import", chat, "--json")
    assert (result.code, result.json["added"], result.json["waiting"]) == (0, 5, 0)


def test_a_file_that_is_not_there_is_a_wrong_request(zeph, tmp_path):
    for path in (tmp_path / "nothing.jsonl", tmp_path):
        assert zeph("chat", "import", path).code == 2
