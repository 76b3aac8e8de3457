"""Celery's Redis transport, made proof against what is no message.

On its own kombu ends the worker over an entry of a queue that it cannot read, and the next worker over the next one.
"""

from __future__ import annotations

import logging
from typing import Any

from kombu.transport import redis

log = logging.getLogger(__name__)

# What reading an entry raises: no JSON, nested too deeply, not an object, or an object that lacks what messages have.
_UNREADABLE = (AttributeError, LookupError, RecursionError, TypeError, ValueError)


class _Channel(redis.Channel):
    def _brpop_read(self, **options: Any) -> bool:
        try:
            return bool(super()._brpop_read(**options))  # type: ignore[no-untyped-call]
        except _UNREADABLE as error:
            # It is off its queue already, and no job depends on it: the ledger rings again for what is due.
            log.error("message_unreadable reason=%s", type(error).__name__)  # noqa: TRY400 - a trace would quote it
            return True


class RedisTransport(redis.Transport):
    """Drops what cannot be read, and goes on."""

    Channel = _Channel


def transport_for(broker_url: str) -> str | None:
    """The transport to use for this broker; None is Celery's own choice."""
    if broker_url.startswith(("redis://", "rediss://")):
        return f"{__name__}:{RedisTransport.__name__}"
    return None
