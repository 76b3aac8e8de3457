"""Embeddings from any OpenAI-compatible server, over plain HTTP."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Sequence
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

from services import errors
from services.embedding.windows import estimated_tokens, utf8, windows
from services.ports import EmbedderIdentity, EmbeddingKind

if TYPE_CHECKING:
    import httpx

    from services.ports import Vector

DEFAULT_MAX_TOKENS = 512
DEFAULT_BATCH_SIZE = 64

_MAX_RESPONSE_BYTES = 64 * 1024 * 1024
_MAX_RETRY_AFTER_SECONDS = 15 * 60.0
_MAX_MESSAGE = 300
_CONNECT_SECONDS = 5.0
# Too little or too late, which another try may change; 501 means that the server was not started for embeddings.
_TRANSIENT = frozenset({408, 409, 425, 429})
_NOT_IMPLEMENTED = 501


class OpenAiEmbedder:
    """POST {base_url}/embeddings. Nothing is sent before the first call that needs it.

    `dimensions` is asked for and checked, since servers may ignore it; None takes the model's own, learnt from the
    first reply. `max_tokens` is what the model reads at once (0: 512), estimated at four ASCII characters or one
    other character each. The prefixes go before each text, as some models want. `client` replaces the HTTP client,
    and is not closed. Nothing is retried here: errors say when to come back. Safe to share between threads and to
    carry across a fork.
    """

    def __init__(
        self,
        base_url: str,
        api_key: str,
        model: str,
        *,
        dimensions: int | None = None,
        batch_size: int = DEFAULT_BATCH_SIZE,
        timeout_seconds: float = 30.0,
        max_tokens: int = 0,
        query_prefix: str = "",
        document_prefix: str = "",
        client: httpx.Client | None = None,
    ) -> None:
        self._url = f"{base_url.rstrip('/')}/embeddings"
        self._api_key = api_key
        self._model = model
        self._dimensions = dimensions
        self._batch_size = batch_size
        self._timeout = timeout_seconds
        self._max_tokens = max_tokens or DEFAULT_MAX_TOKENS
        self._prefixes: dict[EmbeddingKind, str] = {"query": query_prefix, "document": document_prefix}
        self._given = client
        self._lock = threading.Lock()
        self._client: httpx.Client | None = None
        self._owner = 0
        self._identity: EmbedderIdentity | None = None

    @property
    def identity(self) -> EmbedderIdentity:
        """Provider `openai`, the model and its dimension. Raises ModelUnavailable or ModelRejected."""
        if self._identity is None:
            self._identity = self._identified(len(self._request(["dimension"])[0]))
        return self._identity

    def windows(self, text: str) -> list[str]:
        """Pieces of about `max_tokens`, less what the longer prefix takes, with an eighth of overlap."""
        prefix = max(len(estimated_tokens(each)) for each in self._prefixes.values())
        size = max(self._max_tokens - prefix, 16)
        return windows(text, estimated_tokens(text), size=size, overlap=size // 8)

    def embed(self, texts: Sequence[str], *, kind: EmbeddingKind) -> Vector:
        """Rows of shape (len(texts), dimension). Raises InputError for blank texts, which servers refuse.

        Raises ModelUnavailable, ModelRejected, or DimensionMismatch when the server ignores `dimensions`.
        """
        import numpy as np

        if any(not text.strip() for text in texts):
            raise errors.InputError("a blank text has no embedding: leave it out")
        prefix = self._prefixes[kind]
        prepared = [utf8(prefix + text) for text in texts]
        rows: list[list[float]] = []
        for i in range(0, len(prepared), self._batch_size):
            rows += self._request(prepared[i : i + self._batch_size])
        if rows and self._identity is None:
            self._identity = self._identified(len(rows[0]))
        dimension = self.identity.dimension
        for row in rows:
            self._check_length(len(row), dimension)
        matrix = np.array(rows, dtype=np.float64).reshape(len(rows), dimension)
        lengths = np.linalg.norm(matrix, axis=1, keepdims=True)
        if not np.isfinite(lengths).all() or (lengths == 0).any():
            raise errors.ModelRejected(
                f"{self._model} at {self._url} sent a vector that is zero or not finite"
            )
        unit: Vector = (matrix / lengths).astype(np.float32)
        return unit

    def close(self) -> None:
        """Close the connections of this process."""
        with self._lock:
            if self._client is not None and self._owner == os.getpid():
                self._client.close()
            self._client = None

    def _identified(self, dimension: int) -> EmbedderIdentity:
        if self._dimensions:
            self._check_length(dimension, self._dimensions)
        return EmbedderIdentity("openai", self._model, dimension)

    def _check_length(self, found: int, wanted: int) -> None:
        if found != wanted:
            raise errors.DimensionMismatch(
                f"{self._model} at {self._url} sent a vector of {found} numbers instead of {wanted}: "
                "servers may ignore embedding.dimensions; set it to the model's own, or to 0"
            )

    def _request(self, texts: Sequence[str]) -> list[list[float]]:
        import httpx

        body: dict[str, Any] = {"model": self._model, "input": list(texts), "encoding_format": "float"}
        if self._dimensions:
            body["dimensions"] = self._dimensions
        headers = {"Authorization": f"Bearer {self._api_key}"} if self._api_key else {}
        deadline = time.monotonic() + self._timeout
        received = bytearray()
        try:
            with self._connected().stream("POST", self._url, json=body, headers=headers) as response:
                for piece in response.iter_bytes():
                    received += piece
                    if len(received) > _MAX_RESPONSE_BYTES:
                        raise errors.ModelRejected(
                            f"{self._url} sent more than 64 MiB: use a smaller embedding.batch_size"
                        )
                    if time.monotonic() > deadline:
                        raise errors.ModelUnavailable(
                            self._unanswered(f"no full reply in {self._timeout:g} s")
                        )
        except httpx.InvalidURL as error:
            raise errors.SettingsError(f"embedding.base_url {self._url!r} is no URL: {error}") from error
        except httpx.HTTPError as error:
            reason = self._scrubbed(str(error)) or type(error).__name__
            raise errors.ModelUnavailable(self._unanswered(reason)) from error
        if response.status_code != httpx.codes.OK:
            raise self._refusal(response.status_code, response.headers.get("Retry-After"), bytes(received))
        return self._vectors(bytes(received), len(texts))

    def _vectors(self, content: bytes, count: int) -> list[list[float]]:
        try:
            entries = sorted(json.loads(content)["data"], key=lambda entry: entry["index"])
            rows = [[float(number) for number in entry["embedding"]] for entry in entries]
            indexes = [entry["index"] for entry in entries]
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            shown = self._scrubbed(content[:_MAX_MESSAGE].decode("utf-8", "replace"))
            raise errors.ModelRejected(f"{self._url} did not send embeddings: {shown}") from error
        if indexes != list(range(count)):
            raise errors.ModelRejected(f"{self._url} sent {len(rows)} vectors for {count} texts")
        return rows

    def _refusal(self, status: int, retry_after: str | None, content: bytes) -> errors.MemoryError:
        reason = f"status {status}: {self._scrubbed(_message(content))}"
        if status in _TRANSIENT or (status >= 500 and status != _NOT_IMPLEMENTED):
            return errors.ModelUnavailable(
                self._unanswered(reason), retry_after_seconds=retry_after_seconds(retry_after)
            )
        hint = "check embedding.api_key" if status in (401, 403) else "check embedding.base_url and model"
        if status == _NOT_IMPLEMENTED:
            hint = "start the server with embeddings enabled"
        return errors.ModelRejected(f"{self._model} at {self._url} refuses: {reason} ({hint})")

    def _unanswered(self, reason: str) -> str:
        return f"embedding server {self._url} does not answer: {reason}"

    def _scrubbed(self, text: str) -> str:
        if self._api_key:
            text = text.replace(self._api_key, "***")
        return text[:_MAX_MESSAGE]

    def _connected(self) -> httpx.Client:
        import httpx

        if self._given is not None:
            return self._given
        with self._lock:
            # Sockets that a parent process opened must not be used from its child.
            if self._client is None or self._owner != os.getpid():
                timeout = httpx.Timeout(self._timeout, connect=min(_CONNECT_SECONDS, self._timeout))
                self._client, self._owner = httpx.Client(timeout=timeout), os.getpid()
            return self._client


def retry_after_seconds(header: str | None) -> float | None:
    """A Retry-After header, seconds or a date, as seconds from now: 0 to 15 minutes; None if there is none."""
    if not header:
        return None
    try:
        seconds = float(header)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(header).timestamp() - time.time()
        except ValueError:
            return None
    return min(max(seconds, 0.0), _MAX_RETRY_AFTER_SECONDS) if seconds == seconds else None


def _message(content: bytes) -> str:
    """The server's own words: {"error": {"message": ...}} and its relatives, else the body."""
    text = content.decode("utf-8", "replace")
    try:
        found: Any = json.loads(text)
    except ValueError:
        return text.strip()
    for name in ("error", "message", "detail"):
        if isinstance(found, dict) and name in found:
            found = found[name]
    return found if isinstance(found, str) else json.dumps(found)
