"""The detection of corrections: time for one message, and whether it grows with the length of the message.

Run: python tests/bench/bench_corrections.py [rounds].
"""

from __future__ import annotations

import sys
import time
from statistics import median, quantiles

from services.corrections.detector import FeedbackDetector, is_standing

_ANSWERS = ("", "I have added the function, and all tests pass.", "Two files are left. Shall I change both?")
_MESSAGES = (
    "no that's wrong",
    "thanks, now the next one",
    "please add a test for the parser that covers empty input",
    "Actually, let's also add a page on how to set it up on a fresh machine",
    "it still shows two lines where there should be one",
    "the second chart should have its legend on the left, and the axis should start at zero; do the same for the third",
    "That didn't work, I get the same error as before when I run it in the container",
    "Das stimmt so nicht, die Datei liegt im anderen Ordner",
    "不对，应该是四个",
    "can you explain why the cache is keyed by the whole request and not only by the prompt?",
)
_BUDGET_MICROSECONDS = 50


def main(rounds: int = 2_000) -> None:
    """Print microseconds for one message, and the time of long ones relative to 10 KB."""
    detector = FeedbackDetector()
    times, standing = [], []
    for number in range(rounds):
        message, answer = _MESSAGES[number % len(_MESSAGES)], _ANSWERS[number % len(_ANSWERS)]
        started = time.perf_counter()
        detector.detect(message, (_MESSAGES[0], _MESSAGES[2]), answer=answer)
        between = time.perf_counter()
        is_standing(message)
        times.append(1e6 * (between - started))
        standing.append(1e6 * (time.perf_counter() - between))
    print(f"{rounds} messages, median length {median(map(len, _MESSAGES)):.0f} characters")
    print(
        f"p50 {median(times):.0f} us (budget {_BUDGET_MICROSECONDS}), p99 {quantiles(times, n=100)[98]:.0f} us"
    )
    print(f"whether it holds from now on: p50 {median(standing):.0f} us")
    base = _seconds(detector, 10_000)
    for length in (100_000, 1_000_000):
        print(f"{length:>9} characters: {_seconds(detector, length) / base:.1f} times 10,000 characters")


def _seconds(detector: FeedbackDetector, length: int) -> float:
    piece = "it still does not work, the second line is wrong "
    message = piece * (length // len(piece))
    times = []
    for _ in range(20):
        started = time.perf_counter()
        detector.detect(message, (message,), answer=message)
        times.append(time.perf_counter() - started)
    return median(times)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
