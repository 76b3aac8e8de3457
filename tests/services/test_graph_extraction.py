"""A chat becomes a graph: Redis, two Celery workers, a scripted model on loopback or none, and `kill -9` in between."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any

import pytest

from services.graph.models import CO_OCCURRENCE
from services.jobs.models import BACKFILL_GRAPH, EXTRACT_GRAPH
from tests.fake_openai import FakeOpenAi
from tests.services.harness import Stack, wait_until

pytestmark = [pytest.mark.services, pytest.mark.timeout(180)]

PEOPLE = ["Ana", "Ben", "Cleo", "Dora", "Emil", "Fred", "Gina", "Hugo", "Iris", "Jack", "Kira", "Liam"]
PLACES = ["Porto", "Oslo", "Quito", "Turin", "Kyoto", "Lagos", "Perth", "Split"]
START = 1_700_000_000_000_000
MESSAGES = 160


def texts() -> list[str]:
    """Facts that repeat, replace one another and stand alone, in an order that never changes."""
    people, places = len(PEOPLE), len(PLACES)
    return [
        f"As you know {PEOPLE[at % people]} moved to {PLACES[at * 5 % places]} with {PEOPLE[(at * 7 + 1) % people]}."
        for at in range(MESSAGES)
    ]


def answer(request: Any) -> str:
    """What a model reads in such a sentence."""
    said = request["messages"][1]["content"].rpartition("<message")[2]
    found = re.search(r"know (\w+) moved to (\w+) with (\w+)\.", said)
    assert found is not None
    who, place, friend = found.groups()
    time.sleep(0.02)
    names = [
        {"name": who, "type": "person"},
        {"name": place, "type": "concept"},
        {"name": friend, "type": "person"},
    ]
    edges = [
        {"source": who, "target": place, "relation": "lives_in", "fact": f"{who} lives in {place}."},
        {"source": who, "target": friend, "relation": "knows", "fact": f"{who} knows {friend}."},
    ]
    return json.dumps({"entities": names, "edges": edges})


def import_chat(stack: Stack, folder: Path) -> None:
    lines = []
    for at, text in enumerate(texts()):
        lines.append({"role": "user", "content": text, "created_at": START + at * 60_000_000})
        lines.append({"role": "assistant", "content": "Noted.", "created_at": START + at * 60_000_000 + 1})
    file = folder / "chat.jsonl"
    file.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    stack.run_zeph("chat", "import", str(file))


def all_read(stack: Stack) -> bool:
    with stack.container.database.read() as unit:
        unread = unit.texts.count_unread("default")
        jobs = [*unit.jobs.select(kind=EXTRACT_GRAPH.name), *unit.jobs.select(kind=BACKFILL_GRAPH.name)]
    assert {job.state for job in jobs} <= {"pending", "running", "waiting", "done"}, jobs
    return unread == 0 and all(job.state == "done" for job in jobs)


def graph_of(stack: Stack) -> tuple[Any, ...]:
    """The whole graph without ids and times of storing."""
    statements = (
        "SELECT canonical_name, entity_type FROM graph_entities ORDER BY 1, 2",
        """SELECT s.canonical_name, e.relation, t.canonical_name, e.fact, e.confidence, e.valid_from, e.valid_to
        FROM graph_edges e JOIN graph_entities s ON s.id = e.source_entity_id
        JOIN graph_entities t ON t.id = e.target_entity_id ORDER BY 1, 2, 3, 4, 6""",
        """SELECT s.canonical_name, e.relation, t.canonical_name, e.valid_from, p.message_id, p.extractor, p.evidence
        FROM graph_edge_sources p JOIN graph_edges e ON e.id = p.edge_id
        JOIN graph_entities s ON s.id = e.source_entity_id
        JOIN graph_entities t ON t.id = e.target_entity_id ORDER BY 1, 2, 3, 4, 5""",
    )
    with stack.container.sqlite.read() as connection:
        return tuple(
            sorted((_undirected(tuple(row)) for row in connection.exec_driver_sql(text)), key=repr)
            for text in statements
        )


def _undirected(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """Standing together has no direction: which end comes first is a matter of ids."""
    together = len(row) > 2 and row[1] == CO_OCCURRENCE
    return (max(row[0], row[2]), row[1], min(row[0], row[2]), *row[3:]) if together else row


def read_undisturbed(stack: Stack, folder: Path) -> tuple[Any, ...]:
    workers = [stack.worker() for _ in range(2)]
    import_chat(stack, folder)
    wait_until(lambda: all_read(stack), "every message is read", workers[0], seconds=90)
    return graph_of(stack)


def read_with_kills(stack: Stack, folder: Path, *, kills: int) -> tuple[Any, ...]:
    """Kill a whole worker, children and all, each time a part of the messages is read; another one takes its place.

    Two kills: a third one may hit a job that was hit twice, which then counts as one that kills its workers.
    """
    workers = [stack.worker() for _ in range(2)]
    import_chat(stack, folder)
    for kill in range(kills):
        left = MESSAGES - MESSAGES * (kill + 1) // (kills + 2)

        def far_enough(left: int = left) -> bool:
            with stack.container.database.read() as unit:
                return unit.texts.count_unread("default") <= left

        wait_until(far_enough, "some messages are read", seconds=60, pause=0.01)
        workers.pop(0).kill()
        workers.append(stack.worker())
    wait_until(lambda: all_read(stack), "every message is read", workers[0], seconds=90)
    return graph_of(stack)


def test_killed_workers_leave_the_graph_of_an_undisturbed_run(start, tmp_path):
    """Provenance, history and all: nothing lost, nothing doubled, and few answers paid twice."""
    with FakeOpenAi() as server:
        server.chat = answer
        settings = {
            "memory__graph__enabled": True,
            "llm__provider": "openai",
            "llm__base_url": server.base_url,
            "llm__model": "m",
            "memory__summarization_threshold": 100_000,
            "memory__corrections__correction_detection": False,
        }
        calm = start("calm", **settings)
        expected = read_undisturbed(calm, tmp_path)
        server.requests.clear()
        rough = start("rough", **settings)
        found = read_with_kills(rough, tmp_path, kills=2)
        assert found == expected
        entities, edges, sources = found
        assert len(entities) == len(PEOPLE) + len(PLACES)
        assert edges
        assert len(sources) == 2 * MESSAGES
        # Only questions under way are asked again.
        assert len(server.requests) <= MESSAGES * 1.25
        assert rough.container.graph.facts("default", "Ana")


def test_without_a_model_the_local_extractor_survives_the_same(start, tmp_path):
    settings = {"memory__graph__enabled": True, "memory__corrections__correction_detection": False}
    expected = read_undisturbed(start("calm", **settings), tmp_path)
    found = read_with_kills(start("rough", **settings), tmp_path, kills=2)
    assert found == expected
    assert {edge[1] for edge in found[1]} == {CO_OCCURRENCE}
    assert {source[5] for source in found[2]} == {"local"}


def test_a_backfill_by_workers_reads_what_was_said_before_the_graph_was_there(start, tmp_path):
    stack = start()
    import_chat(stack, tmp_path)
    stack.worker(["graph"])
    stack.run_zeph("graph", "backfill")
    wait_until(lambda: all_read(stack), "every message is read", seconds=90)
    assert stack.container.graph.facts("default", "Ana")
