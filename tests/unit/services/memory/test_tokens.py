"""TokenCounter: exact counts offline, and an honest estimate without the tables."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.memory import tokens
from services.memory.tokens import TokenCounter


@pytest.mark.parametrize(
    ("encoding", "text", "expected"),
    [
        ("cl100k_base", "", 0),
        ("cl100k_base", "hello world", 2),
        ("cl100k_base", "tiktoken is great!", 6),
        ("o200k_base", "hello world", 2),
        ("cl100k_base", "x" * 1_000, 125),
    ],
)
def test_known_texts_have_their_published_lengths(
    encoding: tokens.Encoding, text: str, expected: int
) -> None:
    assert TokenCounter(encoding).count(text) == expected


def test_split_11_names_of_special_tokens_count_as_ordinary_text() -> None:
    counter = TokenCounter()
    assert counter.count("<|endoftext|>") > 1
    assert counter.count("<|im_start|>") > 1


def test_a_batch_counts_each_text_as_alone() -> None:
    texts = ["", "one", "two words", "\ud800 lone", "世界"]
    counter = TokenCounter()
    assert counter.count_batch(texts) == [counter.count(text) for text in texts]


@settings(max_examples=50)
@given(st.text(st.characters(exclude_categories=())))
def test_no_string_raises(text: str) -> None:
    assert (TokenCounter().count(text) == 0) == (text == "")


@pytest.mark.parametrize("text", ["\ud800", "a\udfffb", "\x00", "\U0010ffff", "e" + "\u0301" * 100])
def test_odd_characters_are_counted(text: str) -> None:
    assert TokenCounter().count(text) >= 1


def test_without_the_tables_the_count_is_an_estimate_that_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    counter = TokenCounter()
    assert not counter.exact
    assert counter.count_batch(["", "abcd", "abcde", "世界", "\ud800"]) == [0, 1, 2, 2, 1]


def test_with_the_tables_the_count_is_exact() -> None:
    assert TokenCounter().exact
