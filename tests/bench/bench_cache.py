"""How fast the response cache answers under readers, and how many calls it lets through when many ask at once.

Usage: python tests/bench/bench_cache.py [--entries 100000] [--readers 10] [--prompts 500] [--workers 10]
"""

from __future__ import annotations

import argparse
import multiprocessing
import random
import sqlite3
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import httpx

from services.bootstrap import open_container
from services.cache.client import cached_client
from services.cache.models import CacheRequest
from services.cache.store import NewResponse
from tests.fake_openai import FakeOpenAi, Reply

TARGET_P99_MILLISECONDS, TARGET_CALLS = 5.0, 1.01
ANSWER = "The batteries take over without a gap and last eighteen minutes. " * 15
YEAR_MICROSECONDS = 31_536_000_000_000
WORKER_SECONDS = 600

Times: TypeAlias = list[tuple[float, float]]


def row(what: str, value: str, target: str = "") -> None:
    print(f"  {what:<58} {value:>22}   {target}", flush=True)


def request(number: int) -> CacheRequest:
    return CacheRequest("m", [{"role": "user", "content": f"question {number}"}], sampling={"temperature": 0})


def fill(folder: Path, entries: int) -> None:
    with open_container(settings(folder)) as zeph:
        now = zeph.clock.now()
        for start in range(0, entries, 5_000):
            with zeph.database.write(durable=False) as unit:
                for number in range(start, min(start + 5_000, entries)):
                    key = zeph.response_cache._asked(request(number), None).key
                    new = NewResponse(key, "m", ANSWER, len(ANSWER), now + number, now + YEAR_MICROSECONDS)
                    unit.cache.put("default", new)


def settings(folder: Path) -> dict[str, object]:
    return {"data_dir": str(folder), "embedding.provider": "none", "jobs.min_free_disk_bytes": 0}


def timed(get: Callable[[int], object], entries: int, seed: int, seconds: float, pause: float) -> Times:
    """Milliseconds of each call: by the clock, and of this thread's processor time."""
    chance, times, end = random.Random(seed), [], time.monotonic() + seconds
    while time.monotonic() < end:
        wanted = chance.randrange(entries)
        began, worked = time.perf_counter(), time.thread_time()
        found = get(wanted)
        times.append((1_000 * (time.perf_counter() - began), 1_000 * (time.thread_time() - worked)))
        assert found is not None
        if pause:
            time.sleep(pause)
    return times


def bare_select(folder: Path) -> Callable[[int], object]:
    """The cheapest way to read such a row: what the machine takes for that, it takes from the cache too."""
    connection = sqlite3.connect(folder / "zeph.db")
    select = "SELECT response FROM response_cache WHERE rowid = ?"
    return lambda number: connection.execute(select, (number + 1,)).fetchone()


def reader(
    folder: Path, entries: int, seed: int, seconds: float, pause: float, bare: bool, results: Any
) -> None:
    with open_container(settings(folder)) as zeph:
        cache = zeph.response_cache
        get = bare_select(folder) if bare else lambda number: cache.get(request(number))
        get(0)
        results.put(timed(get, entries, seed, seconds, pause))


def by_processes(
    folder: Path, entries: int, readers: int, seconds: float, pause: float, *, bare: bool = False
) -> Times:
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    started = [
        context.Process(target=reader, args=(folder, entries, seed, seconds, pause, bare, results))
        for seed in range(readers)
    ]
    for process in started:
        process.start()
    times = [one for _ in started for one in results.get(timeout=WORKER_SECONDS)]
    for process in started:
        process.join()
    return sorted(times)


