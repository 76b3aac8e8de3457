"""The Celery application: `celery -A workers.app worker -Q ingestion,embedding,...` and `celery -A workers.app beat`.

A message carries a job id and nothing else. It is a bell: whoever hears it runs that job and then whatever else is
due in the queue, for a short while. Lost, doubled and reordered messages change nothing but the moment of work.
"""

from __future__ import annotations

import atexit
import gc
import os
import select
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from typing import Any

import billiard.pool
from celery import Celery, signals
from celery.exceptions import InvalidTaskError
from celery.worker.strategy import default as default_strategy
from kombu.entity import Exchange
from kombu.entity import Queue as KombuQueue

import workers.tasks  # noqa: F401 - declares the handlers
from services import errors
from services.bootstrap import Container
from services.jobs.models import Queue
from services.settings import Settings, load_settings
from workers.bell import SWEEP_TASK, CeleryPublisher
from workers.broker import transport_for
from workers.job import REGISTRY, JobSpec, Runner, sweep
from workers.priority import give_way, give_way_as_a_session
from workers.schedule import beat_schedule

_VISIBILITY_SECONDS = 1_800
# How often, ten times a second, a child that is to end looks whether its worker has heard of its last message.
_LOOKS_BEFORE_LEAVING = 10


class _Farewell:
    """Tells a worker's child processes that it is shutting down.

    A pipe that is written to once and never read, so that every process sees it. Celery itself tells them nothing: it
    waits for as long as their jobs take, and a supervisor's patience ends before that.
    """

    def __init__(self) -> None:
        self._reader, self._writer = os.pipe()

    def say(self, **_: object) -> None:
        """Called in the worker's main process."""
        os.write(self._writer, b".")

    def await_in_thread(self, then: Callable[[], None]) -> None:
        """Call `then` when it is time to go."""

        def watch() -> None:
            select.select([self._reader], [], [])
            then()

        threading.Thread(target=watch, name="zeph-farewell", daemon=True).start()


class _Process:
    """What one worker process holds: made after the fork, because no connection may cross it."""

    def __init__(self, app: Celery, settings: Settings, farewell: _Farewell) -> None:
        self.container = Container(
            settings, publisher=CeleryPublisher(app, window=settings.jobs.dispatch_window)
        )
        self.runner = Runner(self.container)
        self._pause = settings.jobs.own_sweep_interval_secs
        self._next_sweep = 0.0
        farewell.await_in_thread(self.runner.stop)
        atexit.register(self.container.close)

    def warm_up(self) -> None:
        """Have the database open before the first job comes, which would wait for that ten times as long as it takes."""
        with suppress(errors.MemoryError):
            self.container.ledger.at_rest()

    def sweep_if_due(self) -> None:
        """Sweep between two bells: where everybody is busy, a request to sweep waits behind them until it expires.

        Behind the work, not before it: the first job of a new process would wait longer for that than for all else.
        """
        if time.monotonic() < self._next_sweep:
            return
        sweep(self.container, linger=False)
        self._next_sweep = time.monotonic() + self._pause


def create_app(settings: Settings) -> Celery:
    """Celery with safe settings, and a task for every declared job. Raises SettingsError without a broker."""
    broker = settings.jobs.broker_url.get_secret_value()
    if not broker:
        raise errors.SettingsError(
            "jobs.broker_url is empty: set it (ZEPH_JOBS__BROKER_URL=redis://localhost:6379/0) to run Celery "
            "workers, or use `zeph worker`, which needs no broker"
        )
    app = Celery("zeph", broker=broker, events="workers.events:WorkerEvents", set_as_current=False)
    app.conf.update(_configuration(settings))
    farewell = _Farewell()
    signals.worker_shutting_down.connect(farewell.say, weak=False)
    signals.worker_process_init.connect(_leave_soon, weak=False)
    niceness = settings.jobs.niceness
    signals.worker_init.connect(lambda **_: give_way_as_a_session(niceness), weak=False)
    # Not the worker's main process: it answers the broker, and hands on jobs while others of them compute.
    signals.worker_process_init.connect(lambda **_: give_way(niceness), weak=False)
    signals.worker_before_create_process.connect(lambda **_: _prepare_to_fork(), weak=False)
    process = _lazily(lambda: _Process(app, settings, farewell))
    signals.worker_process_init.connect(lambda **_: process().warm_up(), weak=False)
    for spec in REGISTRY.values():
        _declare(app, spec, process, settings)

    @app.task(name=SWEEP_TASK, shared=False, ignore_result=True, acks_late=True)
    def swept() -> None:
        sweep(process().container)

    _keep_sweeping(app, settings)
    return app


def _declare(app: Celery, spec: JobSpec, process: Any, settings: Settings) -> None:
    # Whoever hears the bell may run any job of the queue, so the limits are those of its longest one.
    served = [other for other in REGISTRY.values() if other.kind.queue == spec.kind.queue]

    @app.task(
        name=spec.kind.name,
        # Of this application alone: another one in the same process declares its own.
        shared=False,
        ignore_result=True,
        acks_late=True,
        reject_on_worker_lost=True,
        soft_time_limit=max(other.soft_limit_seconds for other in served),
        time_limit=max(other.hard_limit_seconds for other in served),
        Strategy=f"{__name__}:{strict_strategy.__name__}",
    )
    def run(job_id: int) -> None:
        here = process()
        queue = str(spec.kind.queue)
        if here.runner.drain([queue], seconds=settings.jobs.slice_secs, first=job_id):
            # Time is up but work is left: ring once more, so that other messages get their turn.
            here.container.ledger.ring(queue, limit=1)
        here.sweep_if_due()


