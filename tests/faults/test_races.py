"""F20 and F27: workers that meet at the same row in the same moment."""

from __future__ import annotations

import json
import multiprocessing
import re
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from services.bootstrap import Container
from services.jobs.models import EVICT_MESSAGES, NewJob
from services.memory.models import NewMessage, Role
from services.ports import ChatReply, ChatRequest, EmbedderIdentity, EmbeddingKind
from tests.builders import assert_healthy, claim, enqueue, in_processes, rows, work
from tests.faults.harness import SEED, amount, sample
from tests.faults.scenarios import open_store
from workers.job import Runner

pytestmark = [pytest.mark.faults, pytest.mark.timeout(1_800)]

SETTINGS = {
    "memory.summarization_threshold": 100_000,
    "memory.corrections.correction_detection": False,
    "memory.compaction_preserve_tail": 1,
    "embedding.dimensions": 64,
}
# Each of those who meet calls the thing by another of these; the first two have nothing but the number in common.
NAMES = ["Kestrel {}", "The Kestrel {} GmbH", "KESTREL {}", "kestrel {} gmbh", "kestrel-{}", "Kestrel {} Ltd"]
WAIT_SECONDS = 120


class Namer:
    """A language model that reads "Thing 7, told by 1." as a fact about one of the thing's names."""

    identity = "fake/namer"

    def complete(self, request: ChatRequest) -> ChatReply:
        told_of = re.findall(r"Thing (\d+), told by (\d+)", request.user)
        if not told_of:
            # A community is to be described.
            return ChatReply("Hoists and what drives them.", 10, 5)
        thing, teller = told_of[-1]
        name = NAMES[int(teller) % len(NAMES)].format(thing)
        found = {
            "entities": [{"name": name, "type": "tool"}, {"name": f"Hoist {thing}", "type": "tool"}],
            "edges": [
                {
                    "source": name,
                    "target": f"Hoist {thing}",
                    "relation": "drives",
                    "fact": f"Thing {thing} drives it.",
                }
            ],
        }
        return ChatReply(json.dumps(found), 10, 5)


class Numbers:
    """An embedder to which texts mean the number in them, and whether it is a hoist's."""

    identity = EmbedderIdentity("fake", "hash", 64)

    def windows(self, text: str) -> list[str]:
        return [text]

    def embed(self, texts: Sequence[str], *, kind: EmbeddingKind) -> Any:
        seeds = [[*map(int, re.findall(r"\d+", text)), "Hoist" in text] for text in texts]
        turned = np.array([np.random.default_rng(seed).standard_normal(64) for seed in seeds])
        return (turned / np.linalg.norm(turned, axis=1, keepdims=True)).astype(np.float32)


def opened(folder: Path) -> Container:
    """Services on the folder as every one of several processes needs them."""
    made = open_store(folder, real_entropy=True, **SETTINGS)
    made.language_model = Namer()
    made.embedder = Numbers()
    return made


def told(folder: Path, migrated: Path, things: int, tellers: int) -> list[list[int]]:
    """The ids of the messages about each thing, one of each teller."""
    shutil.copy(migrated, folder / "zeph.db")
    said = [
        NewMessage(Role.USER, f"Thing {thing}, told by {teller}.", created_at=1_750_000_000_000_000)
        for thing in range(things)
        for teller in range(tellers)
    ]
    with opened(folder) as container:
        ids = list(container.memory.remember_many("ops", said))
        work(container)
    return [ids[start : start + tellers] for start in range(0, len(ids), tellers)]


def meet(rounds: int, racers: Sequence[Callable[[Container, int], object]], folder: Path) -> None:
    """Each racer is a process of its own; they start every round together."""
    barrier = multiprocessing.get_context("fork").Barrier(len(racers), timeout=WAIT_SECONDS)

    def race(number: int) -> None:
        try:
            with opened(folder) as container:
                for each in range(rounds):
                    barrier.wait()
                    racers[number](container, each)
        except BaseException:
            barrier.abort()
            raise

    in_processes(len(racers), race, seconds=1_500)