def by_threads(folder: Path, entries: int, readers: int, seconds: float, pause: float) -> Times:
    times: Times = []
    with open_container(settings(folder) | {"memory.sqlite_pool_size": readers}) as zeph:
        cache = zeph.response_cache
        cache.get(request(0))

        def work(seed: int) -> None:
            times.extend(timed(lambda number: cache.get(request(number)), entries, seed, seconds, pause))

        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(readers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return sorted(times)


class Client:
    """The smallest client of the usual shape."""

    def __init__(self, base_url: str) -> None:
        self.base_url = base_url
        self.chat = self.completions = self
        self._http = httpx.Client(timeout=WORKER_SECONDS)

    def create(self, **body: Any) -> Any:
        return self._http.post(f"{self.base_url}/chat/completions", json=body).json()


def asker(
    folder: Path, base_url: str, prompts: int, seed: int, hit_seconds: float, gate: Any, results: Any
) -> None:
    """Ask every prompt together with the others, and when all have their answers, again and again."""
    with open_container(settings(folder)) as zeph:
        client = cached_client(Client(base_url), zeph.response_cache)
        zeph.response_cache.stats()

        def ask(number: int) -> str:
            message = {"role": "user", "content": f"prompt {number}"}
            found = client.chat.completions.create(model="m", messages=[message])
            answer: str = found["choices"][0]["message"]["content"]
            assert answer == f"answer to prompt {number}"
            return answer

        gate.wait()
        began = time.perf_counter()
        for number in range(prompts):
            ask(number)
        seconds = time.perf_counter() - began
        gate.wait()
        results.put((seconds, timed(ask, prompts, seed, hit_seconds, 0.01)))


class SlowServer(FakeOpenAi):
    """Takes a moment for each answer, as models do."""

    delay = 0.02

    def answer(self, request: Any) -> Reply:
        found = super().answer(request)
        return Reply(found.status, found.body, found.headers, self.delay)


def upstream_calls(
    folder: Path, prompts: int, workers: int, *, hit_seconds: float = 0.0
) -> tuple[int, float, Times]:
    """Calls that many askers of the same prompts let through, seconds until all had their answers, times of hits."""
    context = multiprocessing.get_context("spawn")
    with SlowServer() as server:
        server.chat = lambda body: f"answer to {body['messages'][0]['content']}"
        gate, results = context.Barrier(workers), context.Queue()
        started = [
            context.Process(
                target=asker, args=(folder, server.base_url, prompts, seed, hit_seconds, gate, results)
            )
            for seed in range(workers)
        ]
        for process in started:
            process.start()
        found = [results.get(timeout=WORKER_SECONDS) for _ in started]
        for process in started:
            process.join()
        hits = [one for _, times in found for one in times]
        return len(server.requests), max(seconds for seconds, _ in found), hits


def shown(times: Times) -> str:
    walls, works = (sorted(column) for column in zip(*times, strict=True))
    p50, p99, cpu = walls[len(walls) // 2], walls[int(0.99 * len(walls))], works[int(0.99 * len(works))]
    return f"{p50:.2f} / {p99:.2f} / {cpu:.2f} ms"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--entries", type=int, default=100_000)
    parser.add_argument("--readers", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--prompts", type=int, default=500)
    parser.add_argument("--workers", type=int, default=10)
    options = parser.parse_args()
    target = f"p99 <= {TARGET_P99_MILLISECONDS:g} ms"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        fill(folder, options.entries)
        ways: dict[str, Callable[..., Times]] = {"processes": by_processes, "threads": by_threads}
        print(
            f"get, hit, {options.entries} entries of {len(ANSWER)} bytes: p50 / p99 / p99 of processor time"
        )
        alone = by_threads(folder, options.entries, 1, options.seconds, 0)
        row("one reader", shown(alone), target)
        bare = by_processes(folder, options.entries, options.readers, options.seconds, 0.01, bare=True)
        row(f"a bare SELECT, {options.readers} processes, 100 a second each", shown(bare))
        for way, read in ways.items():
            for pause in (0.01, 0.0):
                label = "100 a second each" if pause else "without a pause"
                times = read(folder, options.entries, options.readers, options.seconds, pause)
                row(f"{options.readers} {way}, {label}", shown(times), target)
    with tempfile.TemporaryDirectory() as name:
        calls, seconds, _ = upstream_calls(Path(name), options.prompts, options.workers)
        row(
            f"{options.prompts} prompts, {options.workers} processes at once: calls",
            f"{calls} in {seconds:.1f} s",
            f"<= {int(options.prompts * TARGET_CALLS)}",
        )


if __name__ == "__main__":
    main()
