"""Ringing through a broker that lives in this process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from celery import Celery
from kombu import Exchange, Queue

from services import errors
from workers import bell
from workers.bell import CeleryPublisher

WINDOW = 5


@pytest.fixture
def app() -> Iterator[Celery]:
    made = Celery("bells", broker="memory://", set_as_current=False)
    made.conf.task_queues = [Queue(name, Exchange(name), name) for name in ("graph", "maintenance")]
    made.conf.task_create_missing_queues = False
    yield made
    with made.connection_for_write() as connection:
        for queue in ("graph", "maintenance"):
            connection.default_channel.queue_purge(queue)


def held(app: Celery, queue: str) -> int:
    with app.connection_for_write() as connection:
        return int(app.amqp.queues[queue].bind(connection.default_channel).queue_declare().message_count)


def test_a_queue_that_holds_enough_bells_gets_no_more_however_long_the_backlog(app):
    publisher = CeleryPublisher(app, window=WINDOW)
    for job_id in range(100):
        publisher.publish("graph", "some.task", job_id)
    assert held(app, "graph") == WINDOW
    publisher.publish("maintenance", "some.task", 1)
    assert held(app, "maintenance") == 1


def test_bells_of_other_processes_count_and_those_that_were_heard_make_room(app, monkeypatch):
    CeleryPublisher(app, window=WINDOW).publish("graph", "some.task", 1)
    publisher = CeleryPublisher(app, window=WINDOW)
    monkeypatch.setattr(bell, "_LOOK_SECONDS", -1.0)
    for job_id in range(20):
        publisher.publish("graph", "some.task", job_id)
    assert held(app, "graph") == WINDOW
    with app.connection_for_write() as connection:
        connection.default_channel.queue_purge("graph")
    publisher.publish("graph", "some.task", 1)
    assert held(app, "graph") == 1


def test_requests_to_sweep_that_nobody_takes_do_not_pile_up(app):
    publisher = CeleryPublisher(app, window=WINDOW)
    for _ in range(20):
        publisher.request_sweep(expires_seconds=10)
    assert held(app, "maintenance") == WINDOW


def test_a_broker_that_is_away_is_a_transient_error_and_left_alone_for_a_moment(monkeypatch):
    publisher = CeleryPublisher(Celery("away", broker="redis://127.0.0.1:1/0", set_as_current=False))
    publisher._app.conf.task_queues = [Queue("graph", Exchange("graph"), "graph")]
    publisher._app.conf.broker_transport_options = {"socket_connect_timeout": 1, "max_retries": 0}
    with pytest.raises(errors.TransientError, match="does not answer"):
        publisher.publish("graph", "some.task", 1)
    with pytest.raises(errors.TransientError, match="a moment ago"):
        publisher.publish("graph", "some.task", 1)
    publisher.request_sweep(expires_seconds=1)
