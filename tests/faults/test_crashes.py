"""F3: a process that is killed at any statement, vector, model or broker call changes nothing in the end.

The job runs in a forked process that kills itself with SIGKILL at one point. Another process then takes the job back and
finishes everything, and the store must be the one of an undisturbed run, and healthy.
"""

from __future__ import annotations

import pytest

import workers.tasks  # noqa: F401 - declares the kinds
from services.bootstrap import Container
from tests.faults.harness import SEED, History, difference, sample
from tests.faults.scenarios import OPERATIONS, SCENARIOS, run_first
from workers.job import REGISTRY

pytestmark = [pytest.mark.faults, pytest.mark.timeout(1_800)]

POINTS = 2


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
    chosen = sample(range(1, points + 1), commit=POINTS)
    for point in chosen:
        folder = made.fresh()
        died, _ = made.cut_off(folder, action, point)
        assert died
        found = made.recovered(folder)
        assert found == expected, f"point {point} of {points}, seed {SEED}:\n{difference(expected, found)}"
    print(f"F3 {scenario.kind.name}: killed at {len(chosen)} of {points} points: one state")


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
