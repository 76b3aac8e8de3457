"""The vectors of messages on their way through a snapshot, so that a move does not embed everything again."""

from __future__ import annotations

import base64
import binascii
import logging
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from services import errors
from services.embedding.points import message_point_ids
from services.embedding.spaces import Space, VectorSpaces
from services.embedding.writing import Embedded
from services.ids import MessageId
from services.memory.store import MESSAGES_PER_BLOCK, MemoryDatabase, block_of
from services.memory.vectors import COLLECTION, message_writer

if TYPE_CHECKING:
    from services.ports import Vector

log = logging.getLogger(__name__)

_PER_STEP = 500
# Float32 arithmetic moves the length of a unit vector by less than this.
_LENGTH_TOLERANCE = 1e-3


class VectorTransfer:
    """Reads the vectors of messages from the store, and takes in those that the same model made elsewhere."""

    def __init__(self, database: MemoryDatabase, spaces: VectorSpaces) -> None:
        self._database = database
        self._spaces = spaces
        self._writer = message_writer(database, spaces)

    def source(self) -> Space | None:
        """Where the messages' vectors are; None if there are none. Raises DimensionMismatch."""
        return self._spaces.for_reading(COLLECTION)

    def target(self) -> Space | None:
        """Where vectors of the configured embedder go; None while the collection is another model's."""
        try:
            return self._spaces.for_writing(COLLECTION)
        except errors.DimensionMismatch:
            return None

    def stored(self, space: Space, namespace: str) -> Iterator[tuple[MessageId, list[str]]]:
        """(message, its vectors in Base64) in order of id. Raises VectorStoreUnavailable."""
        physical = space.collection.physical
        after = 0
        while True:
            with self._database.read() as unit:
                page = unit.messages.embedded_windows(namespace, physical, after=after, limit=_PER_STEP)
            if not page:
                return
            points = {
                message_id: message_point_ids(namespace, physical, message_id, count)
                for message_id, count in page
            }
            found = self._spaces.store.fetch(
                physical, namespace, [it for ids in points.values() for it in ids]
            )
            for message_id, ids in points.items():
                if ids and all(point in found for point in ids):
                    yield MessageId(message_id), [encode(found[point]) for point in ids]
            after = page[-1][0]

    def adopt(
        self, space: Space, namespace: str, vectors: Mapping[MessageId, Sequence[Vector]]
    ) -> set[MessageId]:
        """Store vectors of messages that have none; the messages that have theirs now.

        Messages that this embedder would cut into another number of windows are left to it. A store that does not
        answer takes none: the jobs that look for missing vectors find them later.
        """
        blocks: defaultdict[int, list[MessageId]] = defaultdict(list)
        for message_id in vectors:
            blocks[block_of(message_id)].append(message_id)
        adopted: set[MessageId] = set()
        try:
            for block in sorted(blocks):
                adopted |= self._adopt(space, namespace, block, vectors)
        except errors.TransientError as error:
            log.warning("vectors_not_imported reason=%s", error)
        return adopted

    def _adopt(
        self, space: Space, namespace: str, block: int, vectors: Mapping[MessageId, Sequence[Vector]]
    ) -> set[MessageId]:
        import numpy as np

        physical = space.collection.physical
        with self._database.read() as unit:
            texts = unit.messages.unembedded(namespace, block, physical, limit=MESSAGES_PER_BLOCK)
        fitting = [
            text
            for text in texts
            if vectors.get(text.id) and len(space.embedder.windows(text.text)) == len(vectors[text.id])
        ]
        embedded = [Embedded(text, np.stack(list(vectors[text.id]))) for text in fitting]
        self._writer.write(space, namespace, embedded)
        return {text.id for text in fitting}


def encode(vector: Vector) -> str:
    """Little-endian float32 in Base64."""
    return base64.b64encode(vector.astype("<f4").tobytes()).decode()


def decode(text: str, dimension: int) -> Vector:
    """The vector. Raises InputError unless it has that dimension and length 1."""
    import numpy as np

    try:
        vector = np.frombuffer(base64.b64decode(text, validate=True), dtype="<f4").astype(np.float32)
    except (binascii.Error, ValueError) as error:
        raise errors.InputError(f"a vector is no Base64 of float32 numbers ({error})") from error
    # NaN fails every comparison.
    if len(vector) != dimension or not abs(float(np.linalg.norm(vector)) - 1) <= _LENGTH_TOLERANCE:
        raise errors.InputError(f"a vector is not of length 1 in {dimension} dimensions")
    return vector
