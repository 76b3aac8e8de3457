import multiprocessing
import os
import shutil
import stat
import threading
import uuid

import numpy as np
import pytest

from services import errors
from services.adapters import sqlite_vectors, vector_matrix, vectors
from services.adapters.sqlite import Sqlite
from services.adapters.sqlite_vectors import SqliteVectorStore
from services.ports import Condition, Filter, Point

NAME, SPACE, DIMENSION = "c", "default", 8


@pytest.fixture
def path(tmp_path, migrated):
    return shutil.copy(migrated, tmp_path / "zeph.db")


@pytest.fixture
def cache(tmp_path):
    return tmp_path / "cache"


@pytest.fixture
def open_store(path, cache):
    opened = []

    def make(cache_dir=cache):
        opened.append(Sqlite(path))
        return SqliteVectorStore(opened[-1], cache_dir)

    yield make
    for database in opened:
        database.close()


@pytest.fixture
def small_files(monkeypatch):
    """Share matrices of any size, and carry ten changed rows at most."""
    monkeypatch.setattr("services.adapters.sqlite_vectors._SHARED_ROWS", 1)
    monkeypatch.setattr("services.adapters.sqlite_vectors._CHANGED_ROWS", 10)


def pid(number):
    return str(uuid.UUID(int=number))


def rows(count, seed=0):
    return np.random.default_rng(seed).standard_normal((count, DIMENSION)).astype(np.float32)


def points(count, start=0, seed=0):
    made = rows(count, seed)
    return [Point(pid(start + i), made[i], {"n": start + i, "odd": str(i % 2)}) for i in range(count)]


def search(store, vector, limit=5, where=None):
    return [(hit.id, hit.score) for hit in store.search(NAME, SPACE, vector, limit=limit, where=where)]


def expected(live, vector, limit=5, where=None):
    """What the promise says, one point at a time."""
    query = vector / np.linalg.norm(vector)
    scored = [
        (point.id, float(point.vector @ query / np.linalg.norm(point.vector)))
        for point in live
        if vectors.matches(where, point.payload)
    ]
    return sorted(scored, key=lambda hit: (-hit[1], hit[0]))[:limit]


def assert_right(store, live, where=None):
    for query in rows(3, seed=99):
        found, wanted = search(store, query, 7, where), expected(live, query, 7, where)
        assert [key for key, _ in found] == [key for key, _ in wanted]
        np.testing.assert_allclose([s for _, s in found], [s for _, s in wanted], atol=1e-5)


@pytest.mark.parametrize("carried", [10, 500])
def test_any_history_of_writes_and_deletes_reads_like_the_plain_definition(
    open_store, small_files, monkeypatch, carried
):
    monkeypatch.setattr("services.adapters.sqlite_vectors._CHANGED_ROWS", carried)
    writer, reader = open_store(), open_store()
    writer.ensure_collection(NAME, DIMENSION)
    rng, live = np.random.default_rng(5), {}
    filters = [
        None,
        Filter(must=(Condition("odd", any_of=("1",)),)),
        Filter(must_not=(Condition("n", at_least=20, at_most=60),)),
    ]
    for step in range(40):
        start, count = int(rng.integers(0, 80)), int(rng.integers(1, 20))
        if step % 3 == 2:
            gone = [pid(i) for i in range(start, start + count)]
            writer.delete(NAME, SPACE, gone)
            live = {key: point for key, point in live.items() if key not in gone}
        else:
            fresh = points(count, start, seed=step)
            writer.upsert(NAME, SPACE, fresh)
            live |= {point.id: point for point in fresh}
        if step % 4 != 1:
            assert_right(reader, live.values(), filters[step % 3])
            assert reader.count(NAME, SPACE) == len(live)
    assert_right(writer, live.values())
    assert_right(open_store(cache_dir=None), live.values())


