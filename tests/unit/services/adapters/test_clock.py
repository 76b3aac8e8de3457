import time

from services.adapters.clock import SystemClock, SystemEntropy


def test_the_system_clock_counts_microseconds_and_sleeps():
    clock = SystemClock()
    assert abs(clock.now() - time.time() * 1_000_000) < 5_000_000
    before = clock.monotonic()
    clock.sleep(0.01)
    clock.sleep(-1)
    assert 0.01 <= clock.monotonic() - before < 5


def test_tokens_differ_and_numbers_stay_within_their_bounds():
    entropy = SystemEntropy()
    tokens = {entropy.token() for _ in range(100)}
    assert len(tokens) == 100
    assert all(len(token) == 32 and int(token, 16) >= 0 for token in tokens)
    assert all(2 <= entropy.uniform(2, 3) <= 3 for _ in range(100))
