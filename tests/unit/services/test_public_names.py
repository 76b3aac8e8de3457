"""The names that the package promises."""

from __future__ import annotations

import builtins

import pytest

import services
from services import errors


def test_every_public_name_is_sorted_listed_and_importable():
    assert list(services.__all__) == sorted(services.__all__) == sorted(services._HOMES)
    for name in services.__all__:
        assert getattr(services, name).__name__ == name


def test_an_unknown_public_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="Nonsense"):
        services.Nonsense  # noqa: B018


def test_our_memory_error_and_the_builtin_do_not_catch_each_other():
    assert not issubclass(errors.MemoryError, builtins.MemoryError)
    assert not issubclass(builtins.MemoryError, errors.MemoryError)


def test_every_error_is_drawn_in_the_tree_of_the_module():
    drawn = errors.__doc__ or ""
    defined = [
        name
        for name, value in vars(errors).items()
        if isinstance(value, type) and value.__module__ == errors.__name__
    ]
    assert [name for name in defined if name not in drawn] == []
