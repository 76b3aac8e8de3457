"""L8: nothing to do for ten minutes: a Celery worker of two processes, beat, and the embedded worker beside them."""

from __future__ import annotations

import random
import time
from pathlib import Path

from services.documents.models import DocumentMetadata
from tests.bench.bench_recall import speaker
from tests.bench.load.installation import installation, outcome, working
from tests.bench.load.measuring import (
    MIB,
    Figure,
    Sampler,
    command,
    cpu_seconds,
    growth,
    open_files,
    resident,
)

SECONDS, SETTLED_SECONDS = 600, 20


def run(scale: float, folder: Path) -> list[Figure]:
    say = speaker(random.Random(8))
    with installation(folder) as stack:
        container = stack.container
        for number in range(50):
            container.memory.remember("user", say(20))
            container.ingestion.add_text(say(200), DocumentMetadata(f"note-{number}", "text/plain"))
        stack.zeph("worker", "--concurrency", "2")
        working(stack)
        time.sleep(max(1.0, SETTLED_SECONDS * min(1.0, 10 * scale)))
        running = stack.left_behind()
        probes = {
            "memory": lambda: sum(map(resident, running)),
            "files": lambda: sum(map(open_files, running)),
        }
        before = {pid: cpu_seconds(pid) for pid in running}
        began = time.monotonic()
        with Sampler(probes, every_seconds=1) as sampler:
            time.sleep(max(2.0, SECONDS * scale))
        seconds = time.monotonic() - began
        files = sampler.readings["files"]
        used = {pid: 100 * (cpu_seconds(pid) - before[pid]) / seconds for pid in running}
        for pid, percent in used.items():
            print(f"    {percent:5.2f} %  {command(pid)[:100]}")
        return [
            Figure("processor time of all", sum(used.values()), "% of a core", 2),
            Figure("memory of all, most", sampler.peak("memory") / MIB, "MiB"),
            Figure("growth of memory", growth(sampler.readings["memory"]), "%", 2),
            # A process opens the database for writing when it first has something to write: two files, and no more.
            Figure("open files, more at the end", files[-1] - files[0], "", 2 * len(running)),
            *outcome(stack),
        ]
