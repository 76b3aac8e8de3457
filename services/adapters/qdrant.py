"""Vectors in a Qdrant server, over REST. The client library is imported with the first call: it takes a second."""

from __future__ import annotations

import math
import os
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from services import errors
from services.adapters import vectors
from services.adapters.clock import SystemClock
from services.ports import Clock, Condition, Filter, PayloadValue, Point, ScoredPoint
from services.settings import is_loopback, masked_url

if TYPE_CHECKING:
    from qdrant_client import QdrantClient

    from services.ports import Vector

T = TypeVar("T")

_BATCH = 64
_FETCHED = 100
_TRIES = 2
_PAUSE_SECONDS = 0.1
# The circuit breaker: after so many failures in a row, so long nobody waits for the server.
_FAILURES = 5
_OPEN_SECONDS = 10.0
_INT_LIMIT = 2**63
# Of each of the two tries of a question: who asks has words to fall back on, and waits for meaning no longer.
_QUESTION_SECONDS = 1.5
_asking = ContextVar("asking", default=False)
# Answers that another try may change.
_TRANSIENT = frozenset({408, 425, 429})


class QdrantOps:
    """A Qdrant server as vector store. Nothing is contacted, and no error raised, before the first call.

    All namespaces share a collection, each in an index of its own (Qdrant's multitenancy), and every request names
    one. Point ids must be unique across namespaces: derive them from the namespace. Integers beyond 2^53 are compared
    inexactly by `at_least` and `at_most`. `location=":memory:"` runs without a server, for tests.
    Safe to share between threads and to carry across a fork.
    """

    def __init__(
        self,
        url: str = "http://localhost:6333",
        api_key: str = "",
        *,
        connect_seconds: float = 3.0,
        read_seconds: float = 10.0,
        clock: Clock | None = None,
        location: str | None = None,
    ) -> None:
        parts = urlsplit(url)
        if api_key and parts.scheme == "http" and not is_loopback(parts.hostname):
            raise errors.SettingsError(
                f"memory.qdrant_url {masked_url(url)} would send the API key unencrypted: use https://"
            )
        self._url = url
        self._api_key = api_key
        self._timeouts = {
            "connect": connect_seconds,
            "read": read_seconds,
            "write": read_seconds,
            "pool": read_seconds,
        }
        self._location = location
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()
        self._client: QdrantClient | None = None
        self._owner = 0
        self._failures = 0
        self._open_until = 0.0
        # What this process knows to exist, so that it is not asked for again.
        self._dimensions: dict[str, int] = {}
        self._indexed: set[tuple[str, str]] = set()

    def close(self) -> None:
        """Close the connections of this process."""
        with self._lock:
            if self._client is not None and self._owner == os.getpid():
                self._client.close()
            self._client = None

    # ---- collections -----------------------------------------------------------------------------------------

    def ensure_collection(self, name: str, dimension: int) -> None:
        """Create it if missing. Raises DimensionMismatch if it exists with another dimension."""
        vectors.check_collection(name, dimension)
        existing = self._dimension(name)
        if existing is None:
            self._create(name, dimension)
            existing = self._dimension(name) or dimension
        vectors.check_dimension(name, existing, dimension)

    def collection_exists(self, name: str) -> bool:
        """Whether the collection exists."""
        return bool(self._call(name, lambda client: client.collection_exists(name)))

    def drop_collection(self, name: str) -> None:
        """Remove it with all its points."""
        with suppress(errors.NotFound):
            self._call(name, lambda client: client.delete_collection(name))
        self._forget(name)

    def _create(self, name: str, dimension: int) -> None:
        from qdrant_client import models

        # Every search is within a namespace, so graphs are built per namespace and none over all.
        config = models.VectorParams(size=dimension, distance=models.Distance.COSINE)
        graphs = models.HnswConfigDiff(m=0, payload_m=16)
        try:
            self._call(
                name,
                lambda client: client.create_collection(name, vectors_config=config, hnsw_config=graphs),
            )
        except errors.InputError:
            # Another process was faster, or an attempt that timed out was carried out.
            if self._dimension(name) is None:
                raise
        self._index(
            name,
            vectors.NAMESPACE_FIELD,
            models.KeywordIndexParams(type=models.KeywordIndexType.KEYWORD, is_tenant=True),
        )

    def _index(self, name: str, field: str, schema: Any) -> None:
        if (name, field) not in self._indexed and self._location is None:
            self._call(name, lambda client: client.create_payload_index(name, field, schema, wait=True))
        self._indexed.add((name, field))

    def _dimension(self, name: str) -> int | None:
        if name not in self._dimensions:
            if not self.collection_exists(name):
                return None
            params = self._call(name, lambda client: client.get_collection(name)).config.params.vectors
            if not hasattr(params, "size"):
                raise errors.DimensionMismatch(
                    f"Qdrant collection {name!r} was made by another program: its vectors have names. "
                    "Use another Qdrant or rename that collection"
                )
            self._dimensions[name] = int(params.size)
        return self._dimensions[name]

    def _is_missing(self, name: str) -> bool:
        """Whether it is known that there is no such collection; a server says so itself when it is asked for points."""
        return self._location is not None and self._dimension(name) is None

    def _forget(self, name: str) -> None:
        self._dimensions.pop(name, None)
        self._indexed = {entry for entry in self._indexed if entry[0] != name}

    # ---- points ----------------------------------------------------------------------------------------------

    def upsert(self, name: str, namespace: str, points: Sequence[Point]) -> None:
        """Write the points in requests of 64, overwriting equal ids; readable when this returns.

        Raises NotFound for an unknown collection, DimensionMismatch or InputError.
        """
        from qdrant_client import models

        dimension = self._dimension(name)
        if dimension is None:
            raise vectors.unknown_collection(name)
        batch = vectors.checked_points(name, dimension, points)
        for field in {key for each in batch.payloads for key, value in each.items() if type(value) is int}:
            self._index(name, field, models.PayloadSchemaType.INTEGER)
        structs = [
            models.PointStruct(
                id=key, vector=vector.tolist(), payload={**payload, vectors.NAMESPACE_FIELD: namespace}
            )
            for key, vector, payload in zip(*batch, strict=True)
        ]
        for i in range(0, len(structs), _BATCH):
            self._call(name, partial(_upsert, name, structs[i : i + _BATCH]))

    def search(
        self, name: str, namespace: str, vector: Vector, *, limit: int, where: Filter | None = None
    ) -> list[ScoredPoint]:
        """Best first, ties by id; within about three seconds. Raises DimensionMismatch."""
        if self._is_missing(name):
            return []
        query = vectors.unit_query(name, self._dimensions.get(name), vector).tolist()
        wanted = _translated(namespace, where)
        limit = vectors.clamped(limit)
        with suppress(errors.NotFound):
            reply = self._call(
                name,
                lambda client: client.query_points(
                    name, query=query, query_filter=wanted, limit=limit, with_payload=True
                ),
                question=True,
            )
            hits = [
                ScoredPoint(str(each.id), max(-1.0, min(1.0, float(each.score))), _payload(each.payload))
                for each in reply.points
            ]
            return sorted(hits, key=lambda hit: (-hit.score, hit.id))
        return []

    def fetch(self, name: str, namespace: str, ids: Sequence[str]) -> dict[str, Vector]:
        """The vectors of those ids that exist, in requests of 100, each within about three seconds."""
        import numpy as np

        known = vectors.known_ids(ids)
        if not known or self._is_missing(name):
            return {}
        found: dict[str, Vector] = {}
        for i in range(0, len(known), _FETCHED):
            part = known[i : i + _FETCHED]
            for record in self._records(name, namespace, None, len(part), part):
                found[str(record.id)] = np.array(record.vector, dtype=np.float32)
        return found

    def delete(self, name: str, namespace: str, ids: Sequence[str]) -> None:
        """Remove these points."""
        from qdrant_client import models

        known = vectors.known_ids(ids)
        if not known or self._dimension(name) is None:
            return
        with suppress(errors.NotFound):
            for i in range(0, len(known), 1_000):
                selector = models.FilterSelector(filter=_translated(namespace, None, known[i : i + 1_000]))
                self._call(name, partial(_delete, name, selector))

    def count(self, name: str, namespace: str | None = None) -> int:
        """How many points there are, in one namespace or in all."""
        if self._dimension(name) is None:
            return 0
        wanted = None if namespace is None else _translated(namespace, None)
        with suppress(errors.NotFound):
            return int(
                self._call(name, lambda client: client.count(name, count_filter=wanted, exact=True)).count
            )
        return 0

    def scroll(
        self, name: str, namespace: str, *, after: str | None = None, limit: int = 1_000
    ) -> list[tuple[str, Mapping[str, PayloadValue]]]:
        """A page of (id, payload) in id order, starting behind `after`; [] at the end."""
        if self._dimension(name) is None:
            return []
        limit = vectors.clamped(limit)
        # Qdrant's pages begin with the id they are given.
        records = self._records(name, namespace, after, limit + 1)
        page = [(str(each.id), _payload(each.payload)) for each in records if str(each.id) != after]
        return page[:limit]

    def healthy(self) -> bool:
        """Whether the server answers now; never raises."""
        try:
            self._call("", lambda client: client.get_collections())
        except errors.MemoryError:
            return False
        return True

    def _records(
        self, name: str, namespace: str, start: str | None, limit: int, ids: Sequence[str] | None = None
    ) -> list[Any]:
        wanted = _translated(namespace, None, ids)
        with suppress(errors.NotFound):
            records, _ = self._call(
                name,
                lambda client: client.scroll(
                    name, scroll_filter=wanted, offset=start, limit=limit, with_vectors=ids is not None
                ),
                question=ids is not None,
            )
            return list(records)
        return []

    # ---- calls -----------------------------------------------------------------------------------------------

    def _call(self, name: str, action: Callable[[Any], T], *, question: bool = False) -> T:
        """Run one request, which must be safe to repeat, at most twice; one that somebody waits for in less time.

        Raises VectorStoreUnavailable, NotFound for a collection that is gone, DimensionMismatch or InputError.
        """
        from qdrant_client.common.client_exceptions import ResourceExhaustedResponse
        from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

        self._refuse_while_open()
        failure: errors.VectorStoreUnavailable | None = None
        cause: Exception | None = None
        for attempt in range(_TRIES):
            if attempt:
                self._clock.sleep(_PAUSE_SECONDS)
            try:
                with _asked(question=question):
                    result = action(self._connected())
            except UnexpectedResponse as error:
                status = error.status_code or 500
                if status < 500 and status not in _TRANSIENT:
                    self._failures = 0
                    raise self._refusal(name, status, error.content) from error
                failure, cause = self._unavailable(f"status {status}"), error
            except ResourceExhaustedResponse as error:
                failure, cause = self._unavailable("too many requests", float(error.retry_after_s)), error
            except ResponseHandlingException as error:
                failure, cause = self._unavailable(str(error.source) or type(error.source).__name__), error
            else:
                self._failures = 0
                return result
            self._count_failure()
        assert failure is not None  # noqa: S101 - every other way has returned or raised
        raise failure from cause

    def _refuse_while_open(self) -> None:
        left = self._open_until - self._clock.monotonic()
        if left > 0:
            raise self._unavailable(f"it failed {_FAILURES} times in a row, next try in {left:.0f} s", left)

    def _count_failure(self) -> None:
        self._failures += 1
        if self._failures >= _FAILURES:
            self._open_until = self._clock.monotonic() + _OPEN_SECONDS

    def _unavailable(self, reason: str, retry_after: float | None = None) -> errors.VectorStoreUnavailable:
        return errors.VectorStoreUnavailable(
            f"Qdrant at {masked_url(self._url)} does not answer: {reason[:200]}. "
            "Check that it runs and that memory.qdrant_url is right",
            retry_after_seconds=retry_after,
        )

    def _refusal(self, name: str, status: int, content: bytes) -> errors.MemoryError:
        reason = content.decode("utf-8", "replace")[:300]
        if status == 404:
            self._forget(name)
            return vectors.unknown_collection(name)
        if status in (401, 403):
            return self._unavailable("it refuses the API key (memory.qdrant_api_key)")
        if "dimension" in reason.lower():
            self._forget(name)
            return errors.DimensionMismatch(f"Qdrant refuses vectors for collection {name!r}: {reason}")
        return errors.InputError(
            f"Qdrant at {masked_url(self._url)} refuses the request ({status}): {reason}"
        )

    def _connected(self) -> QdrantClient:
        with self._lock:
            if self._client is None or self._owner != os.getpid():
                self._client, self._owner = self._create_client(), os.getpid()
            return self._client

    def _create_client(self) -> QdrantClient:
        from qdrant_client import QdrantClient

        if self._location is not None:
            return QdrantClient(location=self._location, force_disable_check_same_thread=True)
        with warnings.catch_warnings():
            # It warns of keys over plain HTTP, which here can only be within this machine.
            warnings.simplefilter("ignore", UserWarning)
            return QdrantClient(
                url=self._url,
                api_key=self._api_key or None,
                timeout=round(self._timeouts["read"]) or 1,
                check_compatibility=False,
                transport=_transport(self._timeouts),
                trust_env=False,
            )


