"""The map of the tests names only tests that exist, and every known bug once."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).parents[1]
MAP = (TESTS / "README.md").read_text(encoding="utf-8")


def test_every_test_on_the_map_exists():
    defined = {
        name
        for path in TESTS.rglob("test_*.py")
        for name in re.findall(r"^def (test_\w+)", path.read_text(encoding="utf-8"), re.MULTILINE)
    }
    named = set(re.findall(r"`(test_\w+)`", MAP))
    assert named
    assert named - defined == set()


def test_each_line_of_the_map_names_a_test_or_says_why_there_is_none():
    lines = [line for line in MAP.splitlines() if line.startswith("|") and "`" not in line]
    headings = ("| **", "|---", "| What ", "| Bug ")
    bare = [line for line in lines if not line.startswith(headings)]
    assert [line for line in bare if "| does not apply: " not in line] == []


def test_each_known_bug_is_on_the_map_once_and_in_order():
    listed = [int(number) for number in re.findall(r"^\| B-(\d+) \|", MAP, re.MULTILINE)]
    assert listed == list(range(1, 56))
    graphs = [int(number) for number in re.findall(r"^\| G-(\d+) \|", MAP, re.MULTILINE)]
    assert graphs == list(range(1, 52))
