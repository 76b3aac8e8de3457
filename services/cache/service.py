"""The response cache: a request that was answered before is answered from the database, and asked by one caller at a time."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from services import errors
from services.cache.keys import cache_key, frame_key, question_of
from services.cache.models import (
    CachedResponse,
    CacheLimits,
    CacheRequest,
    CacheStats,
    SemanticMatch,
    Source,
    checked_ttl,
)
from services.cache.store import CacheDatabase, CacheUnit, Lease, NewResponse
from services.ids import DEFAULT_NAMESPACE
from services.jobs.run import JobRun
from services.ports import Clock, Embedder, Entropy

if TYPE_CHECKING:
    from services.ports import Vector

log = logging.getLogger(__name__)

_SECOND = 1_000_000
# How long a waiting caller sleeps before it looks again: longer every time.
_FIRST_PAUSE_SECONDS = 0.005
_LONGEST_PAUSE_SECONDS = 0.1
_BUFFERED_HITS = 1_000
_EXPIRED_PER_UNIT = 5_000
# Counting all rows for each new one would be waste: the caps hold to within this part of them.
_TRIM_PART = 100
_LONGEST_BETWEEN_TRIMS = 64


@dataclass(frozen=True, slots=True)
class _Asked:
    """A request with what is derived from it. `frame` and `vector` are set when similar questions count."""

    namespace: str
    key: str
    request: CacheRequest
    frame: str | None = None
    space: str | None = None
    vector: Vector | None = None


class ResponseCache:
    """Answers of language models, each in one namespace, the configured one by default.

    Safe to share between threads; any number of processes may use one database.
    """

    def __init__(
        self,
        database: CacheDatabase,
        clock: Clock,
        entropy: Entropy,
        *,
        namespace: str = DEFAULT_NAMESPACE,
        limits: CacheLimits | None = None,
        semantic: SemanticMatch | None = None,
        embedder: Callable[[], Embedder | None] = lambda: None,
    ) -> None:
        self._database = database
        self._clock = clock
        self._entropy = entropy
        self._namespace = namespace
        self._limits = limits or CacheLimits()
        self._semantic = semantic
        self._embedder = embedder
        self._lock = threading.Lock()
        self._hits: Counter[tuple[str, str]] = Counter()
        self._until_trim = 0

    def close(self) -> None:
        """Store the counts of hits that are still held back."""
        self._flush_hits()

    # ---- reading and writing ---------------------------------------------------------------------------------

    def get(self, request: CacheRequest, *, namespace: str | None = None) -> CachedResponse | None:
        """The stored answer to this request, if it has not expired; with a semantic match, to one that means the same.

        Raises InputError for a request that is no JSON, and StorageBusy.
        """
        asked = self._asked(request, namespace)
        return self._exact(asked) or self._similar(self._embedded(asked))

    def put(
        self,
        request: CacheRequest,
        response: str,
        *,
        ttl_seconds: float | None = None,
        sources: Sequence[Source] = (),
        read_at: int | None = None,
        namespace: str | None = None,
    ) -> bool:
        """Store an answer in place of any other to this request; False when it is not worth keeping.

        That is: it is blank, larger than `max_answer_bytes`, or made of `sources` that are gone or changed since they
        were read (`read_at`, microseconds, now by default). It dies after `ttl_seconds`, those of the limits by default
        and a year at most, or when one of its sources changes. Raises InputError and StorageBusy.
        """
        asked = self._embedded(self._asked(request, namespace))
        new = self._response(asked, response, ttl_seconds, sources)
        if new is None:
            return False
        with self._database.write(durable=False) as unit:
            return self._store(unit, asked.namespace, new, self._clock.now() if read_at is None else read_at)

    def through(
        self,
        request: CacheRequest,
        call: Callable[[], str],
        *,
        keep: Callable[[str], bool] | None = None,
        ttl_seconds: float | None = None,
        sources: Sequence[Source] = (),
        namespace: str | None = None,
    ) -> str:
        """The stored answer, or that of `call`, which is stored.

        Of several callers with one request, in any threads and processes, one calls and the others wait for its answer:
        as long as it holds its lease, and no longer once it has failed. What `call` raises is raised and never stored,
        nor is an answer that `keep` refuses, or that was being made while its sources changed or the cache was cleared.
        A database that is busy costs the saving, never the answer. Raises InputError for a request that is no JSON.
        """
        began = self._clock.now()
        asked = self._asked(request, namespace)
        # Checked before somebody pays for an answer.
        checked_ttl(self._limits.ttl_seconds if ttl_seconds is None else ttl_seconds)
        token: str | None = None
        try:
            found = self._exact(asked)
            if found is None:
                asked = self._embedded(asked)
                found = self._similar(asked)
            if found is None:
                found, token = self._turn(asked)
        except errors.TransientError as error:
            log.warning("cache_skipped reason=%s", error)
            found = None
        if found is not None:
            return found.text
        new: NewResponse | None = None
        try:
            text = call()
            if token is not None and (keep is None or keep(text)):
                new = self._response(asked, text, ttl_seconds, sources)
        finally:
            if token is not None:
                self._end(asked, token, new, began)
        return text

    # ---- removing --------------------------------------------------------------------------------------------

    def invalidate(self, request: CacheRequest, *, namespace: str | None = None) -> bool:
        """Delete the answer to this request; whether there was one. One that is being made now is not stored."""
        asked = self._asked(request, namespace)
        with self._database.write(durable=False) as unit:
            return unit.cache.remove(asked.namespace, asked.key)

    def invalidate_sources(self, *sources: Source, namespace: str | None = None) -> int:
        """Delete the answers that were made of any of these; how many. Changes of stored rows do that by themselves."""
        with self._database.write(durable=False) as unit:
            return unit.cache.remove_made_of(namespace or self._namespace, sources)

    def clear(self, *, namespace: str | None = None) -> int:
        """Delete every answer of a namespace; how many. Those that are being made now are not stored."""
        with self._database.write(durable=False) as unit:
            return unit.cache.clear(namespace or self._namespace)

    def evict(self, run: JobRun) -> None:
        """The job: delete what has expired, and the oldest beyond the limits, in all namespaces."""
        expired, more = 0, True
        while more:
            run.checkpoint()
            with self._database.write(durable=False) as unit:
                removed = unit.cache.expire(now=self._clock.now(), limit=_EXPIRED_PER_UNIT)
                expired, more = expired + removed, removed == _EXPIRED_PER_UNIT
                if not more:
                    run.finish(unit, {"expired": expired, "trimmed": self._trim(unit)})

    def stats(self, *, namespace: str | None = None) -> CacheStats:
        """What a namespace has stored, and how often it was of use."""
        self._flush_hits()
        with self._database.read() as unit:
            return unit.cache.stats(namespace or self._namespace, now=self._clock.now())

    # ---- finding ---------------------------------------------------------------------------------------------

    def _asked(self, request: CacheRequest, namespace: str | None) -> _Asked:
        mine = namespace or self._namespace
        return _Asked(mine, cache_key(mine, request), request)

    def _exact(self, asked: _Asked) -> CachedResponse | None:
        with self._database.read() as unit:
            found = unit.cache.find(asked.namespace, asked.key, now=self._clock.now())
        if len(self._hits) >= _BUFFERED_HITS:
            self._flush_hits()
        return self._noted(found, asked)

    def _similar(self, asked: _Asked) -> CachedResponse | None:
        if self._semantic is None or asked.vector is None or asked.frame is None or asked.space is None:
            return None
        import numpy as np

        with self._database.read() as unit:
            rows = unit.cache.similar(
                asked.namespace,
                asked.frame,
                asked.space,
                now=self._clock.now(),
                limit=self._semantic.max_candidates,
            )
        alike = [
            replace(response, similarity=float(np.frombuffer(blob, dtype="<f4") @ asked.vector))
            for response, blob in rows
            if len(blob) == 4 * len(asked.vector)
        ]
        enough = [response for response in alike if response.similarity >= self._semantic.threshold]
        # Of equally similar ones the newest counts, which comes first.
        best = max(enough, key=lambda response: response.similarity, default=None)
        return self._noted(best, asked)

    def _embedded(self, asked: _Asked) -> _Asked:
        """With frame and vector, where similar questions count and the embedder answers."""
        question = question_of(asked.request)
        frame = frame_key(asked.request) if self._semantic is not None else None
        embedder = self._embedder() if frame is not None else None
        if embedder is None or question is None:
            return asked
        try:
            # A question that does not fit into the model's window would be judged by its beginning.
            if len(embedder.windows(question)) != 1:
                return asked
            vector = embedder.embed([question], kind="query")[0]
            return replace(asked, frame=frame, space=embedder.identity.label, vector=vector)
        except (errors.TransientError, errors.ModelRejected) as error:
            log.warning("cache_without_meaning reason=%s", error)
            return asked

    # ---- asking one at a time --------------------------------------------------------------------------------

    def _turn(self, asked: _Asked) -> tuple[CachedResponse | None, str | None]:
        """An answer that is there by now, or a token to store one with, or neither: ask without storing."""
        token, pause = self._entropy.token(), _FIRST_PAUSE_SECONDS
        # One lease for a caller that died, and one for the caller that followed it.
        deadline = self._clock.monotonic() + 2 * self._limits.lease_seconds
        while True:
            # Looking first: callers that wait must not queue for the write lock.
            found, holder = self._look(asked)
            if found is None and (holder is None or not self._in_force(holder)):
                found, holder = self._take(asked, token)
            if found is not None:
                return found, None
            if holder is not None and holder.token == token:
                return None, token
            if self._clock.monotonic() >= deadline:
                return None, None
            self._clock.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)

    def _in_force(self, lease: Lease) -> bool:
        return self._clock.now() < lease.until <= self._lease_end()

    def _lease_end(self) -> int:
        return self._clock.now() + int(self._limits.lease_seconds * _SECOND)

    def _take(self, asked: _Asked, token: str) -> tuple[CachedResponse | None, Lease | None]:
        """The answer, or the lease after trying to get it."""
        with self._database.write(durable=False) as unit:
            # Not before: whoever held the database may have taken a lease meanwhile, which ends later.
            now, wanted = self._clock.now(), Lease(token, self._lease_end())
            found = unit.cache.find(asked.namespace, asked.key, now=now)
            if found is None and unit.cache.take_lease(asked.namespace, asked.key, wanted, now=now):
                return None, wanted
            return self._noted(found, asked), unit.cache.lease(asked.namespace, asked.key)

    def _look(self, asked: _Asked) -> tuple[CachedResponse | None, Lease | None]:
        with self._database.read() as unit:
            found = unit.cache.find(asked.namespace, asked.key, now=self._clock.now())
            return self._noted(found, asked), unit.cache.lease(asked.namespace, asked.key)

    def _end(self, asked: _Asked, token: str, new: NewResponse | None, began: int) -> None:
        """Store the answer, if there is one and nobody took the lease away, and let the others go on."""
        try:
            with self._database.write(durable=False) as unit:
                if unit.cache.give_back(asked.namespace, asked.key, token) and new is not None:
                    self._store(unit, asked.namespace, new, began)
        except errors.TransientError as error:
            log.warning("cache_not_written reason=%s", error)

    # ---- storing ---------------------------------------------------------------------------------------------

    def _response(
        self, asked: _Asked, text: str, ttl_seconds: float | None, sources: Sequence[Source]
    ) -> NewResponse | None:
        """The row to store; None for what is not worth it."""
        ttl = checked_ttl(self._limits.ttl_seconds if ttl_seconds is None else ttl_seconds)
        try:
            size = len(text.encode())
        except UnicodeEncodeError:
            # Halves of surrogate pairs cannot be stored, and another text must not come back.
            return None
        if not text.strip() or size > self._limits.max_answer_bytes:
            return None
        now = self._clock.now()
        return NewResponse(
            asked.key,
            asked.request.model,
            text,
            size,
            now,
            now + int(ttl * _SECOND),
            tuple(dict.fromkeys(sources)),
            asked.frame,
            None if asked.vector is None else asked.vector.astype("<f4").tobytes(),
            asked.space,
        )

    def _store(self, unit: CacheUnit, namespace: str, new: NewResponse, read_at: int) -> bool:
        lost = unit.cache.lost(namespace, new.sources, since=read_at)
        if lost:
            log.info("cache_refused sources=%s", ",".join(map(str, lost)))
            return False
        unit.cache.put(namespace, new)
        unit.cache.count_hits(self._taken_hits())
        with self._lock:
            due = self._until_trim == 0
            most = min(_LONGEST_BETWEEN_TRIMS, self._limits.max_entries // _TRIM_PART)
            self._until_trim = most if due else self._until_trim - 1
        if due:
            self._trim(unit)
        return True

    def _trim(self, unit: CacheUnit) -> int:
        return unit.cache.trim(max_entries=self._limits.max_entries, max_bytes=self._limits.max_bytes)

    # ---- counting hits ---------------------------------------------------------------------------------------

    def _noted(self, found: CachedResponse | None, asked: _Asked) -> CachedResponse | None:
        """What was found, counted: in memory, so that reading writes nothing."""
        if found is not None:
            with self._lock:
                self._hits[asked.namespace, found.key] += 1
        return found

    def _taken_hits(self) -> Mapping[tuple[str, str], int]:
        with self._lock:
            hits, self._hits = self._hits, Counter()
        return hits

    def _flush_hits(self) -> None:
        hits = self._taken_hits()
        if not hits:
            return
        try:
            with self._database.write(durable=False) as unit:
                unit.cache.count_hits(hits)
        except errors.TransientError as error:
            log.warning("cache_hits_lost reason=%s", error)