@pytest.mark.parametrize(
    ("workers", "things"),
    [(2, amount(commit=25, nightly=1_000)), (8, amount(commit=4, nightly=100))],
    ids=["pairs", "8 at once"],
)
def test_workers_that_meet_at_one_new_entity_make_one_with_all_names_and_all_evidence_f20(
    tmp_path: Path, migrated: Path, workers: int, things: int
):
    messages = told(tmp_path, migrated, things, workers)
    with opened(tmp_path) as container:
        jobs = [[container.graph_extraction.submit("default", [each])[0] for each in ids] for ids in messages]

    def extract(teller: int) -> Callable[[Container, int], object]:
        def run(container: Container, thing: int) -> None:
            runner = Runner(container)
            runner.run(claim(container, jobs[thing][teller]))
            # Names of one thing become one when they are embedded, which the workers do at once too.
            runner.run_next(["embedding"])

        return run

    meet(things, [extract(teller) for teller in range(workers)], tmp_path)

    with opened(tmp_path) as container:
        work(container)
        assert rows(container, "SELECT id, error_message FROM jobs WHERE state <> 'done'") == []
        assert_healthy(container)
        names = {NAMES[teller % len(NAMES)] for teller in range(workers)}
        for thing, ids in enumerate(messages):
            found = {container.graph.entity("default", name.format(thing)) for name in names}
            assert len(found) == 1, (thing, found)
            (record,) = container.graph.facts("default", f"Hoist {thing}")
            assert {source.message_id for source in record.sources} == set(ids), thing
        assert container.graph.stats("default")["entities"] == 2 * things
    print(
        f"F20: {things} x {workers} workers: one entity and one fact each, all names, all evidence; seed {SEED}"
    )


def test_what_is_evicted_or_forgotten_while_it_is_read_leaves_nothing_behind_f27(
    tmp_path: Path, migrated: Path
):
    rounds = amount(commit=60, nightly=2_000)
    messages = [ids[0] for ids in told(tmp_path, migrated, rounds + 1, 1)]
    with opened(tmp_path) as container:
        jobs = [container.graph_extraction.submit("default", [each])[0] for each in messages]

    def extract(container: Container, number: int) -> None:
        Runner(container).run(claim(container, jobs[number]))

    def forget(container: Container, number: int) -> None:
        if number % 3 != 0:
            container.memory.forget(messages=[messages[number]])

    def evict(container: Container, number: int) -> None:
        if number % 3 != 1:
            # The oldest that is left, which is the one that the others are at.
            container.eviction.evict("default", max_entries=len(messages) - number - 1)
            container.eviction.erase("default")
            container.graph_eviction.evict("default", retention_days=0)

    meet(rounds, [extract, forget, evict], tmp_path)

    with opened(tmp_path) as container:
        work(container)
        # Rows of evicted messages are erased when their vectors are gone.
        enqueue(container, NewJob(EVICT_MESSAGES))
        work(container)
        container.graph_eviction.evict("default", retention_days=0)
        assert rows(container, "SELECT id, error_message FROM jobs WHERE state <> 'done'") == []
        assert_healthy(container)
        assert rows(container, "SELECT id FROM messages") == [(messages[-1],)]
        left = [entity.name for entity in container.graph.entities("default")]
        assert sorted(left) == [f"Hoist {rounds}", f"Kestrel {rounds}"]
        assert len(container.graph.facts("default", f"Hoist {rounds}")) == 1
        for thing in sample(range(rounds), commit=20):
            assert {hit.message.id for hit in container.memory.recall(f"Thing {thing}").hits} <= {
                messages[-1]
            }
    print(f"F27: {rounds} rounds: nothing came back, nothing was left behind; seed {SEED}")
