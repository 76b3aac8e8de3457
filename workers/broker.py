"""Celery's Redis transport, made proof against what is no message and against a connection that is gone.

On its own kombu ends the worker over an entry of a queue that it cannot read, and over messages that it holds when Redis
goes away: it closes their channel twice, and acknowledges them where there is no connection any more.
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
            connection = self.client.connection
            if connection is None or not connection.is_connected:
                raise ConnectionError(f"Redis is away ({type(error).__name__})") from error
            # It is off its queue already, and no job depends on it: the ledger rings again for what is due.
            log.error("message_unreadable reason=%s", type(error).__name__)  # noqa: TRY400 - a trace would quote it
            return True

    def close(self) -> None:
        try:
            super().close()  # type: ignore[no-untyped-call]
        except self.connection_errors:
            # Redis gives back what is not acknowledged, and drops the queues of those who left, when their time is up.
            self.do_restore = False
            self.auto_delete_queues.clear()
            super().close()  # type: ignore[no-untyped-call]
        finally:
            # Giving messages back has opened another one.
            self._disconnect_pools()  # type: ignore[no-untyped-call]

    def basic_ack(self, *arguments: Any, **options: Any) -> None:
        if not self.closed:
            super().basic_ack(*arguments, **options)  # type: ignore[no-untyped-call]

    def basic_reject(self, *arguments: Any, **options: Any) -> None:
        if not self.closed:
            super().basic_reject(*arguments, **options)  # type: ignore[no-untyped-call]


class RedisTransport(redis.Transport):
    """Drops what cannot be read, survives a Redis that is away, and goes on."""

    Channel = _Channel


def transport_for(broker_url: str) -> str | None:
    """The transport to use for this broker; None is Celery's own choice."""
    if broker_url.startswith(("redis://", "rediss://")):
        return f"{__name__}:{RedisTransport.__name__}"
    return None
