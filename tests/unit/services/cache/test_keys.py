"""Which requests are one and the same."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services import errors
from services.cache.keys import cache_key, canonical, frame_key, question_of
from services.cache.models import CacheRequest


def asked(text="hello", model="m", **fields):
    return CacheRequest(model, [{"role": "user", "content": text}], **fields)


def key(request, namespace="default"):
    return cache_key(namespace, request)


def test_the_key_is_blake3_in_hexadecimal_and_equal_for_equal_requests():
    first = asked(sampling={"temperature": 0, "seed": 1, "top_p": None}, tools=({"type": "function"},))
    again = asked(sampling={"seed": 1.0, "temperature": 0.0}, tools=[{"type": "function"}])
    assert key(first) == key(again)
    assert len(key(first)) == 64
    assert int(key(first), 16)


@pytest.mark.parametrize(
    "other",
    [
        asked("hello "),
        asked("hello", "n"),
        asked(system="be brief"),
        asked(sampling={"temperature": 1}),
        asked(tools=[{"type": "function", "name": "search"}]),
        CacheRequest("m", [{"role": "assistant", "content": "hello"}]),
        CacheRequest("m", [{"role": "user", "content": "hello"}] * 2),
        CacheRequest("m", []),
    ],
)
def test_any_part_of_a_request_makes_another_key(other):
    assert key(other) != key(asked())


def test_a_question_after_another_context_is_another_question_b26():
    def after(context):
        return CacheRequest(
            "m", [{"role": "assistant", "content": context}, {"role": "user", "content": "explain this"}]
        )

    assert key(after("the lease")) != key(after("the mirror"))


def test_the_namespace_is_part_of_the_key():
    assert key(asked(), "a") != key(asked(), "b")


def test_fields_cannot_flow_into_one_another():
    assert key(asked(model="ab", system="c")) != key(asked(model="a", system="bc"))
    assert key(asked("", "m")) != key(asked("m", ""))


def test_the_empty_message_has_a_key():
    assert key(asked("")) != key(asked(" "))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"temperature": 0}, {"temperature": 1}),
        ({"max_tokens": 16}, {"max_tokens": 4_000}),
    ],
)
def test_temperature_and_limits_count_case_cache_01(first, second):
    assert key(asked(sampling=first)) != key(asked(sampling=second))


def test_the_seed_counts_case_cache_03():
    assert key(asked(sampling={"seed": 1})) != key(asked(sampling={"seed": 2}))


def test_true_is_not_one_and_text_is_not_a_number():
    assert len({canonical(value) for value in (True, 1, "1", [1], None)}) == 5


@pytest.mark.parametrize(
    "value", [float("nan"), float("inf"), object(), {1: "one"}, b"bytes", {"deep": [{"set": {1}}]}]
)
def test_what_is_no_json_has_no_key(value):
    with pytest.raises(errors.InputError):
        key(asked(sampling={"odd": value}))


def test_what_nests_without_end_has_no_key():
    endless = []
    endless.append(endless)
    with pytest.raises(errors.InputError, match="too deeply"):
        canonical(endless)


@given(st.text(), st.text())
def test_texts_have_one_key_exactly_if_they_are_equal(first, second):
    assert (key(asked(first)) == key(asked(second))) == (first == second)


def test_lone_surrogates_have_a_key():
    assert key(asked("\ud800")) != key(asked("\ud801"))


# ---- similar questions -----------------------------------------------------------------------------------------


def test_the_wording_of_the_question_is_outside_the_frame_and_all_else_inside():
    assert frame_key(asked("how do I start it")) == frame_key(asked("how is it started"))
    assert frame_key(asked("how", system="a")) != frame_key(asked("how", system="b"))
    assert frame_key(asked("how", sampling={"seed": 1})) != frame_key(asked("how"))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("what is 2 + 2", "what is 2 + 3"),
        ("open ticket E-417", "open ticket E-418"),
        ("is it allowed", "is it not allowed"),
        ("it works", "it doesn't work"),
    ],
)
def test_numbers_and_negations_belong_to_the_frame(first, second):
    assert frame_key(asked(first)) != frame_key(asked(second))


@pytest.mark.parametrize(
    "request_",
    [
        asked("what time is it", tools=[{"type": "function"}]),
        CacheRequest("m", [{"role": "tool", "content": "12:00"}, {"role": "user", "content": "and now?"}]),
        CacheRequest("m", [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "hi"}]),
        CacheRequest("m", []),
        asked(" "),
    ],
)
def test_tools_and_what_ends_without_a_question_have_no_frame_b27(request_):
    assert frame_key(request_) is None


def test_the_question_is_the_last_message_of_the_user():
    assert question_of(asked("hello")) == "hello"
    assert question_of(CacheRequest("m", [{"role": "user", "content": [{"type": "text"}]}])) is None