def test_a_search_reads_no_more_than_what_changed_since_the_last_one(open_store, small_files, monkeypatch):
    monkeypatch.setattr("services.adapters.sqlite_vectors._CHANGED_ROWS", 500)
    writer, reader = open_store(), open_store()
    writer.ensure_collection(NAME, DIMENSION)
    writer.upsert(NAME, SPACE, points(30))
    search(reader, rows(1)[0])
    read = []
    since = sqlite_vectors._Rows.since

    def counted(self, change):
        changed, live = since(self, change)
        read.append(len(changed))
        return changed, live

    monkeypatch.setattr(sqlite_vectors._Rows, "since", counted)
    live = {point.id: point for point in points(30)}
    for start in (100, 200, 0):
        fresh = points(20, start, seed=start)
        writer.upsert(NAME, SPACE, fresh)
        live |= {point.id: point for point in fresh}
        assert_right(reader, live.values())
    assert read == [20, 20, 20]


def test_equal_vectors_are_ordered_by_id_wherever_they_are(open_store):
    store = open_store()
    store.ensure_collection(NAME, DIMENSION)
    one = rows(1)[0]
    order = np.random.default_rng(0).permutation(300)
    store.upsert(NAME, SPACE, [Point(pid(int(i)), one, {}) for i in order[:250]])
    search(store, one)
    store.upsert(NAME, SPACE, [Point(pid(int(i)), one, {}) for i in order[250:]])
    assert [key for key, _ in search(store, one, 300)] == [pid(i) for i in range(300)]
    assert [key for key, _ in search(store, one, 7)] == [pid(i) for i in range(7)]


def _write_in_child(path, cache):
    store = SqliteVectorStore(Sqlite(path), cache)
    store.upsert(NAME, SPACE, points(5, start=1_000, seed=3))
    store.delete(NAME, SPACE, [pid(0)])


def test_processes_see_each_others_writes_and_deletes(open_store, path, cache, small_files):
    store, live = open_store(), points(50)
    store.ensure_collection(NAME, DIMENSION)
    store.upsert(NAME, SPACE, live)
    assert_right(store, live)
    child = multiprocessing.get_context("spawn").Process(target=_write_in_child, args=(path, cache))
    child.start()
    child.join(60)
    assert child.exitcode == 0
    assert_right(store, [*live[1:], *points(5, start=1_000, seed=3)])


def filled(open_store, count=50):
    store = open_store()
    store.ensure_collection(NAME, DIMENSION)
    store.upsert(NAME, SPACE, points(count))
    assert_right(store, points(count))
    return store


def test_the_shared_file_is_private_and_used_by_the_next_process(open_store, cache, small_files, monkeypatch):
    filled(open_store)
    (file,) = cache.iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(cache.stat().st_mode) == 0o700
    before = file.stat().st_mtime_ns
    monkeypatch.setattr("services.adapters.vector_matrix.save", None)
    assert_right(open_store(), points(50))
    assert file.stat().st_mtime_ns == before


def test_small_matrices_need_no_file(open_store, cache):
    filled(open_store)
    assert not cache.exists()


DAMAGE = {
    "missing": lambda file: file.unlink(),
    "empty": lambda file: file.write_bytes(b""),
    "cut": lambda file: file.write_bytes(file.read_bytes()[:-100]),
    "header only": lambda file: file.write_bytes(file.read_bytes()[:60]),
    "another kind": lambda file: file.write_bytes(b"x" * 5_000),
    "one byte changed": lambda file: file.write_bytes(
        file.read_bytes()[:500] + bytes([file.read_bytes()[500] ^ 1]) + file.read_bytes()[501:]
    ),
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE.keys())
def test_a_damaged_file_is_built_again_from_the_rows(open_store, cache, small_files, damage):
    filled(open_store)
    (file,) = cache.iterdir()
    # Written beside and moved, because a running process has the old one mapped.
    copy = cache / "copy"
    shutil.copy(file, copy)
    damage(copy)
    file.unlink()
    if copy.exists():
        copy.replace(file)
    assert_right(open_store(), points(50))
    assert_right(open_store(), points(50))
    assert [each.name for each in cache.iterdir()] == [file.name]


def test_a_cache_that_cannot_be_written_costs_memory_but_no_answer(open_store, tmp_path, small_files):
    blocked = tmp_path / "a file"
    blocked.write_text("in the way")
    store = open_store(cache_dir=blocked / "cache")
    store.ensure_collection(NAME, DIMENSION)
    store.upsert(NAME, SPACE, points(50))
    assert_right(store, points(50))


