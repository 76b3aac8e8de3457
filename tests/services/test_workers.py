"""What Celery workers do with jobs of every temper, and with a broker that holds rubbish."""

from __future__ import annotations

import base64
import json
import os
import pickle
import signal
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from services.bootstrap import Container
from services.jobs.models import Job, JobState, NewJob
from tests.faults.harness import amount
from tests.services.harness import (
    JOBS_APP,
    LOGGED,
    NOOP,
    PATIENT,
    POISON,
    wait_until,
)

pytestmark = [pytest.mark.services, pytest.mark.timeout(60)]


def enqueue(container: Container, *jobs: NewJob) -> list[int]:
    with container.database.write() as unit:
        return unit.jobs.enqueue(jobs)


def jobs_of(container: Container, ids: Sequence[int]) -> list[Job]:
    with container.database.read() as unit:
        found = [unit.jobs.get(job_id) for job_id in ids]
    return [job for job in found if job is not None]


def all_in(container: Container, ids: Sequence[int], *states: JobState) -> bool:
    return all(job.state in states for job in jobs_of(container, ids))


def push(stack: Any, queue: str, body: bytes, *, task: str, content_type: str = "application/json") -> None:
    """Put a message on the queue as kombu lays it out, without kombu's checks."""
    properties = {
        "correlation_id": "1",
        "delivery_mode": 2,
        "delivery_info": {"exchange": "", "routing_key": queue},
        "priority": 0,
        "body_encoding": "base64",
        "delivery_tag": str(time.monotonic_ns()),
    }
    message = {
        "body": base64.b64encode(body).decode(),
        "content-encoding": "utf-8" if content_type == "application/json" else "binary",
        "content-type": content_type,
        "headers": {"lang": "py", "task": task, "id": "1", "argsrepr": "", "kwargsrepr": "", "retries": 0},
        "properties": properties,
    }
    with stack.redis.client() as client:
        client.lpush(queue, json.dumps(message))


