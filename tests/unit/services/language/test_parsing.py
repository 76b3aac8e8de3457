"""Whatever a model writes is read item by item, or is an error with a sample."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services import errors
from services.language.parsing import MAX_REPLY_CHARACTERS, clean, cut, parse_object, texts

FIELDS = ("summary", "key_facts")
WHOLE = {"summary": "s", "key_facts": ["a", "b"]}
JSON = json.dumps(WHOLE)


def parse(text, **options):
    return parse_object(text, fields=FIELDS, **options)


@pytest.mark.parametrize(
    "reply",
    [
        JSON,
        f"\ufeff  {JSON}\n",
        json.dumps(WHOLE, indent=4),
        f"```json\n{JSON}\n```",
        f"```\n{JSON}\n```",
        f"Here you are:\n```json\n{JSON}\n```\nAnything else?",
        f"```python\nprint({{}})\n```\n```json\n{JSON}\n```",
        f"Sure! {JSON} I hope this helps.",
        f"The {{braces}} of prose {{ are no answer }}: {JSON}",
        f'First {{"wrong": 1}}, then {JSON}',
        f'An echo {{"type": "object", "properties": {{"x": {{}}}}}} and {JSON}',
        f'<think>maybe {{"summary": "draft"}}?</think>\n{JSON}',
        f"[{JSON}]",
        f"{JSON}\n{JSON}",
        f"```json\n{JSON}",
        f'{{"summary" is what you want, so {JSON}',
    ],
)
def test_an_answer_is_found_wherever_it_stands(reply):
    parsed = parse(reply)
    assert (parsed.value, parsed.partial) == (WHOLE, False)


def test_other_languages_quotes_and_braces_inside_texts_change_nothing():
    value = {"summary": 'Er sagte: "{nein}" ]}, 好的', "key_facts": ["a\\", "```json\n{}\n```"]}
    assert parse(f"Bitte: {json.dumps(value, ensure_ascii=False)} }}").value == value


@pytest.mark.parametrize(
    ("reply", "value"),
    [
        ('{"summary": "s", "key_facts": ["a", "b", "c', {"summary": "s", "key_facts": ["a", "b"]}),
        ('{"summary": "s", "key_facts": ["a", "b"', {"summary": "s", "key_facts": ["a"]}),
        ('{"summary": "s", "key_facts": ["a", "b"]', {"summary": "s", "key_facts": ["a", "b"]}),
        ('{"summary": "s", "key_facts": [', {"summary": "s"}),
        ('{"summary": "s", "key_f', {"summary": "s"}),
        ('```json\n{"summary": "s", "key_facts": ["a", "b', {"summary": "s", "key_facts": ["a"]}),
        (
            '{"key_facts": [{"fact": "a", "why": "x"}, {"fact": "b", "why',
            {"key_facts": [{"fact": "a", "why": "x"}]},
        ),
        (
            '{"key_facts": [{"fact": ["a", "b"]}, {"fact": ["c", "d"], "why": "x", "z',
            {"key_facts": [{"fact": ["a", "b"]}]},
        ),
        (
            '{"summary": "outer", "key_facts": [{"summary": "inner"}, {"summary": "in',
            {"summary": "outer", "key_facts": [{"summary": "inner"}]},
        ),
        ('{"summary": "s", "n": 12', {"summary": "s"}),
    ],
)
def test_a_cut_off_answer_yields_its_complete_items_and_says_that_it_is_partial(reply, value):
    parsed = parse(reply)
    assert (parsed.value, parsed.partial) == (value, True)


@pytest.mark.parametrize(
    ("reply", "items", "partial"),
    [
        ('[{"fact": "a"}, {"fact": "b"}]', 2, False),
        ('Facts: [{"fact": "a"}, {"fact": "b"}]!', 2, False),
        ('[{"fact": "a"}, {"fact": "b"}, {"fa', 2, True),
        ('["a", "b", "c', 2, True),
    ],
)
def test_a_list_in_place_of_the_object_is_its_list(reply, items, partial):
    parsed = parse(reply, list_field="key_facts")
    assert (len(parsed.value["key_facts"]), parsed.partial) == (items, partial)
    with pytest.raises(errors.ReplyUnusable):
        parse('["a", "b"]')


def test_numbers_that_are_none_read_as_null():
    assert parse('{"summary": NaN, "key_facts": [Infinity, -Infinity, 1e400]}').value["summary"] is None


@pytest.mark.parametrize(
    "reply",
    [
        "",
        "   ",
        "I cannot do that.",
        "null",
        "42",
        '"text"',
        "[]",
        "{}",
        "[1, 2]",
        '{"other": 1}',
        '{"summary": "never en',
        "{" * 50_000,
        "[" * 50_000,
        '{"a":' * 50_000,
        '{"summary":[' * 20_000,
        '{"n": ' + "9" * 5_000 + "}",
        "<think>" * 40_000,
        "```json\n" * 30_000,
        '{"' * 100_000,
        "\\" * 100_000 + '"' * 100_000,
        "\x00\ud800",
        "x" * 10_000_000,
    ],
    ids=range(22),
)
def test_what_is_no_answer_is_an_error_and_soon(reply):
    started = time.monotonic()
    with pytest.raises(errors.ReplyUnusable):
        parse(reply)
    assert time.monotonic() - started < 2


def test_a_reply_of_the_largest_size_is_read():
    value = {"summary": "x" * (MAX_REPLY_CHARACTERS - 100), "key_facts": []}
    assert parse(json.dumps(value)).value == value


def test_the_error_shows_where_the_reply_starts_without_keys_and_control_characters():
    secret = "sk-abcdefghijklmnopqrstuvwxyz"
    with pytest.raises(errors.ReplyUnusable) as caught:
        parse(f"\x1b[31mMy key is {secret}, password: hunter22!\n" + "y" * 1_000)
    message = str(caught.value)
    assert "My key is [redacted], password: [redacted]" in message
    assert secret not in message
    assert "\x1b" not in message
    assert len(message) < 400


@settings(max_examples=200)
@given(st.text())
@pytest.mark.slow
def test_any_text_is_an_answer_or_an_error(reply):
    try:
        parsed = parse(reply)
    except errors.ReplyUnusable:
        return
    assert set(FIELDS) & set(parsed.value)


_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@settings(max_examples=200)
@given(st.lists(st.text(min_size=1), min_size=1), st.data())
def test_any_cut_gives_the_first_items_unchanged_or_an_error(facts, data):
    reply = json.dumps({"summary": "s", "key_facts": facts})
    at = data.draw(st.integers(0, len(reply) - 1))
    try:
        parsed = parse(reply[:at])
    except errors.ReplyUnusable:
        assert at <= len('{"summary": "s",')
        return
    found = parsed.value.get("key_facts", [])
    assert parsed.partial
    assert parsed.value["summary"] == "s"
    assert found == facts[: len(found)]


@settings(max_examples=100)
@given(st.dictionaries(st.sampled_from(FIELDS), _values, min_size=1))
@pytest.mark.slow
def test_any_object_with_a_wanted_field_comes_back_as_it_was(value):
    assert parse(f"Answer: {json.dumps(value)} .").value == value


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (["a", "b"], ["a", "b"]),
        (["a", "A ", " a"], ["a"]),
        (["", "  ", "...", None, 3, True, [], ["x"]], []),
        ([{"fact": "a", "n": 1}, {"n": 1}, {}], ["a"]),
        ("a", ["a"]),
        (None, []),
        ({"fact": "a"}, ["a"]),
        (["one\n two\tthree"], ["one two three"]),
        (["a\x00b\ud800c\u202ed"], ["abcd"]),
        (["&lt;b&gt; &amp;amp;"], ["<b> &amp;"]),
        (["a", "b", "c", "d"], ["a", "b", "c"]),
        (["word " * 10], ["word word word…"]),
        (["安娜住在里斯本"], ["安娜住在里斯本"]),
    ],
)
def test_items_are_checked_one_by_one(value, found):
    assert texts(value, max_items=3, max_length=18) == found


def test_long_texts_are_cut_between_words_where_that_loses_little():
    assert cut("one two three", 9) == "one two…"
    assert cut("x" * 20, 10) == "x" * 9 + "…"
    assert cut("short", 5) == "short"
    assert clean(" a\x07b \n") == "ab"
