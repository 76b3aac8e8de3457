"""Copies of one prepared store, on which things go wrong, and what is measured of any store."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from services.bootstrap import Container
from services.doctor.models import Check
from services.doctor.service import Doctor
from services.jobs.models import NewJob
from tests.builders import assert_healthy, enqueue, rows, work
from tests.faults.harness import Tripwire, in_child, state
from tests.faults.scenarios import Operation, Scenario, open_store
from tests.services.harness import wait_until


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
            with self.open(folder, tripwire=wire) as container:
                container.database  # noqa: B018 - opened before anything counts
                with wire.armed():
                    action(container)
            counted.write_text(str(wire.count))

        code = in_child(task)
        assert code in (None, 0)
        return code is None, int(counted.read_text())

    def open(self, folder: Path, **options: Any) -> Container:
        """Services on a copy, with the scenario's settings; options are those of open_store."""
        return open_store(folder, **options, **self._settings)

    def recovered(self, folder: Path) -> dict[str, list[str]]:
        """What is stored when another process has finished everything, an hour later."""
        with self.open(folder, hours=1) as container:
            container.ledger.sweep()
            work(container)
            enqueue(container, *self._again)
            work(container)
            assert rows(container, "SELECT id, state FROM jobs WHERE state NOT IN ('done', 'dead')") == []
            report = Doctor(_checks(container), container.clock).examine()
            assert report.healthy, report
            return state(container)


def _checks(container: Container) -> list[Check]:
    """All but that of the schema, which takes longest and which no job can change."""
    return [check for check in container.doctor.checks if check.name != "schema"]


def settle(container: Container) -> float:
    """Wait until all work has ended and every row has its vectors; the seconds that took."""
    began = time.monotonic()
    live = "SELECT 1 FROM jobs WHERE state NOT IN ('done', 'dead') LIMIT 1"
    wait_until(lambda: not rows(container, live), "all work has ended", seconds=300, pause=0.25)
    assert_healthy(container)
    return time.monotonic() - began
