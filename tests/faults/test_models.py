"""F26: the embedding model is changed while agents write and search: the old vectors serve until the new ones are all there."""

from __future__ import annotations

import shutil
import threading
import time
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from services.adapters.in_memory import HashEmbedder
from services.bootstrap import Container
from services.documents.models import DocumentMetadata
from services.jobs.models import JobState
from services.memory.models import Role
from services.ports import EmbedderIdentity, EmbeddingKind
from tests.builders import assert_healthy, job, rows, work
from tests.faults.harness import amount
from tests.faults.scenarios import open_store
from workers.local import LocalWorker

pytestmark = [pytest.mark.faults, pytest.mark.timeout(900)]

MODELS = ("red", "green", "blue")
NAMES = ("zeph_documents", "zeph_conversations")
SETTINGS = {"memory.summarization_threshold": 100_000}
_WIDTH = 32


class Coloured:
    """A model whose vectors are zero everywhere but in its own third, so that every vector shows whose it is."""

    def __init__(self, model: str) -> None:
        self._inner = HashEmbedder(_WIDTH)
        self._place = MODELS.index(model) * _WIDTH
        self.identity = EmbedderIdentity("fake", model, len(MODELS) * _WIDTH)
        self.windows = self._inner.windows

    def embed(self, texts: Sequence[str], *, kind: EmbeddingKind) -> Any:
        import numpy as np

        vectors = np.zeros((len(texts), len(MODELS) * _WIDTH), dtype=np.float32)
        vectors[:, self._place : self._place + _WIDTH] = self._inner.embed(texts, kind=kind)
        return vectors


class Checked:
    """A vector store that counts what meets a collection of another model."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self.mixed: list[str] = []
        self.searched: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def search(self, collection: str, namespace: str, vector: Any, **options: Any) -> Any:
        self._check(collection, vector)
        self.searched[collection] += 1
        return self._store.search(collection, namespace, vector, **options)

    def upsert(self, collection: str, namespace: str, points: Any) -> None:
        for point in points:
            self._check(collection, point.vector)
        self._store.upsert(collection, namespace, points)

    def _check(self, collection: str, vector: Any) -> None:
        model = next(place for place, name in enumerate(MODELS) if f"-{name}-" in collection)
        thirds = [any(vector[place * _WIDTH : (place + 1) * _WIDTH]) for place in range(len(MODELS))]
        if thirds != [place == model for place in range(len(MODELS))]:
            self.mixed.append(f"{collection} met {thirds}")


def configured(folder: Path, model: str) -> Container:
    """What a process does whose settings name this model; it can have the others for what they have embedded."""
    made = open_store(folder, real_entropy=True, **SETTINGS)
    made.embedder = Coloured(model)  # type: ignore[assignment]
    made.vectors = Checked(made.vectors)  # type: ignore[assignment]
    made._other_embedder = lambda identity: Coloured(identity.model)  # type: ignore[method-assign]
    return made


def say(container: Container, number: int) -> None:
    text = f"Number {number} is kept in the drawer of cabin {number * 7}."
    container.memory.remember(Role.USER, text, conversation="ops")
    container.ingestion.add_text(text, DocumentMetadata(f"note-{number}", "text/plain"))


class Searcher(threading.Thread):
    """Looks for what was there from the beginning, by meaning alone, again and again."""

    def __init__(self, container: Container, known: int) -> None:
        super().__init__(daemon=True)
        self._container = container
        self._known = known
        self._enough = threading.Event()
        self.asked = 0
        self.wrong: list[str] = []

    def run(self) -> None:
        while not self._enough.wait(0.02):
            number = self.asked % self._known
            question = f"Number {number} is kept in the drawer of cabin {number * 7}."
            answer = self._container.memory.recall(question, mode="vector", limit=5)
            if answer.degraded or question not in [hit.message.content for hit in answer.hits]:
                self.wrong.append(f"{question} {answer.degraded}: {len(answer.hits)} messages")
            found = self._container.documents.search(question, collection=NAMES[0], mode="vector", limit=5)
            if found.degraded or question not in [hit.passage.text for hit in found.hits]:
                self.wrong.append(f"{question} {found.degraded}: {len(found.hits)} passages")
            self.asked += 1

    def stop(self) -> None:
        self._enough.set()
        self.join()


def test_the_old_vectors_serve_until_the_new_ones_are_all_there_and_never_mix_f26(
    tmp_path: Path, migrated: Path
) -> None:
    known = amount(commit=20, nightly=400)
    shutil.copy(migrated, tmp_path / "zeph.db")
    with configured(tmp_path, MODELS[0]) as container:
        for number in range(known):
            say(container, number)
        work(container)
    said, asked, wrong, mixed = known, 0, [], []
    for before, after in list(pairwise(MODELS))[: amount(commit=1, nightly=2)]:
        # One process still has the old setting, and goes on searching and writing with it.
        with configured(tmp_path, before) as older, configured(tmp_path, after) as newer:
            searchers = [Searcher(older, known), Searcher(newer, known)]
            for searcher in searchers:
                searcher.start()
            moves = [newer.upkeep.submit_reembed(name) for name in NAMES]
            with LocalWorker(newer) as worker:
                while not all(job(newer, each).state is JobState.DONE for each in moves):
                    say((older, newer)[said % 2], said)
                    said += 1
                    time.sleep(0.02)
                worker.run_until(lambda: _idle(newer))
            for searcher in searchers:
                searcher.stop()
                asked, wrong = asked + searcher.asked, wrong + searcher.wrong
            mixed += older.vectors.mixed + newer.vectors.mixed
            # Everything that was said meanwhile has its vectors now, and nothing has any others.
            for number in range(known, said):
                text = f"Number {number} is kept in the drawer of cabin {number * 7}."
                assert text in [hit.message.content for hit in newer.memory.recall(text, mode="vector").hits]
            active = rows(newer, "SELECT name, model FROM embedding_collections WHERE state <> 'retired'")
            assert sorted(active) == sorted((name, after) for name in NAMES)
            assert_healthy(newer)
    print(
        f"F26: {said} texts, {said - known} of them during a move; {asked} times asked meanwhile, "
        f"{len(wrong)} without the answer, {len(mixed)} vectors met those of another model"
    )
    assert mixed == []
    assert wrong == []


def _idle(container: Container) -> bool:
    return not rows(container, "SELECT 1 FROM jobs WHERE state NOT IN ('done', 'dead') LIMIT 1")
