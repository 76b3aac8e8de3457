"""Prepared stores, and the stacks of real processes that the services tests use."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.faults.lab import Lab
from tests.faults.scenarios import Operation, Scenario, open_store
from tests.services.conftest import start

__all__ = ["start"]


@pytest.fixture
def lab(tmp_path: Path, migrated: Path) -> Callable[[Scenario], Lab]:
    def make(scenario: Scenario | Operation) -> Lab:
        made = Lab(tmp_path, scenario)
        made.base.mkdir()
        shutil.copy(migrated, made.base / "zeph.db")
        before = {key: value for key, value in scenario.settings.items() if key != "embedding.dimensions"}
        with open_store(made.base, **before) as container:
            scenario.prepare(container, tmp_path)
        return made

    return make
