"""The graph at size: detecting communities of 50,000 entities, and recall over 100,000 facts.

Run: python tests/bench/bench_graph.py [entities] [facts] [queries]. Communities get 2.5 times as many facts.
"""

from __future__ import annotations

import random
import resource
import sys
import tempfile
import time
from statistics import median, quantiles

from services.bootstrap import Container, open_container
from services.graph.facts import EdgeDraft
from services.graph.models import CO_OCCURRENCE, EntityType
from services.graph.names import canonical
from services.graph.store import NewEntity

_BATCH = 5_000
_CLUSTER = 40
_MIB = 1_024


def main(entities: int = 50_000, facts: int = 100_000, queries: int = 300) -> None:
    """Print milliseconds of recall by kind of question, seconds of detection, and the memory this process took."""
    dice = random.Random(1)
    words, names = made_up(entities, dice)
    with tempfile.TemporaryDirectory() as folder, _opened(folder) as container:
        ids = store_entities(container, names)
        store_facts(container, ids, facts, dice)
        print(f"{len(ids)} entities, {facts} facts")
        asked = {
            "one name": lambda: f"What do we know about {dice.choice(names)}?",
            "two names": lambda: f"How is {dice.choice(names)} related to {dice.choice(names)}?",
            "the busiest names": lambda: f"What does {names[dice.randrange(10)]} have to do with it?",
            "part of a name": lambda: f"where does {dice.choice(words)} live",
            "no name": lambda: "what was it that they had agreed upon last week",
        }
        for kind, question in asked.items():
            _time(container, kind, [question() for _ in range(queries)])
        store_facts(container, ids, facts * 3 // 2, dice)
        started = time.perf_counter()
        done = container.communities.refresh("default")
        seconds = time.perf_counter() - started
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / _MIB
        print(
            f"{done.communities} communities of {facts * 5 // 2} facts in {seconds:.1f} s, {peak:.0f} MiB at most"
        )
        started = time.perf_counter()
        again = container.communities.refresh("default")
        print(f"again, unchanged: {time.perf_counter() - started:.1f} s, {again.described} described")


def _opened(folder: str) -> Container:
    return open_container({"data_dir": folder, "embedding.provider": "none", "jobs.min_free_disk_bytes": 0})


def made_up(entities: int, dice: random.Random) -> tuple[list[str], list[str]]:
    """Words, and names of two of them."""
    words = ["".join(dice.choices("abcdefghijklmnoprstuvw", k=6)).title() for _ in range(entities // 4)]
    pairs = (f"{dice.choice(words)} {dice.choice(words)}" for _ in range(entities * 2))
    return words, list(dict.fromkeys(pairs))[:entities]


def store_entities(container: Container, names: list[str]) -> list[int]:
    ids: list[int] = []
    for at in range(0, len(names), _BATCH):
        new = [NewEntity(name, canonical(name), EntityType.PERSON) for name in names[at : at + _BATCH]]
        with container.database.write(durable=False) as unit:
            ids += unit.graph.add_entities("default", new)
    return ids


def store_facts(container: Container, ids: list[int], count: int, dice: random.Random) -> None:
    """Most within clusters, the rest from anywhere to a few hubs, as in graphs of people."""
    for at in range(0, count, _BATCH):
        drafts = []
        for number in range(at, min(at + _BATCH, count)):
            first = dice.randrange(len(ids))
            if dice.random() < 0.8:
                start = first - first % _CLUSTER
                second = start + int(dice.random() ** 2 * min(_CLUSTER, len(ids) - start))
            else:
                second = int(dice.random() ** 6 * len(ids))
            if first == second:
                continue
            seen = dice.random() < 0.3
            relation = CO_OCCURRENCE if seen else f"relation_{dice.randrange(10**9)}"
            fact = f"Fact {number} about two of them."
            drafts.append(
                EdgeDraft(None, ids[first], ids[second], relation, fact, 0.3 if seen else 0.8, number)
            )
        unique = {(one.source_id, one.relation, one.target_id): one for one in drafts}
        with container.database.write(durable=False) as unit:
            known = unit.graph.edges_with_keys("default", list(unique), [])
            for edge in known:
                unique.pop((edge.source_id, edge.relation, edge.target_id), None)
            unit.graph.apply("default", list(unique.values()))


def _time(container: Container, kind: str, questions: list[str]) -> None:
    container.graph_recall.recall(questions[0], namespace="default")
    times, found, truncated = [], 0, 0
    for question in questions:
        started = time.perf_counter()
        answer = container.graph_recall.recall(question, namespace="default")
        times.append(1_000 * (time.perf_counter() - started))
        found += len(answer.facts)
        truncated += answer.truncated
    p99 = quantiles(times, n=100)[98]
    print(
        f"{kind:18} p50 {median(times):6.2f} ms  p99 {p99:6.2f} ms  "
        f"{found / len(questions):.1f} facts, {truncated} of {len(questions)} truncated"
    )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
