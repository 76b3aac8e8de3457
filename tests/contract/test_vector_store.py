"""What every vector store promises, run against each of them; a real Qdrant where ZEPH_TEST_QDRANT_URL names one."""

import os
import shutil
import uuid

import numpy as np
import pytest

from services import errors
from services.adapters.in_memory import InMemoryVectorStore
from services.adapters.qdrant import QdrantOps
from services.adapters.sqlite import Sqlite
from services.adapters.sqlite_vectors import SqliteVectorStore
from services.ports import Condition, Filter, Point

NAME = "contract"
DIMENSION = 4
QDRANT_URL = os.environ.get("ZEPH_TEST_QDRANT_URL", "")


STORES = ["memory", "sqlite", "sqlite with files", "qdrant"] + ["qdrant server"] * bool(QDRANT_URL)


@pytest.fixture(params=STORES)
def empty(request, tmp_path, migrated, monkeypatch):
    if request.param == "memory":
        yield InMemoryVectorStore()
    elif request.param.startswith("sqlite"):
        if request.param == "sqlite with files":
            monkeypatch.setattr("services.adapters.sqlite_vectors._SHARED_ROWS", 1)
        database = Sqlite(shutil.copy(migrated, tmp_path / "zeph.db"))
        yield SqliteVectorStore(database, tmp_path / "cache")
        database.close()
    elif request.param == "qdrant":
        store = QdrantOps(location=":memory:")
        yield store
        store.close()
    else:
        store = QdrantOps(QDRANT_URL, os.environ.get("ZEPH_TEST_QDRANT_API_KEY", ""))
        store.drop_collection(NAME)
        yield store
        store.drop_collection(NAME)
        store.close()


@pytest.fixture
def store(empty):
    empty.ensure_collection(NAME, DIMENSION)
    return empty


def pid(number):
    return str(uuid.UUID(int=number))


def point(number, *vector, **payload):
    return Point(pid(number), np.array(vector, dtype=np.float32), payload)


def vector(*values):
    return np.array(values, dtype=np.float32)


def ids(hits):
    return [uuid.UUID(hit.id).int for hit in hits]


def search(store, *query, namespace="a", limit=10, where=None):
    return store.search(NAME, namespace, vector(*query), limit=limit, where=where)


# ---- collections ---------------------------------------------------------------------------------------------


def test_a_collection_exists_once_ensured_until_dropped(empty):
    assert not empty.collection_exists(NAME)
    empty.ensure_collection(NAME, DIMENSION)
    empty.ensure_collection(NAME, DIMENSION)
    assert empty.collection_exists(NAME)
    empty.drop_collection(NAME)
    empty.drop_collection(NAME)
    assert not empty.collection_exists(NAME)


def test_another_dimension_is_refused_and_nothing_is_lost(store):
    store.upsert(NAME, "a", [point(1, 1, 0, 0, 0)])
    with pytest.raises(errors.DimensionMismatch, match=r"contract.* 4.* 8"):
        store.ensure_collection(NAME, 8)
    assert store.count(NAME) == 1


@pytest.mark.parametrize("name", ["", "a/b", "..", "ä", "x" * 201, "a b"])
def test_a_name_that_some_store_cannot_hold_is_refused(empty, name):
    with pytest.raises(errors.InputError, match="collection"):
        empty.ensure_collection(name, DIMENSION)


def test_a_collection_dropped_and_made_anew_is_empty(store):
    store.upsert(NAME, "a", [point(i, 1, i, 0, 0) for i in range(1, 5)])
    assert len(search(store, 1, 0, 0, 0)) == 4
    store.drop_collection(NAME)
    store.ensure_collection(NAME, DIMENSION)
    assert search(store, 1, 0, 0, 0) == []
    store.upsert(NAME, "a", [point(7, 1, 0, 0, 0)])
    assert ids(search(store, 1, 0, 0, 0)) == [7]


