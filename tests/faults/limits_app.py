"""A Celery application whose jobs have seconds instead of minutes: `celery -A tests.faults.limits_app worker`."""

from __future__ import annotations

import os
import resource
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import services.adapters.database  # noqa: F401 - limits as short as these must not strike in an import
import tests.services.jobs_app  # noqa: F401 - declares the jobs that the services tests know
from services.bootstrap import Container
from services.jobs.models import JobKind, Queue
from services.jobs.run import JobRun
from services.memory.sessions import AcpEvent
from services.settings import load_settings
from workers import app as celery_app
from workers.job import REGISTRY, job

if TYPE_CHECKING:
    from celery import Celery

LIMITS_APP = "tests.faults.limits_app"
LOOPING = JobKind("test.looping", Queue.GRAPH)
DEADLOCKED = JobKind("test.deadlocked", Queue.GRAPH)
DEAF = JobKind("test.deaf", Queue.GRAPH)
GREEDY = JobKind("test.greedy", Queue.GRAPH)
# On a queue with the usual limits.
AWAITING = JobKind("test.awaiting", Queue.MAINTENANCE)
# The session in which `awaiting` leaves what it did.
AWAITED = "awaited"
SOFT_SECONDS, HARD_SECONDS = 5, 8
_MORE_BYTES = 64 * 2**20


@job(LOOPING)
def looping(_container: Container, run: JobRun) -> None:
    """Never end, the first so many times."""
    while _misbehaves(run):
        pass


@job(DEADLOCKED)
def deadlocked(_container: Container, _run: JobRun) -> None:
    """Wait for a lock that this very thread holds."""
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()


@job(DEAF)
def deaf(_container: Container, run: JobRun) -> None:
    """Never end, and take no notice of being asked to, the first so many times."""
    while _misbehaves(run):
        try:
            time.sleep(60)
        except BaseException:
            continue


@job(GREEDY)
def greedy(_container: Container, _run: JobRun) -> None:
    """Take memory until there is none left."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + _MORE_BYTES, hard))
    taken = []
    try:
        while True:
            taken.append(bytearray(2**22))
    finally:
        taken.clear()
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def _misbehaves(run: JobRun) -> bool:
    return run.job.attempts <= int(run.payload.get("times", 100))


@job(AWAITING)
def awaiting(container: Container, run: JobRun) -> None:
    """Say who has begun, wait for a file, and leave a row that tells who ended."""
    with Path(run.payload["log"]).open("a", encoding="utf-8") as log:
        log.write(f"{os.getpid()}\n")
    while not Path(run.payload["go"]).exists():
        time.sleep(0.05)
    with container.database.write(durable=False) as unit:
        event = AcpEvent("ended", f"{run.job.id} {os.getpid()}", container.clock.now())
        unit.sessions.add("default", AWAITED, [event])
        run.finish(unit)


def __getattr__(name: str) -> Celery:
    if name != "app":
        raise AttributeError(name)
    for kind, spec in REGISTRY.items():
        if spec.kind.queue is Queue.GRAPH:
            REGISTRY[kind] = replace(spec, soft_limit_seconds=SOFT_SECONDS, hard_limit_seconds=HARD_SECONDS)
    return globals().setdefault("app", celery_app.create_app(load_settings()))
