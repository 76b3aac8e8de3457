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


# ---- messages and tools (section 8) ------------------------------------------------------------------------------


def counted(*texts: str) -> int:
    counter = TokenCounter()
    return sum(counter.count(text) for text in texts)


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        ({"kind": "text", "text": "hello world"}, counted("hello world")),
        ({"kind": "recall", "text": "hello world"}, counted("hello world")),
        ({"kind": "summary", "content": "hello world"}, counted("hello world")),
        ({"kind": "text", "text": " \n"}, 0),
        ({"kind": "tool_output", "tool_name": "sh", "body": "a b c"}, 8 + counted("sh", "a b c")),
        (
            {"kind": "tool_use", "id": "t1", "name": "search", "input": {"q": "pump"}},
            20 + counted("t1", "search", '{"q":"pump"}'),
        ),
        (
            {"kind": "tool_result", "tool_use_id": "t1", "content": "three hits"},
            15 + counted("t1", "three hits"),
        ),
        ({"kind": "image", "data": "x" * 100_000}, 1_050),
        (
            {"kind": "thinking", "thinking": "let me see", "signature": "abc"},
            10 + counted("let me see", "abc"),
        ),
        ({"kind": "redacted_thinking", "data": "x" * 41}, 10 + 10),
        ({"kind": "of tomorrow", "text": "hello"}, counted("hello")),
        ({}, 0),
    ],
)
def test_8_each_kind_of_part_has_its_price(part: dict[str, object], expected: int) -> None:
    assert TokenCounter().count_message("", [part]) == expected


def test_b_46_a_message_with_parts_is_counted_from_its_parts_alone() -> None:
    counter = TokenCounter()
    parts = [{"kind": "text", "text": "hello"}, {"kind": "image"}]
    assert counter.count_message("a very long flat content " * 100, parts) == counted("hello") + 1_050
    assert counter.count_message("hello world") == counted("hello world")


def test_8_a_tools_schema_is_counted_by_objects_keys_lists_and_values() -> None:
    counter = TokenCounter()
    frame = -3 + 7 + 12
    assert counter.count_tool_schema({}) == frame + 3
    assert counter.count_tool_schema({"a": True}) == frame + 3 + 3 + counted("a") + 1
    assert counter.count_tool_schema(["x", 1, None]) == frame + 3 + counted("x") + 2
    nested = {"type": "object", "enum": ["on", 2.5]}
    expected = frame + 3 + 3 + counted("type", "object") + 3 + counted("enum") + 3 + counted("on") + 1
    assert counter.count_tool_schema(nested) == expected


def test_a_deep_or_odd_schema_is_counted_without_an_error() -> None:
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    assert TokenCounter().count_tool_schema(deep) > 100_000
    assert TokenCounter().count_tool_schema({1: object(), "\ud800": {2}, 10**5_000: 1}) > 0
    loop: dict[str, object] = {"kind": "tool_use"}
    loop["input"] = loop
    assert TokenCounter().count_message("", [loop]) > 20


@pytest.mark.parametrize(("margin", "expected"), [(1.0, 10), (1.1, 11), (1.25, 13), (2.0, 20)])
def test_8_the_safety_margin_raises_every_count(margin: float, expected: int) -> None:
    counter = TokenCounter(safety_margin=margin)
    ten = "x" * 80
    assert TokenCounter().count(ten) == 10
    assert (counter.count(ten), counter.count_batch([ten])) == (expected, [expected])
    assert counter.count_message("", [{"kind": "text", "text": ten}]) == expected
    assert counter.count_tool_schema(ten) == -(-(16 + 10) * margin // 1)


def test_8_the_cache_is_bounded_in_texts_and_in_their_length() -> None:
    counter = TokenCounter()
    for number in range(10_050):
        counter.count(str(number))
    counter.count("x" * 2_001)
    assert counter._remembered.cache_info().currsize == 10_000


@settings(max_examples=50)
@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(st.characters(exclude_categories=())),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_no_part_and_no_schema_raises(value: object) -> None:
    counter = TokenCounter()
    assert counter.count_tool_schema(value) > 0
    assert counter.count_message("", [{"kind": "tool_use", "input": value, "name": value}]) >= 20
