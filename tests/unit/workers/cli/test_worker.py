import signal
import subprocess
import sys
from pathlib import Path

import pytest

from services.documents.models import DocumentMetadata
from services.jobs.models import RECONCILE
from tests.builders import enqueue, job, new_job, rows

PROGRAM = Path(sys.executable).with_name("zeph")


@pytest.fixture(autouse=True)
def _signals():
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def test_a_worker_until_idle_does_what_waits_and_ends(zeph, opened):
    opened.ingestion.add_text("text", DocumentMetadata("a.txt", "text/plain"))
    result = zeph("worker", "--until-idle")
    assert result.code == 0
    assert rows(opened, "SELECT count(*) FROM chunk_embeddings") == [(1,)]


def test_a_worker_keeps_to_its_queues(zeph, opened):
    embed, reconcile = enqueue(opened, new_job(payload={"document_id": 1}), new_job(RECONCILE))
    assert zeph("worker", "--until-idle", "--queue", "maintenance").code == 0
    assert (job(opened, embed).state, job(opened, reconcile).state) == ("pending", "done")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_worker_ends_well_when_it_is_asked_to(data_dir, number):
    with subprocess.Popen(
        [PROGRAM, "worker"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert "Ctrl-C stops" in process.stdout.readline()
        process.send_signal(number)
        _, stderr = process.communicate(timeout=20)
    assert (process.returncode, stderr) == (0, "")
