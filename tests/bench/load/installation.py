"""What every load runs on: a real installation with the product's own settings, and a stand-in for a model."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from services.jobs.models import JobState, Queue
from services.settings import JobSettings
from tests.bench.bench_queue import DIMENSION, embedding_server
from tests.bench.load.measuring import Figure, count
from tests.builders import rows
from tests.services.harness import ALL_QUEUES, QUICK, Process, Stack, wait_until
from workers.local import nothing_left

EMBEDDER_SECONDS = 0.02
_LIVE = "SELECT count(*) FROM jobs WHERE state IN ('pending', 'running')"


def product_settings() -> dict[str, Any]:
    """The defaults of what stacks in tests shorten."""
    defaults = JobSettings()
    names = [key.removeprefix("jobs.") for key in QUICK if key.startswith("jobs.") and key.endswith("_secs")]
    return {f"jobs__{name}": getattr(defaults, name) for name in names}


@contextmanager
def installation(folder: Path, *, model: bool = True, **settings: Any) -> Iterator[Stack]:
    """A stack that embeds through HTTP with a server that takes 20 ms for each call, or by hashing."""
    wanted = product_settings() | settings
    if not model:
        with Stack(folder, **wanted) as stack:
            yield stack
        return
    with embedding_server(EMBEDDER_SECONDS) as url:
        served = {"provider": "openai", "base_url": url, "model": "stand-in", "dimensions": DIMENSION}
        wanted |= {f"embedding__{name}": value for name, value in served.items()}
        with Stack(folder, **wanted) as stack:
            yield stack


def working(stack: Stack, *, concurrency: int = 2, app: str = "workers.app") -> Process:
    """A Celery worker of so many processes and beat, ready, with nothing left to do; the worker."""
    worker = stack.worker(concurrency=concurrency, app=app, wait=False)
    stack.beat(app)
    wait_until(lambda: " ready." in worker.output, "the worker is ready", worker)
    drained(stack, seconds=300)
    return worker


def backlog(stack: Stack) -> int:
    """Jobs that wait or run."""
    return int(rows(stack.container, _LIVE)[0][0])


def hints(stack: Stack) -> int:
    """Messages in the broker: waiting, and taken but not yet answered."""
    with stack.redis.client() as client:
        return sum(client.llen(queue) for queue in ALL_QUEUES) + client.hlen("unacked")


def write_ahead_log(stack: Stack) -> int:
    """Its size in bytes."""
    try:
        return Path(f"{stack.container.sqlite.path}-wal").stat().st_size
    except FileNotFoundError:
        return 0


def drained(stack: Stack, *, seconds: float) -> None:
    """Wait until every job has ended."""
    wait_until(
        lambda: nothing_left(stack.container, tuple(Queue)), "every job has ended", seconds=seconds, pause=0.2
    )


def outcome(stack: Stack) -> list[Figure]:
    """What must hold after any load: no job is dead, and the doctor finds nothing."""
    dead = rows(stack.container, f"SELECT count(*) FROM jobs WHERE state = '{JobState.DEAD}'")[0][0]
    findings = stack.container.doctor.examine().findings
    for finding in findings:
        print(f"    {finding}")
    return [*count("dead jobs", dead), *count("findings of the doctor", len(findings))]
