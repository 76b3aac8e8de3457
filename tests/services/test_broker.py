"""What the broker's transport does when Redis goes away under it, or never was what it seemed."""

from __future__ import annotations

import contextlib
import logging
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kombu
import pytest

from services.settings import load_settings
from tests.services.harness import RedisServer
from workers.app import create_app
from workers.broker import transport_for

pytestmark = [pytest.mark.services, pytest.mark.timeout(60)]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RedisServer]:
    made = RedisServer(tmp_path)
    made.start()
    yield made
    made.kill()


@pytest.fixture
def listening(server: RedisServer) -> Iterator[tuple[kombu.Connection, list[Any]]]:
    """A connection that holds one unacknowledged message and waits for the next one, as a worker does; its messages."""
    with kombu.Connection(server.url, transport=transport_for(server.url)) as connection:
        queue = kombu.Queue("graph", kombu.Exchange("graph"), "graph", channel=connection.default_channel)
        queue.declare()
        kombu.Producer(connection.default_channel).publish("7", exchange="graph", routing_key="graph")
        # And a queue for what concerns all workers, on a channel of its own.
        news = kombu.Queue("news", kombu.Exchange("news", "fanout"), auto_delete=True)
        kombu.Consumer(connection.channel(), [news]).consume()
        messages: list[Any] = []
        kombu.Consumer(connection.default_channel, [queue], on_message=messages.append).consume()
        with contextlib.suppress(socket.timeout):
            while True:
                connection.drain_events(timeout=0.2)
        yield connection, messages


def test_a_worker_survives_a_redis_that_goes_away_while_it_holds_messages(server, listening):
    connection, messages = listening
    server.kill()
    # As Celery does when it has lost a connection: both, whatever becomes of the first.
    connection.collect(socket_timeout=5)
    connection.close()
    assert messages[0].channel.closed


def test_a_job_that_ends_after_redis_went_away_is_no_error(server, listening):
    connection, messages = listening
    server.kill()
    connection.collect(socket_timeout=5)
    messages[0].ack()
    server.start()
    with server.client() as client:
        assert client.keys() == []


def test_a_heartbeat_waits_for_no_redis_that_is_away(server):
    app = create_app(load_settings(overrides={"jobs.broker_url": server.url}))
    with app.connection_for_write() as connection:
        # As that of a worker, which keeps for later what it cannot tell now.
        dispatcher = app.events.Dispatcher(connection, "worker@test")
        dispatcher.send("worker-heartbeat", retry=True)
        server.kill()
        started = time.monotonic()
        dispatcher.send("worker-heartbeat", retry=True)
        assert time.monotonic() - started < 20


@pytest.mark.parametrize("settle", ["ack_log_error", "reject_log_error"])
def test_what_could_not_be_acknowledged_is_not_held_for_ever(server, listening, settle):
    connection, messages = listening
    channel = messages[0].channel
    channel.basic_qos(0, 1)
    assert not channel.qos.can_consume()
    server.kill()
    with contextlib.suppress(BrokenPipeError):
        getattr(messages[0], settle)(logging.getLogger(__name__), connection.connection_errors)
    assert channel.qos.can_consume()


def test_an_acknowledgement_that_fails_makes_celery_connect_again(server, listening):
    connection, messages = listening
    server.kill()
    with pytest.raises(BrokenPipeError, match="Redis is away"):
        messages[0].ack_log_error(logging.getLogger(__name__), connection.connection_errors)


def test_an_answer_that_makes_no_sense_because_redis_is_gone_is_a_lost_connection(server, listening):
    connection, _ = listening
    channel = connection.default_channel
    channel.client.connection.disconnect()
    with pytest.raises(ConnectionError, match="Redis is away"):
        channel._brpop_read()
