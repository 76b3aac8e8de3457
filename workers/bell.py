"""Ringing for Celery workers. A ring that fails is no loss: the next sweep rings again.

Nor is one that is left out: whoever hears one of the bells that wait already runs whatever is due.
"""

from __future__ import annotations

import threading
import time
from functools import cached_property
from typing import TYPE_CHECKING, Any

from kombu.exceptions import KombuError, OperationalError

from services import errors

if TYPE_CHECKING:
    from celery import Celery

SWEEP_TASK = "jobs.sweep"
# After a failed publish, callers are spared the broker's timeouts for this long.
_PAUSE_SECONDS = 5.0
# How long a look at the length of a queue counts.
_LOOK_SECONDS = 1.0


class CeleryPublisher:
    """Publishes job ids through a Celery app, without retries and without waiting for a broker that is away.

    A queue in which `window` bells wait, give or take a second's, gets no more: a backlog fills no broker.
    """

    def __init__(self, app: Celery, *, window: int = 64) -> None:
        self._app = app
        self._window = window
        self._lock = threading.Lock()
        self._closed_until = 0.0
        self._room: dict[str, int] = {}
        self._looked: dict[str, float] = {}

    def publish(self, queue: str, task: str, job_id: int) -> None:
        """Have the job's id in its queue, or enough others. Raises TransientError when the broker is away."""
        self._send(task, queue=queue, args=(job_id,))

    def request_sweep(self, *, expires_seconds: float) -> None:
        """Ask any maintenance worker to sweep; a request that nobody took in that time is dropped. Never raises."""
        try:
            self._send(SWEEP_TASK, queue="maintenance", expires=expires_seconds)
        except errors.TransientError:
            return

    def _send(self, task: str, *, queue: str, **options: Any) -> None:
        with self._lock:
            if time.monotonic() < self._closed_until:
                raise errors.TransientError("the broker did not answer a moment ago")
        try:
            with self._app.producer_pool.acquire(block=True) as producer:
                if self._has_room(queue, producer):
                    self._app.send_task(
                        task, queue=queue, producer=producer, retry=False, ignore_result=True, **options
                    )
        except self._away as error:
            with self._lock:
                self._closed_until = time.monotonic() + _PAUSE_SECONDS
            raise errors.TransientError(f"the broker does not answer ({type(error).__name__})") from error

    def _has_room(self, queue: str, producer: Any) -> bool:
        """Whether another bell may wait in this queue; it counts as one."""
        with self._lock:
            stale = time.monotonic() - self._looked.get(queue, 0.0) > _LOOK_SECONDS
        if stale:
            held = self._app.amqp.queues[queue].bind(producer.channel).queue_declare().message_count
            with self._lock:
                self._looked[queue] = time.monotonic()
                self._room[queue] = self._window - held
        with self._lock:
            self._room[queue] -= 1
            return self._room[queue] >= 0

    @cached_property
    def _away(self) -> tuple[type[Exception], ...]:
        connection = self._app.connection_for_write()
        return (
            KombuError,
            OperationalError,
            OSError,
            *connection.connection_errors,
            *connection.channel_errors,
        )
