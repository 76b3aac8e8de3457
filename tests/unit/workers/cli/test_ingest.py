import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from services.adapters import migrations
from tests.builders import rows, work, write_files
from tests.fake_openai import FakeOpenAi, Reply

PROGRAM = Path(sys.executable).with_name("zeph")


@pytest.fixture
def docs(tmp_path):
    return write_files(
        tmp_path / "docs", {"a.md": "# Whales\n\nThey sing.", "sub/b.txt": "The harbour closes."}
    )


def test_a_folder_is_stored_and_the_summary_says_so(zeph, docs, opened):
    result = zeph("ingest", docs)
    assert result.code == 0
    assert result.out.startswith("2 stored; 2 chunks (2 new), 2 vectors in ")
    assert rows(opened, "SELECT count(*) FROM documents") == [(2,)]


def test_a_second_run_finds_everything_unchanged(zeph, docs):
    zeph("ingest", docs)
    result = zeph("ingest", docs)
    assert (result.code, result.out.split(";")[0]) == (0, "2 unchanged")


def test_a_file_that_cannot_be_read_is_named_and_the_others_are_stored(zeph, docs):
    write_files(docs, {"broken.pdf": b"%PDF-1.4 nothing", "old.doc": b"\xd0\xcf"})
    result = zeph("ingest", docs)
    assert result.code == 1
    lines = result.out.splitlines()
    assert [line for line in lines if line.startswith(f"failed: {docs}/broken.pdf: ")]
    assert [line for line in lines if line.startswith(f"skipped: {docs}/old.doc: ")]
    assert lines[-1].startswith("1 failed, 1 skipped, 2 stored; ")


def test_json_names_every_file_with_its_outcome(zeph, docs):
    write_files(docs, {"[red].txt": "brackets"})
    result = zeph("ingest", docs, "--json")
    assert result.code == 0
    facts = result.json
    assert facts["state"] == "done"
    assert facts["outcomes"] == {"stored": 3}
    assert [(Path(file["source"]).name, file["status"]) for file in facts["files"]] == [
        ("[red].txt", "stored"),
        ("a.md", "stored"),
        ("b.txt", "stored"),
    ]


def test_options_reach_the_batch(zeph, docs, opened):
    options = ("--collection", "notes", "--namespace", "alice", "--chunk-size", "40", "--chunk-overlap", "0")
    assert zeph("ingest", docs, *options).code == 0
    assert rows(opened, "SELECT DISTINCT namespace, collection, splitter FROM documents") == [
        ("alice", "notes", "v1/40/0/sentences")
    ]


def test_prune_forgets_what_is_gone(zeph, docs):
    zeph("ingest", docs)
    (docs / "a.md").unlink()
    result = zeph("ingest", docs, "--prune")
    assert (result.code, result.out.split(";")[0]) == (0, "1 removed, 1 unchanged")


def test_an_empty_folder_is_no_error(zeph, tmp_path):
    (tmp_path / "empty").mkdir()
    result = zeph("ingest", tmp_path / "empty")
    assert (result.code, result.out.split(";")[0]) == (0, "no files")


def test_an_ingest_that_stands_still_says_what_it_waits_for_and_goes_on(zeph, docs, monkeypatch):
    monkeypatch.setattr("workers.cli.ingest._STANDSTILL_SECONDS", 0.1)
    monkeypatch.setattr("workers.cli.ingest._POLL_SECONDS", 0.02)
    with FakeOpenAi() as server:
        server.replies.extend(Reply(503, {"error": {"message": "warming up [soon]"}}) for _ in range(6))
        monkeypatch.setenv("ZEPH_EMBEDDING__PROVIDER", "openai")
        monkeypatch.setenv("ZEPH_EMBEDDING__BASE_URL", server.base_url)
        monkeypatch.setenv("ZEPH_EMBEDDING__MODEL", "m")
        monkeypatch.setenv("ZEPH_JOBS__BACKOFF_BASE_SECS", "0.5")
        result = zeph("ingest", docs)
    assert result.code == 0
    (line,) = [line for line in result.err.splitlines() if line.startswith("waiting: ")]
    assert "status 503: warming up [soon] (what is read is found by words; Ctrl-C loses nothing)" in line