def test_a_collection_made_anew_may_have_another_dimension(store):
    store.upsert(NAME, "a", [point(1, 1, 0, 0, 0)])
    assert ids(search(store, 1, 0, 0, 0)) == [1]
    store.drop_collection(NAME)
    store.ensure_collection(NAME, 2)
    store.upsert(NAME, "a", [point(2, 1, 0)])
    assert ids(search(store, 1, 0)) == [2]


def test_an_unknown_collection_reads_as_empty_and_refuses_writes(empty):
    assert empty.search("nowhere", "a", vector(1, 0, 0, 0), limit=3) == []
    assert empty.fetch("nowhere", "a", [pid(1)]) == {}
    assert empty.count("nowhere") == 0
    assert empty.count("nowhere", "a") == 0
    assert empty.scroll("nowhere", "a") == []
    empty.delete("nowhere", "a", [pid(1)])
    with pytest.raises(errors.NotFound, match="nowhere"):
        empty.upsert("nowhere", "a", [point(1, 1, 0, 0, 0)])


# ---- writing -------------------------------------------------------------------------------------------------


def test_what_was_written_is_found_at_once_with_its_payload_and_cosine(store):
    store.upsert(NAME, "a", [point(1, 3, 0, 0, 0, role="user", n=7), point(2, 0, 5, 0, 0, role="assistant")])
    one, two = search(store, 2, 2, 0, 0)
    assert {one.id, two.id} == {pid(1), pid(2)}
    assert one.score == pytest.approx(2**-0.5, abs=1e-5)
    assert dict(search(store, 1, 0, 0, 0)[0].payload) == {"role": "user", "n": 7}
    assert search(store, 1, 0, 0, 0)[0].score == pytest.approx(1, abs=1e-5)
    assert search(store, -1, 0, 0, 0)[-1].score == pytest.approx(-1, abs=1e-5)


def test_an_equal_id_overwrites_vector_and_payload(store):
    store.upsert(NAME, "a", [point(1, 1, 0, 0, 0, old="x"), point(2, 0, 1, 0, 0)])
    search(store, 1, 0, 0, 0)
    store.upsert(NAME, "a", [point(1, 0, 0, 1, 0, new="y")])
    assert store.count(NAME, "a") == 2
    hit = search(store, 0, 0, 1, 0, limit=1)[0]
    assert hit.id == pid(1)
    assert dict(hit.payload) == {"new": "y"}


def test_of_equal_ids_in_one_call_the_last_counts(store):
    store.upsert(NAME, "a", [point(1, 1, 0, 0, 0, v=1), point(1, 0, 1, 0, 0, v=2)])
    assert store.count(NAME, "a") == 1
    assert dict(search(store, 0, 1, 0, 0)[0].payload) == {"v": 2}


def test_more_points_than_one_request_holds_are_all_written(store):
    store.upsert(NAME, "a", [point(i, 1, i, 0, 0) for i in range(1, 201)])
    assert store.count(NAME, "a") == 200


def test_nothing_to_write_or_delete_is_no_error(store):
    store.upsert(NAME, "a", [])
    store.delete(NAME, "a", [])
    assert store.count(NAME) == 0


@pytest.mark.parametrize(
    "bad",
    [
        (float("nan"), 0, 0, 0),
        (float("inf"), 0, 0, 0),
        (-float("inf"), 1, 1, 1),
        (0, 0, 0, 0),
    ],
)
def test_vectors_without_a_direction_are_refused_and_nothing_of_the_call_is_stored(store, bad):
    with pytest.raises(errors.InputError):
        store.upsert(NAME, "a", [point(1, 1, 0, 0, 0), point(2, *bad)])
    with pytest.raises(errors.InputError):
        search(store, *bad)
    assert store.count(NAME) == 0


