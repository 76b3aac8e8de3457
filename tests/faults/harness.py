"""What fault tests share: how much a profile does, crashes at any point, the state of a store as one value, and history.

`ZEPH_FAULT_PROFILE` is `commit` (default: a sample, for every change) or `nightly` (everything). Random choices come
from `ZEPH_FAULT_SEED`, which a failing run prints.
"""

from __future__ import annotations

import json
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import sqlalchemy as sa

from services.adapters import tables
from services.bootstrap import Container
from services.ids import content_hash

T = TypeVar("T")

# Taken out of the environment: the settings refuse variables of ours that they do not know.
PROFILE = os.environ.pop("ZEPH_FAULT_PROFILE", "commit")
# Processes of one parallel run must collect the same tests: they share the number of the run.
SEED = int(os.environ.pop("ZEPH_FAULT_SEED", 0)) or random.Random(
    os.environ.get("PYTEST_XDIST_TESTRUNUID")
).randrange(2**32)

# What tells when and how often something was tried, and nothing of what is stored.
_PASSING = frozenset(
    {"change", "purged", "attempts", "lost_leases", "lease_token", "lease_until", "run_after", "outcome"}
)
_NO_STATE = frozenset({"periodic_runs", "vector_namespaces", "vector_collections"})


def amount(*, commit: T, nightly: T) -> T:
    """What holds for this profile: mostly, how many of something it does."""
    return nightly if PROFILE == "nightly" else commit


def quantile(values: Sequence[float], share: float) -> float:
    """The value that this share of them does not exceed; 0 without any."""
    return sorted(values)[min(len(values) - 1, int(share * len(values)))] if values else 0.0


def sample(choices: Sequence[T], *, commit: int) -> list[T]:
    """What to try: everything nightly, else so many, in their order."""
    if PROFILE == "nightly" or len(choices) <= commit:
        return list(choices)
    chosen = random.Random(SEED).sample(range(len(choices)), commit)
    return [choices[place] for place in sorted(chosen)]


# ---- crashes -----------------------------------------------------------------------------------------------------


class Tripwire:
    """Counts what a process does to the world outside (statements, and calls of what it watches), and kills it at `fatal`,
    or sends it another signal.

    Each counts twice: when it begins, and when it has ended.
    """

    def __init__(self, fatal: int = 0, *, send: int = signal.SIGKILL) -> None:
        self.count = 0
        self._fatal = fatal
        self._signal = send

    def step(self, *_: Any) -> None:
        self.count += 1
        if self.count == self._fatal:
            os.kill(os.getpid(), self._signal)

    def watch(self, watched: Any) -> Any:
        """The same object; its methods are steps."""
        return None if watched is None else _Watched(watched, self.step)

    @contextmanager
    def armed(self) -> Iterator[None]:
        """Count the statements of every database connection of this process."""
        events = ("before_cursor_execute", "after_cursor_execute")
        for event in events:
            sa.event.listen(sa.Engine, event, self.step)
        try:
            yield
        finally:
            for event in events:
                sa.event.remove(sa.Engine, event, self.step)


class _Watched:
    def __init__(self, watched: Any, step: Callable[[], None]) -> None:
        self._watched = watched
        self._step = step

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._watched, name)
        if not callable(found) or name in ("windows", "close"):
            return found

        def stepping(*args: Any, **options: Any) -> Any:
            self._step()
            result = found(*args, **options)
            self._step()
            return result

        return stepping


