import numpy as np

from services.adapters.in_memory import FixedEntropy, HashEmbedder, ManualClock


def test_texts_that_share_words_are_more_alike_than_others():
    rows = HashEmbedder(256).embed(
        ["the borrow checker of Rust", "Rust has a borrow checker", "bread needs yeast"], kind="document"
    )
    assert rows[0] @ rows[1] > rows[0] @ rows[2] + 0.3


def test_rows_have_unit_length_and_are_the_same_every_time():
    texts = ["one", "", "漢字", "\ud800"]
    rows = HashEmbedder(8).embed(texts, kind="query")
    assert rows.shape == (4, 8)
    assert rows.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, rtol=1e-6)
    np.testing.assert_array_equal(rows, HashEmbedder(8).embed(texts, kind="document"))


def test_windows_hold_two_hundred_words_each_and_lose_none():
    words = [f"w{i}" for i in range(450)]
    pieces = HashEmbedder().windows(" ".join(words))
    assert [len(piece.split()) for piece in pieces] == [200, 200, 50]
    assert " ".join(pieces).split() == words
    assert HashEmbedder().windows(" \n") == []


def test_the_manual_clock_moves_by_sleeping_and_advancing_only():
    clock = ManualClock(now=5)
    clock.sleep(1.5)
    clock.sleep(-3)
    clock.advance(0.5)
    assert clock.now() == 2_000_005
    assert clock.monotonic() == 2.0


def test_fixed_entropy_counts_and_takes_a_fraction():
    entropy = FixedEntropy(fraction=0.25)
    assert [int(entropy.token(), 16), int(entropy.token(), 16)] == [1, 2]
    assert entropy.uniform(10, 20) == 12.5
