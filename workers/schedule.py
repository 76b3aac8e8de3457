"""Celery beat's part: one entry that asks for a sweep. What is due by the clock is decided in the ledger.

Any number of beats may run: each scheduled job is enqueued once per period.
"""

from __future__ import annotations

from typing import Any

from services.jobs.models import Queue
from services.settings import Settings
from workers.bell import SWEEP_TASK


def beat_schedule(settings: Settings) -> dict[str, Any]:
    """The schedule for Celery beat; unanswered requests expire before the next one."""
    pause = settings.jobs.sweep_interval_secs
    options = {"queue": Queue.MAINTENANCE.value, "expires": pause}
    return {"sweep": {"task": SWEEP_TASK, "schedule": pause, "options": options}}
