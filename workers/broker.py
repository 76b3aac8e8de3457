"""Celery's Redis transport, made proof against what is no message and against a connection that is gone.

On its own kombu ends the worker over an entry that it cannot read, and over messages that it holds when Redis goes away: it
closes their channel twice, and acknowledges them where there is no connection any more. What it failed to acknowledge counts
as held for ever, so that a worker with as many of those as processes is connected and waits for nothing.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from kombu.transport import redis, virtual
from kombu.utils.scheduling import round_robin_cycle

log = logging.getLogger(__name__)

# What reading an entry raises: no JSON, nested too deeply, not an object, or an object that lacks what messages have.
_UNREADABLE = (AttributeError, LookupError, RecursionError, TypeError, ValueError)


class QueuesInTurn(round_robin_cycle):
    """The queues in turn, beginning with any of them: workers that live shortly would never come to the last ones."""

    def update(self, it: Iterable[str]) -> None:
        """Replace the queues."""
        queues = list(it)
        random.shuffle(queues)
        super().update(queues)  # type: ignore[no-untyped-call]


class _Channel(redis.Channel):
    queue_order_strategy = f"{__name__}:{QueuesInTurn.__name__}"

    def _brpop_read(self, **options: Any) -> bool:
        return self._reading(partial(super()._brpop_read, **options), self.client)

    def _receive(self) -> bool:
        return self._reading(super()._receive, self.subclient)

    def _reading(self, read: Callable[[], object], client: Any) -> bool:
        try:
            return bool(read())
        except _UNREADABLE as error:
            connection = client.connection
            if connection is None or not connection.is_connected:
                raise ConnectionError(f"Redis is away ({type(error).__name__})") from error
            # It is off its queue already, and no job depends on it: the ledger rings again for what is due.
            log.error("message_unreadable reason=%s", type(error).__name__)  # noqa: TRY400 - a trace would quote it
            return True

    def basic_ack(self, delivery_tag: str, multiple: bool = False) -> None:
        self._settle(super().basic_ack, delivery_tag, multiple)

    def basic_reject(self, delivery_tag: str, requeue: bool = False) -> None:
        self._settle(super().basic_reject, delivery_tag, requeue)

    def _settle(self, settle: Callable[[str, bool], None], delivery_tag: str, flag: bool) -> None:
        """Let go of the message whatever happens: Redis gives it back in time, and then it is a bell for nothing."""
        if self.closed:
            return
        try:
            settle(delivery_tag, flag)
        except self.connection_errors as error:
            virtual.QoS.ack(self.qos, delivery_tag)  # type: ignore[no-untyped-call]
            # The one error over which Celery reconnects here.
            raise BrokenPipeError(f"Redis is away ({type(error).__name__})") from error

    def close(self) -> None:
        try:
            super().close()  # type: ignore[no-untyped-call]
        except (*self.connection_errors, self.ResponseError):
            # Redis gives back what is not acknowledged, and drops the queues of those who left, when their time is up.
            self.do_restore = False
            self.auto_delete_queues.clear()
            super().close()  # type: ignore[no-untyped-call]
        finally:
            # Giving messages back has opened another one.
            self._disconnect_pools()  # type: ignore[no-untyped-call]


class RedisTransport(redis.Transport):
    """Drops what cannot be read, survives a Redis that is away, and goes on."""

    Channel = _Channel


def transport_for(broker_url: str) -> str | None:
    """The transport to use for this broker; None is Celery's own choice."""
    if broker_url.startswith(("redis://", "rediss://")):
        return f"{__name__}:{RedisTransport.__name__}"
    return None
