"""Units of work: one transaction with the stores that speak in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path

import sqlalchemy as sa

from services.adapters.cache_rows import SqlCacheRows
from services.adapters.collection_rows import SqlCollectionRows
from services.adapters.community_rows import SqlCommunityRows
from services.adapters.correction_rows import SqlCorrectionRows
from services.adapters.document_rows import SqlDocumentRows
from services.adapters.eviction_rows import SqlEvictionRows
from services.adapters.graph_reading import SqlGraphReading
from services.adapters.graph_rows import SqlGraphRows
from services.adapters.graph_snapshot_rows import SqlGraphSnapshotRows
from services.adapters.graph_texts import SqlTextRows
from services.adapters.job_rows import LedgerLimits, SqlJobRows
from services.adapters.lane_rows import SqlLaneRows
from services.adapters.message_rows import SqlMessageRows
from services.adapters.migrations import SchemaGuard
from services.adapters.reply_rows import SqlReplyRows
from services.adapters.session_rows import SqlSessionRows
from services.adapters.snapshot_rows import SqlSnapshotRows
from services.adapters.sqlite import Sqlite
from services.adapters.summary_rows import SqlKeyFactRows, SqlSummaryRows
from services.ports import Clock

Ring = Callable[[str, str, int], None]


class Unit:
    """The stores of one transaction, made when first used."""

    def __init__(self, connection: sa.Connection, clock: Clock, limits: LedgerLimits, disk: Path) -> None:
        self._connection = connection
        self._clock = clock
        self._limits = limits
        self._disk = disk

    @property
    def connection(self) -> sa.Connection:
        """The transaction itself, for what looks across all stores."""
        return self._connection

    @cached_property
    def jobs(self) -> SqlJobRows:
        """The job ledger."""
        return SqlJobRows(self._connection, self._clock, self._limits, self._disk)

    @cached_property
    def documents(self) -> SqlDocumentRows:
        """Documents and their chunks."""
        return SqlDocumentRows(self._connection, self._clock)

    @cached_property
    def messages(self) -> SqlMessageRows:
        """Conversations and messages."""
        return SqlMessageRows(self._connection, self._clock)

    @cached_property
    def sessions(self) -> SqlSessionRows:
        """ACP sessions and their events."""
        return SqlSessionRows(self._connection, self._clock)

    @cached_property
    def summaries(self) -> SqlSummaryRows:
        """Summaries of conversations."""
        return SqlSummaryRows(self._connection, self._clock)

    @cached_property
    def key_facts(self) -> SqlKeyFactRows:
        """What summaries found worth knowing."""
        return SqlKeyFactRows(self._connection, self._clock)

    @cached_property
    def corrections(self) -> SqlCorrectionRows:
        """What users put right."""
        return SqlCorrectionRows(self._connection, self._clock)

    @cached_property
    def replies(self) -> SqlReplyRows:
        """Kept replies of language models."""
        return SqlReplyRows(self._connection, self._clock)

    @cached_property
    def cache(self) -> SqlCacheRows:
        """Cached responses."""
        return SqlCacheRows(self._connection, self._clock)

    @cached_property
    def snapshots(self) -> SqlSnapshotRows:
        """Whole rows, for export and import."""
        return SqlSnapshotRows(self._connection, self._clock)

    @cached_property
    def graph_snapshots(self) -> SqlGraphSnapshotRows:
        """Whole rows of the graph, for export and import."""
        return SqlGraphSnapshotRows(self._connection)

    @cached_property
    def eviction(self) -> SqlEvictionRows:
        """Which messages may go."""
        return SqlEvictionRows(self._connection)

    @cached_property
    def graph_reading(self) -> SqlGraphReading:
        """The graph as recall reads it."""
        return SqlGraphReading(self._connection, self._clock)

    @cached_property
    def graph(self) -> SqlGraphRows:
        """Entities and facts."""
        return SqlGraphRows(self._connection, self._clock)

    @cached_property
    def texts(self) -> SqlTextRows:
        """Messages and chunks, as extraction sees them."""
        return SqlTextRows(self._connection)

    @cached_property
    def lane(self) -> SqlLaneRows:
        """Texts and what the graph knows them to name."""
        return SqlLaneRows(self._connection)

    @cached_property
    def communities(self) -> SqlCommunityRows:
        """Communities of entities."""
        return SqlCommunityRows(self._connection, self._clock)

    @cached_property
    def collections(self) -> SqlCollectionRows:
        """Which vector collection serves a name, and which vectors must go."""
        return SqlCollectionRows(self._connection, self._clock)

    @property
    def rung(self) -> list[tuple[str, str, int]]:
        """(queue, kind, job id) of the bells to ring when this unit has committed."""
        return self.jobs.rung if "jobs" in self.__dict__ else []


class Database:
    """Opens units of work on one SQLite file, while that has the schema of this version."""

    def __init__(self, sqlite: Sqlite, clock: Clock, *, ring: Ring, limits: LedgerLimits) -> None:
        self.sqlite = sqlite
        self._clock = clock
        self._ring = ring
        self._limits = limits
        self._schema = SchemaGuard()

    @contextmanager
    def write(self, *, durable: bool = True) -> Iterator[Unit]:
        """One transaction; the bells of accepted jobs ring after its commit. Raises SchemaError. See Sqlite.write."""
        with self.sqlite.write(durable=durable) as connection:
            unit = self._unit(connection)
            yield unit
        for queue, kind, job_id in unit.rung:
            self._ring(queue, kind, job_id)

    @contextmanager
    def read(self) -> Iterator[Unit]:
        """One consistent view, in which any write fails."""
        with self.sqlite.read() as connection:
            yield self._unit(connection)

    def _unit(self, connection: sa.Connection) -> Unit:
        self._schema.check(connection)
        return Unit(connection, self._clock, self._limits, self.sqlite.path.parent)
