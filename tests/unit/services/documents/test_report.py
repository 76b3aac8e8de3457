import pytest

from services import errors
from services.documents.report import batch_files, batch_progress
from services.jobs.models import Queue
from tests.builders import (
    PlainParser,
    ScriptedEmbedder,
    enqueue,
    ingest,
    new_job,
    outcomes,
    submit,
    work,
    write_files,
)


@pytest.fixture
def container(build):
    made = build()
    made.parser = PlainParser()
    made.embedder = ScriptedEmbedder()
    return made


def progress(container, batch_id, namespace="default"):
    return batch_progress(container.database, batch_id, namespace)


def test_progress_grows_from_walking_to_done(container, tmp_path):
    folder = write_files(tmp_path / "docs", {"a.txt": "a", "b.txt": "b", "c.exe": "c"})
    batch_id = submit(container, folder)
    now = progress(container, batch_id)
    assert (now.walking, now.finished, now.files, now.files_done) == (True, False, 0, 0)

    run = container.ledger.claim(batch_id)
    container.ingestion.run_batch(run)
    now = progress(container, batch_id)
    assert (now.walking, now.finished, now.files, now.files_done) == (False, False, 3, 1)
    assert (now.state, now.open_jobs) == ("waiting", 2)

    work(container, [Queue.INGESTION])
    now = progress(container, batch_id)
    assert (now.finished, now.files_done, now.open_jobs, now.vectors) == (False, 3, 2, 0)
    assert now.chunks_without_vectors == 0, "there is no collection yet"

    work(container)
    now = progress(container, batch_id)
    assert (now.finished, now.outcomes) == (True, {"stored": 2, "skipped": 1})
    assert (now.chunks, now.added, now.vectors, now.failures, now.error) == (2, 2, 2, 0, None)


def test_files_and_vectors_that_were_given_up_are_failures_that_are_named(container, tmp_path):
    folder = write_files(tmp_path / "docs", {"good.txt": "good", "bad.txt": b"\xff"})
    container.embedder.error = errors.ModelRejected("no such model")
    batch = ingest(container, folder)
    assert (batch.finished, batch.outcomes) == (True, {"stored": 1, "failed": 1})
    assert (batch.dead_jobs, batch.failures) == (1, 2)
    reports = list(batch_files(container.database, batch.batch_id))
    messages = {report.message for report in reports if report.status == "failed"}
    assert messages == {f"{folder / 'bad.txt'} is no text", "no such model"}


def test_a_file_whose_job_died_is_reported_under_its_name_with_the_reason(container, tmp_path):
    folder = write_files(tmp_path / "docs", {"a.txt": "a", "b.txt": "b"})
    batch_id = submit(container, folder)
    container.ingestion.run_batch(container.ledger.claim(batch_id))
    with container.database.write() as unit:
        (job, _) = unit.jobs.select(parent_id=batch_id)
        unit.jobs.cancel(job.id, now=container.clock.now())
    work(container)
    batch = progress(container, batch_id)
    assert batch.outcomes == {"stored": 1, "failed": 1}
    assert batch.files == batch.files_done == 2
    assert batch.failures == 1
    assert outcomes(container, batch)["b.txt"].reason == "cancelled"


def test_a_batch_that_was_cancelled_says_so(container, tmp_path):
    batch_id = submit(container, write_files(tmp_path / "docs", {"a.txt": "a"}))
    with container.database.write() as unit:
        unit.jobs.cancel(batch_id, now=container.clock.now())
    assert progress(container, batch_id).error == "cancelled on request"
    assert progress(container, batch_id).finished


def test_a_batch_is_shown_to_its_own_namespace_only(container, tmp_path):
    folder = write_files(tmp_path / "docs", {"a.txt": "a"})
    batch_id = submit(container, folder, namespace="alice")
    assert progress(container, batch_id, "alice").batch_id == batch_id
    with pytest.raises(errors.NotFound, match="is no batch of namespace default"):
        progress(container, batch_id)


def test_a_job_that_is_no_batch_is_not_reported_as_one(container):
    (job_id,) = enqueue(container, new_job())
    for unknown in (job_id, 4711):
        with pytest.raises(errors.NotFound, match=f"{unknown} is no batch"):
            progress(container, unknown)


def test_reports_of_many_files_come_in_pages_without_gap_or_repeat(container, tmp_path, monkeypatch):
    monkeypatch.setattr("services.documents.report._PAGE", 3)
    folder = write_files(tmp_path / "docs", {f"{number}.txt": f"text {number}" for number in range(10)})
    batch = ingest(container, folder)
    assert len(outcomes(container, batch)) == 10
