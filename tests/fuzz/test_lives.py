"""B13: whole lives of a store, made up step by step; after each step it holds what a plain model says it must."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from services import errors
from services.adapters import sqlite
from services.adapters.in_memory import FixedEntropy, ManualClock
from services.adapters.sqlite import Sqlite
from services.bootstrap import Container
from services.jobs.models import EVICT_MESSAGES, RECONCILE, JobState, Queue, scheduled
from services.settings import load_settings
from tests.builders import PlainParser, enqueue, rows, submit
from tests.faults.harness import state
from tests.fuzz.amounts import MARKS, amount, fuzz
from workers.job import Runner

pytestmark = MARKS

SETTINGS = {
    "embedding.provider": "fake",
    "embedding.dimensions": 8,
    "jobs.min_free_disk_bytes": 0,
    # However often this machine crashes, no job is to be given up for it.
    "jobs.max_lost_leases": 100,
    "memory.graph.enabled": True,
    "memory.compaction_preserve_tail": 2,
}
NAMES = "Zenobia Brno Quentin Oslo Wanda Lima".split()
FILES = "a.txt b.md c.txt".split()
SPACES = 4
LEASE_SECONDS = 31
# Faults are to meet unfinished work: all is finished at the end of a life, and only now and then before it.
STEPS_BETWEEN_SETTLING = 12


class Crash(BaseException):
    """The process is gone: nobody catches this."""


class LastingSqlite(Sqlite):
    """Serves one life after the other: most of the time of a short one would go into compiling statements."""

    def close(self) -> None:
        for engine in self._engines.values():
            engine.dispose()


class Life(RuleBasedStateMachine):
    """A store and what must be in it."""

    migrated: Path
    root: Path
    sqlite: Sqlite

    def __init__(self) -> None:
        super().__init__()
        self.docs = self.root / "docs"
        self.docs.mkdir(parents=True)
        shutil.copy(self.migrated, self.root / "zeph.db")
        self.clock, self.entropy = ManualClock(), FixedEntropy()
        self.words = 0
        self.unsettled = 0
        # namespace -> conversation key -> message id -> content
        self.said: dict[str, dict[str, dict[int, str]]] = {"default": {}, "other": {}}
        # namespace -> correction id -> (text, target)
        self.corrected: dict[str, dict[int, tuple[str, int | None]]] = {"default": {}, "other": {}}
        self.forgotten: set[str] = set()
        self.on_disk: dict[str, str] = {}
        self.versions: dict[str, set[str]] = {name: set() for name in FILES}
        self.restart()

    def restart(self) -> None:
        """Another process on the same files."""
        made = Container(
            load_settings(None, SETTINGS | {"data_dir": str(self.root)}),
            clock=self.clock,
            entropy=self.entropy,
        )
        made.parser = PlainParser()  # type: ignore[assignment]
        made.sqlite = self.sqlite
        self.container, self.runner = made, Runner(made)

    def word(self) -> str:
        self.words += 1
        return f"word{self.words:05d}x"

    def space(self, number: int) -> str:
        names = sorted(self.said)
        return names[number % len(names)]

    # ---- conversations ---------------------------------------------------------------------------------------

    @rule(
        space=st.integers(0, SPACES),
        key=st.sampled_from("ab"),
        name=st.sampled_from(NAMES),
        user=st.booleans(),
        objects=st.booleans(),
        count=st.integers(1, 5),
    )
    def remember(self, space: int, key: str, name: str, user: bool, objects: bool, count: int) -> None:
        namespace = self.space(space)
        start = "No, that's wrong, I meant" if objects else "The courier saw"
        for _ in range(count):
            text = f"{start} {name} near Ghent with {self.word()}."
            found = self.container.memory.remember(
                "user" if user else "assistant", text, conversation=key, namespace=namespace
            )
            self.said[namespace].setdefault(key, {})[found] = text

    @rule(space=st.integers(0, SPACES), key=st.sampled_from("ab"), pick=st.integers(0, 50))
    def forget_message(self, space: int, key: str, pick: int) -> None:
        namespace = self.space(space)
        messages = self.said[namespace].get(key, {})
        if messages:
            gone = sorted(messages)[pick % len(messages)]
            self.container.memory.forget(messages=[gone], namespace=namespace)  # type: ignore[list-item]
            self.lose(namespace, key, [gone])

    @rule(space=st.integers(0, SPACES), key=st.sampled_from("ab"))
    def forget_conversation(self, space: int, key: str) -> None:
        namespace = self.space(space)
        if key in self.said[namespace]:
            self.container.memory.forget(conversation=key, namespace=namespace)
            self.lose(namespace, key, list(self.said[namespace][key]))
            del self.said[namespace][key]

    @rule(space=st.integers(0, SPACES), keep=st.integers(1, 8))
    def evict(self, space: int, keep: int) -> None:
        namespace = self.space(space)
        report = self.container.eviction.evict(namespace, max_entries=keep)
        gone = 0
        for key, before in list(self.said[namespace].items()):
            after = self.history(namespace, key)
            lost = before.keys() - after.keys()
            assert not lost & set(sorted(before)[-2:])
            self.lose(namespace, key, lost)
            gone += len(lost)
        left = sum(map(len, self.said[namespace].values()))
        assert (report.evicted, report.messages, report.protected) == (gone, gone + left, max(0, left - keep))

    def lose(self, namespace: str, key: str, ids: Any) -> None:
        for gone in ids:
            text = self.said[namespace][key].pop(gone)
            # An import may have brought it into another namespace, where it stays.
            self.forgotten.add(f"{namespace} {text}")
            for correction, (_, target) in list(self.corrected[namespace].items()):
                if target == gone:
                    del self.corrected[namespace][correction]

    # ---- corrections -----------------------------------------------------------------------------------------

    @rule(space=st.integers(0, 1), number=st.integers(0, 5), pick=st.none() | st.integers(0, 50))
    def correct(self, space: int, number: int, pick: int | None) -> None:
        namespace = self.space(space)
        known = [found for messages in self.said[namespace].values() for found in messages]
        target = known[pick % len(known)] if known and pick is not None else None
        text = f"Call it number {number}"
        made = self.container.corrections.add(text, target=target, namespace=namespace)  # type: ignore[arg-type]
        assert made.correction_text == text
        self.corrected[namespace][made.id] = (text, target)

    @rule(space=st.integers(0, 1), pick=st.integers(0, 50), act=st.sampled_from(["undo", "redo", "forget"]))
    def change_correction(self, space: int, pick: int, act: str) -> None:
        namespace = self.space(space)
        known = sorted(self.corrected[namespace])
        if known:
            chosen = known[pick % len(known)]
            getattr(self.container.corrections, act)(chosen, namespace=namespace)
            if act == "forget":
                del self.corrected[namespace][chosen]

    # ---- documents -------------------------------------------------------------------------------------------

    @rule(name=st.sampled_from(FILES), present=st.booleans())
    def change_file(self, name: str, present: bool) -> None:
        path = self.docs / name
        if present:
            self.on_disk[name] = text = f"The archive of Ghent holds {self.word()}."
            self.versions[name].add(text)
            path.write_text(text)
        elif self.on_disk.pop(name, None):
            path.unlink()

    @rule(prune=st.booleans(), graph=st.booleans())
    def ingest(self, prune: bool, graph: bool) -> None:
        submit(self.container, self.docs, prune=prune, graph=graph)

    # ---- snapshots -------------------------------------------------------------------------------------------

    @precondition(lambda self: len(self.said) < SPACES)
    @rule(space=st.integers(0, SPACES), vectors=st.booleans())
    def copy(self, space: int, vectors: bool) -> None:
        namespace, copy = self.space(space), f"copy{len(self.said)}"
        path = self.root / f"{copy}.json"
        self.container.snapshots.export_to(path, namespace=namespace, vectors=vectors)
        self.container.snapshots.import_from(path, namespace=copy)
        self.said[copy] = {}
        for key, before in self.said[namespace].items():
            after = self.history(copy, key)
            assert list(after.values()) == list(before.values())
            self.said[copy][key] = after
        self.corrected[copy] = {}
        again = self.container.snapshots.import_from(path, namespace=copy)
        assert (again.conversations, again.messages, again.corrections, again.entities, again.edges) == (
            0,
        ) * 5

    # ---- work ------------------------------------------------------------------------------------------------

    @rule(count=st.integers(1, 6))
    def run_jobs(self, count: int) -> None:
        for _ in range(count):
            if not self.runner.run_next(tuple(Queue)):
                break

    @rule(seconds=st.sampled_from([0.001, 3, LEASE_SECONDS, 3_600]))
    def time_passes(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.container.ledger.sweep()

    @rule(kind=st.sampled_from([EVICT_MESSAGES, RECONCILE]))
    def schedule(self, kind: Any) -> None:
        enqueue(self.container, scheduled(kind))

    @rule(statement=st.integers(1, 40))
    def crash(self, statement: int) -> None:
        """The process dies at a statement of a job, and another one comes up."""
        try:
            with dying_at(statement):
                self.runner.run_next(tuple(Queue))
        except Crash:
            # In a process that lives on, a timer would write counts of recalls into the next one's store.
            self.container.close()
            self.restart()

    @rule()
    def zombie(self) -> None:
        """A worker sleeps through its lease, and wakes up when another one has done its work."""
        late = self.container.ledger.claim_next(tuple(Queue))
        if late is None:
            return
        self.clock.advance(LEASE_SECONDS)
        self.container.ledger.sweep()
        self.clock.advance(3_600)
        second = self.container.ledger.claim(late.job.id)
        assert second is not None
        self.runner.run(second)
        before = state(self.container)
        self.runner.run(late)
        assert state(self.container) == before

    @rule(pick=st.integers(0, 1_000))
    def redeliver(self, pick: int) -> None:
        """A message comes again: what has ended stays as it is."""
        known = rows(self.container, "SELECT id, state FROM jobs ORDER BY id")
        if known:
            job_id, was = known[pick % len(known)]
            run = self.container.ledger.claim(job_id)
            assert run is None or was == JobState.PENDING
            if run is not None:
                self.runner.run(run)

    # ---- what must hold --------------------------------------------------------------------------------------

    def history(self, namespace: str, key: str) -> dict[int, str]:
        try:
            found = self.container.memory.history(key, limit=1_000, namespace=namespace)
        except errors.NotFound:
            return {}
        return {message.id: message.content for message in found}

    @invariant()
    def messages_are_as_they_were_said(self) -> None:
        # Straight from the rows, in one statement: what callers get to see is compared whenever all is settled.
        self.unsettled += 1
        query = (
            "SELECT m.id, m.namespace, c.key, m.content FROM messages m "
            "JOIN conversations c ON c.id = m.conversation_id WHERE m.deleted_at IS NULL ORDER BY m.id"
        )
        assert rows(self.container, query) == sorted(
            (found, namespace, key, text)
            for namespace, conversations in self.said.items()
            for key, messages in conversations.items()
            for found, text in messages.items()
        )

    @invariant()
    def corrections_are_there(self) -> None:
        query = "SELECT namespace, id, correction_text FROM zeph_corrections"
        stored = {(namespace, found): text for namespace, found, text in rows(self.container, query)}
        for namespace, known in self.corrected.items():
            for correction, (text, _) in known.items():
                assert stored[namespace, correction] == text

    @invariant()
    def documents_say_what_their_files_said_at_some_time(self) -> None:
        for name, text in self.stored_files().items():
            assert text in self.versions[name]

    @invariant()
    def nothing_is_dead(self) -> None:
        assert rows(self.container, "SELECT kind, error_message FROM jobs WHERE state = 'dead'") == []

    def stored_files(self) -> dict[str, str]:
        query = "SELECT d.source, c.text FROM documents d JOIN chunks c ON c.document_id = d.id"
        return {Path(source).name: text for source, text in rows(self.container, query)}

    @precondition(lambda self: self.unsettled > STEPS_BETWEEN_SETTLING)
    @rule()
    def settle(self) -> None:
        """All work is done, the folder is read once more, and everything is found and whole."""
        self.unsettled = 0
        self.work_off()
        if self.on_disk:
            submit(self.container, self.docs, prune=True)
            self.work_off()
            assert self.stored_files() == self.on_disk
        for namespace, conversations in self.said.items():
            for key, expected in conversations.items():
                assert list(self.history(namespace, key).items()) == list(expected.items())
            stats = self.container.memory.stats(namespace=namespace)
            assert (stats.messages, stats.waiting) == (sum(map(len, conversations.values())), 0)
            for correction, (text, _) in self.corrected[namespace].items():
                assert self.container.corrections.get(correction, namespace=namespace).correction_text == text
            everything = {text: found for it in conversations.values() for found, text in it.items()}
            for text in list(everything)[-3:]:
                assert everything[text] in self.recalled(namespace, text)
        for gone in sorted(self.forgotten)[-3:]:
            namespace, text = gone.split(" ", 1)
            known = [said for it in self.said[namespace].values() for said in it.values()]
            assert text in known or not self.recalled(namespace, text)

    def recalled(self, namespace: str, text: str) -> list[int]:
        word = text.rsplit(maxsplit=1)[-1].rstrip(".")
        hits = self.container.memory.recall(word, mode="keyword", namespace=namespace).hits
        return [hit.message.id for hit in hits]

    def work_off(self) -> None:
        self.clock.advance(3_600)
        self.container.ledger.sweep()
        self.runner.drain(tuple(Queue), seconds=60)
        assert rows(self.container, "SELECT id, kind FROM jobs WHERE state NOT IN ('done', 'dead')") == []

    def teardown(self) -> None:
        try:
            self.settle()
            assert_sound(self.container)
        finally:
            self.container.close()
            shutil.rmtree(self.root)


@contextmanager
def dying_at(statement: int) -> Iterator[None]:
    """Let the process die when it is about to execute that statement."""
    left = itertools.count(1)

    def step(*_: Any) -> None:
        if next(left) == statement:
            raise Crash

    sa.event.listen(sa.Engine, "before_cursor_execute", step)
    try:
        yield
    finally:
        sa.event.remove(sa.Engine, "before_cursor_execute", step)


def assert_sound(container: Container) -> None:
    """No check of the doctor finds anything; that of the schema takes longest, and no step can change it."""
    for check in container.doctor.checks:
        if check.name != "schema":
            assert list(check.find()) == []


@pytest.mark.parametrize("part", range(amount(commit=1, nightly=10)))
def test_store_and_model_agree_after_every_step_of_a_life_b13(
    part: int, migrated: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZEPH_CONFIG", "")
    monkeypatch.setitem(sqlite._MODE_PRAGMAS, "durable", ("PRAGMA synchronous = OFF",))
    root = tmp_path / "life"
    shared = {"migrated": migrated, "root": root, "sqlite": LastingSqlite(root / "zeph.db")}
    life = type("ThisLife", (Life,), shared)
    # Nightly 5,000 in parts, which several processes can share (pytest -n) and which can be told apart.
    run_state_machine_as_test(life, settings=fuzz(commit=10, nightly=500, stateful_step_count=50))
