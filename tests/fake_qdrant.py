"""A Qdrant on loopback for tests: the client library's own local mode behind as much of the REST interface as we use.

with FakeQdrant() as server:
    ... use server.url ...
    server.stop()    # connections are refused, the points stay
    server.start()   # on the same port
    server.delay = 5                                   # seconds before each answer
    server.drops = lambda method, path: method == "PUT"  # done, but the connection ends without a reply
    server.forget()  # all collections are gone, as with the folder of the data
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from qdrant_client import QdrantClient, models


class FakeQdrant:
    """Serves collections and points until the block ends."""

    def __init__(self) -> None:
        self.client = QdrantClient(location=":memory:", force_disable_check_same_thread=True)
        self.lock = threading.Lock()
        self.delay = 0.0
        self.drops: Callable[[str, str], bool] = lambda _method, _path: False
        self.port = 0
        self._server: ThreadingHTTPServer | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self.client.close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        self._server = _Server(("127.0.0.1", self.port), _Handler)
        self._server.fake = self
        self.port = self._server.server_port
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}).start()

    def stop(self) -> None:
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server.cut()
            self._server = None

    def forget(self) -> None:
        with self.lock:
            for collection in self.client.get_collections().collections:
                self.client.delete_collection(collection.name)


class _Server(ThreadingHTTPServer):
    fake: FakeQdrant
    daemon_threads = True

    def __init__(self, *arguments: Any) -> None:
        self._open: set[Any] = set()
        super().__init__(*arguments)

    def process_request(self, request: Any, client_address: Any) -> None:
        self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._open.discard(request)
        super().shutdown_request(request)

    def handle_error(self, *_: object) -> None:
        """Clients hang up when they like."""

    def cut(self) -> None:
        """End the connections that clients keep open, as a server that dies does."""
        for request in list(self._open):
            self.shutdown_request(request)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"null")
        _, _, name, *rest = [*self.path.split("?")[0].split("/"), ""]
        client = self.server.fake.client
        known = name and client.collection_exists(name)
        status, result, error = 404, None, f"Not found: Collection `{name}` doesn't exist!"
        with self.server.fake.lock:
            if known or not name or (self.command, *rest) in {("PUT", ""), ("GET", "exists", "")}:
                try:
                    status, result = 200, _ROUTES[(self.command, *filter(None, rest))](client, name, body)
                except ValueError as refusal:
                    status, error = 400, f"Wrong input: {refusal}"
        if self.server.fake.drops(self.command, self.path):
            self.close_connection = True
            return
        time.sleep(self.server.fake.delay)
        reply = {"result": result, "status": "ok" if status == 200 else {"error": error}, "time": 0.0}
        data = json.dumps(reply).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_POST = do_PUT = do_DELETE = answer  # noqa: N815

    def log_message(self, *_: Any) -> None:
        pass


def _describe(client: QdrantClient, name: str, _: Any) -> Any:
    found = client.get_collection(name) if name else client.get_collections()
    return found.model_dump(mode="json")


def _create(client: QdrantClient, name: str, body: Any) -> bool:
    return client.create_collection(name, vectors_config=models.VectorParams(**body["vectors"]))


def _upsert(client: QdrantClient, name: str, body: Any) -> Any:
    points = [models.PointStruct(**point) for point in body["points"]]
    return client.upsert(name, points).model_dump(mode="json")


def _query(client: QdrantClient, name: str, body: Any) -> Any:
    wanted = models.Filter(**body["filter"])
    found = client.query_points(
        name, query=models.NearestQuery(**body["query"]), query_filter=wanted, limit=body["limit"]
    )
    return found.model_dump(mode="json")


def _scroll(client: QdrantClient, name: str, body: Any) -> Any:
    points, following = client.scroll(
        name,
        scroll_filter=models.Filter(**body["filter"]),
        limit=body["limit"],
        offset=body.get("offset"),
        with_vectors=body.get("with_vector", False),
    )
    return {"points": [point.model_dump(mode="json") for point in points], "next_page_offset": following}


def _delete(client: QdrantClient, name: str, body: Any) -> Any:
    selector = models.FilterSelector(filter=models.Filter(**body["filter"]))
    return client.delete(name, selector).model_dump(mode="json")


def _count(client: QdrantClient, name: str, body: Any) -> Any:
    wanted = models.Filter(**body["filter"]) if body.get("filter") else None
    return client.count(name, wanted).model_dump(mode="json")


_DONE = {"operation_id": 0, "status": "completed"}
_ROUTES: dict[tuple[str, ...], Callable[[QdrantClient, str, Any], Any]] = {
    ("GET",): _describe,
    ("GET", "exists"): lambda client, name, _: {"exists": client.collection_exists(name)},
    ("PUT",): _create,
    ("DELETE",): lambda client, name, _: client.delete_collection(name),
    ("PUT", "index"): lambda *_: _DONE,
    ("PUT", "points"): _upsert,
    ("POST", "points", "query"): _query,
    ("POST", "points", "scroll"): _scroll,
    ("POST", "points", "delete"): _delete,
    ("POST", "points", "count"): _count,
}
