"""What vector collections ask of the database, inside one unit of work."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from services.jobs.store import JobRows
from services.ports import EmbedderIdentity

# What these hold is fixed: documents must not mix with it.
RESERVED_COLLECTIONS = frozenset(
    {
        "zeph_conversations",
        "zeph_session_summaries",
        "zeph_key_facts",
        "zeph_corrections",
        "zeph_graph_entities",
    }
)


class CollectionState(StrEnum):
    """`active` answers queries, `building` is being filled to take its place, `retired` is to be dropped."""

    ACTIVE = "active"
    BUILDING = "building"
    RETIRED = "retired"


@dataclass(frozen=True, slots=True)
class Collection:
    """A physical collection: `name` is what callers say, `physical` what the vector store knows."""

    name: str
    physical: str
    identity: EmbedderIdentity
    state: CollectionState


@dataclass(frozen=True, slots=True)
class Tombstone:
    """A vector that must go."""

    id: int
    namespace: str
    collection: str
    point_id: str


class CollectionRows(Protocol):
    """The registry of vector collections, and the tombstones of deleted vectors."""

    def find(self, name: str, state: CollectionState) -> Collection | None:
        """The collection of that name in that state (the newest), or None."""

    def all(self) -> list[Collection]:
        """Every collection, by name and physical name."""

    def create(self, name: str, identity: EmbedderIdentity, state: CollectionState) -> Collection:
        """Register a new physical collection; an existing one of the same name, identity and state is returned."""

    def activate(self, collection: Collection) -> None:
        """Let it answer from now on; the one before it is retired."""

    def retire(self, collection: Collection) -> None:
        """It is of no use any more: its points are to be dropped."""

    def forget(self, collection: Collection) -> None:
        """Take it out of the registry."""

    def bury(self, tombstones: Sequence[tuple[str, str, str]]) -> None:
        """Note (namespace, physical collection, point id) of vectors that must go."""

    def tombstones(self, *, limit: int) -> list[Tombstone]:
        """The oldest ones."""

    def exhume(self, ids: Sequence[int]) -> None:
        """These vectors are gone."""


class CollectionUnit(Protocol):
    """A unit of work for collections."""

    @property
    def collections(self) -> CollectionRows:
        """Vector collections."""

    @property
    def jobs(self) -> JobRows:
        """The job ledger."""


class CollectionDatabase(Protocol):
    """Opens units of work."""

    def write(self, *, durable: bool = True) -> AbstractContextManager[CollectionUnit]:
        """One transaction."""

    def read(self) -> AbstractContextManager[CollectionUnit]:
        """One consistent view."""


class EmbeddedRows(Protocol):
    """Rows of one kind that have vectors; `marks` say how many a row has in a collection.

    What one job embeds is a group of rows: a document, a block of messages.
    """

    def namespaces(self) -> Sequence[str]:
        """Every namespace that has such rows, or had some for which vectors were made lately."""

    def incomplete(
        self, name: str, physical: str, *, limit: int, embedded_in: str | None = None
    ) -> list[tuple[str, int]]:
        """(namespace, group) of groups with rows that lack vectors in this collection, and have some in `embedded_in`."""

    def existing(self, ids: Sequence[int], namespace: str | None = None) -> set[int]:
        """Those of the ids that may have vectors, in one namespace or in any."""

    def mark_embedded(self, physical: str, windows: Sequence[tuple[int, int]]) -> set[int]:
        """Record (id, vectors) as done; the ids of rows that are gone or may have none by now."""

    def embedded_windows(
        self, namespace: str, physical: str, *, after: int, limit: int
    ) -> list[tuple[int, int]]:
        """A page of (row id, vectors) behind a row id, in order."""

    def unmark_embedded(self, physical: str, ids: Sequence[int]) -> None:
        """Forget that these rows have vectors, so that they get them again."""

    def forget_embeddings(self, physical: str) -> None:
        """Drop the marks of a collection that is gone."""
