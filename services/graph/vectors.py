"""The vectors of entities: rows first, vectors second, then marked. One job embeds one block of entity ids.

Two spellings of one thing that came in at once are both stored, as neither could be found yet. Their vectors meet
here, and the younger entity is merged into the older one.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence

from services.embedding.points import row_of
from services.embedding.spaces import Space, VectorSpaces
from services.embedding.store import CollectionState
from services.embedding.upkeep import VectorOwner
from services.embedding.writing import Embedded, VectorWriter, Written
from services.graph.merging import merge_entities
from services.graph.names import may_merge
from services.graph.store import EntityText, GraphDatabase, block_of
from services.jobs.models import EMBED_ENTITIES, NewJob
from services.jobs.run import JobRun
from services.ports import Clock, ScoredPoint

log = logging.getLogger(__name__)

COLLECTION = "zeph_graph_entities"
_ENTITIES_PER_CALL = 64
# More than are looked at: vectors of merged and deleted entities live on for a moment, and types differ.
NEIGHBOURS = 20


class EntityVectors:
    """Embeds entities where that is `wanted`. From `similarity` on, what their names allow to be one is made one."""

    def __init__(
        self,
        database: GraphDatabase,
        spaces: VectorSpaces,
        clock: Clock,
        *,
        similarity: float = 0.85,
        wanted: bool = True,
    ) -> None:
        self._database = database
        self._spaces = spaces
        self._clock = clock
        self._similarity = similarity
        self._wanted = wanted
        self._writer = VectorWriter[EntityText](
            database, spaces, "entity", lambda unit: unit.graph, lambda row: {"entity_id": row.id}
        )

    @property
    def owner(self) -> VectorOwner:
        """Entities, as upkeep sees them."""
        return VectorOwner(
            "entity", "entity_id", lambda unit: unit.graph, self.embed_into, entity_job, wanted=self._wanted
        )

    def embed_block(self, run: JobRun) -> None:
        """Give every entity of the job's block its vectors, where that is wanted."""
        namespace, block = run.job.namespace, run.number("block")
        space = self._spaces.for_writing(COLLECTION) if self._wanted else None
        written = Written()
        while True:
            if space is not None:
                written += self._embed(space, namespace, block, run)
            with self._database.write() as unit:
                # Entities that came in meanwhile were promised to this job.
                if space is None or not unit.graph.unembedded(
                    namespace, block, space.collection.physical, limit=1
                ):
                    run.finish(unit, written.outcome)
                    return

    def embed_into(self, space: Space, namespace: str, block: int, run: JobRun) -> int:
        """Embed the block's entities that this space lacks, a few at a time, each durable when done; vectors made."""
        return self._embed(space, namespace, block, run).vectors

    def _embed(self, space: Space, namespace: str, block: int, run: JobRun) -> Written:
        physical = space.collection.physical
        written = Written()
        while True:
            run.checkpoint()
            with self._database.read() as unit:
                texts = unit.graph.unembedded(namespace, block, physical, limit=_ENTITIES_PER_CALL)
            if not texts:
                return written
            embedded = self._writer.embed(space, texts)
            written += self._writer.write(space, namespace, embedded)
            if space.collection.state is CollectionState.ACTIVE:
                for item in embedded:
                    self._join(space, namespace, item)

    def _join(self, space: Space, namespace: str, item: Embedded[EntityText]) -> None:
        """Make one of an entity and all that are the same under other names; the oldest one stays."""
        if not len(item.vectors):
            return
        physical, itself = space.collection.physical, item.row.id
        hits = self._spaces.store.search(physical, namespace, item.vectors[0], limit=NEIGHBOURS)
        others = [found for found in entities_near(hits, self._similarity) if found != itself]
        if not others:
            return
        with self._database.write() as unit:
            alive = unit.graph.get(namespace, [itself, *others])
            # With all of them: each may be one that looked around before this one could be found.
            for other in others:
                if itself not in alive or other not in alive:
                    continue
                older, younger = sorted((alive[itself], alive[other]), key=lambda entity: entity.id)
                if older.type is younger.type and may_merge(older.canonical_name, younger.canonical_name):
                    merge_entities(unit, namespace, older, younger, self._clock.now())
                    unit.graph.count(namespace, {"merges_by_embedding": 1})
                    log.info("entities_merged namespace=%s into=%d gone=%d", namespace, older.id, younger.id)
                    alive = unit.graph.get(namespace, [itself, *others])


def entities_near(hits: Iterable[ScoredPoint], similarity: float) -> dict[int, float]:
    """The entities at least so near, best first, with their scores. A point that names none is passed over."""
    scores: dict[int, float] = {}
    for hit in hits:
        if hit.score >= similarity and (entity_id := row_of(hit.payload, "entity_id")):
            scores.setdefault(entity_id, hit.score)
    return scores


def entity_job(namespace: str, block: int) -> NewJob:
    """The job that embeds a block of entities; while one is live, another would add nothing."""
    return NewJob(EMBED_ENTITIES, {"block": block}, namespace, str(block))


def entity_jobs(namespace: str, ids: Sequence[int]) -> list[NewJob]:
    """The jobs that embed these entities."""
    return [entity_job(namespace, block) for block in sorted({block_of(entity_id) for entity_id in ids})]
