"""The profile leaves the environment before any test runs, also one that has no amounts."""

import tests.fuzz.amounts  # noqa: F401
