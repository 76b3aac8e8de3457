"""The machine's own clock and randomness."""

from __future__ import annotations

import random
import secrets
import time


class SystemClock:
    """The machine's time."""

    def now(self) -> int:
        """Microseconds since 1970-01-01 UTC."""
        return time.time_ns() // 1_000

    def monotonic(self) -> float:
        """Seconds that only ever grow; for durations."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Wait that long; not at all for zero or less."""
        if seconds > 0:
            time.sleep(seconds)


class SystemEntropy:
    """The machine's randomness; children of a fork draw different values."""

    def token(self) -> str:
        """A fresh unguessable token of 32 hexadecimal digits."""
        return secrets.token_hex(16)

    def uniform(self, low: float, high: float) -> float:
        """A number between the two, both included."""
        return random.SystemRandom().uniform(low, high)