class Canary:
    """Writes a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return exec, (f"open({str(self.path)!r}, 'w').close()",)


def test_a_job_that_kills_its_worker_three_times_is_dead_and_the_good_ones_are_done(start):
    stack = start(jobs__lease_secs=1.5, jobs__heartbeat_secs=0.4)
    container = stack.container
    bad = enqueue(container, NewJob(POISON))
    good = enqueue(container, *(NewJob(NOOP) for _ in range(50)))
    worker = stack.worker(["graph", "maintenance"], app=JOBS_APP)
    wait_until(
        lambda: all_in(container, bad + good, JobState.DONE, JobState.DEAD), "all ended", worker, seconds=45
    )
    assert all_in(container, good, JobState.DONE)
    (dead,) = jobs_of(container, bad)
    assert (dead.state, dead.error_type, dead.lost_leases) == (JobState.DEAD, "worker_lost", 3)
    assert {job.lost_leases for job in jobs_of(container, good)} == {0}
    assert worker.alive()


def test_a_worker_ends_soon_when_it_is_asked_to_right_after_it_handed_on_a_job(start):
    stack = start()
    container = stack.container
    worker = stack.worker(["graph"], app=JOBS_APP, concurrency=1)
    first = enqueue(container, NewJob(NOOP))
    wait_until(lambda: all_in(container, first, JobState.DONE), "its child works", worker)
    wait_until(lambda: stack.redis.silent("graph"), "the worker has heard of it", worker)
    (child,) = Path(f"/proc/{worker.pid}/task/{worker.pid}/children").read_text().split()
    # So that the worker cannot have heard of the job yet.
    os.kill(int(child), signal.SIGSTOP)
    ids = enqueue(container, NewJob(NOOP))
    wait_until(lambda: worker.output.count("received") == 2, "the job is handed on", worker)
    time.sleep(0.5)
    worker.signal(signal.SIGTERM)
    wait_until(lambda: "Warm shutdown" in worker.output, "it is about to end", worker)
    time.sleep(0.5)
    os.kill(int(child), signal.SIGCONT)
    assert worker.wait(20) == 0
    heir = stack.worker(["graph"], app=JOBS_APP)
    wait_until(lambda: all_in(container, ids, JobState.DONE), "the job is done", heir)
    assert [(job.attempts, job.lost_leases) for job in jobs_of(container, ids)] == [(1, 0)]


def test_children_of_a_worker_give_way_and_the_one_that_hands_on_jobs_does_not(start):
    stack = start(jobs__niceness=9)
    ids = enqueue(stack.container, NewJob(NOOP))
    worker = stack.worker(["graph"], app=JOBS_APP, concurrency=1)
    wait_until(lambda: all_in(stack.container, ids, JobState.DONE), "its child works", worker)
    (child,) = Path(f"/proc/{worker.pid}/task/{worker.pid}/children").read_text().split()
    nice = {pid: os.getpriority(os.PRIO_PROCESS, pid) for pid in (worker.pid, int(child))}
    mine = os.getpriority(os.PRIO_PROCESS, 0)
    assert nice == {worker.pid: mine, int(child): max(9, mine)}


def test_a_job_whose_message_comes_twice_runs_once(start, tmp_path):
    stack = start()
    container = stack.container
    log = tmp_path / "ran.log"
    ids = enqueue(container, *(NewJob(LOGGED, {"log": str(log)}) for _ in range(200)))
    for job_id in [*ids, *reversed(ids)]:
        container.publisher.publish(LOGGED.queue, LOGGED.name, job_id)
    worker = stack.worker(["graph"], app=JOBS_APP)
    wait_until(lambda: all_in(container, ids, JobState.DONE), "all done", worker)

    def emptied() -> bool:
        with stack.redis.client() as client:
            return client.llen("graph") == 0

    wait_until(emptied, "every message is taken", worker)
    assert Counter(log.read_text().split()) == {str(job_id): 1 for job_id in ids}


def push_rubbish(stack: Any, canary: Path) -> None:
    """Eighteen ways of being no message of ours, ten of them on two more ways to a worker."""
    embed = json.dumps({"callbacks": None, "errbacks": None, "chain": None, "chord": None})
    push(stack, "graph", f"[[1], {{}}, {embed}]".encode(), task="no.such.task")
    for body in (
        "{ no json",
        "null",
        f"[[], {{}}, {embed}]",
        f"[[{10**9}], {{}}, {embed}]",
        f'[["x"], {{}}, {embed}]',
    ):
        push(stack, "graph", body.encode(), task=NOOP.name)
    for content_type in ("application/x-python-serialize", "application/x-yaml"):
        body = pickle.dumps(([Canary(canary)], {}, {}))
        push(stack, "graph", body, task=NOOP.name, content_type=content_type)
    # Entries of the queue that are no messages at all.
    entries = [
        b"rubbish",
        b"",
        b"5",
        b"null",
        b"[]",
        b"{}",
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"properties": 7}',
    ]
    entries += [b'{"properties": {"delivery_tag": "t", "body_encoding": "base64"}, "body": "%"}']
    with stack.redis.client() as client:
        for entry in entries:
            client.lpush("graph", entry)
            # And what workers tell one another.
            client.publish("/0.celery.pidbox", entry)
            client.publish("/0.celeryev/worker.heartbeat", entry)


def test_rubbish_in_the_broker_is_refused_and_the_next_real_job_is_done(start, tmp_path):
    stack = start()
    container = stack.container
    canary = tmp_path / "canary"
    worker = stack.worker(["graph"], app=JOBS_APP)
    batches = amount(commit=1, nightly=12)
    for _ in range(batches):
        push_rubbish(stack, canary)
    push(stack, "graph", b"x" * amount(commit=10**6, nightly=50 * 10**6), task="no.such.task")
    ids = enqueue(container, NewJob(NOOP))
    wait_until(lambda: all_in(container, ids, JobState.DONE), "the real job is done", worker)
    wait_until(lambda: stack.redis.silent("graph"), "every message is taken and settled", worker)
    assert worker.alive()
    counted = worker.output.count("message_unreadable")
    print(f"F28: {18 * batches + 1} messages in the queue, {counted} entries counted as unreadable")
    assert counted >= 10 * batches
    assert not canary.exists()


def test_a_backlog_of_one_namespace_does_not_hold_up_another_ones_single_job(start):
    stack = start()
    container = stack.container
    backlog = enqueue(container, *(NewJob(NOOP, namespace="busy") for _ in range(1_000)))
    (single,) = enqueue(container, NewJob(NOOP, namespace="zoe"))
    worker = stack.worker(["graph"], app=JOBS_APP)
    wait_until(lambda: all_in(container, [*backlog, single], JobState.DONE), "all done", worker)
    (mine,) = jobs_of(container, [single])
    earlier = [job for job in jobs_of(container, backlog) if (job.finished_at or 0) < (mine.finished_at or 0)]
    assert len(earlier) < len(backlog) / 10


def test_a_worker_asked_to_stop_hands_its_jobs_back_and_goes_soon(start):
    stack = start()
    container = stack.container
    ids = enqueue(container, *(NewJob(PATIENT, {"seconds": 40}) for _ in range(2)))
    ids += enqueue(container, *(NewJob(NOOP) for _ in range(20)))
    worker = stack.worker(["graph"], app=JOBS_APP)
    wait_until(lambda: all_in(container, ids[:2], JobState.RUNNING), "both run", worker)
    asked = time.monotonic()
    worker.signal(signal.SIGTERM)
    assert worker.wait(30) == 0
    assert time.monotonic() - asked < 10
    assert {(job.state, job.attempts, job.lost_leases) for job in jobs_of(container, ids)} == {
        (JobState.PENDING, 0, 0)
    }
    wait_until(lambda: not stack.left_behind(), "no process is left")


def test_a_redis_that_refuses_writes_is_waited_for(start):
    stack = start()
    worker = stack.worker(["graph", "maintenance"], app=JOBS_APP)
    with stack.redis.client() as client:
        # A replica, as after a failover.
        client.replicaof("127.0.0.1", 1)
        wait_until(lambda: "Connection to broker lost" in worker.output, "it is noticed", worker)
        ids = enqueue(stack.container, NewJob(NOOP))
        client.replicaof("NO", "ONE")
    wait_until(lambda: all_in(stack.container, ids, JobState.DONE), "done", worker, seconds=45)
    assert worker.alive()


def test_workers_speak_to_a_redis_with_a_password_and_never_log_it(start):
    stack = start(password="s3cret-of-redis")
    container = stack.container
    worker = stack.worker(["graph"], app=JOBS_APP)
    ids = enqueue(container, NewJob(NOOP))
    wait_until(lambda: all_in(container, ids, JobState.DONE), "done", worker)
    assert "s3cret" not in worker.output
