"""F10, F14, F15 and F16: a vector store that is away, slow, half-open or emptied, and whose replies are lost."""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from services.bootstrap import Container
from tests.builders import assert_healthy, rows, work
from tests.fake_qdrant import FakeQdrant
from tests.faults.harness import SEED, History, amount, quantile, sample
from tests.faults.lab import settle
from tests.faults.proxy import Proxy
from tests.faults.scenarios import open_store
from tests.faults.workload import accept, violations
from tests.services.harness import Stack, wait_until

pytestmark = [pytest.mark.faults, pytest.mark.timeout(900)]

DOWN, DOWN_AT_START, SLOW = "down", "down at start", "slow"
TIMES = amount(commit=1, nightly=5)
AWAY_SECONDS = amount(commit=3, nightly=60)
SLOW_SECONDS = amount(commit=4, nightly=5)
# What the plan allows after the store's return. A commit is tested on machines that are full of others' work.
BACK_SECONDS = 90
HALF_OPEN_SECONDS = 60
NOTICED_SECONDS = 45
# The slowest of a hundred calls: so long, or three times as long as while the store was there.
ACCEPT_SECONDS = amount(commit=10, nightly=0.05)
# Nobody who asks waits longer for a store that does not answer.
PATIENCE_SECONDS = amount(commit=10, nightly=5)


@pytest.fixture
def qdrant() -> Iterator[FakeQdrant]:
    with FakeQdrant() as server:
        yield server


@pytest.fixture
def opened(tmp_path: Path, migrated: Path) -> Iterator[Callable[..., Container]]:
    """A store with its vectors in that server, at a fixed moment."""
    with ExitStack() as closing:

        def make(server: FakeQdrant) -> Container:
            shutil.copy(migrated, tmp_path / "zeph.db")
            settings = {"memory.vector_backend": "qdrant", "memory.qdrant_url": server.url}
            return closing.enter_context(open_store(tmp_path, **settings))

        yield make


@pytest.fixture
def history(tmp_path: Path) -> History:
    return History(tmp_path / "history")


@pytest.mark.parametrize("number", range(TIMES))
@pytest.mark.parametrize("outage", sample([DOWN, DOWN_AT_START, SLOW], commit=1))
def test_a_vector_store_that_is_away_costs_meaning_for_a_while_and_nothing_else_f14(
    start: Callable[..., Stack], qdrant: FakeQdrant, history: History, outage: str, number: int
):
    stack = start(memory__vector_backend="qdrant", memory__qdrant_url=qdrant.url)
    container = stack.container
    if outage == DOWN_AT_START:
        qdrant.stop()
    stack.worker()
    accept(container, history, amount(commit=30, nightly=300), SEED)
    usual = quantile(history.seconds(), 0.99)
    if outage != DOWN_AT_START:
        settle(container)

    if outage == DOWN:
        qdrant.stop()
    qdrant.delay = SLOW_SECONDS if outage == SLOW else 0
    away = Asked(container, history, AWAY_SECONDS, SEED + number)
    if outage != SLOW:
        qdrant.start()
    qdrant.delay = 0
    back = settle(container)

    calls = quantile(away.call_seconds, 0.99)
    print(
        f"F14 {outage}: {away}; calls p99 {calls * 1e3:.1f} ms (before {usual * 1e3:.1f} ms); in step {back:.1f} s after the return, seed {SEED}"
    )
    assert set(away.degraded) == {("vector",)}
    assert away.keyword_misses == 0
    assert calls <= max(ACCEPT_SECONDS, 3 * usual)
    assert max(away.recall_seconds) <= PATIENCE_SECONDS
    assert back <= BACK_SECONDS
    assert violations(container, history) == []


# It takes a minute to be noticed and settled.
@pytest.mark.parametrize("number", range(amount(commit=0, nightly=3)))
def test_a_half_open_connection_to_the_vector_store_is_noticed_and_nothing_is_lost_f10(
    start: Callable[..., Stack], qdrant: FakeQdrant, history: History, number: int
):
    with Proxy(qdrant.port) as proxy:
        stack = start(memory__vector_backend="qdrant", memory__qdrant_url=f"http://127.0.0.1:{proxy.port}")
        container = stack.container
        accept(container, history, 30, SEED)
        stack.worker()
        settle(container)

        proxy.swallow()
        began = time.monotonic()
        accept(container, history, 10, SEED + number + 1)
        failed = "SELECT 1 FROM jobs WHERE error_type = 'VectorStoreUnavailable' LIMIT 1"
        wait_until(lambda: bool(rows(container, failed)), "a worker has noticed", seconds=NOTICED_SECONDS)
        noticed = time.monotonic() - began
        time.sleep(max(0.0, HALF_OPEN_SECONDS - noticed))
        proxy.resume()
        back = settle(container)

    print(f"F10 Qdrant: noticed after {noticed:.1f} s, in step {back:.1f} s after the return, seed {SEED}")
    assert back <= BACK_SECONDS
    assert violations(container, history) == []


