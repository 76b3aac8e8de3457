"""One stack of real processes per test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.services.harness import Stack


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Stack]]:
    """Start stacks; keyword arguments are those of Stack."""
    with ExitStack() as opened:

        def make(name: str = "stack", **settings: Any) -> Stack:
            return opened.enter_context(Stack(tmp_path / name, **settings))

        yield make
