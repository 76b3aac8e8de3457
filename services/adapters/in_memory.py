"""Every port without the outside world: for tests, trials and `vector_backend = "memory"`."""

from __future__ import annotations

import re
import threading
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from services import errors
from services.adapters import vectors
from services.ports import (
    ChatReply,
    ChatRequest,
    EmbedderIdentity,
    EmbeddingKind,
    Filter,
    PayloadValue,
    Point,
    ScoredPoint,
)

if TYPE_CHECKING:
    from services.ports import Vector

_WORDS_PER_WINDOW = 200


class ManualClock:
    """A clock that moves only when told to; sleeping moves it at once."""

    def __init__(self, now: int = 1_750_000_000_000_000) -> None:
        self._start = self._now = now

    def now(self) -> int:
        """Microseconds since 1970-01-01 UTC."""
        return self._now

    def monotonic(self) -> float:
        """Seconds since this clock was made."""
        return (self._now - self._start) / 1_000_000

    def sleep(self, seconds: float) -> None:
        """Move ahead that far; zero or less does nothing."""
        self.advance(max(seconds, 0.0))

    def advance(self, seconds: float) -> None:
        """Move ahead that far."""
        self._now += round(seconds * 1_000_000)


class FixedEntropy:
    """Counts instead of rolling dice: tokens 0...1, 0...2, and a fixed fraction of every interval."""

    def __init__(self, fraction: float = 0.5) -> None:
        self._fraction = fraction
        self._tokens = 0

    def token(self) -> str:
        """The next number as 32 hexadecimal digits."""
        self._tokens += 1
        return f"{self._tokens:032x}"

    def uniform(self, low: float, high: float) -> float:
        """The number at that fraction of the way from low to high."""
        return low + (high - low) * self._fraction


class HashEmbedder:
    """Vectors of hashed words and letter triples: no model, yet texts that share words are similar."""

    def __init__(self, dimension: int = 64) -> None:
        self._identity = EmbedderIdentity("fake", "hash", dimension)

    @property
    def identity(self) -> EmbedderIdentity:
        """Provider `fake`, model `hash` and the dimension chosen."""
        return self._identity

    def windows(self, text: str) -> list[str]:
        """Pieces of 200 words."""
        words = list(re.finditer(r"\S+", text))
        pieces = [words[i : i + _WORDS_PER_WINDOW] for i in range(0, len(words), _WORDS_PER_WINDOW)]
        return [text[piece[0].start() : piece[-1].end()] for piece in pieces]

    def embed(self, texts: Sequence[str], *, kind: EmbeddingKind) -> Vector:  # noqa: ARG002 - one space for both
        """Rows of shape (len(texts), dimension), equal for equal texts on every machine."""
        import numpy as np

        dimension = self._identity.dimension
        rows = np.zeros((len(texts), dimension), dtype=np.float32)
        for row, text in zip(rows, texts, strict=True):
            for feature, weight in _features(text):
                code = zlib.crc32(feature.encode("utf-8", "surrogatepass"))
                row[code % dimension] += weight if code & 0x8000_0000 else -weight
            if not row.any():
                row[0] = 1.0
        unit: Vector = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        return unit


class ScriptedModel:
    """A language model that says what it was given, in order; an error among it is raised. It keeps the questions."""

    identity = "fake/scripted"

    def __init__(self, *replies: str | Exception) -> None:
        self._replies = list(replies)
        self.requests: list[ChatRequest] = []

    def complete(self, request: ChatRequest) -> ChatReply:
        """The next reply. Raises ModelRejected when there is none left."""
        self.requests.append(request)
        if not self._replies:
            raise errors.ModelRejected("the script has no further reply")
        reply = self._replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        return ChatReply(reply)


class InMemoryVectorStore:
    """Points in dictionaries, searched one by one: the plainest reading of the VectorStore promises."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._collections: dict[str, _Collection] = {}

    def ensure_collection(self, name: str, dimension: int) -> None:
        """Create it if missing. Raises DimensionMismatch."""
        vectors.check_collection(name, dimension)
        with self._lock:
            existing = self._collections.setdefault(name, _Collection(dimension, {}))
        vectors.check_dimension(name, existing.dimension, dimension)

    def collection_exists(self, name: str) -> bool:
        """Whether the collection exists."""
        return name in self._collections

    def drop_collection(self, name: str) -> None:
        """Remove it with all its points."""
        with self._lock:
            self._collections.pop(name, None)

    def upsert(self, name: str, namespace: str, points: Sequence[Point]) -> None:
        """Write the points, overwriting equal ids. Raises NotFound for an unknown collection."""
        collection = self._collections.get(name)
        if collection is None:
            raise vectors.unknown_collection(name)
        batch = vectors.checked_points(name, collection.dimension, points)
        with self._lock:
            stored = collection.namespaces.setdefault(namespace, {})
            for key, vector, payload in zip(*batch, strict=True):
                stored[key] = _Stored(vector, payload)

    def search(
        self, name: str, namespace: str, vector: Vector, *, limit: int, where: Filter | None = None
    ) -> list[ScoredPoint]:
        """Best first, ties by id. Raises DimensionMismatch."""
        collection = self._collections.get(name)
        if collection is None:
            return []
        query = vectors.unit_query(name, collection.dimension, vector)
        found = [
            ScoredPoint(key, max(-1.0, min(1.0, float((point.vector * query).sum()))), point.payload)
            for key, point in self._points(name, namespace)
            if vectors.matches(where, point.payload)
        ]
        found.sort(key=lambda hit: (-hit.score, hit.id))
        return found[: vectors.clamped(limit)]

    def fetch(self, name: str, namespace: str, ids: Sequence[str]) -> dict[str, Vector]:
        """The vectors of those ids that exist."""
        stored = dict(self._points(name, namespace))
        return {key: stored[key].vector for key in ids if key in stored}

    def delete(self, name: str, namespace: str, ids: Sequence[str]) -> None:
        """Remove these points."""
        collection = self._collections.get(name)
        with self._lock:
            for key in ids if collection else ():
                collection.namespaces.get(namespace, {}).pop(key, None)  # type: ignore[union-attr]

    def count(self, name: str, namespace: str | None = None) -> int:
        """How many points there are, in one namespace or in all."""
        collection = self._collections.get(name)
        spaces = collection.namespaces if collection else {}
        return sum(len(points) for space, points in spaces.items() if namespace in (None, space))

    def scroll(
        self, name: str, namespace: str, *, after: str | None = None, limit: int = 1_000
    ) -> list[tuple[str, Mapping[str, PayloadValue]]]:
        """A page of (id, payload) in id order, starting behind `after`."""
        ordered = sorted(self._points(name, namespace), key=lambda entry: entry[0])
        behind = [(key, point.payload) for key, point in ordered if after is None or key > after]
        return behind[: vectors.clamped(limit)]

    def healthy(self) -> bool:
        """Always."""
        return True

    def _points(self, name: str, namespace: str) -> list[tuple[str, _Stored]]:
        with self._lock:
            collection = self._collections.get(name)
            return list(collection.namespaces.get(namespace, {}).items()) if collection else []


class _Stored(NamedTuple):
    vector: Vector
    payload: Mapping[str, PayloadValue]


class _Collection(NamedTuple):
    dimension: int
    namespaces: dict[str, dict[str, _Stored]]


def _features(text: str) -> Iterator[tuple[str, float]]:
    for word in re.findall(r"\w+", text.casefold()):
        yield word, 1.0
        padded = f"<{word}>"
        yield from ((padded[i : i + 3], 0.3) for i in range(len(padded) - 2))
