"""A Celery application with jobs that misbehave on purpose: `celery -A tests.services.jobs_app worker`.

The same application as workers.app, with more handlers and a schedule of its own. Run as a program it is an embedded
worker with the same handlers, for the queues that it is given.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from services.bootstrap import Container
from services.jobs.run import JobRun
from services.jobs.schedule import Periodic
from services.memory.sessions import AcpEvent
from services.settings import load_settings
from tests.services.harness import COUNTED, LOGGED, NOOP, PATIENT, PERIOD_SECONDS, POISON, SCHEDULED
from workers import app as celery_app
from workers.job import job
from workers.local import LocalWorker

if TYPE_CHECKING:
    from celery import Celery


# The session that `effect` writes to.
EFFECTS = "effects"


@job(NOOP)
def noop(_container: Container, _run: JobRun) -> None:
    """Nothing at all."""


@job(LOGGED)
def logged(_container: Container, run: JobRun) -> None:
    """Append the job's id to a file, so that every execution shows."""
    with Path(run.payload["log"]).open("a", encoding="utf-8") as log:
        log.write(f"{run.job.id}\n")


@job(POISON)
def poison(_container: Container, _run: JobRun) -> None:
    """Kill the process that runs it, as the kernel does when memory is short."""
    os.kill(os.getpid(), signal.SIGKILL)


@job(PATIENT)
def patient(_container: Container, run: JobRun) -> None:
    """Work for a while with a checkpoint now and then."""
    end = time.monotonic() + float(run.payload["seconds"])
    while time.monotonic() < end:
        run.checkpoint()
        time.sleep(0.05)


@job(COUNTED)
def counted(container: Container, run: JobRun) -> None:
    """Do what nothing but the ledger keeps from being done twice."""
    with effect(container, run.number("number")) as unit:
        run.finish(unit)


@contextmanager
def effect(container: Container, number: int) -> Iterator[Any]:
    """A moment's work, and then a row that says so; the unit in which it is stored."""
    time.sleep(0.005)
    with container.database.write(durable=False) as unit:
        event = AcpEvent("effect", str(number), container.clock.now())
        unit.sessions.add("default", EFFECTS, [event])
        yield unit


@job(SCHEDULED)
def scheduled(_container: Container, _run: JobRun) -> None:
    """What the schedule of this application asks for."""


class ScheduledContainer(Container):
    """The services, with a period that a test can wait for."""

    @property
    def periodic(self) -> tuple[Periodic, ...]:
        return (Periodic(SCHEDULED, PERIOD_SECONDS),)


def __getattr__(name: str) -> Celery:
    if name != "app":
        raise AttributeError(name)
    celery_app.Container = ScheduledContainer  # type: ignore[misc]
    return globals().setdefault("app", celery_app.create_app(load_settings()))


if __name__ == "__main__":
    with (
        ScheduledContainer(load_settings()) as container,
        LocalWorker(container, queues=sys.argv[1:]) as worker,
    ):
        print("ready", flush=True)
        worker.run_until(lambda: False)
