"""Ringing through a broker that lives in this process."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from celery import Celery
from kombu import Exchange, Queue

from services import errors
from tests.builders import in_processes
from workers import bell
from workers.bell import BackgroundPublisher, CeleryPublisher

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


# ---- in the background -----------------------------------------------------------------------------------------


class Slow:
    """A publisher that waits for the broker, as long as it is told to."""

    def __init__(self) -> None:
        self.rung: list[int] = []
        self.answer = threading.Event()
        self.away = False

    def publish(self, queue: str, task: str, job_id: int) -> None:
        self.answer.wait(10)
        if self.away:
            raise errors.TransientError("the broker does not answer")
        self.rung.append(job_id)


@pytest.fixture
def slow() -> Iterator[Slow]:
    made = Slow()
    yield made
    made.answer.set()


def test_who_stores_something_waits_for_no_broker_and_every_bell_rings_in_its_order(slow):
    publisher = BackgroundPublisher(slow)
    for job_id in range(20):
        publisher.publish("graph", "some.task", job_id)
    assert slow.rung == []
    slow.answer.set()
    publisher.close()
    assert slow.rung == list(range(20))


def test_a_broker_that_is_away_is_a_line_in_the_log_and_later_bells_ring(slow, caplog):
    publisher = BackgroundPublisher(slow)
    slow.away = True
    slow.answer.set()
    publisher.publish("graph", "some.task", 1)
    publisher.close()
    assert "bell_failed queue=graph reason=the broker does not answer" in caplog.text
    slow.away = False
    publisher.publish("graph", "some.task", 2)
    publisher.close()
    assert slow.rung == [2]


def test_bells_that_nobody_can_ring_do_not_pile_up_and_do_not_hold_up_the_end(slow, monkeypatch):
    monkeypatch.setattr(bell, "_MOST_WAITING", 10)
    monkeypatch.setattr(bell, "_LAST_SECONDS", 0.05)
    publisher = BackgroundPublisher(slow)
    for job_id in range(100):
        publisher.publish("graph", "some.task", job_id)
    assert publisher._bells.qsize() <= 10
    publisher.close()
    assert slow.rung == []


def test_a_child_rings_though_it_has_no_threads_of_its_parent(slow):
    slow.answer.set()
    publisher = BackgroundPublisher(slow)
    publisher.publish("graph", "some.task", 1)

    def in_the_child(_: int) -> None:
        publisher.publish("graph", "some.task", 2)
        publisher.close()
        assert slow.rung[-1] == 2

    in_processes(1, in_the_child)
    publisher.close()


def test_a_closed_container_has_rung_for_what_it_accepted(build, slow):
    container = build(publisher=BackgroundPublisher(slow))
    container.memory.remember("user", "hello")
    slow.answer.set()
    container.close()
    assert slow.rung
