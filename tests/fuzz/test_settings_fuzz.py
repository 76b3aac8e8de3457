"""B9: every setting below, at and above its range, of the wrong type and under a wrong name; made from the model."""

from __future__ import annotations

import difflib
from types import NoneType
from typing import Any, Literal, get_args, get_origin

import pytest
from pydantic import SecretStr

from services import errors
from services.settings import Settings, _fields, load_settings

FIELDS = _fields()


@pytest.fixture(autouse=True)
def _nothing_configured(monkeypatch, tmp_path):
    monkeypatch.setenv("ZEPH_CONFIG", "")
    monkeypatch.setenv("ZEPH_DATA_DIR", str(tmp_path))


def kind_of(field: Any) -> Any:
    """The type of a setting, whether or not it may be left open."""
    if get_origin(field.annotation) is Literal:
        return Literal
    return next((it for it in get_args(field.annotation) if it is not NoneType), field.annotation)


def bounds(field: Any) -> dict[str, Any]:
    """The limits of a number by kind: ge, gt, le, lt."""
    return {
        name: getattr(rule, name)
        for rule in field.metadata
        for name in ("ge", "gt", "le", "lt")
        if getattr(rule, name, None) is not None
    }


NUMBERS = [key for key, field in FIELDS.items() if kind_of(field) in (int, float)]
# What no field of the kind takes.
WRONG: dict[Any, list[Any]] = {
    int: ["seven", "", 1.5, True, [1], {"a": 1}, None, float("nan"), float("inf"), 2**80, -(2**80)],
    float: [
        "half",
        "",
        True,
        [0.5],
        {"a": 1},
        None,
        float("nan"),
        float("inf"),
        -float("inf"),
        1e300,
        -1e300,
    ],
    bool: ["perhaps", "", 2, 0.5, [True], {"a": 1}, None],
    str: [7, 0.5, True, [""], {"a": 1}, None, b"x"],
    SecretStr: [7, 0.5, True, [""], {"a": 1}, None],
    Literal: ["none of these", "", 7, True, ["local"], {"a": 1}, None, "\x00"],
}


def wrong_values(field: Any) -> list[Any]:
    values = WRONG.get(kind_of(field), [7, 0.5, True, [1], {"a": 1}, "a\x00b"])
    open_ones = (None, "") if NoneType in get_args(field.annotation) else ()
    return [value for value in values if value not in open_ones]


def refused(key: str, value: Any) -> str:
    """The words in which the value is refused."""
    with pytest.raises(errors.SettingsError) as caught:
        load_settings(overrides={key: value})
    return str(caught.value)


@pytest.mark.parametrize("key", NUMBERS)
def test_every_number_has_a_range_and_is_refused_by_name_outside_of_it_b9(key):
    field = FIELDS[key]
    limits = bounds(field)
    step = 1 if kind_of(field) is int else 1e-6
    assert {"ge", "gt"} & limits.keys(), "it has no lower bound"
    assert {"le", "lt"} & limits.keys(), "it has no upper bound"
    outside = {"ge": -step, "gt": 0, "le": step, "lt": 0}
    for name, limit in limits.items():
        # In float arithmetic a step beside a large bound is none.
        value = limit + outside[name] * max(1, abs(limit) if kind_of(field) is float else 1)
        assert key in refused(key, value)
    for name in {"ge", "le"} & limits.keys():
        accepted_or_blamed_on_another(key, kind_of(field)(limits[name]))


def accepted_or_blamed_on_another(key: str, value: Any) -> None:
    """At its bound a setting is accepted; where it contradicts another one, the words name the table."""
    try:
        found: Any = load_settings(overrides={key: value})
    except errors.SettingsError as error:
        if f"[{key.rpartition('.')[0]}]" in str(error):
            return
        raise
    for name in key.split("."):
        found = getattr(found, name)
    assert found == value


@pytest.mark.parametrize("key", FIELDS)
def test_every_setting_of_a_wrong_type_is_refused_by_name_b9(key):
    for value in wrong_values(FIELDS[key]):
        assert key in refused(key, value), value


@pytest.mark.parametrize("key", FIELDS)
def test_a_misspelt_setting_is_refused_with_the_one_that_was_meant_b9(key):
    said = refused(f"{key}x", 1)
    assert f"{key}x" in said
    meant = said.partition("did you mean ")[2].partition("?")[0]
    assert difflib.SequenceMatcher(None, meant, key).ratio() > 0.7


@pytest.mark.parametrize(
    "key", [key for key, field in FIELDS.items() if get_origin(field.annotation) is Literal]
)
def test_every_choice_is_accepted_b9(key):
    for value in get_args(FIELDS[key].annotation):
        accepted_or_blamed_on_another(key, value)


def test_nothing_is_a_setting_that_these_tests_do_not_see():
    assert len(FIELDS) > 80
    assert isinstance(Settings(), Settings)
