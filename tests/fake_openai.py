"""An OpenAI-compatible server on loopback, scripted by tests: real HTTP, no network beyond this machine.

with FakeOpenAi() as server:
    server.replies.append(Reply(429, headers={"Retry-After": "2"}))   # the next request gets this
    server.embed = lambda text: [1.0, 0.0]                            # and later ones vectors like this
    server.chat = lambda request: '{"entities": []}'                  # or this content
    ... use server.base_url ...
    assert server.requests[0].body["model"] == "m"
"""

from __future__ import annotations

import json
import threading
import time
import zlib
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self


@dataclass(frozen=True)
class Reply:
    """One scripted answer: `body` is sent as it is (bytes, text) or as JSON; `delay` seconds pass before."""

    status: int = 200
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)
    delay: float = 0.0


@dataclass(frozen=True)
class Request:
    """What a client sent."""

    path: str
    headers: Mapping[str, str]
    body: Any


def hashed(text: str, dimension: int = 8) -> list[float]:
    """Some vector that depends on the text alone; not of unit length."""
    return [(zlib.crc32(f"{i}{text}".encode()) % 2001 - 1000) / 100 for i in range(dimension)]


class FakeOpenAi:
    """Serves /v1/embeddings and /v1/chat/completions until the block ends."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.replies: deque[Reply] = deque()
        self.embed: Callable[[str], list[float]] = hashed
        self.chat: Callable[[Any], str] = lambda _request: "{}"
        self.finish_reason = "stop"
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.fake = self
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/v1"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def answer(self, request: Request) -> Reply:
        self.requests.append(request)
        if self.replies:
            return self.replies.popleft()
        if request.path.endswith("/embeddings"):
            return Reply(body=self._embeddings(request.body))
        if request.path.endswith("/chat/completions"):
            return Reply(body=self._completion(request.body))
        return Reply(404, {"error": {"message": f"no such path: {request.path}"}})

    def _embeddings(self, body: Any) -> Any:
        data = [
            {"object": "embedding", "index": i, "embedding": self.embed(text)}
            for i, text in enumerate(body["input"])
        ]
        # The order of the data is not promised, only the index is.
        return {"object": "list", "model": body["model"], "data": data[::-1], "usage": {"prompt_tokens": 1}}

    def _completion(self, body: Any) -> Any:
        message = {"role": "assistant", "content": self.chat(body)}
        return {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "model": body["model"],
            "choices": [{"index": 0, "message": message, "finish_reason": self.finish_reason}],
            "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
        }


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    fake: FakeOpenAi

    def handle_error(self, *_: object) -> None:
        """Clients hang up when they like; what the server did is in `requests`."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Headers and body are two writes, which must not wait for each other.
    disable_nagle_algorithm = True

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        fake: FakeOpenAi = self.server.fake  # type: ignore[attr-defined]
        reply = fake.answer(Request(self.path, dict(self.headers), json.loads(raw)))
        time.sleep(reply.delay)
        body = reply.body
        data = (
            body
            if isinstance(body, bytes)
            else (body if isinstance(body, str) else json.dumps(body)).encode()
        )
        try:
            self.send_response(reply.status)
            self.send_header("Content-Length", str(len(data)))
            for name, value in {"Content-Type": "application/json", **reply.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(data)
        except OSError:  # the client has given up, which some tests are about
            self.close_connection = True

    def log_message(self, *_: object) -> None:
        pass
