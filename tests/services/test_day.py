"""A day with a memory: a chat comes in, the vector store goes away and comes back, and the memory moves house."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fake_qdrant import FakeQdrant
from tests.services.harness import Stack

pytestmark = pytest.mark.services

_PEOPLE = ("Ann", "Bob")
_SAID = {
    "pottery": "Ann went to a pottery class on the hill and made a blue bowl.",
    "violin": "Bob's old violin was repaired by a luthier called Hanne.",
    "marathon": "The marathon in Brno was cancelled because of the storm.",
    "tortoise": "The neighbours adopted a tortoise and named it Professor.",
}
_ASKED = {
    "What did Ann make in the pottery class?": "pottery",
    "Who repaired the violin?": "violin",
    "Why was the marathon cancelled?": "marathon",
    "What is the tortoise called?": "tortoise",
}
_FILLER = ("nice weather", "see you later", "the train was late", "coffee at noon", "a long meeting")


@pytest.fixture
def qdrant() -> Iterator[FakeQdrant]:
    with FakeQdrant() as server:
        yield server


def chat(path: Path) -> Path:
    """Three hundred lines of two conversations; each fact is said once, among talk about nothing."""
    lines = []
    for number in range(300):
        text = f"{_FILLER[number % len(_FILLER)]}, number {number}"
        if number % 75 == 40:
            text = list(_SAID.values())[number // 75]
        lines.append(
            {
                "role": "user",
                "conversation": "walks" if number % 2 else "letters",
                "speaker": _PEOPLE[number % 2],
                "content": text,
                "created_at": f"2026-03-0{1 + number // 75}T10:{number % 60:02}:00Z",
            }
        )
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    return path


def test_a_day_with_a_vector_store_that_goes_away_and_a_move(start, qdrant, tmp_path):
    here = start("here", broker=False, memory__vector_backend="qdrant", memory__qdrant_url=qdrant.url)
    there = start("there", broker=False)
    imported = json.loads(here.run_zeph("chat", "import", str(chat(tmp_path / "log.jsonl")), "--json").stdout)
    assert (imported["added"], imported["waiting"]) == (300, 0)
    whole = {question: answers(here, question) for question in _ASKED}
    assert {question: found[0] for question, found in whole.items()} == {
        q: _SAID[it] for q, it in _ASKED.items()
    }
    violin = "Who repaired the violin?"
    assert ask(here, violin) == ([], whole[violin])

    qdrant.stop()
    degraded, found = ask(here, violin)
    assert (degraded, found[0]) == (["vector"], _SAID["violin"])
    assert here.container.memory.recall(violin).degraded == ("vector",)
    here.run_zeph("remember", "The ferry leaves at nine.")
    assert answers(here, "ferry") == ["The ferry leaves at nine."]

    qdrant.start()
    here.run_zeph("worker", "--until-idle")
    degraded, found = ask(here, "When does the ferry leave?")
    assert (degraded, found[0]) == ([], "The ferry leaves at nine.")
    assert here.container.message_vectors.waiting() == 0

    file, back = tmp_path / "memory.json", tmp_path / "again.json"
    here.run_zeph("memory", "export", str(file))
    there.run_zeph("memory", "import", str(file))
    # Before anything is recalled, because recalls are counted.
    there.run_zeph("memory", "export", str(back))
    assert back.read_bytes() == file.read_bytes()
    assert {question: answers(there, question) for question in _ASKED} == whole
    assert ask(there, violin) == ([], whole[violin])


def ask(stack: Stack, question: str) -> tuple[list[str], list[str]]:
    """What `zeph recall` says is missing, and the texts that it finds."""
    answer = json.loads(stack.run_zeph("recall", question, "--json").stdout)
    return answer["degraded"], [hit["content"] for hit in answer["hits"]]


def answers(stack: Stack, question: str) -> list[str]:
    """The same from Python."""
    return [hit.message.content for hit in stack.container.memory.recall(question).hits]