def _upsert(name: str, points: Sequence[Any], client: QdrantClient) -> None:
    client.upsert(name, points, wait=True)


def _delete(name: str, selector: Any, client: QdrantClient) -> None:
    client.delete(name, selector, wait=True)


@contextmanager
def _asked(*, question: bool) -> Iterator[None]:
    before = _asking.set(question)
    try:
        yield
    finally:
        _asking.reset(before)


def _transport(timeouts: Mapping[str, float]) -> Any:
    import httpx

    class Transport(httpx.HTTPTransport):
        """Connections with the timeouts we want: the client library knows only one number of whole seconds."""

        def handle_request(self, request: httpx.Request) -> httpx.Response:
            most = _QUESTION_SECONDS if _asking.get() else math.inf
            allowed = {key: min(seconds, most) for key, seconds in timeouts.items()}
            request.extensions = {**request.extensions, "timeout": allowed}
            return super().handle_request(request)

    return Transport(limits=httpx.Limits(max_connections=20, max_keepalive_connections=10), trust_env=False)


def _payload(stored: Mapping[str, Any] | None) -> Mapping[str, PayloadValue]:
    return {key: value for key, value in (stored or {}).items() if key != vectors.NAMESPACE_FIELD}


def _translated(namespace: str, where: Filter | None, ids: Sequence[str] | None = None) -> Any:
    from qdrant_client import models

    tenant = models.FieldCondition(key=vectors.NAMESPACE_FIELD, match=models.MatchValue(value=namespace))
    listed = [] if ids is None else [models.HasIdCondition(has_id=list(ids))]
    filters = where or Filter()
    return models.Filter(
        must=[tenant, *listed, *(_condition(each) for each in filters.must)],
        must_not=[_condition(each) for each in filters.must_not] or None,
    )


def _condition(condition: Condition) -> Any:
    from qdrant_client import models

    field = condition.field
    low, high, listed = condition.at_least, condition.at_most, condition.any_of
    needed: list[Any] = []
    if listed:
        texts = [each for each in listed if isinstance(each, str)]
        numbers = [each for each in listed if type(each) is int and -_INT_LIMIT <= each < _INT_LIMIT]
        either: list[Any] = [
            models.FieldCondition(key=field, match=models.MatchAny(any=values))
            for values in (texts, numbers)
            if values
        ]
        needed.append(models.Filter(should=either) if either else models.HasIdCondition(has_id=[]))
    if low is not None or high is not None:
        needed.append(models.FieldCondition(key=field, range=models.Range(gte=low, lte=high)))
    return models.Filter(must=needed or [models.HasIdCondition(has_id=[])])
