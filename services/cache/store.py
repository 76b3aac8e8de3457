"""What the response cache needs of the database, as protocols."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from services.cache.models import CachedResponse, CacheStats, Source
from services.jobs.store import JobUnit


@dataclass(frozen=True, slots=True)
class NewResponse:
    """A row to be. `embedding` is little-endian float32 of `embedding_space`; `frame` says what it may answer."""

    key: str
    model: str
    text: str
    size_bytes: int
    created_at: int
    expires_at: int
    sources: Sequence[Source] = ()
    frame: str | None = None
    embedding: bytes | None = None
    embedding_space: str | None = None


@dataclass(frozen=True, slots=True)
class Lease:
    """Who asks the model just now, and until when others wait (microseconds)."""

    token: str
    until: int


class CacheRows(Protocol):
    """The tables response_cache, response_sources and response_leases."""

    def find(self, namespace: str, key: str, *, now: int) -> CachedResponse | None:
        """The answer, unless it has expired."""

    def similar(
        self, namespace: str, frame: str, space: str, *, now: int, limit: int
    ) -> list[tuple[CachedResponse, bytes]]:
        """The newest answers of that frame with their vectors, none expired."""

    def put(self, namespace: str, response: NewResponse) -> None:
        """Store it in place of any other under its key."""

    def lost(self, namespace: str, sources: Sequence[Source], *, since: int) -> list[Source]:
        """Those of the sources that are not there, are no longer in force, or changed after that time."""

    def remove(self, namespace: str, key: str) -> bool:
        """Delete an answer, and let nobody store the one that is being made; whether there was one."""

    def remove_made_of(self, namespace: str, sources: Sequence[Source]) -> int:
        """Delete the answers made of any of these; how many."""

    def clear(self, namespace: str) -> int:
        """Delete every answer of a namespace, and let nobody store those being made; how many."""

    def expire(self, *, now: int, limit: int) -> int:
        """Delete up to that many expired answers, and all lapsed leases; how many answers."""

    def trim(self, *, max_entries: int, max_bytes: int) -> int:
        """Delete the oldest answers until the rest is within both; how many."""

    def count_hits(self, hits: Mapping[tuple[str, str], int]) -> None:
        """Add to the counts of (namespace, key)."""

    def stats(self, namespace: str, *, now: int) -> CacheStats:
        """What a namespace has."""

    def lease(self, namespace: str, key: str) -> Lease | None:
        """Who asks the model for this answer, even if the lease has lapsed."""

    def take_lease(self, namespace: str, key: str, lease: Lease, *, now: int) -> bool:
        """Become the one who asks, unless somebody is; whether that succeeded.

        Leases that end later than this one are those of a clock that has been set back since, and hold up nobody.
        """

    def give_back(self, namespace: str, key: str, token: str) -> bool:
        """End the lease; whether it was still held."""


class CacheUnit(JobUnit, Protocol):
    """A unit of work that reaches the cache."""

    @property
    def cache(self) -> CacheRows:
        """Cached responses."""


class CacheDatabase(Protocol):
    """Opens units of work."""

    def write(self, *, durable: bool = True) -> AbstractContextManager[CacheUnit]:
        """One transaction."""

    def read(self) -> AbstractContextManager[CacheUnit]:
        """One consistent view."""
