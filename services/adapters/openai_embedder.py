"""Embeddings from any OpenAI-compatible server, over plain HTTP."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from services import errors
from services.adapters.openai_http import OpenAiEndpoint
from services.embedding.windows import estimated_tokens, utf8, windows
from services.ports import EmbedderIdentity, EmbeddingKind

if TYPE_CHECKING:
    import httpx

    from services.ports import Vector

DEFAULT_MAX_TOKENS = 512
DEFAULT_BATCH_SIZE = 64

_MAX_RESPONSE_BYTES = 64 * 1024 * 1024
_CONNECT_SECONDS = 5.0
_SHOWN_BYTES = 300


class OpenAiEmbedder:
    """POST {base_url}/embeddings. Nothing is sent before the first call that needs it.

    `dimensions` is asked for and checked, since servers may ignore it; None takes the model's own, learnt from the
    first reply. `max_tokens` is what the model reads at once (0: 512), estimated at four ASCII characters or one
    other character each. The prefixes go before each text, as some models want. `client` replaces the HTTP client,
    and is not closed. Only a reset connection is tried again here: errors say when to come back. Safe to share between
    threads and to carry across a fork.
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
        self._model = model
        self._dimensions = dimensions
        self._batch_size = batch_size
        self._max_tokens = max_tokens or DEFAULT_MAX_TOKENS
        self._prefixes: dict[EmbeddingKind, str] = {"query": query_prefix, "document": document_prefix}
        self._endpoint = OpenAiEndpoint(
            base_url,
            "embeddings",
            api_key,
            section="embedding",
            timeout_seconds=timeout_seconds,
            connect_seconds=_CONNECT_SECONDS,
            max_bytes=_MAX_RESPONSE_BYTES,
            oversize=lambda problem: errors.ModelRejected(f"{problem}: use a smaller embedding.batch_size"),
            client=client,
        )
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
                f"{self._model} at {self._endpoint.url} sent a vector that is zero or not finite"
            )
        unit: Vector = (matrix / lengths).astype(np.float32)
        return unit

    def close(self) -> None:
        """Close the connections of this process."""
        self._endpoint.close()

    def _identified(self, dimension: int) -> EmbedderIdentity:
        if self._dimensions:
            self._check_length(dimension, self._dimensions)
        return EmbedderIdentity("openai", self._model, dimension)

    def _check_length(self, found: int, wanted: int) -> None:
        if found != wanted:
            raise errors.DimensionMismatch(
                f"{self._model} at {self._endpoint.url} sent a vector of {found} numbers instead of {wanted}: "
                "servers may ignore embedding.dimensions; set it to the model's own, or to 0"
            )

    def _request(self, texts: Sequence[str]) -> list[list[float]]:
        body: dict[str, Any] = {"model": self._model, "input": list(texts), "encoding_format": "float"}
        if self._dimensions:
            body["dimensions"] = self._dimensions
        return self._vectors(self._endpoint.post(body), len(texts))

    def _vectors(self, content: bytes, count: int) -> list[list[float]]:
        try:
            entries = sorted(json.loads(content)["data"], key=lambda entry: entry["index"])
            rows = [[float(number) for number in entry["embedding"]] for entry in entries]
            indexes = [entry["index"] for entry in entries]
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            shown = self._endpoint.scrubbed(content[:_SHOWN_BYTES].decode("utf-8", "replace"))
            raise errors.ModelRejected(f"{self._endpoint.url} did not send embeddings: {shown}") from error
        if indexes != list(range(count)):
            raise errors.ModelRejected(f"{self._endpoint.url} sent {len(rows)} vectors for {count} texts")
        return rows
