"""The loads by name, and running one of them."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.bench.load import backlog, burst, cache, files, idle, lifetime, reads, remembers
from tests.bench.load.measuring import Figure

LOADS: Mapping[str, Callable[[float, Path], list[Figure]]] = {
    "L1": remembers.run,
    "L2": burst.run,
    "L3": reads.run,
    "L4": backlog.run,
    "L5": files.run,
    "L6": lifetime.run,
    "L7": cache.run,
    "L8": idle.run,
}


@dataclass(frozen=True)
class Result:
    """One load: what was measured, in how many seconds, and the machine's load before and after."""

    name: str
    what: str
    figures: list[Figure]
    seconds: float
    load: tuple[float, float]

    @property
    def kept(self) -> bool:
        return all(figure.kept for figure in self.figures)


def run(name: str, scale: float = 1.0) -> Result:
    """Run one load in a temporary folder. Raises KeyError for an unknown name."""
    load = LOADS[name]
    before, began = os.getloadavg()[0], time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        figures = load(scale, Path(folder, name))
    seconds, after = time.monotonic() - began, os.getloadavg()[0]
    return Result(name, what(name), figures, seconds, (before, after))


def what(name: str) -> str:
    """What a load does, in its own words."""
    text = sys.modules[LOADS[name].__module__].__doc__ or ""
    return text.splitlines()[0].removeprefix(f"{name}: ")