@pytest.mark.parametrize(
    "bad", [["1"] * 4, [None] * 4, [True] * 4, [1j] * 4, [[1.0], [1.0, 2.0], [], []], "abcd", None]
)
def test_vectors_of_anything_but_numbers_are_refused_before_the_store_is_called(store, bad):
    with pytest.raises(errors.InputError, match="vector"):
        store.upsert(NAME, "a", [point(1, 1, 0, 0, 0), Point(pid(2), bad, {})])
    with pytest.raises(errors.InputError, match="vector"):
        store.search(NAME, "a", bad, limit=1)
    assert store.count(NAME) == 0


def test_vectors_of_another_length_are_refused_on_write_and_on_read(store):
    with pytest.raises(errors.DimensionMismatch, match=r"contract.* 4.* 3"):
        store.upsert(NAME, "a", [point(1, 1, 0, 0)])
    with pytest.raises(errors.DimensionMismatch, match=r"contract.* 4.* 5"):
        search(store, 1, 0, 0, 0, 0)


def test_huge_and_tiny_vectors_keep_their_direction(store):
    store.upsert(NAME, "a", [point(1, 3e38, 3e38, 0, 0), point(2, 0, 0, 1e-40, 0)])
    assert search(store, 1, 1, 0, 0)[0].score == pytest.approx(1, abs=1e-5)
    assert search(store, 0, 0, 1, 0)[0].score == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize(
    "bad", ["7", "", "not-a-uuid", str(uuid.UUID(int=0xABC)).upper(), "{" + pid(1) + "}"]
)
def test_ids_that_are_no_uuid_are_refused_on_write_and_unknown_on_read(store, bad):
    with pytest.raises(errors.InputError, match="UUID"):
        store.upsert(NAME, "a", [Point(bad, vector(1, 0, 0, 0), {})])
    assert store.fetch(NAME, "a", [bad]) == {}
    store.delete(NAME, "a", [bad])


@pytest.mark.parametrize("bad", [1.5, True, None, [1], 2**63, "\ud800"])
def test_payloads_hold_text_and_64_bit_integers_only(store, bad):
    with pytest.raises(errors.InputError, match="field"):
        store.upsert(NAME, "a", [point(1, 1, 0, 0, 0, field=bad)])


# ---- namespaces ----------------------------------------------------------------------------------------------

NAMESPACES = [
    "a",
    "A",
    "a ",
    "",
    "日本語",
    "🙂 emoji",
    "x" * 300,
    "a'; DROP TABLE vector_points --",
    "%",
    "\x00",
]


def test_namespaces_never_see_each_other(store):
    for number, namespace in enumerate(NAMESPACES, 1):
        store.upsert(NAME, namespace, [point(number, 1, number, 0, 0, n=number)])
    for number, namespace in enumerate(NAMESPACES, 1):
        assert ids(search(store, 1, 0, 0, 0, namespace=namespace)) == [number]
        assert store.count(NAME, namespace) == 1
        assert [each for each, _ in store.scroll(NAME, namespace)] == [pid(number)]
        assert list(store.fetch(NAME, namespace, [pid(i) for i in range(20)])) == [pid(number)]
    assert store.count(NAME) == len(NAMESPACES)
    assert search(store, 1, 0, 0, 0, namespace="nobody") == []


def test_the_store_adds_nothing_to_payloads(store):
    store.upsert(NAME, "a", [point(1, 1, 0, 0, 0, n=1)])
    assert dict(store.scroll(NAME, "a")[0][1]) == {"n": 1}
    assert dict(search(store, 1, 0, 0, 0)[0].payload) == {"n": 1}


def test_a_delete_in_one_namespace_leaves_the_others(store):
    store.upsert(NAME, "a", [point(1, 1, 0, 0, 0)])
    store.upsert(NAME, "b", [point(2, 1, 0, 0, 0)])
    store.delete(NAME, "b", [pid(1)])
    assert ids(search(store, 1, 0, 0, 0)) == [1]


# ---- searching -----------------------------------------------------------------------------------------------