def test_a_restored_backup_is_not_answered_from_the_file_of_the_future(open_store, path, cache, small_files):
    store = filled(open_store)
    store._sqlite.backup(path.with_name("backup.db"))
    store.upsert(NAME, SPACE, points(40, start=500, seed=4))
    assert_right(store, [*points(50), *points(40, start=500, seed=4)])
    store._sqlite.close()
    for name in ("zeph.db-wal", "zeph.db-shm"):
        path.with_name(name).unlink(missing_ok=True)
    path.with_name("backup.db").replace(path)
    restored = open_store()
    restored.upsert(NAME, SPACE, points(1, start=900, seed=6))
    assert_right(restored, [*points(50), *points(1, start=900, seed=6)])


def test_files_go_with_their_collection_and_leftovers_go_with_time(open_store, cache, small_files):
    store = filled(open_store)
    (file,) = cache.iterdir()
    old, fresh = cache / f"{file.name}.old.tmp", cache / f"{file.name}.new.tmp"
    old.touch()
    fresh.touch()
    os.utime(old, (1, 1))
    store.upsert(NAME, SPACE, points(30, start=100))
    search(store, rows(1)[0])
    assert not old.exists()
    assert fresh.exists()
    store.drop_collection(NAME)
    assert not file.exists()


def test_rows_of_deleted_points_are_removed_and_readers_that_missed_them_notice(open_store, monkeypatch):
    monkeypatch.setattr("services.adapters.sqlite_vectors._DELETED_ROWS", 20)
    store, late = filled(open_store), open_store()
    assert_right(late, points(50))
    store.delete(NAME, SPACE, [pid(i) for i in range(10)])
    store.delete(NAME, SPACE, [pid(i) for i in range(10, 30)])
    with store._sqlite.read() as connection:
        assert connection.exec_driver_sql("SELECT count(*) FROM vector_points").scalar() == 20
    assert_right(late, points(50)[30:])
    assert_right(store, points(50)[30:])


def test_deleting_what_is_not_there_changes_nothing(open_store):
    store = filled(open_store)
    with store._sqlite.read() as connection:
        before = connection.exec_driver_sql("SELECT change FROM vector_namespaces").scalar()
    store.delete(NAME, SPACE, [pid(777)])
    store.delete(NAME, "elsewhere", [pid(1)])
    with store._sqlite.read() as connection:
        assert connection.exec_driver_sql("SELECT change FROM vector_namespaces").all() == [(before,)]


def test_damaged_rows_are_passed_over(open_store):
    store = filled(open_store)
    with store._sqlite.write() as connection:
        connection.exec_driver_sql("UPDATE vector_points SET vector = x'00' WHERE id = ?", (pid(3),))
        connection.exec_driver_sql("UPDATE vector_points SET payload = '{' WHERE id = ?", (pid(4),))
    fresh = open_store()
    hits = fresh.search(NAME, SPACE, rows(1)[0], limit=100)
    assert len(hits) == 49
    assert {hit.id: hit.payload for hit in hits}[pid(4)] == {}
    assert fresh.fetch(NAME, SPACE, [pid(3)]) == {}


def test_threads_share_a_store_while_another_writes(open_store, small_files):
    store, failures = filled(open_store), []

    def read():
        try:
            for query in rows(30, seed=8):
                assert len(search(store, query)) == 5
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for i in range(20):
        store.upsert(NAME, SPACE, points(3, start=100 + i, seed=i))
    for thread in threads:
        thread.join()
    assert failures == []


def test_a_database_without_tables_is_unhealthy(tmp_path):
    database = Sqlite(tmp_path / "empty.db")
    store = SqliteVectorStore(database)
    assert not store.healthy()
    with pytest.raises(errors.SchemaError):
        store.count(NAME)
    database.close()


def test_an_empty_file_round_trips(tmp_path):
    file = tmp_path / "x.vectors"
    about = {"change": 7}
    vector_matrix.save(file, about, vector_matrix.packed_ids([]), {}, {}, 4, [])
    part, change = vector_matrix.load(file, {}, 4)
    assert (part.matrix.shape, change) == ((0, 4), 7)
    assert vector_matrix.load(file, {}, 5) is None
    assert vector_matrix.load(file, {"change": 8}, 4) is None


def unit(matrix):
    return (matrix / np.linalg.norm(matrix, axis=1, keepdims=True)).astype(np.float32)


