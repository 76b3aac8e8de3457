"""The services in a program that leaves the work to workers: an agent of yours, the command line."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from services.bootstrap import Container
from services.settings import Settings, load_settings


def open_container(overrides: Mapping[str, object] | None = None, *, config: Path | None = None) -> Container:
    """`services.open_container` that rings for Celery workers where a broker is configured. Raises SettingsError.

    No call waits for the broker: the bells ring from a thread of their own, the last ones when the container is closed.
    """
    return connected(load_settings(config, overrides))


def connected(settings: Settings) -> Container:
    """The same for settings that are loaded already."""
    if not settings.jobs.broker_url.get_secret_value():
        return Container(settings)
    # Celery takes a third of a second to import.
    from workers.app import create_app
    from workers.bell import BackgroundPublisher, CeleryPublisher

    bell = CeleryPublisher(create_app(settings), window=settings.jobs.dispatch_window)
    return Container(settings, publisher=BackgroundPublisher(bell))
