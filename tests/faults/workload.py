"""Callers of every temper, whose every step is on record, and the comparison of that record with what is stored."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from services.bootstrap import Container
from services.documents.models import DocumentMetadata
from services.jobs.models import JobState, NewJob
from services.memory.models import Role
from tests.builders import enqueue, rows
from tests.faults.harness import History
from tests.services.harness import COUNTED, SCHEDULED
from tests.services.jobs_app import EFFECTS

_WORDS = "dome winch hatch rope crane hook bolt lamp mirror storm wind night north pier gauge valve".split()
NAMESPACES = ("default", "zoe", "max")


def accept(container: Container, history: History, count: int, seed: int) -> None:
    """That many calls: messages, documents new and changed, and now and then something is forgotten or removed."""
    dice = random.Random(seed)
    told: list[tuple[str, int]] = []
    sources: list[tuple[str, str]] = []
    for number in range(count):
        namespace = dice.choice(NAMESPACES)
        text = f"{number} of {seed}: " + " ".join(dice.choices(_WORDS, k=12))
        turn = dice.random()
        if turn < 0.45 or not told or not sources:
            told.append((namespace, _remember(container, history, namespace, text)))
        if turn >= 0.45 or not sources:
            source = dice.choice(sources)[1] if sources and turn > 0.9 else f"note-{seed}-{number}"
            sources.append((namespace, source))
            _add(container, history, namespace, source, text)
        if 0.40 < turn < 0.45:
            _forget(container, history, *told.pop(dice.randrange(len(told))))
        if 0.85 < turn < 0.88:
            _remove(container, history, *sources.pop(dice.randrange(len(sources))))


@contextmanager
def accepting(
    container: Container, history: History, jobs: int, *, seed: int, backlog: int
) -> Iterator[Future[int]]:
    """Mixed work comes in meanwhile, as fast as it is done, until the ledger has had so many jobs.

    At most about `backlog` jobs wait at a time. The result is how many of them are counted ones, for which there must
    be the session EFFECTS.
    """
    over = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        try:
            yield pool.submit(_accept_for, container, history, jobs, seed, backlog, over)
        finally:
            over.set()


def _accept_for(
    container: Container, history: History, jobs: int, seed: int, backlog: int, over: threading.Event
) -> int:
    counted, calls = 0, 20
    while not over.is_set():
        (accepted, waiting), *_ = rows(container, "SELECT count(*), sum(state = 'pending') FROM jobs")
        if accepted >= jobs:
            break
        if (waiting or 0) > backlog:
            over.wait(0.05)
            continue
        enqueue(container, *(NewJob(COUNTED, {"number": counted + more}) for more in range(calls)))
        accept(container, history, calls, seed + counted)
        counted += calls
    return counted


def effects(container: Container) -> Counter[int]:
    """How often each counted job took effect."""
    return Counter(int(event.payload) for event in container.sessions().load_acp_events(EFFECTS))


def violations(container: Container, history: History) -> list[str]:
    """Where the store and the record differ; [] when whatever was acknowledged is there, and nothing else.

    Of a call that was cut off before it was acknowledged, the effects may be there or not.
    """
    stored = {row[0]: row[1:] for row in rows(container, "SELECT id, namespace, content FROM messages")}
    forgotten = {arguments["id"] for arguments, _ in history.acknowledged("forget")}
    maybe = {arguments["id"] for arguments in history.unknown("forget")}
    found = []
    wanted: set[int] = set()
    for arguments, message_id in history.acknowledged("remember"):
        wanted.add(message_id)
        there = stored.get(message_id)
        if message_id in forgotten and there is not None:
            found.append(f"message {message_id} was forgotten and is there")
        elif message_id not in forgotten | maybe and there != (arguments["namespace"], arguments["text"]):
            found.append(f"message {message_id} is {there}")
    unsure = {(it["namespace"], it["text"]) for it in history.unknown("remember")}
    found += [f"nobody said message {it}" for it in stored.keys() - wanted if stored[it] not in unsure]
    return found + _document_violations(container, history) + _job_violations(container)


def _document_violations(container: Container, history: History) -> list[str]:
    """The text of each source is that of the last call about it, or of one that was cut off."""
    sql = "SELECT d.namespace, d.source, c.text FROM chunks AS c JOIN documents AS d ON d.id = c.document_id"
    stored = {(namespace, source): text for namespace, source, text in rows(container, sql)}
    last: dict[tuple[str, str], Any] = {}
    for arguments, _ in [*history.acknowledged("add"), *history.acknowledged("remove")]:
        key = arguments["namespace"], arguments["source"]
        if arguments["order"] >= last.get(key, {"order": -1})["order"]:
            last[key] = arguments
    unsure: dict[tuple[str, str], set[str | None]] = {}
    for arguments in [*history.unknown("add"), *history.unknown("remove")]:
        unsure.setdefault((arguments["namespace"], arguments["source"]), set()).add(arguments.get("text"))
    return [
        f"document {key} is {stored.get(key)!r}"
        for key in last.keys() | stored.keys()
        if stored.get(key) not in {last.get(key, {}).get("text"), *unsure.get(key, ())}
    ]


def _job_violations(container: Container) -> list[str]:
    """Every job has come to an end, none of these for a reason of its own. Scheduled ones may begin at any moment."""
    sql = (
        f"SELECT id, kind, state, error_message FROM jobs WHERE state <> '{JobState.DONE}' "
        f"AND (kind <> '{SCHEDULED.name}' OR state = '{JobState.DEAD}')"
    )
    return [f"job {row}" for row in rows(container, sql)]


def _remember(container: Container, history: History, namespace: str, text: str) -> int:
    with history.operation("remember", namespace=namespace, text=text) as acknowledge:
        message_id = container.memory.remember(Role.USER, text, conversation="ops", namespace=namespace)
        acknowledge(message_id)
    return message_id


def _forget(container: Container, history: History, namespace: str, message_id: int) -> None:
    with history.operation("forget", namespace=namespace, id=message_id) as acknowledge:
        container.memory.forget(messages=[message_id], namespace=namespace)
        acknowledge(None)


def _add(container: Container, history: History, namespace: str, source: str, text: str) -> None:
    order = history.next_number()
    with history.operation("add", namespace=namespace, source=source, text=text, order=order) as acknowledge:
        container.ingestion.add_text(text, DocumentMetadata(source, "text/plain"), namespace=namespace)
        acknowledge(None)


def _remove(container: Container, history: History, namespace: str, source: str) -> None:
    order = history.next_number()
    with history.operation("remove", namespace=namespace, source=source, order=order) as acknowledge:
        container.ingestion.remove([source], namespace=namespace)
        acknowledge(None)
