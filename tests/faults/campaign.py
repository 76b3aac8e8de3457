"""Workers that are struck down over and over at random points of their work, and how long their jobs wait then."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path

from services.bootstrap import Container
from tests.builders import rows
from tests.faults.harness import SEED
from tests.services.harness import Process, wait_until

# Longer than the longest lease, after which work goes on.
_STILL_SECONDS = 150.0


def strikes(
    count: int,
    *,
    jobs: int,
    done: Callable[[], int],
    start: Callable[[], Process],
    strike: Callable[[Process], object],
    look: Callable[[], object],
) -> Process:
    """Strike so often, at random points on the way from no job to all `jobs`; the worker that works in the end.

    `look` is called right after each strike, and then another worker started if none is left.
    """
    dice = random.Random(SEED)
    worker = start()
    for goal in sorted(dice.sample(range(jobs), count)):
        # While this worker only starts, perhaps.
        if done() >= goal:
            time.sleep(dice.uniform(0, 0.5))
        what = f"job {goal} of {jobs} is done, seed {SEED}"
        wait_until(lambda goal=goal: done() >= goal, what, worker, seconds=_STILL_SECONDS, pause=0.02)
        time.sleep(dice.uniform(0, 0.05))
        strike(worker)
        look()
        if not worker.alive():
            worker = start()
    return worker


def kill_a_child(worker: Process) -> None:
    """`kill -9` for one of the worker's children, if it has any yet; the worker must live on."""
    children = Path(f"/proc/{worker.pid}/task/{worker.pid}/children").read_text().split()
    if children:
        os.kill(int(random.choice(children)), signal.SIGKILL)
    assert worker.alive(), worker.output


def ask_to_stop(worker: Process) -> None:
    """SIGTERM; the worker must go by itself within 30 seconds."""
    worker.signal(signal.SIGTERM)
    # Before it listens, the signal itself ends it.
    assert worker.wait(30) in (0, -signal.SIGTERM), worker.output


class Watch:
    """The jobs that ran when a worker was struck down, and how long it took until they ran again."""

    def __init__(self, container: Container) -> None:
        self._container = container
        self._struck: dict[int, tuple[int, int]] = {}
        self.seconds: list[float] = []

    def look(self) -> None:
        """Call when a worker was struck down and no other one has come yet; and in the end."""
        now = self._container.clock.now()
        found = rows(self._container, "SELECT id, attempts, started_at, state FROM jobs WHERE attempts > 0")
        for job_id, attempts, started_at, state in found:
            before, at = self._struck.get(job_id, (attempts, 0))
            if attempts > before:
                self.seconds.append((started_at - at) / 1_000_000)
                del self._struck[job_id]
            if state == "running":
                self._struck[job_id] = (attempts, now)


def quantile(values: list[float], share: float) -> float:
    """The value that this share of them does not exceed."""
    return sorted(values)[min(len(values) - 1, int(share * len(values)))] if values else 0.0
