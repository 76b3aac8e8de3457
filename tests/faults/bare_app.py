"""Celery by itself, doing what the counted jobs of tests.services.jobs_app do: what the fault tests compare with.

`celery -A tests.faults.bare_app:careful worker` has every option on that keeps tasks; `:usual` is as Celery comes.
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Sequence
from functools import cache

from celery import Celery
from redis import Redis

from services.bootstrap import Container
from services.settings import Settings, load_settings
from tests.faults.harness import History
from tests.services.jobs_app import effect

QUEUE = "bare"
TASK = "bare.effect"
# The same as the default lease of a job.
VISIBILITY_SECONDS = 30
CAREFUL = {
    "task_acks_late": True,
    "task_reject_on_worker_lost": True,
    "worker_prefetch_multiplier": 1,
    "broker_transport_options": {"visibility_timeout": VISIBILITY_SECONDS},
}


def history(settings: Settings) -> History:
    """Every execution, with the time at which it began; acknowledged when it ended."""
    return History(settings.data_dir / "history")


def create_app(settings: Settings, **options: object) -> Celery:
    """An application with one task, which keeps no record of having run."""
    app = Celery("bare", broker=settings.jobs.broker_url.get_secret_value(), set_as_current=False)
    app.conf.update(task_default_queue=QUEUE, task_ignore_result=True, **options)

    @cache
    def container() -> Container:
        return Container(settings)

    @app.task(name=TASK)
    def run(number: int) -> None:
        with history(settings).operation(TASK, number=number, at=time.time()) as acknowledge:
            with effect(container(), number):
                pass
            acknowledge(None)

    return app


def held(client: Redis) -> set[int]:
    """The tasks that wait in the queue, or that a worker has taken and not acknowledged."""
    taken = [json.loads(entry)[0] for entry in client.hvals("unacked")]
    waiting = [json.loads(entry) for entry in client.lrange(QUEUE, 0, -1)]
    return {json.loads(base64.b64decode(message["body"]))[0][0] for message in taken + waiting}


def seconds_until_again(executions: History, killed: Sequence[float]) -> list[float | None]:
    """For each execution that was cut off, how long after that kill its task ran again; None if it never did."""
    cut_off = executions.unknown(TASK)
    ended = [arguments for arguments, _ in executions.acknowledged(TASK)]
    begun: dict[int, list[float]] = {}
    for arguments in [*cut_off, *ended]:
        begun.setdefault(arguments["number"], []).append(arguments["at"])
    found: list[float | None] = []
    for arguments in cut_off:
        kill = min((at for at in killed if at >= arguments["at"]), default=arguments["at"])
        later = [at for at in begun[arguments["number"]] if at >= kill]
        found.append(min(later) - kill if later else None)
    return found


def __getattr__(name: str) -> Celery:
    if name not in ("careful", "usual"):
        raise AttributeError(name)
    options = CAREFUL if name == "careful" else {}
    return globals().setdefault(name, create_app(load_settings(), **options))
