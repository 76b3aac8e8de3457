"""A TCP proxy on loopback that can turn all connections half-open: it takes bytes and passes none on.

with Proxy(port_of_the_server) as proxy:
    ... talk to proxy.port ...
    proxy.swallow()    # connections, old and new, stay open and silent
    proxy.resume()     # new connections work; those that were swallowed stay silent for good
"""

from __future__ import annotations

import contextlib
import selectors
import socket
import threading
from typing import Any, Self


class Proxy:
    """Forwards to a port of this machine until the block ends."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._silent = threading.Event()
        self._closed = threading.Event()
        self._threads: list[threading.Thread] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(0.05)
        self.port = int(self._listener.getsockname()[1])

    def __enter__(self) -> Self:
        self._start(self._listen)
        return self

    def __exit__(self, *_: object) -> None:
        self._closed.set()
        for thread in self._threads:
            thread.join()
        self._listener.close()

    def swallow(self) -> None:
        """From now on nothing that anybody sends arrives, and nobody is told."""
        self._silent.set()

    def resume(self) -> None:
        """Pass on again what comes through new connections."""
        self._silent.clear()

    def _listen(self) -> None:
        while not self._closed.is_set():
            with contextlib.suppress(TimeoutError):
                client, _ = self._listener.accept()
                self._start(self._serve, client)

    def _serve(self, client: socket.socket) -> None:
        with client, contextlib.suppress(OSError):
            if self._silent.is_set():
                self._drain(client)
                return
            with socket.create_connection(("127.0.0.1", self._target)) as server:
                self._pass_on(client, server)

    def _pass_on(self, client: socket.socket, server: socket.socket) -> None:
        others = {client: server, server: client}
        with selectors.DefaultSelector() as ready:
            for end in others:
                ready.register(end, selectors.EVENT_READ)
            while not self._closed.is_set():
                for key, _ in ready.select(0.05):
                    data = key.fileobj.recv(65_536)  # type: ignore[union-attr]
                    if self._silent.is_set():
                        self._drain(client)
                        return
                    if not data:
                        return
                    others[key.fileobj].sendall(data)  # type: ignore[index]

    def _drain(self, client: socket.socket) -> None:
        """Read and forget until the client gives up, or all is over."""
        client.settimeout(0.05)
        while not self._closed.is_set():
            with contextlib.suppress(TimeoutError):
                if not client.recv(65_536):
                    return

    def _start(self, task: Any, *arguments: Any) -> None:
        thread = threading.Thread(target=task, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()
