"""Ringing for Celery workers. A ring that fails is no loss: the next sweep rings again."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

from kombu.exceptions import KombuError, OperationalError

from services import errors

if TYPE_CHECKING:
    from celery import Celery

SWEEP_TASK = "jobs.sweep"
# After a failed publish, callers are spared the broker's timeouts for this long.
_PAUSE_SECONDS = 5.0


class CeleryPublisher:
    """Publishes job ids through a Celery app, without retries and without waiting for a broker that is away."""

    def __init__(self, app: Celery) -> None:
        self._app = app
        self._lock = threading.Lock()
        self._closed_until = 0.0

    def publish(self, queue: str, task: str, job_id: int) -> None:
        """Send the job's id to its queue. Raises TransientError when the broker is away."""
        self._send(task, queue=queue, args=(job_id,))

    def request_sweep(self, *, expires_seconds: float) -> None:
        """Ask any maintenance worker to sweep; a request that nobody took in that time is dropped. Never raises."""
        try:
            self._send(SWEEP_TASK, queue="maintenance", expires=expires_seconds)
        except errors.TransientError:
            return

    def _send(self, task: str, **options: Any) -> None:
        with self._lock:
            if time.monotonic() < self._closed_until:
                raise errors.TransientError("the broker did not answer a moment ago")
        try:
            self._app.send_task(task, retry=False, ignore_result=True, **options)
        except (KombuError, OperationalError, OSError) as error:
            with self._lock:
                self._closed_until = time.monotonic() + _PAUSE_SECONDS
            raise errors.TransientError(f"the broker does not answer ({type(error).__name__})") from error
