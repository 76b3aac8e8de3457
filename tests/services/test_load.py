"""The load suite itself, at a scale at which only counts can be judged: `python -m tests.bench.load` is the real thing."""

from __future__ import annotations

import pytest

from tests.bench.load.suite import LOADS, run

pytestmark = [pytest.mark.services, pytest.mark.timeout(300)]

SCALE = 0.004


@pytest.mark.parametrize("name", LOADS)
def test_a_load_of_any_size_loses_nothing_and_leaves_a_sound_store(name):
    result = run(name, SCALE)
    assert [figure for figure in result.figures if figure.exact and not figure.kept] == []
    assert any(figure.limit is not None for figure in result.figures)
