"""JSON from strangers. What files full of it do is tested with the snapshots."""

from __future__ import annotations

import pytest

from services import errors
from services.memory import strict_json


@pytest.mark.parametrize(
    "text", ["1", '"x"', "[]", '{"a": [1.5, null, true, "\\ud83d\\ude00 雨"]}', b'"\xc3\xa4"']
)
def test_sound_json_is_read_as_json_reads_it(text):
    import json

    assert strict_json.parse(text) == json.loads(text)


def test_the_depth_is_counted_in_lists_and_objects():
    deep = "[" * 8 + '{"a":' * 8 + "1" + "}" * 8 + "]" * 8
    assert strict_json.parse(deep)
    with pytest.raises(errors.InputError, match="nested too deep"):
        strict_json.parse(f"[{deep}]")
    with pytest.raises(errors.InputError, match="nested too deep"):
        strict_json.parse("[[]]", depth=1)


def test_a_piece_of_many_values_is_refused_before_it_is_built(monkeypatch):
    monkeypatch.setattr(strict_json, "_MOST_VALUES", 10)
    with pytest.raises(errors.InputError, match="more than 10 values"):
        strict_json.parse("[" + "0," * 10 + "0]")
    assert strict_json.parse('["[[[[{{{{,,,,\\",,,,"]') == ['[[[[{{{{,,,,",,,,']


@pytest.mark.parametrize(
    "text", ["NaN", "[-Infinity]", "1e999", '{"a":1,"a":1}', '"\\udc00"', '["\\ud83d"]', b"\xff", ""]
)
def test_what_could_be_read_in_two_ways_is_refused(text):
    with pytest.raises(errors.InputError):
        strict_json.parse(text)
