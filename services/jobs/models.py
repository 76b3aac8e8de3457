"""What a job is. The ledger row is the truth; a message in a broker is only a bell."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Queue(StrEnum):
    """The worker classes: what they do differs in cost and in what they wait for."""

    INGESTION = "ingestion"
    EMBEDDING = "embedding"
    GRAPH = "graph"
    CORRECTIONS = "corrections"
    MAINTENANCE = "maintenance"


class JobState(StrEnum):
    """`waiting` is a parent whose children are not all finished. `done` and `dead` are final."""

    PENDING = "pending"
    RUNNING = "running"
    WAITING = "waiting"
    DONE = "done"
    DEAD = "dead"


LIVE_STATES = (JobState.PENDING, JobState.RUNNING, JobState.WAITING)


@dataclass(frozen=True, slots=True)
class JobKind:
    """A kind of work: its stable name and the queue that runs it."""

    name: str
    queue: Queue


INGEST_BATCH = JobKind("documents.ingest_batch", Queue.INGESTION)
INGEST_FILE = JobKind("documents.ingest_file", Queue.INGESTION)
EMBED_DOCUMENT = JobKind("documents.embed_document", Queue.EMBEDDING)
EMBED_MESSAGES = JobKind("memory.embed_messages", Queue.EMBEDDING)
SUMMARIZE = JobKind("memory.summarize", Queue.GRAPH)
EMBED_SUMMARY = JobKind("memory.embed_summary", Queue.EMBEDDING)
EXTRACT_GRAPH = JobKind("memory.extract_graph", Queue.GRAPH)
BACKFILL_GRAPH = JobKind("graph.backfill", Queue.GRAPH)
GRAPH_REFRESH = JobKind("graph.refresh", Queue.GRAPH)
EVICT_GRAPH = JobKind("graph.evict", Queue.GRAPH)
EMBED_ENTITIES = JobKind("graph.embed_entities", Queue.EMBEDDING)
DETECT_CORRECTION = JobKind("memory.detect_correction", Queue.CORRECTIONS)
EMBED_CORRECTION = JobKind("memory.embed_correction", Queue.EMBEDDING)
EMBED_MISSING = JobKind("memory.embed_missing", Queue.MAINTENANCE)
DETECT_MISSING = JobKind("memory.detect_missing", Queue.MAINTENANCE)
EVICT_MESSAGES = JobKind("memory.evict", Queue.MAINTENANCE)
REMOVE_VECTORS = JobKind("vectors.remove_deleted", Queue.MAINTENANCE)
REEMBED = JobKind("vectors.reembed", Queue.MAINTENANCE)
RECONCILE = JobKind("vectors.reconcile", Queue.MAINTENANCE)
EVICT_RESPONSES = JobKind("cache.evict", Queue.MAINTENANCE)
PURGE_JOBS = JobKind("jobs.purge_finished", Queue.MAINTENANCE)


@dataclass(frozen=True, slots=True)
class NewJob:
    """Work to be accepted.

    Of several live jobs with one (namespace, kind, dedupe_key) only the first is kept; within one parent that holds
    for finished ones too. `payload` is small JSON: references, never bodies. `priority` 0 is first.
    """

    kind: JobKind
    payload: Mapping[str, Any] = field(default_factory=dict)
    namespace: str = "default"
    dedupe_key: str | None = None
    parent_id: int | None = None
    priority: int = 5
    run_after: int | None = None


def scheduled(kind: JobKind) -> NewJob:
    """The job of a kind that the schedule starts too: of these, one is live at a time."""
    return NewJob(kind, dedupe_key="scheduled")


@dataclass(frozen=True, slots=True)
class Job:
    """One row of the ledger. Times are microseconds; `lease_token` is set while it runs."""

    id: int
    namespace: str
    kind: str
    queue: str
    dedupe_key: str | None
    payload: Mapping[str, Any]
    state: JobState
    priority: int
    attempts: int
    lost_leases: int
    cancel_requested: bool
    run_after: int
    lease_token: str | None
    lease_until: int | None
    error_type: str | None
    error_message: str | None
    outcome: Mapping[str, Any] | None
    parent_id: int | None
    children_open: int
    created_at: int
    started_at: int | None
    finished_at: int | None


@dataclass(frozen=True, slots=True)
class Tally:
    """How many children of a batch are alike, and the sums of what their outcomes count."""

    kind: str
    state: str
    status: str
    jobs: int
    chunks: int
    added: int
    vectors: int


@dataclass(frozen=True, slots=True)
class QueueDepth:
    """How much waits in a queue: `oldest_seconds` is the age of the oldest due job, `eta_seconds` an estimate."""

    queue: str
    pending: int
    delayed: int
    running: int
    dead: int
    oldest_seconds: float
    eta_seconds: float | None


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """When a failed job runs again: exponential backoff with full jitter, then the dead letters."""

    max_attempts: int = 8
    max_lost_leases: int = 3
    base_seconds: float = 2.0
    cap_seconds: float = 900.0
    lease_seconds: float = 30.0

    def delay_ceiling(self, attempts: int) -> float:
        """The longest wait in seconds before the attempt after `attempts` failed ones."""
        return min(self.cap_seconds, self.base_seconds * 2.0 ** max(0, attempts - 1))
