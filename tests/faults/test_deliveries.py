"""F19 and F22: hints that come many times, in any order, and workers that come back when their job is long another's."""

from __future__ import annotations

import os
import random
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from services.bootstrap import Container
from services.jobs.models import JobKind, JobState, NewJob
from tests.builders import assert_healthy, enqueue, in_processes, job, rows, work
from tests.faults.harness import SEED, History, Tripwire, amount, difference, sample, state
from tests.faults.lab import Lab
from tests.faults.limits_app import AWAITED, AWAITING, LIMITS_APP
from tests.faults.scenarios import SCENARIOS, open_store, run_first
from tests.faults.workload import accept, violations
from tests.services.harness import Stack, wait_until
from workers.job import Runner

pytestmark = [pytest.mark.faults, pytest.mark.timeout(1_800)]

PROCESSES = 3
# Summaries are numbered as they are written, so that order would show.
SETTINGS = {"memory.summarization_threshold": 100_000}


def test_hints_that_come_twice_or_ten_times_and_shuffled_change_nothing_f19(tmp_path, migrated):
    once, often = tmp_path / "once", tmp_path / "often"
    history = History(tmp_path / "history")
    once.mkdir()
    shutil.copy(migrated, once / "zeph.db")
    with open_store(once, **SETTINGS) as container:
        accept(container, history, amount(commit=150, nightly=5_300), SEED)
    shutil.copytree(once, often)
    with open_store(once, **SETTINGS) as container:
        work(container)
        expected = state(container)

    with open_store(often, **SETTINGS) as container:
        ids = [job_id for (job_id,) in rows(container, "SELECT id FROM jobs")]
    dice = random.Random(SEED)
    hints = [job_id for job_id in ids for _ in range(10 if dice.random() < 0.1 else 2)]

    def deliver(number: int) -> None:
        """Every process hears every hint, in an order of its own."""
        mine = random.Random(SEED + number).sample(hints, len(hints))
        with open_store(often, real_entropy=True, **SETTINGS) as container:
            for job_id in mine:
                _hear(container, job_id)

    in_processes(PROCESSES, deliver, seconds=1_500)
    with open_store(often, **SETTINGS) as container:
        # Jobs that these have made.
        work(container)
        assert violations(container, history) == [], SEED
        assert_healthy(container)
        assert difference(expected, state(container)) == "", SEED
        for job_id in ids[:50]:
            assert container.ledger.claim(job_id) is None
    assert len(ids) >= amount(commit=100, nightly=5_000)
    print(
        f"F19: {len(ids)} jobs, each of {PROCESSES} processes heard {len(hints)} hints, seed {SEED}: one state"
    )


def _hear(container: Container, job_id: int) -> None:
    run = container.ledger.claim(job_id)
    if run is not None:
        Runner(container).run(run)


@pytest.mark.parametrize("scenario", sample(SCENARIOS, commit=6), ids=lambda scenario: scenario.kind.name)
def test_a_worker_that_was_stopped_and_comes_back_late_changes_nothing_f22(scenario, lab):
    made = lab(scenario)
    undisturbed = made.fresh()
    points = _outside(made, undisturbed, scenario.kind, 0)
    expected = _without_replies(made.recovered(undisturbed))
    for point in sample(range(1, points + 1), commit=1):
        folder = made.fresh()
        zombie = _stopped(made, folder, scenario.kind, point)
        assert _without_replies(made.recovered(folder)) == expected
        os.kill(zombie, signal.SIGCONT)
        assert os.waitpid(zombie, 0)[1] == 0
        again = _without_replies(made.recovered(folder))
        assert again == expected, f"point {point}, seed {SEED}:\n{difference(expected, again)}"


def test_workers_that_stood_still_past_their_leases_are_refused_f22(start: Callable[..., Stack]):
    count, past = amount(commit=4, nightly=50), amount(commit=2.0, nightly=60.0)
    lease = amount(commit=5.0, nightly=30.0)
    stack = start(jobs__lease_secs=lease, jobs__heartbeat_secs=lease / 5)
    container, log, go = stack.container, stack.folder / "log", stack.folder / "go"
    container.sessions().create_acp_session(AWAITED)
    payload = {"log": str(log), "go": str(go)}
    late = stack.worker(["maintenance"], app=LIMITS_APP, concurrency=count, wait=False)
    ids = enqueue(container, *(NewJob(AWAITING, payload) for _ in range(count)))
    wait_until(
        lambda: log.exists() and len(log.read_text().split()) == count, "all have begun", late, seconds=300
    )
    stopped_pids = set(log.read_text().split())

    # While nobody else writes: who stands still in the middle of that holds up all others until it goes on or ends.
    with container.sqlite.write():
        os.killpg(late.pid, signal.SIGSTOP)
        stopped = time.monotonic()
        time.sleep(0.5)
    go.touch()
    heir = stack.worker(["maintenance"], app=LIMITS_APP)
    wait_until(
        lambda: {job(container, job_id).state for job_id in ids} == {JobState.DONE},
        "others have done it", heir, seconds=lease + 300,
    )  # fmt: skip
    time.sleep(max(0.0, stopped + lease + past - time.monotonic()))
    before = state(container)
    os.killpg(late.pid, signal.SIGCONT)
    wait_until(lambda: late.output.count("lease_lost") == count, "all were refused", late, seconds=300)

    assert difference(before, state(container)) == ""
    ended = [event.payload.split() for event in container.sessions().load_acp_events(AWAITED)]
    assert sorted(int(job_id) for job_id, _ in ended) == sorted(ids)
    assert not {pid for _, pid in ended} & stopped_pids
    found = [job(container, job_id) for job_id in ids]
    assert {(each.state, each.attempts, each.lost_leases) for each in found} == {(JobState.DONE, 2, 1)}
    assert late.alive()
    print(
        f"F22: {count} stopped for {past:g} s past a lease of {lease:g} s: refused, the heirs' results stand"
    )


def _without_replies(found: dict[str, list[str]]) -> dict[str, list[str]]:
    """What a late worker paid for and nobody needs any more stays until it is purged."""
    return found | {"model_replies": []}


def _outside(made: Lab, folder: Path, kind: JobKind, point: int, send: int = signal.SIGKILL) -> int:
    """Run the first job of a kind, counting the calls of vector store, models and broker alone; how many."""
    wire = Tripwire(point, send=send)
    with made.open(folder, tripwire=wire, real_entropy=True) as container:
        run_first(container, kind)
    return wire.count


def _stopped(made: Lab, folder: Path, kind: JobKind, point: int) -> int:
    """A process that stands still in the middle of its job."""
    pid = os.fork()
    if pid == 0:
        _leave(lambda: _outside(made, folder, kind, point, signal.SIGSTOP))
    _, status = os.waitpid(pid, os.WUNTRACED)
    assert os.WIFSTOPPED(status), status
    return pid


def _leave(task: Callable[[], object]) -> None:
    code = 1
    try:
        task()
        code = 0
    finally:
        os._exit(code)
