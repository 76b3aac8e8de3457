"""F3: a process that is killed at any statement, vector, model or broker call changes nothing in the end.

The job runs in a forked process that kills itself with SIGKILL at one point. Another process then takes the job back and
finishes everything, and the store must be the one of an undisturbed run, and healthy.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import workers.tasks  # noqa: F401 - declares the kinds
from services.bootstrap import Container
from services.jobs.models import NewJob
from tests.builders import assert_healthy, enqueue, rows, work
from tests.faults.harness import SEED, History, Tripwire, difference, in_child, sample, state
from tests.faults.scenarios import OPERATIONS, SCENARIOS, Operation, Scenario, open_store, run_first
from workers.job import REGISTRY

pytestmark = [pytest.mark.faults, pytest.mark.timeout(1_800)]

POINTS = 4


class Lab:
    """Copies of one prepared store, on which an action is cut off at a point and then made good."""

    def __init__(self, folder: Path, scenario: Scenario | Operation) -> None:
        self._folder = folder
        self._settings = dict(scenario.settings)
        self._again = [NewJob(kind) for kind in scenario.again]
        self.base = folder / "base"

    def fresh(self) -> Path:
        """A copy of the prepared store."""
        copy = self._folder / "copy"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(self.base, copy)
        return copy

    def cut_off(self, folder: Path, action: Callable[[Container], object], point: int) -> tuple[bool, int]:
        """Run the action in a process that dies at `point` (0: never); whether it died, and the points it passed."""
        counted = self._folder / "count"
        counted.write_text("0")

        def task() -> None:
            wire = Tripwire(point)
            with open_store(folder, tripwire=wire, **self._settings) as container:
                container.database  # noqa: B018 - opened before anything counts
                with wire.armed():
                    action(container)
            counted.write_text(str(wire.count))

        code = in_child(task)
        assert code in (None, 0)
        return code is None, int(counted.read_text())

    def recovered(self, folder: Path) -> dict[str, list[str]]:
        """What is stored when another process has finished everything, an hour later."""
        with open_store(folder, hours=1, **self._settings) as container:
            container.ledger.sweep()
            work(container)
            enqueue(container, *self._again)
            work(container)
            assert rows(container, "SELECT id, state FROM jobs WHERE state NOT IN ('done', 'dead')") == []
            assert_healthy(container)
            return state(container)


@pytest.fixture
def lab(tmp_path: Path, migrated: Path) -> Callable[[Scenario], Lab]:
    def make(scenario: Scenario | Operation) -> Lab:
        made = Lab(tmp_path, scenario)
        made.base.mkdir()
        shutil.copy(migrated, made.base / "zeph.db")
        before = {key: value for key, value in scenario.settings.items() if key != "embedding.dimensions"}
        with open_store(made.base, **before) as container:
            scenario.prepare(container, tmp_path)
        return made

    return make


def test_every_kind_of_job_has_a_scenario():
    known = {scenario.kind.name for scenario in SCENARIOS}
    assert {name for name in REGISTRY if not name.startswith("test.")} - known == set()


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.kind.name)
def test_a_crash_at_any_point_of_a_job_changes_nothing_in_the_end(scenario, lab):
    made = lab(scenario)

    def action(container: Container) -> None:
        run_first(container, scenario.kind)

    undisturbed = made.fresh()
    died, points = made.cut_off(undisturbed, action, 0)
    assert not died
    expected = made.recovered(undisturbed)
    assert points > 5
    for point in sample(range(1, points + 1), commit=POINTS):
        folder = made.fresh()
        died, _ = made.cut_off(folder, action, point)
        assert died
        found = made.recovered(folder)
        assert found == expected, f"point {point} of {points}, seed {SEED}:\n{difference(expected, found)}"


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
def test_a_caller_that_is_killed_has_done_all_of_it_or_nothing(operation, lab, tmp_path):
    made = lab(operation)

    def action(container: Container) -> None:
        history = History(tmp_path / "history")
        with history.operation(operation.name) as acknowledge:
            acknowledge(operation.act(container, tmp_path))

    untouched = made.recovered(made.fresh())
    undisturbed = made.fresh()
    _, points = made.cut_off(undisturbed, action, 0)
    done = made.recovered(undisturbed)
    assert done != untouched
    for point in sample(range(1, points + 1), commit=POINTS):
        folder = made.fresh()
        (tmp_path / "history").write_text("")
        made.cut_off(folder, action, point)
        found = made.recovered(folder)
        acknowledged = History(tmp_path / "history").acknowledged(operation.name)
        assert found == done or (found == untouched and not acknowledged), (
            f"point {point} of {points}, seed {SEED}:\n{difference(done, found)}"
        )
