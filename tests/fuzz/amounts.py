"""How much is tried: a sample with every commit, the plan's amounts with `ZEPH_FUZZ_PROFILE=nightly`.

A commit is tested with the same inputs every time, so that it fails for what it changed; nights try new ones, and
print what reproduces a failure.
"""

from __future__ import annotations

import os
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, settings

T = TypeVar("T")

# Taken out of the environment: the settings refuse variables of ours that they do not know.
PROFILE = os.environ.pop("ZEPH_FUZZ_PROFILE", "commit")

_COMMON: dict[str, Any] = {
    "deadline": None,
    "database": None,
    "print_blob": True,
    "suppress_health_check": list(HealthCheck),
}
settings.register_profile("commit", derandomize=True, **_COMMON)
settings.register_profile("nightly", **_COMMON)

# What every module of this folder is marked with.
MARKS = [pytest.mark.slow, pytest.mark.timeout(7_200 if PROFILE == "nightly" else 300)]


def amount(*, commit: T, nightly: T) -> T:
    """What holds for this profile: mostly, how many of something it does."""
    return nightly if PROFILE == "nightly" else commit


def fuzz(*, commit: int, nightly: int, **options: Any) -> settings:
    """Decorates a test with so many examples."""
    profile = settings.get_profile(PROFILE)
    return settings(profile, max_examples=amount(commit=commit, nightly=nightly), **options)
