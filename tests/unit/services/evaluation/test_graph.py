"""Re-DocRED, in small: what a perfect model answers is in the store afterwards, and what the local extractor is worth."""

from __future__ import annotations

import gzip
import json
import random

import pytest

from services import errors
from services.evaluation.graph import evaluate, joined, load_redocred, store
from tests.builders import work
from tests.fake_openai import FakeOpenAi

FIRST = ["Ana", "Ben", "Cleo", "Dora", "Emil", "Fred", "Gina", "Hugo"]
LAST = ["Pereira", "Novak", "Okafor", "Lindt", "Suzuki", "Brandt"]
PLACES = ["Porto", "Oslo", "Quito", "Turin", "Kyoto", "Lagos", "US", "St. Gallen"]


def document(number, rng):
    """A paragraph in the layout of the set, tokens apart, with homonyms, aliases, dates and short names."""
    people = [f"{rng.choice(FIRST)} {last}" for last in LAST[:4]]
    places = rng.sample(PLACES, 3)
    entities = [{"type": "PER", "names": [name, name.split()[1]], "mentions": 1} for name in people]
    entities += [{"type": "LOC", "names": [name], "mentions": 1} for name in places]
    entities += [
        {"type": "TIME", "names": ["13 March 1963"], "mentions": 1},
        {"type": "NUM", "names": ["2"], "mentions": 1},
    ]
    triples = [[at, "place of birth", 4 + at % 3, [0]] for at in range(4)]
    triples += [
        [0, "spouse", 1, [0]],
        [1, "spouse", 0, [0]],
        [0, "date of birth", 7, [0]],
        [2, "Place-of-Birth", 6, [0]],
    ]
    sents = [
        f"{name} ( born 13 March 1963 ) lived in {place} ."
        for name, place in zip(people, [*places, places[0]], strict=True)
    ]
    return {
        "id": f"d{number}",
        "title": f"t{number}",
        "sents": sents,
        "entities": entities,
        "triples": triples,
    }


@pytest.fixture
def path(tmp_path):
    rng = random.Random(7)
    lines = "\n".join(json.dumps(document(number, rng)) for number in range(12))
    file = tmp_path / "set.jsonl.gz"
    file.write_bytes(gzip.compress(lines.encode()))
    return file


def perfect(documents):
    """A model that answers with the set's own entities and relations."""
    replies = {}
    for one in documents:
        first = [entity.names[0] for entity in one.entities]
        edges = [
            {"source": first[s], "relation": kind, "target": first[t], "fact": "x"}
            for s, kind, t in one.triples
        ]
        names = [
            {"name": name, "type": entity.type} for name, entity in zip(first, one.entities, strict=True)
        ]
        replies[one.text] = json.dumps({"entities": names, "edges": edges})
    return lambda request: next(
        reply for text, reply in replies.items() if text in request["messages"][1]["content"]
    )


def test_what_a_perfect_model_reads_is_stored_and_nothing_else(build, path):
    """Nothing lost and nothing doubled on the way from the reply to the rows: F1 is 1."""
    documents = load_redocred(path)
    with FakeOpenAi() as server:
        server.chat = perfect(documents)
        container = build(
            llm__provider="openai",
            llm__base_url=server.base_url,
            llm__model="gold",
            memory__graph__max_entities_per_message=1_000,
            memory__graph__max_edges_per_message=1_000,
        )
        store(container.memory, documents)
        work(container, ["graph"])
        scores = evaluate(container.graph, documents)
        assert (scores.entity_f1, scores.edge_f1, scores.invented, scores.unread) == (1.0, 1.0, 0, 0)
        store(container.memory, documents)
        work(container, ["graph"])
        assert evaluate(container.graph, documents) == scores
        assert len(server.requests) == len(documents)


def test_the_local_extractor_finds_most_names_and_states_no_relation(build, path):
    container = build(
        memory__graph__max_entities_per_message=1_000, memory__graph__max_edges_per_message=1_000
    )
    documents = load_redocred(path)
    store(container.memory, documents)
    work(container, ["graph"])
    scores = evaluate(container.graph, documents)
    assert scores.name_precision >= 0.9
    assert scores.name_recall >= 0.9
    assert (scores.invented, scores.edge_recall) == (0, 0.0)


def test_what_was_not_read_is_counted(build, path):
    container = build()
    documents = load_redocred(path)
    store(container.memory, documents)
    scores = evaluate(container.graph, documents)
    assert (scores.unread, scores.name_precision, scores.name_recall) == (12, 1.0, 0.0)


def test_tokens_are_joined_as_people_write_them():
    assert (
        joined('He said " no " ( twice ) , in the men \'s race of 1997 - 8 .')
        == 'He said "no" (twice), in the men\'s race of 1997-8.'
    )


@pytest.mark.parametrize(
    "content",
    [b"", b"no gzip", gzip.compress(b"no json"), gzip.compress(b'{"id": 1}')],
    ids=["nothing", "no gzip", "no JSON", "no lists"],
)
def test_another_file_is_refused_by_name(tmp_path, content):
    file = tmp_path / "x.gz"
    file.write_bytes(content)
    if not content:
        file.unlink()
    with pytest.raises(errors.InputError, match="no Re-DocRED file"):
        load_redocred(file)
