"""Workers that are struck down over and over at random points of their work, and how long their jobs wait then."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import random
import signal
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from services.bootstrap import Container
from tests.builders import rows
from tests.faults.harness import SEED
from tests.services.harness import ALL_QUEUES, Process, Stack, wait_until

# Longer than the longest lease, after which work goes on.
_STILL_SECONDS = 150.0

_SERVER = multiprocessing.get_context("forkserver")
_SERVER.set_forkserver_preload(
    [
        "numpy",
        "services.adapters.database",
        "services.corrections.detector",
        "services.graph.extraction",
        "services.graph.llm_extraction",
        "tests.faults.bare_app",
    ]
)


class ForkedWorker(Process):
    """A Celery worker that is forked from a process which has imported everything, so that two hundred cost no hour."""

    def __init__(self, stack: Stack, app: str, queues: Sequence[str] = ALL_QUEUES) -> None:
        name = f"w{len(stack.processes)}"
        self._out, self._err = stack.folder / f"{name}.out", stack.folder / f"{name}.err"
        self._out.touch()
        self._err.touch()
        arguments = ["-A", app, "worker", "-Q", ",".join(queues), "-c", "2", "-l", "INFO", "--without-mingle"]
        command = ["celery", *arguments, "-n", f"{name}@test"]
        self._forked = _SERVER.Process(target=_become, args=(command, stack.env, self._out, self._err))
        self._forked.start()
        stack.processes.append(self)

    @property
    def pid(self) -> int:
        return int(self._forked.pid or 0)

    def alive(self) -> bool:
        return self._forked.is_alive()

    def signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def wait(self, seconds: float) -> int:
        self._forked.join(seconds)
        if self._forked.exitcode is None:
            raise TimeoutError(f"process {self.pid} runs after {seconds:g} s\n{self.output}")
        return self._forked.exitcode

    def kill(self) -> None:
        # The process alone, too: it may not have made its group yet.
        for send in (os.killpg, os.kill):
            with contextlib.suppress(ProcessLookupError):
                send(self.pid, signal.SIGKILL)
        self.wait(10)


def _become(command: list[str], env: dict[str, str], out: Path, err: Path) -> None:
    os.setsid()
    os.environ.clear()
    os.environ.update(env)
    os.chdir(out.parent)
    for number, path in ((1, out), (2, err)):
        os.dup2(os.open(path, os.O_WRONLY | os.O_APPEND), number)
    sys.argv = command
    from celery.__main__ import main

    main()


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
        wait_until(lambda goal=goal: done() >= goal, what, worker, seconds=_STILL_SECONDS, pause=0.05)
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
        known = ", ".join(map(str, self._struck)) or "0"
        found = rows(
            self._container,
            f"SELECT id, attempts, started_at, state FROM jobs WHERE state = 'running' OR id IN ({known})",
        )
        for job_id, attempts, started_at, state in found:
            before, at = self._struck.get(job_id, (attempts, 0))
            if attempts > before:
                self.seconds.append((started_at - at) / 1_000_000)
                del self._struck[job_id]
            if state == "running":
                self._struck[job_id] = (attempts, now)
