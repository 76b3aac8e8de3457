"""The layouts of conversation sets, each read from a folder of the same shape with a few lines of ours."""

from __future__ import annotations

import gzip
import json
from datetime import UTC, datetime

import pytest

from services import errors
from services.evaluation.conversations import evaluate, load_conversation_set, store
from services.memory.models import Role


@pytest.fixture
def write(tmp_path):
    def to(name, *rows):
        lines = "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows)
        (tmp_path / f"{name}.jsonl.gz").write_bytes(gzip.compress(lines.encode()))
        return tmp_path

    return to


def at(*moment):
    return round(datetime(*moment, tzinfo=UTC).timestamp() * 1_000_000)


def shape(data):
    return {
        chat: [(turn.label, turn.session, turn.message.content) for turn in turns]
        for chat, turns in data.turns.items()
    }


# ---- RealMem ---------------------------------------------------------------------------------------------------


@pytest.fixture
def realmem(write):
    def turn(session, day, number, role, text):
        facts = {"session": int(session[1:]), "session_uuid": session, "date": f"{day} (Friday)"}
        return {"conv_id": "Ann_Lee", "turn": number, "role": role, "text": text} | facts

    write(
        "turns",
        turn("s1", "2031-05-02", 0, "user", "I play the violin."),
        turn("s1", "2031-05-02", 1, "assistant", "Since when?"),
        turn("s2", "2031-05-02", 0, "user", "The bow is broken."),
        turn("s3", "2031-05-09", 0, "user", "What about my violin?"),
    )
    question = {"conv_id": "Ann_Lee", "session": 3, "question": "What about my violin?", "turn": 0}
    return write(
        "questions",
        question | {"evidence_sessions": ["s1", "s2"]},
        question | {"evidence_sessions": []},
    )


def test_realmem_has_sessions_two_hours_apart_on_a_day_and_the_users_first_name(realmem):
    data = load_conversation_set("realmem", realmem)
    assert shape(data) == {
        "Ann_Lee": [
            ("s1:0", "s1", "I play the violin."),
            ("s1:1", "s1", "Since when?"),
            ("s2:0", "s2", "The bow is broken."),
            ("s3:0", "s3", "What about my violin?"),
        ]
    }
    said = [turn.message for turn in data.turns["Ann_Lee"]]
    assert [(it.role, it.speaker) for it in said[:2]] == [(Role.USER, "Ann"), (Role.ASSISTANT, None)]
    assert [it.created_at for it in said] == [
        at(2031, 5, 2, 2),
        at(2031, 5, 2, 2, 0, 1),
        at(2031, 5, 2, 4),
        at(2031, 5, 9, 2),
    ]


def test_a_question_of_realmem_is_asked_at_its_session_about_those_before(container, realmem):
    data = load_conversation_set("realmem", realmem)
    (question,) = data.questions
    assert (question.turns, question.sessions) == (frozenset(), {"s1", "s2"})
    assert question.now == at(2031, 5, 9, 2)
    turns = store(container.memory, data, namespace="n")
    conversations = {"Ann_Lee": container.memory.conversations(namespace="n")[0].id}
    (scores,) = evaluate(container.recall, data, turns, conversations, ["keyword"], namespace="n")
    # Only the first session shares a word, and the question's own is out of reach.
    assert scores.metrics == {"session@5": 0.5, "session@10": 0.5}


# ---- BEAM ------------------------------------------------------------------------------------------------------


@pytest.fixture
def beam(write):
    def turn(number, role, text, anchor=None):
        facts = {"conv_id": "b1", "batch": 1 + number // 2, "turn_id": number}
        return facts | {"role": role, "text": text, "time_anchor": anchor}

    write(
        "turns",
        turn(0, "user", "I plan a garden.", "March-15-2031"),
        turn(1, "assistant", "Start with herbs."),
        turn(2, "user", "The soil is wet.", "April-01-2031"),
        turn(3, "assistant", "Add sand."),
    )
    question = {"conv_id": "b1", "question": "What about the soil?"}
    return write(
        "questions",
        question | {"type": "ordering", "evidence": {"first": [0, [2]], "second": 99}},
        question | {"type": "flat", "evidence": [3]},
        question | {"type": "abstention", "evidence": []},
    )


def test_beam_has_batches_as_sessions_and_a_minute_per_turn_after_the_last_anchor(beam):
    data = load_conversation_set("beam", beam)
    assert [(turn.label, turn.session) for turn in data.turns["b1"]] == [
        ("0", "1"),
        ("1", "1"),
        ("2", "2"),
        ("3", "2"),
    ]
    assert [turn.message.created_at for turn in data.turns["b1"]] == [
        at(2031, 3, 15),
        at(2031, 3, 15, 0, 1),
        at(2031, 4, 1, 0, 2),
        at(2031, 4, 1, 0, 3),
    ]


def test_evidence_of_beam_is_flattened_what_names_no_turn_is_out_and_so_are_questions_without(beam):
    questions = load_conversation_set("beam", beam).questions
    assert [(question.category, question.turns) for question in questions] == [
        ("ordering", {"0", "2"}),
        ("flat", {"3"}),
    ]


# ---- MADial ----------------------------------------------------------------------------------------------------


@pytest.fixture
def madial(write):
    def event(number, day, text):
        return {"memory_id": number, "time": day, "scene": "Home", "emotion": "Calm", "event": text}

    write("memories_en", event(7, "2031-12-25", "Bea baked bread."), event(8, "2031-12-26", "Bea skated."))
    context = ['<Bea>: "I smell bread!"', '<Assistant>: "Who baked it?"', "So?"]
    return write("queries_en", {"query_id": 0, "user_id": 1, "context": context, "relevant": [7]})


def test_madial_has_dated_events_and_asks_with_the_dialogue_without_its_marks(madial):
    data = load_conversation_set("madial", madial)
    assert shape(data) == {"memories": [("7", "7", "Bea baked bread."), ("8", "8", "Bea skated.")]}
    assert [turn.message.created_at for turn in data.turns["memories"]] == [
        at(2031, 12, 25),
        at(2031, 12, 26),
    ]
    (question,) = data.questions
    assert (question.text, question.turns) == ("I smell bread! Who baked it? So?", {"7"})
    assert (question.conversation, question.now) == ("memories", None)


# ---- all -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["realmem", "beam", "madial", "locomo"])
def test_a_folder_of_another_layout_is_refused_with_what_is_missing(write, name):
    with pytest.raises(errors.InputError, match=rf"is no {name} data set: \w+\.jsonl\.gz is missing"):
        load_conversation_set(name, write("other"))
    write("turns", {"conv_id": "x"})
    write("memories_en", {"memory_id": 1})
    with pytest.raises(errors.InputError, match=f"is no {name} data set: a row lacks"):
        load_conversation_set(name, write("other"))
