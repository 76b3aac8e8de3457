"""What Celery workers tell monitors, made proof against a broker that swallows everything."""

from __future__ import annotations

from typing import Any

from celery.app.events import Events
from celery.events.dispatcher import EventDispatcher


class _Dispatcher(EventDispatcher):  # type: ignore[misc]
    """Tells nobody rather than wait for the broker.

    On its own the heartbeat of a worker retries for ever, and the worker does nothing else meanwhile: it neither notes that
    its connection is lost nor ends when it is asked to.
    """

    def send(self, type: str, blind: bool = False, retry: bool = False, **options: Any) -> None:  # noqa: A002, ARG002 - as Celery calls it
        super().send(type, blind=blind, retry=False, **options)


class WorkerEvents(Events):  # type: ignore[misc]
    """The events of our Celery application."""

    dispatcher_cls = f"{__name__}:{_Dispatcher.__name__}"
