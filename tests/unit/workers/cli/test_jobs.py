import pytest

from services import errors
from services.jobs.models import INGEST_BATCH, INGEST_FILE, JobState
from tests.builders import claim, enqueue, finish, job, new_job, rows, write_files


@pytest.fixture
def dead(opened):
    (job_id,) = enqueue(opened, new_job(namespace="alice"))
    opened.ledger.failed(claim(opened, job_id), errors.PermanentError("the model [x] is gone"))
    return job_id


def test_jobs_are_listed_with_the_reason_of_their_end(zeph, dead, opened):
    enqueue(opened, new_job())
    lines = zeph("jobs", "list").out.splitlines()
    assert len(lines) == 3
    assert "the model [x] is gone" in lines[2]
    assert [it["id"] for it in zeph("jobs", "list", "--state", "dead", "--json").json] == [dead]
    assert [it["id"] for it in zeph("jobs", "list", "--namespace", "alice", "--json").json] == [dead]
    assert zeph("jobs", "list", "--kind", "other", "--json").json == []
    assert len(zeph("jobs", "list", "--limit", "1", "--json").json) == 1


def test_a_job_is_shown_without_its_lease_token(zeph, opened):
    (job_id,) = enqueue(opened, new_job(payload={"document_id": 7}))
    run = claim(opened, job_id)
    facts = zeph("jobs", "show", job_id, "--json").json
    assert (facts["state"], facts["payload"]) == ("running", {"document_id": 7})
    assert facts["started_at"].startswith("20")
    assert run.job.lease_token not in zeph("jobs", "show", job_id).out


def test_a_batch_is_shown_with_its_progress(zeph, opened, tmp_path):
    (tmp_path / "a.txt").write_text("text")
    zeph("ingest", tmp_path / "a.txt")
    facts = zeph("jobs", "show", "1", "--json").json
    assert facts["progress"]["outcomes"] == {"stored": 1}


def test_a_dead_job_is_retried(zeph, dead, opened):
    result = zeph("jobs", "retry", dead)
    assert (result.code, result.out) == (0, "1 jobs wait again\n")
    assert job(opened, dead).state is JobState.PENDING
    assert "cannot be retried: it is pending, not dead" in zeph("jobs", "retry", dead).err


def test_all_dead_jobs_of_a_kind_are_retried(zeph, opened):
    ids = enqueue(opened, new_job(), new_job(), new_job(INGEST_FILE))
    for job_id in ids:
        opened.ledger.failed(claim(opened, job_id), errors.PermanentError("no"))
    assert zeph("jobs", "retry", "--all", "--kind", "documents.embed_document").out == "2 jobs wait again\n"
    assert job(opened, ids[2]).state is JobState.DEAD


def test_retrying_everything_makes_a_cancelled_batch_run_and_not_only_wait(zeph, opened):
    (batch,) = enqueue(opened, new_job(INGEST_BATCH))
    (child,) = enqueue(opened, new_job(INGEST_FILE, parent_id=batch))
    assert zeph("jobs", "cancel", batch).code == 0
    assert job(opened, child).state is JobState.DEAD
    assert zeph("jobs", "retry", "--all").code == 0
    assert (job(opened, batch).state, job(opened, child).state) == ("pending", "pending")


def test_a_job_is_cancelled_once(zeph, opened):
    (job_id,) = enqueue(opened, new_job())
    assert zeph("jobs", "cancel", job_id).out == f"job {job_id} is cancelled\n"
    again = zeph("jobs", "cancel", job_id)
    assert (again.code, "it is dead already" in again.err) == (2, True)


def test_purging_needs_no_more_than_an_age(zeph, dead, opened):
    (job_id,) = enqueue(opened, new_job())
    finish(opened, claim(opened, job_id))
    assert zeph("jobs", "purge").out == "0 jobs purged\n"
    assert zeph("jobs", "purge", "--older-than-days", "0").out == "1 jobs purged\n"
    assert job(opened, dead).state is JobState.DEAD
    assert zeph("jobs", "purge", "--older-than-days", "0", "--state", "dead").out == "1 jobs purged\n"


def test_purging_counts_the_files_of_a_batch_and_the_list_is_of_all_namespaces_unless_one_is_named(
    zeph, opened, tmp_path
):
    write_files(tmp_path / "docs", {"a.txt": "a", "b.txt": "b"})
    assert zeph("ingest", tmp_path / "docs", "-n", "other").code == 0
    count = rows(opened, "SELECT count(*) FROM jobs WHERE state = 'done'")[0][0]
    assert len(zeph("jobs", "list", "--json").json) == count
    assert zeph("jobs", "list", "-n", "default", "--json").json == []
    assert zeph("jobs", "purge", "--older-than-days", "0").out == f"{count} jobs purged\n"