def test_an_ingest_that_no_worker_takes_says_what_to_look_at_and_goes_on(zeph, docs, opened, monkeypatch):
    monkeypatch.setenv("ZEPH_JOBS__BROKER_URL", "redis://127.0.0.1:1/0")
    clock = SimpleNamespace(now=0.0)

    def sleep(_: float) -> None:
        # Ten seconds pass from look to look, and a worker comes after five minutes.
        clock.now += 10
        if clock.now == 300:
            work(opened)

    monkeypatch.setattr("workers.cli.ingest.time", SimpleNamespace(sleep=sleep, monotonic=lambda: clock.now))
    result = zeph("ingest", docs)
    assert result.code == 0
    lines = [
        line for line in result.err.splitlines() if line.startswith("waiting: no worker has taken batch 1")
    ]
    assert len(lines) == 4
    assert "zeph worker" in lines[0]


def test_a_detached_batch_waits_for_a_worker_that_then_does_it(zeph, docs):
    result = zeph("ingest", docs, "--detach")
    assert result.out.splitlines() == [
        "accepted as batch 1: follow it with `zeph jobs show 1`",
        "no broker is configured: `zeph worker` does the work",
    ]
    assert zeph("ingest", docs, "--detach", "--json").json == {"batch": 1, "state": "pending"}
    assert zeph("worker", "--until-idle").code == 0
    assert zeph("jobs", "show", "1", "--json").json["state"] == "done"


def interrupted(command, opened, number):
    """Send the signal to a running ingest as soon as three documents are stored; the process when it has ended."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        deadline = time.monotonic() + 30
        while rows(opened, "SELECT count(*) FROM documents")[0][0] < 3 and time.monotonic() < deadline:
            time.sleep(0.02)
        process.send_signal(number)
        _, stderr = process.communicate(timeout=30)
    assert 3 <= rows(opened, "SELECT count(*) FROM documents")[0][0] < 60
    return process.returncode, stderr


@pytest.fixture
def many(tmp_path):
    return write_files(tmp_path / "many", {f"{number}.txt": f"text number {number}" for number in range(60)})


def everything_is_stored_once(opened):
    assert rows(opened, "SELECT count(*), count(DISTINCT source) FROM documents") == [(60, 60)]
    assert rows(opened, "SELECT count(*) FROM chunk_embeddings") == [(60,)]
    assert rows(opened, "SELECT count(*) FROM jobs WHERE state NOT IN ('done')") == [(0,)]
    (physical,) = rows(opened, "SELECT physical FROM embedding_collections")[0]
    assert opened.vectors.count(physical) == 60
    assert migrations.damage(opened.sqlite) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_loses_nothing_and_the_same_command_goes_on(many, opened, number):
    command = [PROGRAM, "ingest", many]
    code, stderr = interrupted(command, opened, number)
    assert code == 130
    assert "interrupted: nothing is lost; run the same command again to go on" in stderr
    assert "Traceback" not in stderr
    assert rows(opened, "SELECT count(*) FROM jobs WHERE state = 'running'") == [(0,)]

    again = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert again.returncode == 0, again.stderr
    assert "resuming batch 1" in again.stderr
    assert again.stdout.startswith("60 unchanged;")
    everything_is_stored_once(opened)


@pytest.mark.slow
def test_a_killed_ingest_is_completed_by_the_same_command(many, opened, monkeypatch):
    monkeypatch.setenv("ZEPH_JOBS__LEASE_SECS", "2")
    monkeypatch.setenv("ZEPH_JOBS__HEARTBEAT_SECS", "0.5")
    monkeypatch.setenv("ZEPH_JOBS__SWEEP_INTERVAL_SECS", "0.5")
    command = [PROGRAM, "ingest", many]
    code, _ = interrupted(command, opened, signal.SIGKILL)
    assert code == -signal.SIGKILL

    again = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert again.returncode == 0, again.stderr
    everything_is_stored_once(opened)
