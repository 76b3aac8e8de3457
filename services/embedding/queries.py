"""Asking an embedder about each query once, although several searches ask about it."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING

from services.ports import Embedder, EmbedderIdentity, EmbeddingKind

if TYPE_CHECKING:
    from services.ports import Vector

_REMEMBERED = 64


class RememberedQueries:
    """An embedder that remembers the vectors of its last queries: building a context asks for the same one four times.

    Documents are embedded anew each time. Safe to share between threads.
    """

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._lock = threading.Lock()
        self._vectors: OrderedDict[str, Vector] = OrderedDict()

    @property
    def identity(self) -> EmbedderIdentity:
        """That of the embedder."""
        return self._embedder.identity

    def windows(self, text: str) -> list[str]:
        """See Embedder."""
        return self._embedder.windows(text)

    def embed(self, texts: Sequence[str], *, kind: EmbeddingKind) -> Vector:
        """See Embedder. The row of a remembered query is read-only."""
        if kind != "query" or len(texts) != 1:
            return self._embedder.embed(texts, kind=kind)
        with self._lock:
            found = self._vectors.get(texts[0])
            if found is not None:
                self._vectors.move_to_end(texts[0])
                return found
        found = self._embedder.embed(texts, kind=kind)
        found.flags.writeable = False
        with self._lock:
            self._vectors[texts[0]] = found
            if len(self._vectors) > _REMEMBERED:
                self._vectors.popitem(last=False)
        return found

    def close(self) -> None:
        """Close what the embedder holds."""
        close = getattr(self._embedder, "close", None)
        if close is not None:
            close()