def in_child(task: Callable[[], object]) -> int | None:
    """Run the task in a forked process: None if it was killed, else its exit code (1 after an exception)."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            task()
            code = 0
        except BaseException:
            import traceback

            traceback.print_exc()
        finally:
            os._exit(code)
    _, status = os.waitpid(pid, 0)
    return None if os.WIFSIGNALED(status) else os.waitstatus_to_exitcode(status)


# ---- the state of a store ----------------------------------------------------------------------------------------


def state(container: Container) -> dict[str, list[str]]:
    """Everything stored, by table, without what only tells when and how often it was tried. Jobs without their ids, alike ones once."""
    found = {}
    with container.sqlite.read() as connection:
        for table in tables.metadata.sorted_tables:
            if table.name in _NO_STATE:
                continue
            columns = [column for column in table.c if _lasts(table, column)]
            rows = connection.execute(sa.select(*columns).where(*_real(table)))
            listed = (repr(tuple(row)) for row in rows)
            # Of the same maintenance more or less may have been asked for.
            found[table.name] = sorted(set(listed) if table is tables.jobs else listed)
    return found


def state_hash(container: Container) -> str:
    """`state` as one value."""
    return content_hash(json.dumps(state(container), sort_keys=True))


def difference(one: dict[str, list[str]], other: dict[str, list[str]]) -> str:
    """For people: the rows that only one of two states has."""
    lines = [
        f"{name} {sign} {row[:300]}"
        for name in one
        for sign, mine, theirs in (("-", one[name], other[name]), ("+", other[name], one[name]))
        for row in (Counter(mine) - Counter(theirs)).elements()
    ]
    return "\n".join(lines)


def _lasts(table: sa.Table, column: sa.Column[Any]) -> bool:
    if table is tables.jobs and column.name in ("id", "parent_id", "payload"):
        return False
    # The rows' own columns of the vector store are in no order that matters.
    if column.name == "rowid" or column.name in _PASSING:
        return False
    return not (column.name.endswith("_at") or (table is tables.vector_tombstones and column.name == "id"))


def _real(table: sa.Table) -> list[sa.ColumnElement[bool]]:
    if table is tables.graph_metadata:
        # Counts of attempts, and times.
        return [table.c.key.not_in(["extraction_count"]), ~table.c.key.endswith("_at")]
    return [table.c.vector.is_not(None)] if table is tables.vector_points else []


# ---- history -----------------------------------------------------------------------------------------------------


class History:
    """An append-only record of operations, kept outside the system: what was asked, and what was acknowledged.

    An operation that has no second line may have happened or not, as with any caller that was cut off.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._path.touch()

    @contextmanager
    def operation(self, name: str, **arguments: Any) -> Iterator[Callable[[Any], None]]:
        """Record the call, then what the block passes to the function it is given: the acknowledged result."""
        key = f"{os.getpid()}-{time.monotonic_ns()}"
        self._write({"key": key, "name": name, "arguments": arguments})
        began = time.perf_counter()
        yield lambda result: self._write(
            {"key": key, "acknowledged": result, "seconds": time.perf_counter() - began}
        )

    def next_number(self) -> int:
        """Larger than any before, in whatever process: what came later."""
        return time.monotonic_ns()

    def acknowledged(self, name: str) -> list[tuple[dict[str, Any], Any]]:
        """(arguments, result) of every acknowledged call of that name."""
        calls, results = self._read()
        return [
            (calls[key]["arguments"], result) for key, result in results.items() if calls[key]["name"] == name
        ]

    def seconds(self) -> list[float]:
        """How long each acknowledged call took, in the order in which they ended."""
        lines = self._path.read_text(encoding="utf-8").splitlines()
        return [entry["seconds"] for entry in map(json.loads, lines) if "acknowledged" in entry]

    def unknown(self, name: str) -> list[dict[str, Any]]:
        """The arguments of the calls of that name that were never acknowledged."""
        calls, results = self._read()
        return [
            call["arguments"] for key, call in calls.items() if call["name"] == name and key not in results
        ]

    def _write(self, line: dict[str, Any]) -> None:
        # One write below the size of a pipe's buffer, appended: lines of several processes never mix.
        handle = os.open(self._path, os.O_WRONLY | os.O_APPEND)
        try:
            os.write(handle, (json.dumps(line) + "\n").encode())
        finally:
            os.close(handle)

    def _read(self) -> tuple[dict[str, Any], dict[str, Any]]:
        calls: dict[str, Any] = {}
        results: dict[str, Any] = {}
        for line in self._path.read_text(encoding="utf-8").splitlines():
            entry = json.loads(line)
            if "acknowledged" in entry:
                results[entry["key"]] = entry["acknowledged"]
            else:
                calls[entry["key"]] = entry
        return calls, results
