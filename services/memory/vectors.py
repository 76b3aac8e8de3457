"""The vectors of messages: rows first, vectors second, then marked. One job embeds one block of message ids."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from services import errors
from services.embedding.spaces import Space, VectorSpaces
from services.embedding.store import CollectionState
from services.embedding.upkeep import VectorOwner
from services.embedding.writing import VectorWriter, Written
from services.ids import MessageId
from services.jobs.models import EMBED_MESSAGES, NewJob
from services.jobs.run import JobRun
from services.jobs.store import JobUnit
from services.memory.store import MemoryDatabase, MessageText, block_of
from services.ports import PayloadValue

log = logging.getLogger(__name__)

COLLECTION = "zeph_conversations"
_MESSAGES_PER_CALL = 32
_BLOCKS_PER_BACKFILL = 10_000


class MessageVectors:
    """Embeds messages, and finds those that were missed. Calls the model only between units of work."""

    def __init__(self, database: MemoryDatabase, spaces: VectorSpaces) -> None:
        self._database = database
        self._spaces = spaces
        self._writer = message_writer(database, spaces)

    @property
    def wanted(self) -> bool:
        """Whether there is an embedder at all."""
        return self._spaces.embedder is not None

    @property
    def owner(self) -> VectorOwner:
        """Messages, as upkeep sees them."""
        return VectorOwner("message", "message_id", lambda unit: unit.messages, self.embed_into, block_job)

    def ask_for(self, unit: JobUnit, namespace: str, ids: Sequence[MessageId]) -> None:
        """Have workers give these messages their vectors, as part of the unit that stores them."""
        if not ids or not self.wanted:
            return
        try:
            unit.jobs.enqueue(block_jobs(namespace, ids))
        except errors.BackPressure as error:
            # A full ledger must not make an agent forget: the scheduled backfill finds what has no vectors.
            log.warning("message_waits_for_backfill reason=%s", error)

    def embed_block(self, run: JobRun) -> None:
        """Give every message of the job's block its vectors; a message that the model refuses is counted and passed."""
        namespace, block = run.job.namespace, run.number("block")
        space = self._spaces.for_writing(COLLECTION)
        written = Written()
        while True:
            if space is not None:
                written += self._embed(space, namespace, block, run)
            with self._database.write() as unit:
                # Messages that came in meanwhile were promised to this job.
                if space is None or not unit.messages.unembedded(
                    namespace, block, space.collection.physical, limit=1
                ):
                    run.finish(unit, written.outcome)
                    return

    def embed_into(self, space: Space, namespace: str, block: int, run: JobRun) -> int:
        """Embed the block's messages that this space lacks, a few at a time, each durable when done; vectors made."""
        return self._embed(space, namespace, block, run).vectors

    def embed_missing(self) -> tuple[int, int]:
        """Enqueue the jobs of all blocks that lack vectors: (messages waiting, jobs that will embed them).

        There are no jobs while the collection holds vectors of another model: re-embedding is what it needs.
        Raises ModelUnavailable, BackPressure.
        """
        embedder = self._spaces.embedder
        if embedder is None:
            return 0, 0
        label = embedder.identity.label
        with self._database.read() as unit:
            active = unit.collections.find(COLLECTION, CollectionState.ACTIVE)
            physical = active.physical if active else ""
            waiting = unit.messages.waiting(None, physical)
            if active is not None and active.identity.label != label:
                return waiting, 0
            blocks = unit.messages.incomplete(COLLECTION, physical, limit=_BLOCKS_PER_BACKFILL)
        with self._database.write() as unit:
            unit.jobs.renew([block_job(namespace, block) for namespace, block in blocks])
        return waiting, len(blocks)

    def waiting(self) -> int:
        """Messages of all namespaces that should have vectors in the active collection and have none."""
        if not self.wanted:
            return 0
        with self._database.read() as unit:
            active = unit.collections.find(COLLECTION, CollectionState.ACTIVE)
            return unit.messages.waiting(None, active.physical if active else "")

    def _embed(self, space: Space, namespace: str, block: int, run: JobRun) -> Written:
        physical = space.collection.physical
        written = Written()
        while True:
            run.checkpoint()
            with self._database.read() as unit:
                texts = unit.messages.unembedded(namespace, block, physical, limit=_MESSAGES_PER_CALL)
            if not texts:
                return written
            written += self._writer.write(space, namespace, self._writer.embed(space, texts))


def block_job(namespace: str, block: int) -> NewJob:
    """The job that embeds a block; while one is live, another would add nothing."""
    return NewJob(EMBED_MESSAGES, {"block": block}, namespace, str(block))


def block_jobs(namespace: str, ids: Sequence[MessageId]) -> list[NewJob]:
    """The jobs that embed these messages."""
    return [block_job(namespace, block) for block in sorted({block_of(message_id) for message_id in ids})]


def message_writer(database: MemoryDatabase, spaces: VectorSpaces) -> VectorWriter[MessageText]:
    """What writes the vectors of messages."""
    return VectorWriter(database, spaces, "message", lambda unit: unit.messages, _payload)


def _payload(message: MessageText) -> dict[str, PayloadValue]:
    """What a vector of this message can be filtered by."""
    return {
        "message_id": message.id,
        "conversation_id": message.conversation_id,
        "role": message.role.value,
        "created_at": message.created_at,
        # What is hidden has no vectors; the field is for filters.
        "agent_visible": 1,
    }
