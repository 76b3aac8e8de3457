"""B8: no vector without a direction reaches a store, whichever store it is."""

from __future__ import annotations

import shutil
import uuid
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from services import errors
from services.adapters.in_memory import InMemoryVectorStore
from services.adapters.qdrant import QdrantOps
from services.adapters.sqlite import Sqlite
from services.adapters.sqlite_vectors import SqliteVectorStore
from services.ports import Point
from tests.fuzz.amounts import MARKS, fuzz

pytestmark = MARKS

NAME, DIMENSION = "fuzz", 4
GOOD = np.ones(DIMENSION, dtype=np.float32)


@pytest.fixture(params=["memory", "sqlite", "qdrant"])
def store(request, tmp_path, migrated):
    if request.param == "memory":
        yield InMemoryVectorStore()
    elif request.param == "sqlite":
        database = Sqlite(shutil.copy(migrated, tmp_path / "zeph.db"))
        yield SqliteVectorStore(database, tmp_path / "cache")
        database.close()
    else:
        made = QdrantOps(location=":memory:")
        yield made
        made.close()


BAD_NUMBERS = st.sampled_from([float("nan"), float("inf"), -float("inf"), 1e200, 1e308])
ODD = st.one_of(
    st.lists(st.floats(-1, 1), max_size=3),
    st.lists(st.floats(-1, 1), min_size=5, max_size=9),
    st.tuples(*[st.floats(-1, 1)] * 3, BAD_NUMBERS).map(list),
    st.just([0.0] * DIMENSION),
    st.just([-0.0] * DIMENSION),
    st.just([5e-324] * DIMENSION),
    st.lists(st.text(max_size=3), min_size=DIMENSION, max_size=DIMENSION),
    st.lists(st.none() | st.booleans(), min_size=DIMENSION, max_size=DIMENSION).filter(lambda it: None in it),
    st.lists(st.lists(st.floats(-1, 1), max_size=2), min_size=DIMENSION, max_size=DIMENSION),
    st.just([1j] * DIMENSION),
    st.just([b"1"] * DIMENSION),
    st.just([{}] * DIMENSION),
    st.none() | st.text(max_size=4) | st.integers() | st.just({}),
    st.lists(st.lists(st.floats(-1, 1), min_size=4, max_size=4), max_size=2),
)


def test_vectors_without_a_direction_are_refused_before_the_store_is_called_b8(store):
    store.ensure_collection(NAME, DIMENSION)

    @fuzz(commit=170, nightly=1_700)
    @given(ODD, st.booleans())
    def check(odd: Any, as_array: bool) -> None:
        with np.errstate(all="ignore"):
            with suppress(ValueError):
                odd = np.array(odd) if as_array else odd
            points = [Point(str(uuid.UUID(int=1)), GOOD, {}), Point(str(uuid.UUID(int=2)), odd, {})]
            with pytest.raises(errors.InputError):
                store.upsert(NAME, "a", points)
            with pytest.raises(errors.InputError):
                store.search(NAME, "a", odd, limit=1)
        assert store.count(NAME) == 0

    check()


@fuzz(commit=200, nightly=2_000)
@given(
    st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=4, max_size=4),
    st.floats(1e-30, 1e30),
)
def test_vectors_with_a_direction_are_found_by_it_however_long_they_are_b8(values, scale):
    vector = np.array(values, dtype=np.float64) * scale
    store = InMemoryVectorStore()
    store.ensure_collection(NAME, DIMENSION)
    with np.errstate(all="ignore"):
        long_enough = np.isfinite(vector @ vector) and vector @ vector > 0
    if long_enough:
        store.upsert(NAME, "a", [Point(str(uuid.UUID(int=1)), vector, {})])
        (hit,) = store.search(NAME, "a", vector, limit=1)
        assert hit.reaches(1.0)
    else:
        with pytest.raises(errors.InputError):
            store.upsert(NAME, "a", [Point(str(uuid.UUID(int=1)), vector, {})])
