"""One stack of real processes per test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.services.harness import Stack
from tests.services.leaks import SECRETS, leaks


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Stack]]:
    """Start stacks; keyword arguments are those of Stack. Whatever a test does to one, its store is sound in the end."""
    stacks: list[Stack] = []
    with ExitStack() as opened:

        def make(name: str = "stack", **settings: Any) -> Stack:
            stacks.append(opened.enter_context(Stack(tmp_path / name, **SECRETS | settings)))
            return stacks[-1]

        yield make
        for stack in stacks:
            # Servers that a test has taken down leave parts unchecked.
            assert stack.container.doctor.examine().findings == ()
            assert leaks(stack) == []
