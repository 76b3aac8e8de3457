"""What the ledger costs: against bare Celery in the same run, embedded, and end to end with vectors.

Usage: python tests/bench/bench_queue.py [--jobs 2000] [--rounds 3] [--notes 50]
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing import Process as Child
from multiprocessing import Queue as ChildQueue
from pathlib import Path
from typing import Any

from celery import Celery

import tests.services.jobs_app  # noqa: F401 - declares the no-op job for the embedded worker
from services.documents.models import DocumentMetadata
from services.jobs.models import NewJob
from tests.services.harness import ALL_QUEUES, JOBS_APP, NOOP, Process, Stack, wait_until
from workers.local import LocalWorker

CORPUS = Path(__file__).parents[1] / "corpus/handbook"
BROKER = "BENCH_BROKER"
BARE_QUEUE = "bare"
DIMENSION = 384
WORDS = "harbour lantern gravel orchard violin compass ferry meadow anvil thistle copper walnut".split()


def bare_app(broker: str) -> Celery:
    """Celery with one task that does nothing, and the same safety options."""
    app = Celery("bare", broker=broker, set_as_current=False)
    app.conf.update(
        task_default_queue=BARE_QUEUE,
        task_acks_late=True,
        task_reject_on_worker_lost=True,
        worker_prefetch_multiplier=1,
        task_ignore_result=True,
    )

    @app.task(name="bare.noop")
    def noop(number: int) -> None:
        """Nothing."""

    return app


def __getattr__(name: str) -> Celery:
    if name != "bare":
        raise AttributeError(name)
    return globals().setdefault("bare", bare_app(os.environ[BROKER]))


def row(what: str, value: str, target: str = "") -> None:
    print(f"  {what:<58} {value:>18}   {target}", flush=True)


def seconds(action: Callable[[], object]) -> float:
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


def done_jobs(stack: Stack) -> int:
    with stack.container.sqlite.read() as connection:
        found = connection.exec_driver_sql("SELECT count(*) FROM jobs WHERE state = 'done'").scalar_one()
    return int(found)


def enqueue(stack: Stack, count: int) -> None:
    with stack.container.database.write() as unit:
        unit.jobs.enqueue([NewJob(NOOP) for _ in range(count)])


def drained(stack: Stack, worker: Process, fill: Callable[[], object], empty: Callable[[], bool]) -> float:
    """Seconds in which the worker empties the queue that was filled while it slept."""
    os.killpg(worker.pid, signal.SIGSTOP)
    fill()
    began = time.perf_counter()
    os.killpg(worker.pid, signal.SIGCONT)
    wait_until(empty, "the queue is empty", worker, seconds=120, pause=0.01)
    return time.perf_counter() - began


def against_bare(stack: Stack, jobs: int, rounds: int) -> None:
    print(f"enqueueing, and {jobs} no-op jobs by two prefork children, {rounds} alternating rounds")
    enqueue(stack, 1)
    single = seconds(lambda: [enqueue(stack, 1) for _ in range(300)])
    row("accepted one by one, each durable and rung", f"{300 / single:,.0f}/s")
    bulk = seconds(lambda: enqueue(stack, 5_000))
    row("accepted 5,000 in one unit", f"{5_000 / bulk:,.0f}/s")

    os.environ[BROKER] = stack.redis.url
    app = bare_app(stack.redis.url)
    ours = stack.worker(["graph"], app=JOBS_APP)
    bare = stack.worker([BARE_QUEUE], app="tests.bench.bench_queue:bare")
    wait_until(lambda: done_jobs(stack) >= 5_301, "our worker is warm", ours, seconds=120)
    client = stack.redis.client()
    tag = app.conf.broker_transport_options.get("unacked_key", "unacked")

    def fill_bare() -> None:
        with app.producer_pool.acquire(block=True) as producer:
            for number in range(jobs):
                app.send_task("bare.noop", args=(number,), producer=producer)

    def bare_empty() -> bool:
        return client.llen(BARE_QUEUE) == 0 and client.hlen(tag) == 0

    drained(stack, bare, fill_bare, bare_empty)
    rates: dict[str, list[float]] = {"bare": [], "ours": []}
    for _ in range(rounds):
        rates["bare"].append(jobs / drained(stack, bare, fill_bare, bare_empty))
        wanted = done_jobs(stack) + jobs
        taken = drained(
            stack, ours, lambda: enqueue(stack, jobs), lambda wanted=wanted: done_jobs(stack) >= wanted
        )
        rates["ours"].append(jobs / taken)
    client.close()
    bare.kill()
    ours.kill()
    bare_rate, our_rate = (statistics.median(rates[name]) for name in ("bare", "ours"))
    row("bare Celery, no ledger", f"{bare_rate:,.0f}/s")
    row("through the ledger", f"{our_rate:,.0f}/s")
    row("ratio", f"{our_rate / bare_rate:.2f}", "target >= 0.60")

    worker = LocalWorker(stack.container, concurrency=2)
    enqueue(stack, jobs)
    wanted = done_jobs(stack) + jobs
    began = time.perf_counter()
    with worker:
        wait_until(lambda: done_jobs(stack) >= wanted, "the embedded worker is done", seconds=120, pause=0.01)
        embedded = jobs / (time.perf_counter() - began)
    row("embedded worker, two threads", f"{embedded:,.0f}/s", f"target >= {our_rate:,.0f}/s")


# ---- notes end to end ------------------------------------------------------------------------------------------


class _Embeddings(BaseHTTPRequestHandler):
    """Answers with vectors that depend on the text alone, at once or after the server's delay."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_POST(self) -> None:
        import json

        import numpy as np

        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        data = [
            {
                "index": index,
                "embedding": np.random.default_rng(abs(hash(text)))
                .standard_normal(DIMENSION)
                .round(4)
                .tolist(),
            }
            for index, text in enumerate(body["input"])
        ]
        answer = json.dumps({"data": data, "model": body["model"]}).encode()
        time.sleep(self.server.delay_seconds)  # type: ignore[attr-defined]
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: object) -> None:
        pass


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, delay_seconds: float) -> None:
        super().__init__(("127.0.0.1", 0), _Embeddings)
        self.delay_seconds = delay_seconds

    def handle_error(self, *_: object) -> None:
        """Clients hang up when they like."""


