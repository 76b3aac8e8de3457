"""B12: jobs whose payload another version or nobody wrote: each ends, done or dead, with a reason for people."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.adapters.in_memory import ScriptedModel
from services.jobs.models import JobState, NewJob
from tests.builders import PlainParser, claim, enqueue, job
from tests.fuzz.amounts import MARKS, fuzz
from workers.job import REGISTRY, Runner

pytestmark = MARKS

# Without the kinds that other tests declare, some of which never end.
KINDS = sorted(name for name in REGISTRY if not name.startswith("test."))
# Every field that some kind reads, so that many payloads are nearly right.
FIELDS = (
    "block message_id correction_id summary_id conversation_id limit name namespace messages chunks replacing "
    "replace_local paths path source collection splitter prune graph document_id chunk_size added_by_a_later_version"
).split()
ODD = (
    st.none()
    | st.booleans()
    | st.sampled_from(
        [-1, 0, 1, 2**31, 2**53, 2**63, 2**80, 1.5, "", "\x00", "\ud800", "../x", "default", "local"]
    )
    | st.text(max_size=5)
)
VALUES = st.recursive(
    ODD,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(FIELDS) | st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=5,
)
PAYLOADS = st.dictionaries(st.sampled_from(FIELDS), VALUES, max_size=6)
SPLITTER = {"chunk_size": 64, "chunk_overlap": 8, "sentence_aware": True}
# What this version writes, where that is more than {}; everything in it names nothing that exists.
WRITTEN = {
    "documents.ingest_batch": {
        "paths": ["/nowhere"],
        "collection": "c",
        "namespace": "default",
        "splitter": SPLITTER,
        "prune": True,
        "graph": False,
    },
    "documents.ingest_file": {
        "path": "/nowhere",
        "source": "/nowhere",
        "collection": "c",
        "splitter": SPLITTER,
        "graph": True,
    },
    "documents.embed_document": {"document_id": 7},
    "memory.embed_messages": {"block": 7},
    "memory.summarize": {"conversation_id": 7, "limit": 9},
    "memory.embed_summary": {"summary_id": 7},
    "memory.extract_graph": {"messages": [7, 8], "replacing": "local"},
    "graph.backfill": {"limit": 5, "replace_local": False},
    "graph.refresh": {"namespace": "default"},
    "graph.evict": {"namespace": "default"},
    "graph.embed_entities": {"block": 7},
    "memory.detect_correction": {"message_id": 7},
    "memory.embed_correction": {"correction_id": 7},
    "vectors.reembed": {"name": "zeph_documents"},
}


@st.composite
def altered(draw: Any, written: dict[str, Any]) -> dict[str, Any]:
    """What this version writes with something missing, changed or added, as other versions have it."""
    kept = {name: value for name, value in written.items() if draw(st.integers(0, 3))}
    changed = draw(st.dictionaries(st.sampled_from(sorted(written) or FIELDS), VALUES, max_size=2))
    return kept | changed | draw(st.just({}) | st.just({"added_by_a_later_version": 1}))


GARBAGE = ["", "null", "[]", '"text"', "7", "{", "\x00", "[" * 10_000, '{"block": NaN}', "{'block': 1}"]


@pytest.fixture
def lone(build):
    """Services of which nothing is far away: no parser child, a model that has nothing to say."""
    made = build()
    made.parser = PlainParser()
    made.language_model = made.extraction_model = ScriptedModel()
    return made


def ended(container: Any, text: str, kind: Any) -> Any:
    """The job after one run with this payload; what it enqueued is left alone."""
    (job_id,) = enqueue(container, NewJob(kind))
    with container.sqlite.write() as connection:
        connection.exec_driver_sql("UPDATE jobs SET payload = ? WHERE id = ?", (text, job_id))
    Runner(container).run(claim(container, job_id))
    found = job(container, job_id)
    with container.sqlite.write() as connection:
        connection.exec_driver_sql("DELETE FROM jobs")
    return found


def assert_ended(found: Any) -> None:
    assert found.state in (JobState.DONE, JobState.DEAD, JobState.WAITING), (found.state, found.error_message)
    if found.state is JobState.DEAD:
        assert len(found.error_message) > 20
        assert found.error_type in (
            "UnknownVersion",
            "InputError",
            "NotFound",
            "SettingsError",
            "ModelRejected",
        )


@pytest.mark.parametrize("name", KINDS)
def test_a_job_with_any_payload_ends_with_a_reason_and_is_not_tried_again_b12(lone, name):
    @fuzz(commit=15, nightly=1_000)
    @given(PAYLOADS | altered(WRITTEN.get(name, {})))
    def check(payload: Any) -> None:
        assert_ended(ended(lone, json.dumps(payload), REGISTRY[name].kind))

    check()


@pytest.mark.parametrize("name", KINDS)
def test_a_payload_that_is_no_object_does_not_stop_the_queue_b12(lone, name):
    for text in GARBAGE:
        assert_ended(ended(lone, text, REGISTRY[name].kind))