@pytest.mark.parametrize("number", range(amount(commit=1, nightly=2)))
def test_all_vectors_are_made_again_from_rows_when_the_store_lost_its_data_and_answers_are_as_before_f15(
    opened: Callable[..., Container], qdrant: FakeQdrant, history: History, number: int
):
    container = opened(qdrant)
    accept(container, history, amount(commit=40, nightly=600), SEED + number)
    work(container)
    assert_healthy(container)
    asked = [(it["text"], it["namespace"]) for it, _ in history.acknowledged("remember")][:50]
    before = [answers(container, *each) for each in asked]
    vectors = container.vectors.count(active(container))

    qdrant.forget()
    report = container.doctor.examine(repair=True)
    assert report.findings
    work(container)

    assert_healthy(container)
    assert container.vectors.count(active(container)) == vectors
    after = [answers(container, *each) for each in asked]
    print(
        f"F15: {vectors} vectors of messages made again, {len(asked)} questions answered as before, seed {SEED}"
    )
    assert after == before


def test_a_write_whose_reply_is_lost_leaves_one_vector_each_f16(
    opened: Callable[..., Container], qdrant: FakeQdrant, history: History
):
    container = opened(qdrant)
    dice, lost = random.Random(SEED), []

    def drops(method: str, path: str) -> bool:
        """So many that one in five is lost a second time and tried by its job again."""
        gone = method == "PUT" and path.partition("?")[0].endswith("/points") and dice.random() < 0.45
        lost.extend([path] * gone)
        return gone

    qdrant.drops = drops
    wanted = amount(commit=20, nightly=200)
    number = 0
    while len(lost) < wanted:
        accept(container, history, 5, SEED + (number := number + 1))
        work(container)
        container.clock.advance(20)  # type: ignore[attr-defined]
    qdrant.drops = lambda _method, _path: False
    work(container)

    print(f"F16: {len(lost)} replies lost, {container.vectors.count(active(container))} vectors, seed {SEED}")
    assert violations(container, history) == []
    assert_healthy(container)
    with container.database.read() as unit:
        collections = unit.collections.all()
    for collection in collections:
        assert container.vectors.count(collection.physical) == points_of_rows(container, collection.physical)


def points_of_rows(container: Container, physical: str) -> int:
    """How many vectors the rows of a collection say that they have."""
    tables = [
        name for (name,) in rows(container, "SELECT name FROM sqlite_master WHERE name LIKE '%_embeddings'")
    ]
    told = [f"SELECT windows FROM {name} WHERE collection = '{physical}'" for name in tables]
    return int(rows(container, f"SELECT coalesce(sum(windows), 0) FROM ({' UNION ALL '.join(told)})")[0][0])


def active(container: Container) -> str:
    """Where messages have their vectors."""
    space = container.spaces.for_reading("zeph_conversations")
    assert space is not None
    return space.collection.physical


def answers(container: Container, text: str, namespace: str) -> list[tuple[int, float]]:
    found = container.memory.recall(text, mode="vector", namespace=namespace)
    assert found.degraded == ()
    return [(hit.message.id, round(hit.score, 5)) for hit in found.hits]


class Asked:
    """What a caller met who went on to tell and to ask for so many seconds."""

    def __init__(self, container: Container, history: History, seconds: float, seed: int) -> None:
        self.accepted = 0
        self.keyword_misses = 0
        self.keyword_seconds: list[float] = []
        self.recall_seconds: list[float] = []
        self.degraded: list[tuple[str, ...]] = []
        before = len(history.seconds())
        began = time.monotonic()
        while time.monotonic() < began + seconds:
            accept(container, history, 10, seed + self.accepted)
            self.accepted += 10
            gone = {arguments["id"] for arguments, _ in history.acknowledged("forget")}
            told = [it for it, message_id in history.acknowledged("remember") if message_id not in gone]
            text = random.Random(seed + self.accepted).choice(told)
            self._ask(container, text["text"], text["namespace"])
            time.sleep(0.2)
        self.call_seconds = history.seconds()[before:]

    def _ask(self, container: Container, text: str, namespace: str) -> None:
        began = time.perf_counter()
        found = container.memory.recall(text, mode="keyword", namespace=namespace)
        self.keyword_seconds.append(time.perf_counter() - began)
        self.keyword_misses += text not in [hit.message.content for hit in found.hits] or bool(found.degraded)
        if rows(container, "SELECT 1 FROM embedding_collections WHERE name = 'zeph_conversations'"):
            began = time.perf_counter()
            found = container.memory.recall(text, mode="hybrid", namespace=namespace)
            self.degraded.append(found.degraded)
            self.recall_seconds.append(time.perf_counter() - began)

    def __str__(self) -> str:
        return f"{self.accepted} calls, keyword recall p99 {quantile(self.keyword_seconds, 0.99) * 1e3:.1f} ms, recall at most {max(self.recall_seconds):.1f} s"
