"""F17: language models that fail in every way there is, asked by every kind of job that asks one."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from services.bootstrap import Container
from services.graph.communities import refresh_job
from services.jobs.models import DETECT_CORRECTION, LIVE_STATES, Job, JobState
from services.memory.models import NewMessage, Role
from services.ports import EmbedderIdentity, EmbeddingKind
from tests.builders import assert_healthy, enqueue, job, work
from tests.fake_openai import FakeOpenAi, Reply, Request
from tests.faults.harness import PROFILE, SEED, sample
from tests.faults.scenarios import open_store
from tests.graph_builders import TOOL, found, message
from workers.job import Runner

pytestmark = [pytest.mark.faults, pytest.mark.timeout(1_800)]

# How long the client of these tests waits, and longer than that.
PATIENCE_SECONDS = 3
_TOO_LONG = 3.5
_MORE_THAN_ANY_WAIT = 1_000.0
ONCE, ALWAYS = 1, 10**6


# ---- what goes wrong -----------------------------------------------------------------------------------------------


def says(content: Any, *, finish: str = "stop", **message: Any) -> Reply:
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": content, **message},
        "finish_reason": finish,
    }
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    # Written down once: a long one takes a busy machine a second.
    return Reply(body=json.dumps({"model": "m", "choices": [choice], "usage": usage}).encode())


def answer(**fields: Any) -> Reply:
    """Valid JSON, with these fields in place of the good ones."""
    return says(json.dumps(GOOD | fields))


def deep(levels: int) -> str:
    return '{"entities": ' + "[" * levels + "]" * levels + "}"


def edge(source: str, target: str) -> dict[str, str]:
    return {"source": source, "target": target, "relation": "knows", "fact": f"{source} knows {target}."}


GOOD: dict[str, Any] = {
    "summary": "Hanne repaired the winch of the dome.",
    "key_facts": ["Hanne repaired the winch."],
    "entities": [{"name": "Kestrel Two", "type": "tool"}, {"name": "Hanne", "type": "person"}],
    "edges": [edge("Hanne", "Kestrel Two")],
    "kind": "factual",
    "confidence": 0.9,
    "same_entity": True,
}
WHOLE = json.dumps(GOOD)
PROSE = "Hanne repaired the winch of the dome, and that is all there is to say."
FAULTS: dict[str, Reply] = {
    "no reply in time": Reply(body={}, delay=_TOO_LONG),
    "429": Reply(429, {"error": {"message": "slow down"}}),
    "429 with a wish": Reply(429, {"error": "slow down"}, {"Retry-After": "2"}),
    "429 with a mad wish": Reply(429, {}, {"Retry-After": "-1e400"}),
    "408": Reply(408, {}),
    "500": Reply(500, {"error": {"message": "oh"}}),
    "502 of a proxy": Reply(502, "<html>Bad gateway</html>"),
    "503": Reply(503, b""),
    "400": Reply(400, {"error": {"message": "no such parameter"}}),
    "401": Reply(401, {"error": {"message": "who are you"}}),
    "404": Reply(404, {"error": {"message": "no such model"}}),
    "413": Reply(413, {"error": {"message": "too long"}}),
    "501": Reply(501, {}),
    "an empty body": Reply(body=b""),
    "a page": Reply(body="<html>Welcome</html>"),
    "no choices": Reply(body={"choices": []}),
    "another protocol": Reply(body={"response": WHOLE}),
    "an error with status 200": Reply(body={"error": {"message": "overloaded"}}),
    "a null message": Reply(body={"choices": [{"message": None}]}),
    "a list": Reply(body=[1, 2, 3]),
    "10 MB": says("x" * 10_000_000),
    "10 MB of JSON": answer(entities=["y" * 100] * 100_000),
    "null": says(None),
    "empty": says(""),
    "blanks": says(" \n\t "),
    "no end": says(WHOLE[:60], finish="length"),
    "a refusal": says(None, refusal="I cannot help with that."),
    "a filter": says("", finish="content_filter"),
    "cut in the middle": says(WHOLE[: len(WHOLE) // 2]),
    "cut at once": says(WHOLE[:12]),
    "prose": says(PROSE),
    "prose in another language": says("汉娜修好了圆顶的绞盘,没有别的可说。"),
    "prose with braces": says("I think {this} is {not: it}. " * 50),
    "an apology": says("{}"),
    "another schema": says('{"answer": 42}'),
    "a list for the object": says(json.dumps([GOOD])),
    "a list of numbers": says("[1, 2, 3]"),
    "a text for lists": answer(
        entities="none", edges="none", key_facts=7, kind=5, same_entity="yes", summary=[]
    ),
    # But for lists of null, which say that there is nothing.
    "nulls": says(json.dumps(dict.fromkeys(GOOD.keys() - {"entities", "edges"}))),
    "not a number": says(WHOLE.replace("0.9", "NaN")),
    "infinity": says(WHOLE.replace("0.9", "-Infinity")),
    "nested deeply": says(deep(100_000)),
    "10,000 entities": answer(
        entities=[{"name": f"Part {number}", "type": "tool"} for number in range(4_000)]
    ),
    "cycles": answer(
        edges=[edge("Hanne", "Kestrel Two"), edge("Kestrel Two", "Hanne"), edge("Hanne", "Hanne")]
    ),
    "thoughts and a fence": says(f"<think>{{'no': 1}}</think>```json\n{WHOLE}\n```"),
    "halves of characters": says(
        '{"summary": "\\ud800 broken halves", "entities": ["\\udfff"], "kind": "\\u0000"}'
    ),
}
# What waiting for a server costs: eight attempts, each with two questions where one was not answered in time.
AWAY = {"no reply in time": 16, "429": 8, "429 with a wish": 8, "429 with a mad wish": 8, "408": 8, "500": 8}
AWAY |= {"502 of a proxy": 8, "503": 8}
MOST_CALLS = 3


class Server(FakeOpenAi):
    """Gives the same bad reply to the next questions that are `meant`, and good ones to all others."""

    def __init__(self) -> None:
        super().__init__()
        self.bad: Reply | None = None
        self.left = self.asked = self.served = 0
        self.meant: Callable[[str], bool] = lambda _text: True
        self.chat = lambda body: (
            PROSE if "plain text" in json.dumps(body) or "communit" in json.dumps(body) else WHOLE
        )

    def begin(self, bad: Reply, times: int, meant: Callable[[str], bool]) -> None:
        self.bad, self.left, self.meant, self.asked = bad, times, meant, 0

    def answer(self, request: Request) -> Reply:
        if self.meant(json.dumps(request.body)):
            self.asked += 1
            if self.left and self.bad is not None:
                self.left -= 1
                self.served += 1
                return self.bad
        return super().answer(request)


# ---- who asks ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Asker:
    """`begin` accepts a job that asks a model, in a namespace of its own; `marked` tells that a job that is done says what
    it went without, `stored` that it did what it was to do.
    """

    name: str
    begin: Callable[[Container, str], int]
    stored: Callable[[Container, str, Job], bool]
    marked: Callable[[Container, str, Job], bool]
    meant: Callable[[str], bool] = lambda _text: True


def _extract(container: Container, namespace: str) -> int:
    source = message(container, f"Hanne repaired Kestrel Two in {namespace}.", namespace=namespace)
    return container.graph_extraction.submit(namespace, [source.message_id or 0])[0]


def _summarize(container: Container, namespace: str) -> int:
    said = [NewMessage(Role.USER, f"Hanne repaired winch {number} in {namespace}.") for number in range(6)]
    container.memory.remember_many("ops", said, namespace=namespace)
    return container.summarizer.submit("ops", namespace=namespace, limit=5)


def _describe(container: Container, namespace: str) -> int:
    container.graph.store(
        namespace, found(f"Ann|knows|Bob of {namespace}"), message(container, namespace=namespace)
    )
    return enqueue(container, refresh_job(namespace))[0]


def _judge(container: Container, namespace: str) -> int:
    # The judge is not asked more often in a minute.
    container.clock.advance(61)  # type: ignore[attr-defined]
    for role, text in (
        (Role.USER, f"Which dome of {namespace} has the winch?"),
        (Role.ASSISTANT, f"Dome 6 of {namespace} has it."),
        (Role.USER, "well, that makes no sense"),
    ):
        container.memory.remember(role, text, conversation="ops", namespace=namespace)
    with container.database.read() as unit:
        found_jobs = unit.jobs.select(namespace=namespace, kind=DETECT_CORRECTION.name, limit=10)
    return max(each.id for each in found_jobs)


def _disambiguate(container: Container, namespace: str) -> int:
    container.graph.store(namespace, found("Kestrel One", kind=TOOL), message(container, namespace=namespace))
    work(container, ["embedding"])
    return _extract(container, namespace)


def _counted(*names: str) -> Callable[[Container, str, Job], bool]:
    return lambda container, namespace, _job: any(
        container.graph.stats(namespace).get(name) for name in names
    )


def _told(name: str) -> Callable[[Container, str, Job], bool]:
    return lambda _container, _namespace, ended: bool((ended.outcome or {}).get(name))


ASKERS = [
    Asker(
        "extraction", _extract, _counted("entities"), _counted("bad_item", "unknown_type", "shortened_text")
    ),
    Asker("summary", _summarize, _told("summary_id"), _told("partial")),
    Asker("community", _describe, _told("described"), _told("failed")),
    Asker(
        "correction", _judge, lambda _c, _n, ended: "partial" not in (ended.outcome or {}), _told("partial")
    ),
    Asker(
        "same entity",
        _disambiguate,
        _counted("merges_by_model"),
        _counted("resolver_fallbacks"),
        lambda text: "same_entity" in text and "knowledge base" in text,
    ),
]


class Angles:
    """An embedder to which two kestrels are alike enough to be asked about."""

    identity = EmbedderIdentity("fake", "hash", 2)

    def windows(self, text: str) -> list[str]:
        return [text]

    def embed(self, texts: Sequence[str], *, kind: EmbeddingKind) -> Any:
        turned = [40.0 * text.count("Kestrel Two") + 90 * ("Hanne" in text) for text in texts]
        return np.array([[np.cos(np.radians(t)), np.sin(np.radians(t))] for t in turned], dtype=np.float32)


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as made:
        yield made


@pytest.fixture
def asking(tmp_path: Path, migrated: Path, server: Server) -> Iterator[Container]:
    shutil.copy(migrated, tmp_path / "zeph.db")
    settings = {
        "llm.base_url": server.base_url,
        "llm.timeout_secs": PATIENCE_SECONDS,
        "memory.graph.extraction_timeout_secs": PATIENCE_SECONDS,
        "memory.summarization_threshold": 100,
        "memory.corrections.correction_judge": True,
        "embedding.dimensions": 2,
    }
    with ExitStack() as closing:
        made = closing.enter_context(open_store(tmp_path, **settings))
        # The real client in place of the one that the other fault tests talk to.
        del vars(made)["language_model"]
        made.embedder = Angles()
        yield made


@pytest.mark.parametrize("asker", ASKERS, ids=lambda asker: re.sub(r"\W", "_", asker.name))
def test_no_reply_however_bad_is_dropped_in_silence_or_asked_for_without_end_f17(
    asking: Container, server: Server, asker: Asker
):
    container = asking
    # Waiting sixteen times for a reply is for nights.
    quick = [each for each in FAULTS.items() if PROFILE == "nightly" or not each[1].delay]
    chosen = sample(quick, commit=3)
    ends: dict[str, int] = {}
    most = 0
    for number, (name, bad) in enumerate(chosen):
        for times in (ONCE, ALWAYS):
            namespace = f"n{number}-{times}"
            server.begin(bad, 0, asker.meant)
            job_id = asker.begin(container, namespace)
            server.begin(bad, times, asker.meant)
            ended = to_the_end(container, job_id)
            end = verdict(container, asker, namespace, ended)
            told = f"{asker.name}, {name}, {times}: {end}, {server.asked} calls, {ended.outcome}, {ended.error_message}"
            assert end != "dropped", told
            assert server.asked <= (AWAY.get(name, MOST_CALLS) if times == ALWAYS else MOST_CALLS), told
            ends[end] = ends.get(end, 0) + 1
            most = max(most, server.asked if name not in AWAY or times == ONCE else 0)
    server.begin(says(WHOLE), 0, asker.meant)
    work(container)
    assert_healthy(container)
    print(
        f"F17 {asker.name}: {len(chosen)} kinds, {server.served} bad replies: {ends}, at most {most} calls where the "
        f"server answers, profile {PROFILE}, seed {SEED}"
    )


def to_the_end(container: Container, job_id: int) -> Job:
    """Run the job, and again whenever it is due, until it has ended."""
    while (found_job := job(container, job_id)).state in LIVE_STATES:
        run = container.ledger.claim(job_id)
        if run is None:
            container.clock.advance(_MORE_THAN_ANY_WAIT)  # type: ignore[attr-defined]
        else:
            Runner(container).run(run)
    return found_job


def verdict(container: Container, asker: Asker, namespace: str, ended: Job) -> str:
    if ended.state is JobState.DEAD:
        return "dead" if ended.error_type and ended.error_message else "dropped"
    if asker.marked(container, namespace, ended):
        return "partial"
    return "stored" if asker.stored(container, namespace, ended) else "dropped"