def of_all_kinds(dimension):
    """Vectors that share a direction, near-duplicates, duplicates, and some with one component that outweighs all."""
    chance = np.random.default_rng(dimension)
    spread = chance.standard_normal((500, dimension))
    alike = chance.standard_normal(dimension) + 1e-3 * chance.standard_normal((300, dimension))
    lopsided = 1e-3 * spread[:200] + np.eye(dimension)[np.arange(200) % dimension]
    return unit(np.concatenate([spread, spread + 1.0, alike, alike[:50], lopsided, np.eye(dimension)]))


def part_of(matrix, *, coded):
    payloads = [f'{{"odd": {row % 2}, "rare": {row % 50}}}' for row in range(len(matrix))]
    return vector_matrix.Part(
        vector_matrix.packed_ids([pid(row) for row in range(len(matrix))]),
        matrix,
        *vector_matrix.columns_of(payloads),
        vector_matrix.codes_of(matrix) if coded else None,
    )


@pytest.mark.parametrize("dimension", [1, 3, 64, 384, 1_536])
def test_no_estimate_is_further_off_than_it_says(dimension):
    matrix = of_all_kinds(dimension)
    part, exact = part_of(matrix, coded=True), matrix.astype(np.float64)
    for query in np.concatenate([matrix[::150], unit(rows(3, seed=5) @ np.ones((DIMENSION, dimension)))]):
        estimates, error = vector_matrix._estimates(part.codes, query)
        assert np.abs(estimates - exact @ query).max() <= error


def test_few_are_scored_twice_unless_one_component_outweighs_all():
    matrix = unit(np.random.default_rng(4).standard_normal((4_000, 384)))
    part = part_of(matrix, coded=True)
    assert 10 <= len(vector_matrix._near(*vector_matrix._estimates(part.codes, matrix[0]), 10)) < 100
    matrix[:, 0] = 5.0
    part = part_of(unit(matrix), coded=True)
    assert len(vector_matrix._near(*vector_matrix._estimates(part.codes, part.matrix[0]), 10)) == 4_000


@pytest.mark.parametrize(
    "where", [None, Filter((Condition("odd", any_of=(1,)),)), Filter((Condition("rare", any_of=(7,)),))]
)
@pytest.mark.parametrize("dimension", [1, 3, 64, 384])
def test_a_search_by_codes_finds_what_a_search_of_all_vectors_finds(dimension, where):
    matrix = of_all_kinds(dimension)
    plain, coded = part_of(matrix, coded=False), part_of(matrix, coded=True)
    without = np.arange(0, len(matrix), 3)
    for query in [*matrix[::250], *unit(np.random.default_rng(8).standard_normal((5, dimension)))]:
        for limit in (1, 10, 100, len(matrix) + 1):
            expect = vector_matrix.best(plain, query, limit, where, without)
            assert vector_matrix.best(coded, query, limit, where, without) == expect


def test_vectors_that_are_damaged_hide_no_others():
    matrix = of_all_kinds(8)
    matrix[::2] = np.nan
    matrix[2::10] = np.inf
    found = vector_matrix.best(part_of(matrix, coded=True), matrix[1], 3, None)
    assert found[0].id == pid(1)


def test_vectors_are_fetched_as_they_were_written_before_and_after_a_search(open_store, small_files):
    store, other = open_store(), open_store()
    store.ensure_collection(NAME, DIMENSION)
    first = points(40)
    store.upsert(NAME, SPACE, first)
    ids = [point.id for point in first]
    by_rows = store.fetch(NAME, SPACE, ids)
    search(store, rows(1)[0])
    assert_same(store.fetch(NAME, SPACE, ids), by_rows)

    changed = points(3, seed=1)
    other.upsert(NAME, SPACE, changed)
    other.delete(NAME, SPACE, ids[10:12])
    expect = other.fetch(NAME, SPACE, ids)
    assert list(expect) == [*ids[:10], *ids[12:]]
    assert_same(store.fetch(NAME, SPACE, ids), expect)
    search(store, rows(1)[0])
    assert_same(store.fetch(NAME, SPACE, [*ids, pid(999), "none"]), expect)
    store.drop_collection(NAME)
    assert store.fetch(NAME, SPACE, ids) == {}


def assert_same(found, expect):
    assert found.keys() == expect.keys()
    assert all((found[key] == expect[key]).all() for key in expect)
