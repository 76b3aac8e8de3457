"""The loads that an installation must hold: real redis-server, real workers. Exit code 1 when a limit is missed.

Usage: python -m tests.bench.load [L1 L2 ...] [--scale 0.1] [--out FILE]
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
from dataclasses import asdict
from datetime import datetime
from pathlib import Path

from tests.bench.load.measuring import Figure
from tests.bench.load.suite import LOADS, Result, run, what


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("loads", nargs="*", metavar="LOAD", help=f"of {', '.join(LOADS)}; all by default")
    parser.add_argument(
        "--scale", type=float, default=1.0, help="amounts and durations; limits stay as they are"
    )
    parser.add_argument("--out", type=Path, help="append one line of JSON for each load")
    options = parser.parse_args()
    if unknown := set(options.loads) - set(LOADS):
        parser.error(f"no such load: {', '.join(sorted(unknown))}")
    # So that whoever stops it leaves no processes behind.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    results = []
    for name in options.loads or LOADS:
        print(f"{name}  {what(name)}", flush=True)
        results.append(run(name, options.scale))
        show(results[-1])
        if options.out:
            with options.out.open("a", encoding="utf-8") as out:
                out.write(json.dumps(asdict(results[-1]) | {"scale": options.scale, "ended": now()}) + "\n")
    return 0 if all(result.kept for result in results) else 1


def show(result: Result) -> None:
    for figure in result.figures:
        value = (
            f"{figure.value:,.2f} {figure.unit}" if figure.value % 1 else f"{figure.value:,.0f} {figure.unit}"
        )
        print(f"  {figure.what:<48} {value:>22}   {_limit(figure)}")
    load = "load {:.1f} at the start, {:.1f} at the end".format(*result.load)
    print(f"  {now()}, {result.seconds:.0f} s, {load}\n", flush=True)


def now() -> str:
    return datetime.now().astimezone().strftime("%Y-%m-%d %H:%M")


def _limit(figure: Figure) -> str:
    if figure.limit is None:
        return ""
    return f"{'>=' if figure.at_least else '<='} {figure.limit:,g}   {'ok' if figure.kept else 'MISSED'}"


if __name__ == "__main__":
    sys.exit(main())