def test_the_best_come_first_and_ties_are_ordered_by_id(store):
    numbers = [9, 3, 7, 1, 5, 2, 8]
    store.upsert(NAME, "a", [point(i, 1, 1, 0, 0) for i in numbers] + [point(4, 1, 0, 0, 0)])
    assert ids(search(store, 1, 0, 0, 0)) == [4, *sorted(numbers)]


@pytest.mark.parametrize("similarity", [1.0, 0.95, 0.85, 0.7])
def test_a_similarity_reaches_the_threshold_it_equals_in_every_store_case_rank_03(store, similarity):
    rng = np.random.default_rng(7)
    reached = []
    for number in range(1, 41):
        first, second = np.linalg.qr(rng.normal(size=(DIMENSION, 2)))[0].T
        store.upsert(NAME, "a", [point(number, *first)])
        query = similarity * first + (1 - similarity**2) ** 0.5 * second
        hit = next(hit for hit in search(store, *query, limit=100) if hit.id == pid(number))
        reached.append((hit.reaches(similarity), hit.reaches(similarity + 1e-4)))
    assert set(reached) == {(True, False)}


@pytest.mark.parametrize(("limit", "found"), [(-5, 1), (0, 1), (1, 1), (3, 3), (10**9, 30)])
def test_limits_are_clamped(store, limit, found):
    store.upsert(NAME, "a", [point(i, 1, i, 0, 0) for i in range(1, 31)])
    assert len(search(store, 1, 0, 0, 0, limit=limit)) == found
    assert len(store.scroll(NAME, "a", limit=limit)) == found


def filled(store):
    store.upsert(
        NAME,
        "a",
        [
            point(1, 9, 1, 0, 0, role="user", day=1),
            point(2, 9, 2, 0, 0, role="assistant", day=2),
            point(3, 9, 3, 0, 0, role="user", day=3, tag="1"),
            point(4, 9, 4, 0, 0, role="system", day=-4),
            point(5, 9, 5, 0, 0, tag=1),
            point(6, 9, 6, 0, 0, role=3, day="3"),
        ],
    )


FILTERS = [
    (Filter(), {1, 2, 3, 4, 5, 6}),
    (Filter(must=(Condition("role", any_of=("user",)),)), {1, 3}),
    (Filter(must=(Condition("role", any_of=("user", "system", "nobody")),)), {1, 3, 4}),
    (Filter(must_not=(Condition("role", any_of=("user",)),)), {2, 4, 5, 6}),
    (Filter(must=(Condition("day", at_least=2),)), {2, 3}),
    (Filter(must=(Condition("day", at_most=1),)), {1, 4}),
    (Filter(must=(Condition("day", at_least=1, at_most=2),)), {1, 2}),
    (Filter(must_not=(Condition("day", at_least=2),)), {1, 4, 5, 6}),
    (Filter(must=(Condition("day", any_of=(1, 3)),)), {1, 3}),
    (Filter(must=(Condition("tag", any_of=(1,)),)), {5}),
    (Filter(must=(Condition("tag", any_of=("1",)),)), {3}),
    (Filter(must=(Condition("role", any_of=("user", 3)),)), {1, 3, 6}),
    (Filter(must=(Condition("day", any_of=(1, 2, 3), at_least=2),)), {2, 3}),
    (Filter(must=(Condition("absent", any_of=("x",)),)), set()),
    (Filter(must_not=(Condition("absent", any_of=("x",)),)), {1, 2, 3, 4, 5, 6}),
    (Filter(must=(Condition("role"),)), set()),
    (Filter(must_not=(Condition("role"),)), {1, 2, 3, 4, 5, 6}),
    (
        Filter(
            must=(Condition("role", any_of=("user", "assistant")), Condition("day", at_least=1)),
            must_not=(Condition("day", any_of=(2,)), Condition("tag", any_of=("1",))),
        ),
        {1},
    ),
    (Filter(must=(Condition("day", at_least=-(2**62)), Condition("day", at_most=2**62))), {1, 2, 3, 4}),
]


