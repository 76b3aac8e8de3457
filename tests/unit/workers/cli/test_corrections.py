"""`zeph corrections` and `zeph eval corrections`."""

from __future__ import annotations

import gzip
import json

import pytest

from tests.builders import work


@pytest.fixture
def corrected(opened):
    """A conversation whose third message corrects the second."""
    turns = [
        ("user", "Where does the pilot live?"),
        ("assistant", "The pilot lives in Oslo."),
        ("user", "No, that's wrong, she lives in Bergen"),
    ]
    for role, text in turns:
        opened.memory.remember(role, text, conversation="c")
    work(opened)
    return opened


def test_corrections_are_listed_and_shown_with_what_they_answer(zeph, corrected):
    listed = zeph("corrections", "list")
    assert listed.code == 0
    assert "explicit_rejection" in listed.out
    assert "she lives in Bergen" in listed.out
    shown = zeph("corrections", "show", 1)
    assert "asked, message 1:\n   Where does the pilot live?" in shown.out
    assert "put right, message 2:\n   The pilot lives in Oslo." in shown.out
    assert "correction, message 3:" in shown.out
    assert "message 2 ranks lower in recall" in shown.out
    found = zeph("corrections", "list", "--conversation", "c", "--kind", "explicit_rejection", "--json").json
    assert [(one["id"], one["message_id"], one["retired_at"]) for one in found] == [(1, 3, None)]
    assert zeph("corrections", "show", 1, "--json").json == found[0]


def test_a_correction_is_taken_back_and_put_into_force_again(zeph, corrected):
    assert zeph("corrections", "undo", 1).out == "correction 1 is taken back\n"
    assert zeph("corrections", "list").err == "no corrections\n"
    assert "taken back" in zeph("corrections", "list", "--all").out
    assert "message 2 ranks as before in recall" in zeph("corrections", "show", 1).out
    assert zeph("corrections", "redo", 1, "--json").json["retired_at"] is None
    assert len(zeph("corrections", "list", "--json").json) == 1


def test_a_correction_is_added_recalled_and_forgotten(zeph):
    added = zeph("corrections", "add", "use metres", "--about", "how long is the pier", "--skill", "survey")
    assert added.out == "correction 1 is stored\n"
    found = zeph("corrections", "recall", "how long is the pier", "--json").json
    assert (found["degraded"], [hit["correction_text"] for hit in found["hits"]]) == ("", ["use metres"])
    assert "use metres" in zeph("corrections", "recall", "how long is the pier").out
    assert zeph("corrections", "recall", "weather").err == "nothing found\n"
    assert [one["id"] for one in zeph("corrections", "list", "--skill", "survey", "--json").json] == [1]
    assert zeph("corrections", "forget", 1).out == "correction 1 is forgotten\n"
    assert zeph("corrections", "recall", "how long is the pier", "--json").json["hits"] == []
    missing = zeph("corrections", "show", 1)
    assert (missing.code, missing.out) == (2, "")
    assert "no correction 1" in missing.err


def test_a_message_that_is_wrong_can_be_named(zeph, opened):
    message = opened.memory.remember("assistant", "The pilot lives in Oslo.", conversation="c")
    added = zeph("corrections", "add", "in Bergen", "--message", message, "--kind", "factual", "--json").json
    assert (added["target_message_id"], added["original_output"]) == (message, "The pilot lives in Oslo.")
    assert zeph("corrections", "add", "x", "--message", 99).code == 2
    assert "use one of self_correction" in zeph("corrections", "add", "x", "--kind", "odd").err


def test_what_holds_from_now_on_is_marked_listed_and_recalled_whatever_is_asked(zeph):
    zeph("corrections", "add", "never use feet")
    zeph("corrections", "add", "use metres", "--standing")
    zeph("corrections", "add", "always ask", "--once")
    assert ", standing\n   use metres" in zeph("corrections", "list").out
    listed = zeph("corrections", "list", "--standing", "--json").json
    recalled = zeph("corrections", "recall", "the weather", "--json").json
    assert [one["id"] for one in listed] == [one["id"] for one in recalled["standing"]] == [2, 1]
    assert "never use feet" in zeph("corrections", "recall", "the weather").out


def test_words_alone_are_said_to_be_so(zeph, monkeypatch):
    monkeypatch.setenv("ZEPH_EMBEDDING__PROVIDER", "none")
    zeph("corrections", "add", "use metres")
    found = zeph("corrections", "recall", "metres")
    assert "use metres" in found.out
    assert found.err == "degraded: found by words alone: corrections have no vectors\n"


def labelled(path, *objects):
    path.write_bytes(gzip.compress("\n".join(json.dumps(one) for one in objects).encode()))


def test_detection_is_scored_on_labelled_messages(zeph, tmp_path):
    done = "I changed it, and all tests pass."
    labelled(
        tmp_path / "messages.jsonl.gz",
        {"message": "that's wrong", "previous": done, "correction": True, "kind": "rejection"},
        {"message": "hmm", "previous": done, "correction": True, "kind": "rejection"},
        {"message": "nope", "previous": done, "correction": False},
        {"message": "thanks", "previous": done, "correction": False},
        {"message": "well", "previous": done, "correction": None},
    )
    labelled(
        tmp_path / "questions.jsonl.gz",
        {"disfluent": "Where is Oslo sorry I meant Bergen?"},
        {"disfluent": "That's wrong"},
    )
    messages, questions = zeph("eval", "corrections", tmp_path, "--json").json
    assert messages == {
        "name": "messages",
        "messages": 4,
        "corrections": 2,
        "found": 1,
        "false_alarms": 1,
        "precision": 0.5,
        "recall": 0.5,
        "false_alarm_rate": 0.5,
        "kinds": {"rejection": [1, 2]},
        "detected": {"explicit_rejection": 2},
    }
    assert (questions["false_alarms"], questions["recall"]) == (1, None)
    assert questions["detected"] == {"explicit_rejection": 1, "self_correction": 1}
    table = zeph("eval", "corrections", tmp_path).out
    assert "0.500" in table
    assert "1 of 2" in table
    assert zeph("eval", "corrections", tmp_path, "--threshold", 1, "--json").json[0]["found"] == 0


def test_a_folder_without_a_labelled_set_is_refused(zeph, tmp_path):
    empty = tmp_path / "empty"
    empty.mkdir()
    assert "has no *.jsonl.gz" in zeph("eval", "corrections", empty).err
    labelled(empty / "x.jsonl.gz", {"text": "a"})
    assert "a row lacks 'correction'" in zeph("eval", "corrections", empty).err
