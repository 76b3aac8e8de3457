import numpy as np
import pytest

from services.memory.ranking import (
    MICROSECONDS_PER_DAY,
    SESSION_GAP,
    Place,
    any_alike,
    decay,
    mmr,
    weigh,
    weights_by_length,
)

DAY = MICROSECONDS_PER_DAY
RIGHT, UP, MOSTLY_RIGHT = (np.array(v, dtype=np.float32) for v in ([1, 0], [0, 1], [0.8, 0.6]))


# ---- decay -----------------------------------------------------------------------------------------------------


def test_a_score_halves_with_each_half_life():
    assert decay(1.0, 30 * DAY, 30) == pytest.approx(0.5, abs=0.01)
    assert decay(1.0, 7 * 30 * DAY, 30) < 0.01
    assert decay(1.0, 3650 * DAY, 30) < 0.001


def test_no_age_an_age_in_the_future_and_no_half_life_change_nothing():
    assert decay(0.7, 0, 30) == decay(0.7, -5 * DAY, 30) == decay(0.7, 900 * DAY, 0) == 0.7


# ---- MMR -------------------------------------------------------------------------------------------------------


def test_among_equals_the_one_that_differs_beats_the_parallel_one():
    assert mmr({1: 1.0, 2: 0.5, 3: 0.5}, {1: RIGHT, 2: RIGHT, 3: UP}, trade_off=0.5, limit=3) == [1, 3, 2]


def test_a_duplicate_of_the_first_loses_to_a_different_item_of_slightly_lower_relevance():
    assert mmr({1: 1.0, 2: 0.99, 3: 0.9}, {1: RIGHT, 2: RIGHT, 3: UP}, trade_off=0.5, limit=2) == [1, 3]


def test_rank_05_trade_off_1_keeps_the_order_and_0_looks_only_for_what_differs():
    relevance = {1: 0.9, 2: 0.8, 3: 0.1}
    vectors = {1: RIGHT, 2: MOSTLY_RIGHT, 3: UP}
    assert mmr(relevance, vectors, trade_off=1, limit=3) == [1, 2, 3]
    assert mmr(relevance, vectors, trade_off=0, limit=3) == [1, 3, 2]
    opposed = {1: RIGHT, 2: UP, 3: -RIGHT}
    assert mmr({1: 1.0, 2: 0.9, 3: 0.8}, opposed, trade_off=0, limit=2) == [1, 3]


def test_the_top_comes_first_and_the_earlier_wins_ties():
    assert mmr({7: 0.1, 5: 0.1, 6: 0.1}, {}, trade_off=0.5, limit=3) == [7, 5, 6]


def test_an_item_without_a_vector_is_like_nothing():
    assert mmr({1: 1.0, 2: 0.9, 3: 0.8}, {1: RIGHT, 2: RIGHT}, trade_off=0.5, limit=3) == [1, 3, 2]


def test_pairs_below_the_threshold_are_left_alone_and_at_the_threshold_are_not():
    relevance = {1: 1.0, 2: 0.9, 3: 0.8}
    vectors = {1: RIGHT, 2: MOSTLY_RIGHT, 3: UP}
    similarity = float(RIGHT @ MOSTLY_RIGHT)
    assert mmr(relevance, vectors, trade_off=0.5, limit=3, threshold=similarity) == [1, 3, 2]
    assert mmr(relevance, vectors, trade_off=0.5, limit=3, threshold=similarity + 0.01) == [1, 2, 3]


def test_without_two_alike_among_the_first_mmr_keeps_them_as_they_are():
    dice, kept = np.random.default_rng(7), 0
    relevance = {item: 1.0 - item / 100 for item in range(30)}
    for _ in range(200):
        rows = dice.standard_normal((30, 4)).astype(np.float32)
        vectors = dict(enumerate(rows / np.linalg.norm(rows, axis=1, keepdims=True)))
        if not any_alike([vectors[item] for item in range(5)], 0.8):
            kept += 1
            assert mmr(relevance, vectors, trade_off=0.7, limit=5, threshold=0.8) == [0, 1, 2, 3, 4]
    assert 0 < kept < 200


def test_two_at_the_threshold_are_alike_and_one_alone_is_not():
    similarity = 0.95
    near = np.array([similarity, (1 - similarity**2) ** 0.5], dtype=np.float32)
    assert any_alike([UP, RIGHT, near], similarity)
    assert not any_alike([UP, RIGHT, near], similarity + 0.01)
    assert not any_alike([RIGHT], similarity)


def test_nothing_in_or_no_limit_gives_nothing():
    assert mmr({}, {}, trade_off=0.5, limit=3) == mmr({1: 1.0}, {}, trade_off=0.5, limit=0) == []


# ---- weights ---------------------------------------------------------------------------------------------------


def test_words_weigh_more_among_short_messages_than_among_long_ones():
    short, middle, long = weights_by_length([150]), weights_by_length([225]), weights_by_length([300])
    assert weights_by_length([]) == weights_by_length([1]) == short
    assert weights_by_length([10**7]) == long
    assert short.keyword > middle.keyword > long.keyword
    assert short.vector < middle.vector < long.vector
    assert short.session < middle.session < long.session
    assert middle.keyword == pytest.approx((short.keyword + long.keyword) / 2)


def test_one_long_message_among_short_ones_changes_no_weights():
    assert weights_by_length([20, 30, 10**6]) == weights_by_length([25])


def test_an_assistant_counts_by_its_weight():
    places = {1: Place(1, 0, by_assistant=True), 2: Place(2, 0)}
    found = weigh({1: 1.0, 2: 0.6}, places, assistant_weight=0.5, session_weight=0)
    assert found == {1: 0.5, 2: 0.6}


def test_a_message_found_among_others_of_its_session_rises():
    alone, company = Place(1, 0), Place(1, 10 * SESSION_GAP)
    found = weigh(
        {1: 0.9, 2: 0.9, 3: 0.8}, {1: alone, 2: company, 3: company}, assistant_weight=1, session_weight=0.4
    )
    assert found[2] > found[1]


def test_a_session_ends_with_an_hour_of_silence_or_the_conversation():
    def worth(place):
        return weigh({1: 1.0, 2: 1.0}, {1: Place(1, 0), 2: place}, assistant_weight=1, session_weight=1)[1]

    assert worth(Place(1, SESSION_GAP)) == 2.0
    together = weigh(
        {1: 1.0, 2: 1.0, 3: 1.0},
        {1: Place(1, 0), 2: Place(1, SESSION_GAP), 3: Place(1, 2 * SESSION_GAP + 1)},
        assistant_weight=1,
        session_weight=1,
    )
    assert together == {1: 2.0, 2: 2.0, 3: 1.5}
    other = weigh(
        {1: 1.0, 2: 1.0, 3: 1.0},
        {1: Place(1, 0), 2: Place(1, 0), 3: Place(2, 0)},
        assistant_weight=1,
        session_weight=1,
    )
    assert other[3] == 1.5


def test_nothing_found_weighs_nothing():
    assert weigh({}, {}, assistant_weight=1, session_weight=1) == {}
