"""What the loads measure, and how: figures with their limits, percentiles, and processes as /proc shows them."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple, Self

MIB = 2**20
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Figure:
    """Something measured, the limit that it must keep, if any: at most that much, or at least.

    `exact` ones are counts that hold on any machine and at any scale.
    """

    what: str
    value: float
    unit: str = ""
    limit: float | None = None
    at_least: bool = False
    exact: bool = False

    @property
    def kept(self) -> bool:
        if self.limit is None:
            return True
        return self.value >= self.limit if self.at_least else self.value <= self.limit


def count(what: str, value: float, wanted: float = 0) -> list[Figure]:
    """A number that must be exactly this one."""
    off = Figure(f"{what}: off by", abs(value - wanted), limit=0, exact=True)
    return [Figure(what, value)] if value == wanted else [Figure(what, value), off]


class Taken(NamedTuple):
    """Seconds of one call: by the clock, and of this thread's processor time, which no other load disturbs."""

    wall: float
    work: float


def timed(action: Callable[[], object]) -> Taken:
    began, worked = time.perf_counter(), time.thread_time()
    action()
    return Taken(time.perf_counter() - began, time.thread_time() - worked)


def times(
    what: str,
    taken: Sequence[Taken],
    *,
    p50: float | None = None,
    p99: float | None = None,
    most: float | None = None,
) -> list[Figure]:
    """Percentiles of times, with limits in milliseconds."""
    walls = sorted(1_000 * each.wall for each in taken)
    works = sorted(1_000 * each.work for each in taken)
    return [
        Figure(f"{what}, p50", percentile(walls, 0.50), "ms", p50),
        Figure(f"{what}, p99", percentile(walls, 0.99), "ms", p99),
        Figure(f"{what}, longest", walls[-1], "ms", most),
        Figure(f"{what}, processor time, p50", percentile(works, 0.50), "ms"),
        Figure(f"{what}, processor time, p99", percentile(works, 0.99), "ms"),
    ]


def percentile(ordered: Sequence[float], share: float) -> float:
    """The value that this share of the ascending values does not exceed."""
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def growth(readings: Sequence[float], start: float = 0.1) -> float:
    """Percent by which the last tenth of the readings is above the tenth that begins at `start`; medians."""
    part = max(1, len(readings) // 10)
    first = readings[int(start * len(readings)) :][:part]
    before, after = (sorted(each)[len(each) // 2] for each in (first, readings[-part:]))
    return 100 * (after / before - 1) if before else 0.0


# ---- processes ---------------------------------------------------------------------------------------------------


def resident(pid: int, field: str = "VmRSS") -> int:
    """Bytes in memory now (`VmRSS`) or at most so far (`VmHWM`); 0 for a process that has ended."""
    for line in _read(pid, "status").splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * 1_024
    return 0


def open_files(pid: int) -> int:
    """How many descriptors it holds."""
    try:
        return sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())
    except OSError:
        return 0


def cpu_seconds(pid: int) -> float:
    """Processor time so far, without that of its children."""
    fields = _read(pid, "stat").rsplit(")", 1)[-1].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS if fields else 0.0


def command(pid: int) -> str:
    """Its command line."""
    return _read(pid, "cmdline").replace("\0", " ")


def children(pid: int) -> list[int]:
    """Its direct children."""
    return [int(each) for each in _read(pid, f"task/{pid}/children").split()]


def _read(pid: int, name: str) -> str:
    try:
        return Path(f"/proc/{pid}/{name}").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


# ---- over time ---------------------------------------------------------------------------------------------------


class Sampler:
    """Reads probes again and again, from the start of its block to the end, in a thread of its own."""

    def __init__(self, probes: Mapping[str, Callable[[], float]], *, every_seconds: float) -> None:
        self._probes = probes
        self._pause = every_seconds
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self.readings: dict[str, list[float]] = {name: [] for name in probes}

    def __enter__(self) -> Self:
        self._read()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._read()

    def peak(self, name: str) -> float:
        return max(self.readings[name])

    def _work(self) -> None:
        while not self._stop.wait(self._pause):
            self._read()

    def _read(self) -> None:
        for name, probe in self._probes.items():
            self.readings[name].append(probe())


def paced(action: Callable[[int], object], count: int, *, per_second: float) -> list[Taken]:
    """Call with 0, 1, ... at a steady rate. One that is late is followed at once by the next."""
    taken, started = [], time.perf_counter()
    for number in range(count):
        time.sleep(max(0.0, started + number / per_second - time.perf_counter()))
        taken.append(timed(partial(action, number)))
    return taken
