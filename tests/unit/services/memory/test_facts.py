"""B-21 with care: what is said again goes, what is news stays."""

from __future__ import annotations

import pytest

from services.memory.facts import same_claim


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("Ana moved to Lisbon in 2024.", "In 2024, Ana moved to Lisbon."),
        (
            "The deploy failed because of an expired certificate.",
            "An expired certificate made the deploy fail.",
        ),
        ("Ana lives in Lisbon.", "Ana is living in Lisbon."),
        ("The user is a software engineer.", "User is a software engineer."),
        ("The team uses PostgreSQL 15 in production.", "In production the team uses PostgreSQL 15."),
        ("Same words.", "same WORDS"),
    ],
)
def test_b_21_a_rewording_says_the_same(first, second):
    assert same_claim(first, second)
    assert same_claim(second, first)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("The key is rotated every 30 days.", "The key is rotated every 90 days."),
        ("The backup runs at three at night.", "The backup runs at four at night."),
        ("The deploy moved to Friday.", "The deploy moved to Monday."),
        ("Ana lives in Lisbon.", "Ana lives in Porto."),
        ("Ana is allergic to peanuts.", "Ana is not allergic to peanuts."),
        ("Ana isn't allergic to peanuts.", "Ana is allergic to peanuts."),
        ("The user prefers tabs over spaces.", "The user prefers spaces over tabs."),
        ("Caroline reports to Melanie.", "Melanie reports to Caroline."),
        ("The service runs version v2.1.", "The service runs version v2.2."),
        ("Run the tests before the deploy.", "Run the tests after the deploy."),
        ("安娜三点起床。", "安娜四点起床。"),
        ("The path is a_b.", "The path is a_c."),
    ],
)
def test_a_correction_is_news_however_alike_the_vectors_are(first, second):
    assert not same_claim(first, second)
    assert not same_claim(second, first)


@pytest.mark.parametrize("text", ["", "the of and", "\ud800", "!" * 1_000])
def test_any_text_can_be_compared(text):
    assert same_claim(text, text)
