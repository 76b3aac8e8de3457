"""The vectors of messages: rows first, vectors second, then marked. One job embeds one block of message ids."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from services import errors
from services.embedding.points import message_point_ids
from services.embedding.spaces import Space, VectorSpaces
from services.embedding.store import CollectionState
from services.embedding.upkeep import VectorOwner
from services.ids import MessageId
from services.jobs.models import EMBED_MESSAGES, REMOVE_VECTORS, NewJob
from services.jobs.run import JobRun
from services.memory.store import MemoryDatabase, MessageText, block_of
from services.ports import Point

log = logging.getLogger(__name__)

COLLECTION = "zeph_conversations"
_MESSAGES_PER_CALL = 32
_BLOCKS_PER_BACKFILL = 10_000
# No model refuses this: one that does refuses everything.
_PROBE = "ok"

# (message id, vectors that it has)
Windows = list[tuple[int, int]]


class MessageVectors:
    """Embeds messages, and finds those that were missed. Calls the model only between units of work."""

    def __init__(self, database: MemoryDatabase, spaces: VectorSpaces) -> None:
        self._database = database
        self._spaces = spaces

    @property
    def wanted(self) -> bool:
        """Whether there is an embedder at all."""
        return self._spaces.embedder is not None

    @property
    def owner(self) -> VectorOwner:
        """Messages, as upkeep sees them."""
        return VectorOwner("message", "message_id", lambda unit: unit.messages, self.embed_into, block_job)

    def embed_block(self, run: JobRun) -> None:
        """Give every message of the job's block its vectors; a message that the model refuses is counted and passed."""
        namespace, block = run.job.namespace, int(run.payload["block"])
        space = self._spaces.for_writing(COLLECTION)
        vectors = rejected = 0
        while True:
            if space is not None:
                made, refused = self._embed(space, namespace, block, run)
                vectors, rejected = vectors + made, rejected + refused
            with self._database.write() as unit:
                # Messages that came in meanwhile were promised to this job.
                if space is None or not unit.messages.unembedded(
                    namespace, block, space.collection.physical, limit=1
                ):
                    run.finish(unit, {"vectors": vectors, "rejected": rejected})
                    return

    def embed_into(self, space: Space, namespace: str, block: int, run: JobRun) -> int:
        """Embed the block's messages that this space lacks, a few at a time, each durable when done; vectors made."""
        return self._embed(space, namespace, block, run)[0]

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
            unit.jobs.enqueue([block_job(namespace, block) for namespace, block in blocks])
        return waiting, len(blocks)

    def waiting(self) -> int:
        """Messages of all namespaces that should have vectors in the active collection and have none."""
        if not self.wanted:
            return 0
        with self._database.read() as unit:
            active = unit.collections.find(COLLECTION, CollectionState.ACTIVE)
            return unit.messages.waiting(None, active.physical if active else "")

    def _embed(self, space: Space, namespace: str, block: int, run: JobRun) -> tuple[int, int]:
        physical = space.collection.physical
        made = rejected = 0
        while True:
            run.checkpoint()
            with self._database.read() as unit:
                texts = unit.messages.unembedded(namespace, block, physical, limit=_MESSAGES_PER_CALL)
            if not texts:
                return made, rejected
            points, windows, refused = _points(space, namespace, texts)
            self._spaces.write(space, namespace, points)
            self._mark(namespace, physical, windows)
            made, rejected = made + len(points), rejected + refused

    def _mark(self, namespace: str, physical: str, windows: Windows) -> None:
        with self._database.write(durable=False) as unit:
            gone = unit.messages.mark_embedded(physical, windows)
            orphans = [
                (namespace, physical, point)
                for message_id, count in windows
                if message_id in gone
                for point in message_point_ids(namespace, physical, message_id, count)
            ]
            unit.collections.bury(orphans)
            if orphans:
                unit.jobs.enqueue([removal_job(namespace)])


def block_job(namespace: str, block: int) -> NewJob:
    """The job that embeds a block; while one is live, another would add nothing."""
    return NewJob(EMBED_MESSAGES, {"block": block}, namespace, str(block))


def block_jobs(namespace: str, ids: Sequence[MessageId]) -> list[NewJob]:
    """The jobs that embed these messages."""
    return [block_job(namespace, block) for block in sorted({block_of(message_id) for message_id in ids})]


def removal_job(namespace: str) -> NewJob:
    """The job that removes the vectors of deleted and hidden messages."""
    return NewJob(REMOVE_VECTORS, namespace=namespace, dedupe_key="deleted")


def _points(
    space: Space, namespace: str, messages: Sequence[MessageText]
) -> tuple[list[Point], Windows, int]:
    """The vectors of all windows of these messages, how many each has, and how many messages the model refuses."""
    cut = [(message, space.embedder.windows(message.text)) for message in messages]
    try:
        rows = iter(space.embedder.embed([text for _, texts in cut for text in texts], kind="document"))
    except errors.ModelRejected as error:
        if len(messages) > 1:
            # One bad message spoils a call: halve it until it stands alone.
            half = len(messages) // 2
            left, right = (_points(space, namespace, part) for part in (messages[:half], messages[half:]))
            return left[0] + right[0], left[1] + right[1], left[2] + right[2]
        space.embedder.embed([_PROBE], kind="document")
        log.warning("message_not_embedded id=%d reason=%s", messages[0].id, error)
        return [], [(messages[0].id, 0)], 1
    physical = space.collection.physical
    points = [
        Point(point, next(rows), point_payload(message))
        for message, texts in cut
        for point in message_point_ids(namespace, physical, message.id, len(texts))
    ]
    return points, [(message.id, len(texts)) for message, texts in cut], 0


def point_payload(message: MessageText) -> dict[str, str | int]:
    """What a vector of this message can be filtered by."""
    return {
        "message_id": message.id,
        "conversation_id": message.conversation_id,
        "role": message.role.value,
        "created_at": message.created_at,
        # What is hidden has no vectors; the field is for filters.
        "agent_visible": 1,
    }