@pytest.mark.parametrize(("where", "expected"), FILTERS)
def test_filters_keep_exactly_what_passes(store, where, expected):
    filled(store)
    assert set(ids(search(store, 1, 0, 0, 0, where=where))) == expected


def test_the_limit_counts_after_the_filter(store):
    store.upsert(NAME, "a", [point(i, 100, i, 0, 0, even=i % 2) for i in range(1, 101)])
    hits = search(store, 1, 0, 0, 0, limit=5, where=Filter(must=(Condition("even", any_of=(0,)),)))
    assert ids(hits) == [2, 4, 6, 8, 10]
    rare = search(store, 1, 0, 0, 0, limit=5, where=Filter(must_not=(Condition("even", any_of=(1,)),)))
    assert ids(rare) == [2, 4, 6, 8, 10]


def test_filters_see_overwritten_and_added_payloads(store):
    filled(store)
    where = Filter(must=(Condition("role", any_of=("user",)),))
    assert set(ids(search(store, 1, 0, 0, 0, where=where))) == {1, 3}
    store.upsert(NAME, "a", [point(1, 1, 0, 0, 0, role="system"), point(8, 1, 0, 0, 0, role="user", fresh=1)])
    store.delete(NAME, "a", [pid(3)])
    assert set(ids(search(store, 1, 0, 0, 0, where=where))) == {8}
    fresh = Filter(must=(Condition("fresh", at_least=1),))
    assert set(ids(search(store, 1, 0, 0, 0, where=fresh))) == {8}


# ---- reading by id -------------------------------------------------------------------------------------------


def test_fetch_gives_unit_vectors_of_known_ids_only(store):
    store.upsert(NAME, "a", [point(1, 3, 4, 0, 0), point(2, 0, 0, 2, 0)])
    found = store.fetch(NAME, "a", [pid(2), pid(1), pid(3), pid(1)])
    assert set(found) == {pid(1), pid(2)}
    np.testing.assert_allclose(found[pid(1)], [0.6, 0.8, 0, 0], atol=1e-6)
    assert found[pid(1)].dtype == np.float32
    assert store.fetch(NAME, "a", []) == {}


def test_deleted_points_are_gone_at_once_and_may_come_back(store):
    store.upsert(NAME, "a", [point(1, 1, 0, 0, 0), point(2, 1, 1, 0, 0)])
    search(store, 1, 0, 0, 0)
    store.delete(NAME, "a", [pid(1), pid(1), pid(99)])
    assert ids(search(store, 1, 0, 0, 0)) == [2]
    assert store.count(NAME, "a") == store.count(NAME) == 1
    assert list(store.fetch(NAME, "a", [pid(1), pid(2)])) == [pid(2)]
    assert [each for each, _ in store.scroll(NAME, "a")] == [pid(2)]
    store.upsert(NAME, "a", [point(1, 1, 0, 0, 0)])
    assert ids(search(store, 1, 0, 0, 0)) == [1, 2]


def test_scrolling_walks_through_everything_once_in_id_order(store):
    numbers = [2**100 + 1, 5, 2**127, 77, 2**64, 1, 300]
    store.upsert(NAME, "a", [point(i, 1, 1, 0, 0, n=str(i)) for i in numbers])
    store.upsert(NAME, "b", [point(6, 1, 1, 0, 0)])
    walked, after = [], None
    while page := store.scroll(NAME, "a", after=after, limit=3):
        assert len(page) <= 3
        walked += page
        after = page[-1][0]
    assert [uuid.UUID(each).int for each, _ in walked] == sorted(numbers)
    assert [dict(payload)["n"] for _, payload in walked] == [str(i) for i in sorted(numbers)]
    assert store.scroll(NAME, "a", after=pid(6), limit=1)[0][0] == pid(77)


def test_a_working_store_is_healthy(store):
    assert store.healthy()
