"""A Celery application whose jobs have seconds instead of minutes: `celery -A tests.faults.limits_app worker`."""

from __future__ import annotations

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
SOFT_SECONDS, HARD_SECONDS = 3, 6
_MORE_BYTES = 300 * 2**20


@job(LOOPING)
def looping(_container: Container, _run: JobRun) -> None:
    """Never end."""
    while True:
        pass


@job(DEADLOCKED)
def deadlocked(_container: Container, _run: JobRun) -> None:
    """Wait for a lock that this very thread holds."""
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()


@job(DEAF)
def deaf(_container: Container, _run: JobRun) -> None:
    """Never end, and take no notice of being asked to."""
    while True:
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
            taken.append(bytearray(2**24))
    finally:
        taken.clear()
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def __getattr__(name: str) -> Celery:
    if name != "app":
        raise AttributeError(name)
    for kind, spec in REGISTRY.items():
        REGISTRY[kind] = replace(spec, soft_limit_seconds=SOFT_SECONDS, hard_limit_seconds=HARD_SECONDS)
    return globals().setdefault("app", celery_app.create_app(load_settings()))
