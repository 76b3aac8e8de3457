"""JSON from strangers: parsed within limits, never read in two ways, and made storable where it comes as values."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any

from services import errors

_MOST_VALUES = 5_000_000
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)


def parse(text: str | bytes, *, depth: int = 16) -> Any:
    """The value of one JSON document.

    Raises InputError for what is no UTF-8 or no JSON, nested deeper than `depth`, of more than five million values, and
    for NaN, infinite numbers, keys given twice and halves of surrogate pairs.
    """
    try:
        decoded = text.decode() if isinstance(text, bytes) else text
        if _values(decoded) > _MOST_VALUES and _values(_STRING.sub("", decoded)) > _MOST_VALUES:
            raise errors.InputError(f"it holds more than {_MOST_VALUES} values in one piece")
        value = _DECODER.decode(decoded)
    except UnicodeDecodeError as error:
        raise errors.InputError(f"it is not UTF-8 ({error.reason} at byte {error.start})") from error
    except ValueError as error:
        raise errors.InputError(f"it is not JSON ({error})") from error
    except RecursionError as error:
        raise errors.InputError(f"it is nested deeper than {depth} levels") from error
    _check(value, depth)
    return value


def sound(value: Any, *, depth: int = 16) -> Any:
    """The value as JSON can tell it, halves of surrogate pairs replaced by U+FFFD.

    Raises InputError for what is nested deeper than `depth`, for NaN and infinite numbers, keys that are no text and
    anything else that JSON does not know.
    """
    if isinstance(value, str):
        return value if value.isascii() else _whole(value)
    if isinstance(value, float) and not math.isfinite(value):
        raise errors.InputError(f"it holds the number {value}, which JSON cannot tell")
    if value is None or isinstance(value, bool | int | float):
        return value
    if depth == 0:
        raise errors.InputError("it is nested too deep")
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return {_whole(key): sound(inner, depth=depth - 1) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [sound(inner, depth=depth - 1) for inner in value]
    raise errors.InputError(f"it holds a {type(value).__name__} that JSON cannot tell")


def _whole(text: str) -> str:
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _values(text: str) -> int:
    return sum(map(text.count, "[{,"))


def _check(value: Any, depth: int) -> None:
    if isinstance(value, str):
        if not value.isascii() and any("\ud800" <= character <= "\udfff" for character in value):
            raise errors.InputError("it holds half of a surrogate pair")
    elif isinstance(value, dict | list):
        if depth == 0:
            raise errors.InputError("it is nested too deep")
        if isinstance(value, dict):
            for key in value:
                _check(key, depth)
        for inner in value.values() if isinstance(value, dict) else value:
            _check(inner, depth - 1)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise errors.InputError("it gives a key twice")
    return found


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise errors.InputError(f"it holds the number {digits[:40]}, which is too large")
    return number


def _constant(name: str) -> float:
    raise errors.InputError(f"it holds {name}, which is no JSON")


_DECODER = json.JSONDecoder(object_pairs_hook=_unique, parse_float=_finite, parse_constant=_constant)
