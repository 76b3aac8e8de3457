import importlib
import json
import threading
import time
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from services import errors
from services.adapters import qdrant
from services.adapters.in_memory import ManualClock
from services.adapters.qdrant import QdrantOps
from services.ports import Condition, Filter, Point

KEY = "secret-key-of-the-test"
NOWHERE = "http://127.0.0.1:9"
VECTOR = np.array([1, 0], dtype=np.float32)
COLLECTION = {
    "status": "green",
    "optimizer_status": "ok",
    "segments_count": 1,
    "config": {
        "params": {"vectors": {"size": 2, "distance": "Cosine"}},
        "hnsw_config": {"m": 0, "ef_construct": 100, "full_scan_threshold": 1},
        "optimizer_config": {
            "deleted_threshold": 0.2,
            "vacuum_min_vector_number": 1,
            "default_segment_number": 0,
            "flush_interval_sec": 5,
        },
    },
    "payload_schema": {},
}


class Handler(BaseHTTPRequestHandler):
    """Answers as scripted: `script` maps part of a path to (status, result), else everything succeeds."""

    def answer(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        server = self.server
        server.seen.append((self.command, self.path, dict(self.headers), json.loads(body) if body else None))
        status, result = 200, {"operation_id": 0, "status": "completed"}
        if self.path.endswith("/exists"):
            result = {"exists": True}
        elif self.command == "GET":
            result = COLLECTION
        elif self.path.split("?")[0].count("/") == 2:
            result = True
        for part, scripted in server.script.items():
            if part in self.path:
                status, result = scripted
        time.sleep(server.delay)
        reply = {"result": result, "status": "ok", "time": 0.0}
        if status != 200:
            reply = {"status": {"error": result}, "time": 0.0}
        data = json.dumps(reply).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_POST = do_PUT = do_DELETE = answer  # noqa: N815

    def log_message(self, *_):
        pass


@pytest.fixture
def server():
    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    httpd.daemon_threads = True
    httpd.seen, httpd.script, httpd.delay = [], {}, 0
    httpd.url = f"http://127.0.0.1:{httpd.server_port}"
    thread = threading.Thread(target=httpd.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield httpd
    httpd.shutdown()
    thread.join()
    httpd.server_close()


@pytest.fixture
def open_store():
    opened = []

    def make(*arguments, **options):
        opened.append(QdrantOps(*arguments, **options))
        return opened[-1]

    yield make
    for store in opened:
        store.close()


def test_an_unreachable_server_is_no_error_before_the_first_call_and_a_quick_one_then(open_store):
    store = open_store(NOWHERE, KEY, clock=ManualClock())
    importlib.import_module("qdrant_client")  # takes seconds on a busy machine
    started = time.monotonic()
    with pytest.raises(errors.VectorStoreUnavailable, match=r"http://127\.0\.0\.1:9.*qdrant_url") as caught:
        store.search("c", "a", VECTOR, limit=1)
    assert time.monotonic() - started < 3
    assert KEY not in str(caught.value)
    assert not store.healthy()


def test_after_five_failures_nobody_waits_for_ten_seconds(open_store, server):
    clock = ManualClock()
    store = open_store(server.url, clock=clock)
    server.script["/"] = (503, "starting")
    for _ in range(3):
        with pytest.raises(errors.VectorStoreUnavailable, match="status 503"):
            store.count("c")
    requests = len(server.seen)
    with pytest.raises(errors.VectorStoreUnavailable, match="in a row") as caught:
        store.count("c")
    assert 0 < caught.value.retry_after_seconds <= 10
    assert len(server.seen) == requests
    clock.advance(10.1)
    server.script.clear()
    server.script["/count"] = (200, {"count": 3})
    assert store.count("c") == 3


def test_a_failure_is_tried_twice(open_store, server):
    store = open_store(server.url, clock=ManualClock())
    server.script["/"] = (500, "oh")
    with pytest.raises(errors.VectorStoreUnavailable):
        store.collection_exists("c")
    assert len(server.seen) == 2


def test_a_server_that_hangs_is_given_up(open_store, server):
    server.delay = 3
    store = open_store(server.url, read_seconds=0.1, clock=ManualClock())
    started = time.monotonic()
    with pytest.raises(errors.VectorStoreUnavailable):
        store.collection_exists("c")
    assert time.monotonic() - started < 2


def test_a_key_never_travels_unencrypted_to_another_host():
    with pytest.raises(errors.SettingsError, match=r"http://qdrant\.example:6333.*https"):
        QdrantOps("http://qdrant.example:6333", KEY)
    QdrantOps("https://qdrant.example:6333", KEY)
    QdrantOps("http://qdrant.example:6333")


def test_writes_wait_go_in_batches_and_carry_the_namespace_and_the_key(open_store, server):
    store = open_store(server.url, KEY, clock=ManualClock())
    points = [Point(str(uuid.UUID(int=i + 1)), VECTOR, {"n": i, "role": "user"}) for i in range(100)]
    store.upsert("c", "ns", points)
    writes = [each for each in server.seen if each[0] == "PUT" and "/points" in each[1]]
    assert all("wait=true" in each[1] for each in writes)
    assert [len(each[3]["points"]) for each in writes] == [64, 36]
    assert writes[0][3]["points"][0]["payload"] == {"n": 0, "role": "user", "zeph_namespace": "ns"}
    assert all(each[2]["api-key"] == KEY for each in server.seen)
    indexes = [each[3] for each in server.seen if each[1].split("?")[0].endswith("/index")]
    assert indexes == [{"field_name": "n", "field_schema": "integer"}]
    store.upsert("c", "ns", points[:1])
    assert sum("/index" in each[1] for each in server.seen) == 1


def test_every_read_and_delete_names_the_namespace(open_store, server):
    server.script = {
        "/query": (200, {"points": []}),
        "/scroll": (200, {"points": []}),
        "/count": (200, {"count": 0}),
    }
    store = open_store(server.url, clock=ManualClock())
    where = Filter(must=(Condition("n", at_least=1),))
    store.search("c", "ns", VECTOR, limit=5, where=where)
    store.fetch("c", "ns", [str(uuid.UUID(int=1))])
    store.scroll("c", "ns")
    store.delete("c", "ns", [str(uuid.UUID(int=1))])
    store.count("c", "ns")
    bodies = [each[3] for each in server.seen if each[0] == "POST"]
    assert len(bodies) == 5
    wanted = {"key": "zeph_namespace", "match": {"value": "ns"}}
    for body in bodies:
        assert wanted in body["filter"]["must"]


def test_a_new_collection_gets_a_tenant_index(open_store, server):
    server.script["/exists"] = (200, {"exists": False})
    store = open_store(server.url, clock=ManualClock())
    store.ensure_collection("c", 2)
    created, indexed = (each[3] for each in server.seen if each[0] == "PUT")
    assert created["vectors"] == {"size": 2, "distance": "Cosine"}
    assert indexed == {"field_name": "zeph_namespace", "field_schema": {"type": "keyword", "is_tenant": True}}


def test_b_55_a_number_is_indexed_as_a_number_and_once(open_store, server):
    store = open_store(server.url, clock=ManualClock())
    for number in (1, 2):
        store.upsert(
            "c", "a", [Point(str(uuid.UUID(int=number)), VECTOR, {"conversation_id": number, "role": "user"})]
        )
    indexes = [
        each[3] for each in server.seen if each[0] == "PUT" and each[1].split("?")[0].endswith("/index")
    ]
    assert [it["field_schema"] for it in indexes if it["field_name"] == "conversation_id"] == ["integer"]


@pytest.mark.parametrize(
    ("status", "reason", "expected"),
    [
        (400, "Wrong input: Vector dimension error: expected dim: 3, got 2", errors.DimensionMismatch),
        (400, "Wrong input: something else", errors.InputError),
        (401, "no", errors.VectorStoreUnavailable),
        (404, "Not found: Collection `c` doesn't exist!", errors.NotFound),
        (429, "slow down", errors.VectorStoreUnavailable),
    ],
)
def test_refusals_become_our_errors(open_store, server, status, reason, expected):
    server.script["/points"] = (status, reason)
    store = open_store(server.url, KEY, clock=ManualClock())
    with pytest.raises(expected) as caught:
        store.upsert("c", "a", [Point(str(uuid.UUID(int=1)), VECTOR, {})])
    assert KEY not in str(caught.value)


def test_a_collection_dropped_by_another_process_reads_as_empty(open_store, server):
    store = open_store(server.url, clock=ManualClock())
    store.upsert("c", "a", [Point(str(uuid.UUID(int=1)), VECTOR, {})])
    server.script = {
        "/points": (404, "Not found: Collection `c` doesn't exist!"),
        "/exists": (200, {"exists": False}),
    }
    assert store.search("c", "a", VECTOR, limit=1) == []
    with pytest.raises(errors.NotFound):
        store.upsert("c", "a", [Point(str(uuid.UUID(int=1)), VECTOR, {})])


@pytest.mark.slow
def test_who_asks_does_not_wait_for_a_slow_server_and_who_writes_does_f14(open_store, server, monkeypatch):
    monkeypatch.setattr(qdrant, "_QUESTION_SECONDS", 0.1)
    server.delay = 0.4
    store = open_store(server.url, read_seconds=5, clock=ManualClock())
    started = time.monotonic()
    for question in (
        lambda: store.search("c", "a", VECTOR, limit=1),
        lambda: store.fetch("c", "a", [str(uuid.UUID(int=1))]),
    ):
        with pytest.raises(errors.VectorStoreUnavailable):
            question()
    assert time.monotonic() - started < 2
    store.upsert("c", "a", [Point(str(uuid.UUID(int=1)), VECTOR, {})])


def test_a_question_of_a_new_process_is_one_request(open_store, server):
    server.script["/query"] = (200, {"points": []})
    assert open_store(server.url, clock=ManualClock()).search("c", "a", VECTOR, limit=1) == []
    assert [each[1].split("?")[0] for each in server.seen] == ["/collections/c/points/query"]
