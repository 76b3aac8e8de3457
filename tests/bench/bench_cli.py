"""How long the program takes to start, and which imports that is.

Usage: python tests/bench/bench_cli.py [--runs 10] [--imports 12]
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

CORPUS = Path(__file__).parents[1] / "corpus/handbook"
PROGRAM = Path(sys.executable).with_name("zeph")
QUESTION = "What must be done to the focus after a power cut?"


def timed(arguments: Sequence[str], env: dict[str, str], runs: int) -> list[float]:
    """Seconds of each run, ascending; the first one, which fills the caches, is not counted."""
    taken = []
    for _ in range(runs + 1):
        began = time.perf_counter()
        subprocess.run([PROGRAM, *arguments], env=env, check=True, stdout=subprocess.DEVNULL)
        taken.append(time.perf_counter() - began)
    return sorted(taken[1:])


def imports(arguments: Sequence[str], env: dict[str, str]) -> list[tuple[int, int, str]]:
    """(own microseconds, microseconds with what it imports, module), the most expensive first."""
    command = [sys.executable, "-X", "importtime", PROGRAM, *arguments]
    ran = subprocess.run(command, env=env, check=True, capture_output=True, text=True)
    lines = re.findall(r"import time:\s+(\d+) \|\s+(\d+) \|\s*(\S+)", ran.stderr)
    return sorted(((int(own), int(whole), name) for own, whole, name in lines), reverse=True)


def report(
    name: str, arguments: Sequence[str], env: dict[str, str], *, runs: int, shown: int, target: float
) -> None:
    taken = timed(arguments, env, runs)
    print(f"{name}: best {taken[0]:.2f} s, median {statistics.median(taken):.2f} s, target <= {target} s")
    loaded = imports(arguments, env)
    packages: dict[str, int] = {}
    for own, _, module in loaded:
        packages[module.split(".")[0]] = packages.get(module.split(".")[0], 0) + own
    print(
        f"  {len(loaded)} modules, {sum(packages.values()) / 1_000:.0f} ms (with the cost of measuring), by package:"
    )
    for package, own in sorted(packages.items(), key=lambda item: -item[1])[:shown]:
        print(f"    {own / 1_000:7.1f} ms  {package}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--imports", type=int, default=12)
    options = parser.parse_args()
    kept = {key: value for key, value in os.environ.items() if not key.startswith("ZEPH_")}
    with tempfile.TemporaryDirectory() as folder:
        env = kept | {"ZEPH_CONFIG": "", "ZEPH_DATA_DIR": folder, "ZEPH_JOBS__MIN_FREE_DISK_BYTES": "0"}
        subprocess.run([PROGRAM, "ingest", str(CORPUS)], env=env, check=True, stdout=subprocess.DEVNULL)
        for name, arguments, target in (
            ("zeph --help", ["--help"], 0.3),
            ("zeph search", ["search", QUESTION], 1.0),
            ("zeph search --mode keyword", ["search", "--mode", "keyword", QUESTION], 1.0),
        ):
            report(name, arguments, env, runs=options.runs, shown=options.imports, target=target)


if __name__ == "__main__":
    main()
