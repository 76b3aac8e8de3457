"""The Celery application: `celery -A workers.app worker -Q ingestion,embedding,...` and `celery -A workers.app beat`.

A message carries a job id and nothing else. It is a bell: whoever hears it runs that job and then whatever else is
due in the queue, for a short while. Lost, doubled and reordered messages change nothing but the moment of work.
"""

from __future__ import annotations

import atexit
import os
import threading
from typing import Any

from celery import Celery, signals
from kombu.entity import Queue as KombuQueue

import workers.tasks  # noqa: F401 - declares the handlers
from services import errors
from services.bootstrap import Container
from services.jobs.models import Queue
from services.settings import Settings, load_settings
from workers.bell import SWEEP_TASK, CeleryPublisher
from workers.job import REGISTRY, JobSpec, Runner
from workers.schedule import beat_schedule

_VISIBILITY_SECONDS = 1_800


class _Process:
    """What one worker process holds: made after the fork, because no connection may cross it."""

    def __init__(self, app: Celery, settings: Settings) -> None:
        self.container = Container(settings, publisher=CeleryPublisher(app))
        self.runner = Runner(self.container)
        atexit.register(self.container.close)


def create_app(settings: Settings) -> Celery:
    """Celery with safe settings, and a task for every declared job. Raises SettingsError without a broker."""
    broker = settings.jobs.broker_url.get_secret_value()
    if not broker:
        raise errors.SettingsError(
            "jobs.broker_url is empty: set it (ZEPH_JOBS__BROKER_URL=redis://localhost:6379/0) to run Celery "
            "workers, or use `zeph worker`, which needs no broker"
        )
    app = Celery("zeph", broker=broker, set_as_current=False)
    app.conf.update(_configuration(settings))
    process = _lazily(lambda: _Process(app, settings))
    for spec in REGISTRY.values():
        _declare(app, spec, process, settings)

    @app.task(name=SWEEP_TASK, ignore_result=True, acks_late=True)
    def sweep() -> None:
        container = process().container
        container.scheduler.tick()
        container.ledger.sweep()

    _keep_sweeping(app, settings)
    return app


def _declare(app: Celery, spec: JobSpec, process: Any, settings: Settings) -> None:
    @app.task(
        name=spec.kind.name,
        ignore_result=True,
        acks_late=True,
        reject_on_worker_lost=True,
        soft_time_limit=spec.soft_limit_seconds,
        time_limit=spec.hard_limit_seconds,
    )
    def run(job_id: int) -> None:
        here = process()
        queue = str(spec.kind.queue)
        if here.runner.drain([queue], seconds=settings.jobs.slice_secs, first=job_id):
            # Time is up but work is left: ring once more, so that other messages get their turn.
            here.container.ledger.ring(queue, limit=1)


def _configuration(settings: Settings) -> dict[str, Any]:
    return {
        "task_serializer": "json",
        "accept_content": ["json"],
        "result_accept_content": ["json"],
        "task_ignore_result": True,
        "task_acks_late": True,
        "task_reject_on_worker_lost": True,
        "task_default_queue": Queue.MAINTENANCE.value,
        "task_queues": [KombuQueue(queue.value) for queue in Queue],
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
        "broker_transport_options": {
            "visibility_timeout": _VISIBILITY_SECONDS,
            "unacked_restore_interval": 10,
            "unacked_restore_throttle": 1,
            "socket_keepalive": True,
            "socket_timeout": 30,
            "socket_connect_timeout": 3,
            "health_check_interval": 10,
        },
        "timezone": "UTC",
        "enable_utc": True,
        "beat_schedule": beat_schedule(settings),
    }


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

    def ask(stop: threading.Event) -> None:
        pause = settings.jobs.sweep_interval_secs
        publisher = CeleryPublisher(app)
        while not stop.wait(pause):
            publisher.request_sweep(expires_seconds=pause)

    @signals.worker_ready.connect(weak=False)
    def start(**_: object) -> None:
        stop = threading.Event()
        threading.Thread(target=ask, args=(stop,), name="zeph-sweep-request", daemon=True).start()
        signals.worker_shutting_down.connect(lambda **_: stop.set(), weak=False)


def __getattr__(name: str) -> Celery:
    """`workers.app.app`, made when Celery asks for it, so that importing this module reads no settings."""
    if name != "app":
        raise AttributeError(name)
    try:
        return globals().setdefault("app", create_app(load_settings()))
    except errors.SettingsError as error:
        raise SystemExit(f"error: {error}") from error