def _serve(ports: ChildQueue[int], delay_seconds: float) -> None:
    server = _Server(delay_seconds)
    ports.put(server.server_port)
    server.serve_forever()


@contextmanager
def embedding_server(delay_seconds: float = 0.0) -> Any:
    """Its base URL; a process of its own, so that it shares no interpreter lock with what is measured."""
    ports: ChildQueue[int] = ChildQueue()
    child = Child(target=_serve, args=(ports, delay_seconds), daemon=True)
    child.start()
    try:
        yield f"http://127.0.0.1:{ports.get(timeout=10)}/v1"
    finally:
        child.kill()
        child.join()


def notes_end_to_end(folder: Path, notes: int, rounds: int) -> None:
    print(f"{notes} notes of 110 words through Redis, two children and an instant embedding server")
    dice = random.Random(3)
    with (
        embedding_server() as url,
        Stack(
            folder, embedding__provider="openai", embedding__base_url=url, embedding__model="instant"
        ) as stack,
    ):
        stack.worker(["embedding", "maintenance"])
        note = DocumentMetadata("warm-up", "text/plain")
        stack.container.ingestion.add_text("warm up", note)
        wait_until(lambda: _vectors(stack) == 1, "the first vector")
        stack.container.documents.search("warm", collection="zeph_documents")
        rates, times = [], []
        for turn in range(rounds):
            texts = [" ".join(dice.choices(WORDS, k=110)) for _ in range(notes)]
            wanted = _vectors(stack) + notes
            began = time.perf_counter()
            named = [(text, DocumentMetadata(f"{turn}-{n}", "text/plain")) for n, text in enumerate(texts)]
            stack.container.ingestion.add_texts(named)
            accepted = time.perf_counter() - began
            wait_until(lambda wanted=wanted: _vectors(stack) == wanted, "every vector is there", pause=0.005)
            rates.append(notes / (time.perf_counter() - began))
            times.append(accepted / notes)
        row("accepting one note of the batch", f"{statistics.median(times) * 1_000:.1f} ms")
        row(
            "from the first call to the last vector",
            f"{statistics.median(rates):.0f} documents/s",
            "target >= 60",
        )
        taken = sorted(
            seconds(partial(stack.container.documents.search, query, collection="zeph_documents"))
            for query in (" ".join(dice.choices(WORDS, k=4)) for _ in range(200))
        )
        row(
            "hybrid search p50 / p95",
            f"{taken[100] * 1e3:.1f} / {taken[190] * 1e3:.1f} ms",
            "target p95 <= 15 ms",
        )


def _vectors(stack: Stack) -> int:
    with stack.container.database.read() as unit:
        return sum(stack.container.vectors.count(each.physical) for each in unit.collections.all())


def memory_of_workers(folder: Path) -> None:
    print("resident memory after ingesting the demo corpus with the local model")
    with Stack(folder, embedding__provider="local") as stack:
        worker = stack.worker(ALL_QUEUES)
        stack.run_zeph("ingest", str(CORPUS), seconds=120)
        for pid in stack.left_behind():
            command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
            kind = "parser" if "parsing.child" in command else "worker" if pid == worker.pid else "child"
            row(
                f"Celery {kind}",
                f"{_resident(pid, 'VmRSS')} MiB",
                f"peak {_resident(pid, 'VmHWM')}, target <= 500",
            )


def _resident(pid: int, field: str) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) // 1024 for line in lines if line.startswith(field))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=2_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--notes", type=int, default=50)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        with Stack(Path(folder, "queue"), jobs__sweep_interval_secs=10, jobs__lease_secs=30) as stack:
            against_bare(stack, options.jobs, options.rounds)
        notes_end_to_end(Path(folder, "notes"), options.notes, options.rounds)
        memory_of_workers(Path(folder, "memory"))


if __name__ == "__main__":
    main()
