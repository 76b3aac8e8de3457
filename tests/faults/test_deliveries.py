"""F19 and F22: hints that come many times, in any order, and workers that come back when their job is long another's."""

from __future__ import annotations

import os
import random
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from services.bootstrap import Container
from services.jobs.models import JobKind
from tests.builders import assert_healthy, in_processes, rows, work
from tests.faults.harness import SEED, History, Tripwire, amount, difference, sample, state
from tests.faults.lab import Lab
from tests.faults.scenarios import SCENARIOS, open_store, run_first
from tests.faults.workload import accept, violations
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
    print(f"F19: {len(ids)} jobs, each of {PROCESSES} processes heard {len(hints)} hints, seed {SEED}: one state")


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
