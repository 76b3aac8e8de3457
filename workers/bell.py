"""Ringing for Celery workers. A ring that fails is no loss: the next sweep rings again.

Nor is one that is left out: whoever hears one of the bells that wait already runs whatever is due.
"""

from __future__ import annotations

import logging
import threading
import time
from functools import cached_property
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from kombu.exceptions import KombuError, OperationalError

from services import errors

if TYPE_CHECKING:
    from celery import Celery

    from services.ports import Publisher

log = logging.getLogger(__name__)

SWEEP_TASK = "jobs.sweep"
# After a failed publish, callers are spared the broker's timeouts for this long.
_PAUSE_SECONDS = 5.0
# How long a look at the length of a queue counts.
_LOOK_SECONDS = 1.0
# More bells than this do not wait for their turn to be rung: the ones that do are enough.
_MOST_WAITING = 1_000
_LAST_SECONDS = 2.0


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


class BackgroundPublisher:
    """Rings from a thread of its own, so that who stores something does not wait for the broker. Never raises."""

    def __init__(self, publisher: Publisher) -> None:
        self._publisher = publisher
        self._lock = threading.Lock()
        self._bells: SimpleQueue[tuple[str, str, int] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def publish(self, queue: str, task: str, job_id: int) -> None:
        """Have the job's id in its queue soon, or enough others."""
        if self._bells.qsize() < _MOST_WAITING:
            self._bells.put((queue, task, job_id))
        with self._lock:
            # A child has no threads of its parent.
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._ring, name="zeph-bell", daemon=True)
                self._thread.start()

    def close(self) -> None:
        """Ring what waits, for two seconds at most. What comes later is rung as well."""
        with self._lock:
            thread, self._thread = self._thread, None
        if thread is not None and thread.is_alive():
            self._bells.put(None)
            thread.join(_LAST_SECONDS)

    def _ring(self) -> None:
        while (bell := self._bells.get()) is not None:
            try:
                self._publisher.publish(*bell)
            except errors.TransientError as error:
                # The job is accepted: the next sweep rings again.
                log.warning("bell_failed queue=%s reason=%s", bell[0], error)
