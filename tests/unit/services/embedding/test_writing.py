"""A text that the model refuses for good ends once, with the reason, whatever kind of row it is."""

from __future__ import annotations

import pytest

from services.documents.models import DocumentMetadata, SplitterConfig
from services.jobs.models import EMBED_DOCUMENT, EMBED_MESSAGES, EMBED_SUMMARY, RECONCILE, JobState
from services.memory.models import NewMessage
from services.memory.summary_vectors import FACT_COLLECTION, embed_summary_job
from tests.builders import PickyEmbedder, enqueue, job, new_job, work

REASON = "400: the input is invalid"


@pytest.fixture
def container(build):
    made = build()
    made.embedder = PickyEmbedder()
    return made


def remember(container):
    container.memory.remember_many("c", [NewMessage("user", text) for text in ("good", "poison", "better")])


def ingest(container):
    text = "# Good\n\nAll is well here.\n\n# Bad\n\nHere is poison in it."
    split = SplitterConfig(chunk_size=16, chunk_overlap=0)
    container.ingestion.add_text(text, DocumentMetadata("a.md", "text/markdown"), splitter=split)


def note_facts(container):
    container.memory.remember("user", "hello", conversation="c")
    with container.database.write() as unit:
        found = unit.messages.find_conversation("default", "c").id
        summary = unit.summaries.add("default", found, "what was said", first=1, last=1, token_estimate=3)
        unit.key_facts.add("default", found, summary, ["Ana has a dog.", "The well holds poison."])
        unit.jobs.enqueue([embed_summary_job("default", summary)])


@pytest.mark.parametrize(
    ("write", "kind", "vectors"),
    [(remember, EMBED_MESSAGES, 2), (ingest, EMBED_DOCUMENT, 1), (note_facts, EMBED_SUMMARY, 2)],
    ids=["messages", "chunks", "facts"],
)
def test_a_refused_text_costs_no_other_its_vector_and_breeds_no_jobs(container, write, kind, vectors):
    write(container)
    work(container)
    (done,) = jobs_of(container, kind)
    assert (done.state, done.outcome) == (
        JobState.DONE,
        {"vectors": vectors, "rejected": 1, "reason": REASON},
    )
    (check,) = enqueue(container, new_job(RECONCILE))
    work(container)
    assert job(container, check).outcome == {"missing": 0, "orphans": 0}
    assert len(jobs_of(container, kind)) == 1


@pytest.mark.parametrize(
    ("write", "kind"),
    [(remember, EMBED_MESSAGES), (ingest, EMBED_DOCUMENT), (note_facts, EMBED_SUMMARY)],
    ids=["messages", "chunks", "facts"],
)
def test_a_model_that_refuses_everything_leaves_one_dead_job_however_often_it_is_asked(
    container, write, kind
):
    container.embedder.refused = ""
    write(container)
    work(container)
    for _ in range(3):
        enqueue(container, new_job(RECONCILE))
        work(container)
    (dead,) = jobs_of(container, kind)
    assert (dead.state, dead.error_message) == (JobState.DEAD, REASON)
    container.embedder.refused = "nothing"
    enqueue(container, new_job(RECONCILE))
    work(container)
    assert [one.state for one in jobs_of(container, kind)] == [JobState.DONE]


def test_a_refused_text_is_tried_again_by_another_model(container):
    note_facts(container)
    work(container)
    other = container.spaces.embedder = PickyEmbedder("other", 32)
    other.refused = "nothing"
    move = container.upkeep.submit_reembed(FACT_COLLECTION)
    work(container)
    assert job(container, move).outcome["vectors"] == 2


def jobs_of(container, kind):
    with container.database.read() as unit:
        return unit.jobs.select(kind=kind.name)