def strict_strategy(task: Any, app: Celery, consumer: Any, **options: Any) -> Callable[..., Any]:
    """Celery's way of accepting a message, but what it cannot make sense of is refused.

    On its own it ends the worker over a body that is `null`, and the message is back for the next one.
    """
    accept = default_strategy(task, app, consumer, **options)

    def handle(*message: Any) -> Any:
        try:
            return accept(*message)
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            raise InvalidTaskError(f"{type(error).__name__}: {error}") from error

    return handle


def _configuration(settings: Settings) -> dict[str, Any]:
    return {
        "broker_transport": transport_for(settings.jobs.broker_url.get_secret_value()),
        "task_serializer": "json",
        "accept_content": ["json"],
        "result_accept_content": ["json"],
        "task_ignore_result": True,
        "task_acks_late": True,
        "task_reject_on_worker_lost": True,
        "task_default_queue": Queue.MAINTENANCE.value,
        "task_queues": [
            KombuQueue(queue.value, Exchange(queue.value), routing_key=queue.value) for queue in Queue
        ],
        "task_create_missing_queues": False,
        "task_routes": {name: {"queue": spec.kind.queue.value} for name, spec in REGISTRY.items()},
        "worker_prefetch_multiplier": 1,
        "worker_max_tasks_per_child": 2_000,
        "worker_max_memory_per_child": 1_500_000,
        "worker_soft_shutdown_timeout": 20,
        "worker_enable_soft_shutdown_on_idle": True,
        "worker_cancel_long_running_tasks_on_connection_loss": False,
        "worker_send_task_events": False,
        "worker_hijack_root_logger": False,
        "broker_connection_retry_on_startup": True,
        "broker_connection_max_retries": None,
        # A Redis that refuses writes (read-only after a failover, no room on its disk) is waited for like one that is away.
        "broker_channel_error_retry": True,
        "broker_transport_options": {
            "visibility_timeout": _VISIBILITY_SECONDS,
            "unacked_restore_interval": 10,
            "unacked_restore_throttle": 1,
            "socket_keepalive": True,
            # A connection that swallows everything must not hold a worker, or whoever rings, for longer.
            "socket_timeout": 5,
            "socket_connect_timeout": 1.5,
            # Without it a publisher tries for seconds, and whoever accepts work waits with it. Workers reconnect anyway.
            "max_retries": 0,
            "health_check_interval": 10,
        },
        "timezone": "UTC",
        "enable_utc": True,
        "beat_schedule": beat_schedule(settings),
    }


@cache
def _prepare_to_fork() -> None:
    """Have what every child needs loaded once, before the first fork, and out of the garbage collector's sight.

    Celery collects garbage before each fork: a tenth of a second in which the worker hears nothing, whenever a child is
    replaced. And a new child took three times that to load what it needs.
    """
    import services.adapters.database  # noqa: F401 - for the children

    gc.freeze()


def _leave_soon(**_: object) -> None:
    """Let a child process end soon after its worker, also where that has stopped listening.

    A worker that is asked to stop forgets what it has just handed to a child and hears no more of it; the child would wait
    for half a minute to be heard, which is longer than supervisors wait. No job depends on it.
    """
    billiard.pool.GUARANTEE_MESSAGE_CONSUMPTION_RETRY_LIMIT = _LOOKS_BEFORE_LEAVING


def _lazily(make: Any) -> Any:
    """A function that makes its value at the first call of each process."""
    held: dict[int, _Process] = {}
    lock = threading.Lock()

    def get() -> _Process:
        with lock:
            if os.getpid() not in held:
                held.clear()
                held[os.getpid()] = make()
            return held[os.getpid()]

    return get


def _keep_sweeping(app: Celery, settings: Settings) -> None:
    """Let every worker ask for sweeps, so that nothing waits for ever where nobody runs beat."""
    stop = threading.Event()
    # Not when it is ready: a signal that comes meanwhile would wait for ever for Celery's lock on its receivers.
    signals.worker_shutting_down.connect(lambda **_: stop.set(), weak=False)

    def ask() -> None:
        pause = settings.jobs.sweep_interval_secs
        publisher = CeleryPublisher(app, window=settings.jobs.dispatch_window)
        # At once, too: workers that are killed all the time may never live as long as the pause.
        publisher.request_sweep(expires_seconds=pause)
        while not stop.wait(pause):
            publisher.request_sweep(expires_seconds=pause)

    @signals.worker_ready.connect(weak=False)
    def start(**_: object) -> None:
        # Of a worker before this one in the same process.
        stop.clear()
        threading.Thread(target=ask, name="zeph-sweep-request", daemon=True).start()


def __getattr__(name: str) -> Celery:
    """`workers.app.app`, made when Celery asks for it, so that importing this module reads no settings."""
    if name != "app":
        raise AttributeError(name)
    try:
        return globals().setdefault("app", create_app(load_settings()))
    except errors.SettingsError as error:
        raise SystemExit(f"error: {error}") from error
