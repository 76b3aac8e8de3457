"""What the load suite judges by."""

from __future__ import annotations

import os
import subprocess
import sys

from tests.bench.load.measuring import (
    Figure,
    Sampler,
    Taken,
    children,
    command,
    count,
    cpu_seconds,
    growth,
    open_files,
    paced,
    percentile,
    resident,
    times,
)


def test_a_limit_is_kept_by_what_equals_it_and_missed_beyond():
    assert [Figure("", value, limit=5).kept for value in (4.9, 5, 5.1)] == [True, True, False]
    assert [Figure("", value, limit=5, at_least=True).kept for value in (4.9, 5, 5.1)] == [False, True, True]
    assert Figure("", 1e9).kept


def test_a_count_that_is_off_is_missed_whatever_the_direction():
    assert [all(each.kept for each in count("rows", value, 7)) for value in (6, 7, 8)] == [False, True, False]


def test_a_percentile_is_a_value_that_was_measured():
    ordered = list(range(1, 101))
    assert [percentile(ordered, share) for share in (0, 0.5, 0.99, 1)] == [1, 51, 100, 100]
    assert percentile([3], 0.99) == 3


def test_times_are_given_in_milliseconds_with_their_limits():
    taken = [Taken(0.001 * number, 0.0001) for number in range(100)]
    figures = times("call", taken, p50=40, p99=200)
    assert [round(figure.value, 6) for figure in figures] == [50, 99, 99, 0.1, 0.1]
    assert [figure.kept for figure in figures] == [False, True, True, True, True]


def test_growth_compares_the_end_with_what_the_start_had_settled_to():
    assert growth([1] * 10 + [100] * 90) == 0
    assert growth([100] * 50 + [150] * 50) == 50
    assert growth([50] * 10 + [100] * 90, 0) == 100


def test_calls_are_paced_and_late_ones_follow_at_once():
    numbers: list[int] = []
    assert len(paced(numbers.append, 5, per_second=1_000)) == 5
    assert numbers == [0, 1, 2, 3, 4]


def test_a_sampler_reads_at_the_start_meanwhile_and_at_the_end():
    values = iter(range(10_000))
    with Sampler({"one": lambda: next(values)}, every_seconds=0.001) as sampler:
        while len(sampler.readings["one"]) < 3:
            pass
    assert sampler.readings["one"][:3] == [0, 1, 2]
    assert sampler.peak("one") == sampler.readings["one"][-1]


def test_processes_are_seen_while_they_live_and_are_nothing_afterwards():
    talk = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", "print(input('ready'))"], **talk) as child:
        assert child.stdout is not None
        assert child.stdout.read(5) == b"ready"
        assert child.pid in children(os.getpid())
        assert "input('ready')" in command(child.pid)
        assert resident(child.pid) > 2**20
        assert open_files(child.pid) >= 3
        child.communicate(b"\n")
    assert (resident(child.pid), open_files(child.pid), cpu_seconds(child.pid)) == (0, 0, 0)
    assert cpu_seconds(os.getpid()) > 0
