"""Communities: entities that hang together, kept in step with the graph and described in a few sentences.

A refresh detects them anew (see `detection`), stores the partition in one transaction, and then describes those that
changed, one after the other. What did not change costs no model call, and what could not be described keeps its old
text until the next refresh. Between two refreshes a new entity joins the community of most of its neighbours.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Protocol

from services import errors
from services.graph.community_prompt import Portrait, local_summary, read_summary, summary_request
from services.graph.detection import GraphEdge, Group, detect, fingerprint
from services.graph.models import Community
from services.graph.store import GraphUnit
from services.jobs.models import GRAPH_REFRESH, NewJob
from services.jobs.run import JobRun
from services.jobs.store import JobRows
from services.language.recorded import RecordedModel, ReplyRows
from services.ports import Clock, LanguageModel

log = logging.getLogger(__name__)

DEFAULT_PAGE = 10_000
# 250,000 edges take a few seconds: what takes longer than this hangs.
_DETECTION_SECONDS = 300.0
# Models that failed so often in a row are not asked again in this refresh.
_MAX_FAILURES = 3
# Marks the fingerprint of a text that a language model would improve.
_LOCAL = "local:"


@dataclass(frozen=True, slots=True)
class CommunityStats:
    """What the communities cover.

    `refreshed_at` is the time of the last detection, None before the first. `drift` is the share of facts that came
    or went since then, in [0, 1]; 0 means that a refresh would change nothing.
    """

    communities: int
    members: int
    unassigned: int
    undescribed: int
    refreshed_at: int | None
    drift: float


@dataclass(frozen=True, slots=True)
class CommunityLimits:
    """How much is read at once, and how communities are described; `prompt_bytes` 0: never by a model."""

    page: int = DEFAULT_PAGE
    prompt_bytes: int = 8_192
    concurrency: int = 4
    timeout_seconds: float = 15.0
    redact: bool = True


class CommunityRows(Protocol):
    """The graph_communities and graph_community_members tables, and what detection reads of the graph."""

    def namespaces(self) -> Sequence[str]:
        """Those with an entity or a community."""

    def entity_ids(self, namespace: str) -> list[int]:
        """All entities, in order of their canonical names and types: an order that no insertion changes."""

    def edges(self, namespace: str, *, after: int, limit: int) -> list[GraphEdge]:
        """A page of the active edges in id order, behind `after`."""

    def listed(self, namespace: str, *, of: int | None = None) -> list[Community]:
        """All communities, or those of one entity, in id order, each with its members in id order."""

    def add(self, namespace: str, name: str, summary: str) -> int:
        """Store a community without members and fingerprint; its id."""

    def set_members(self, community_id: int, entity_ids: Sequence[int]) -> None:
        """Make these its members, as far as they still exist, each leaving its former community."""

    def describe(self, community_id: int, name: str, summary: str, fingerprint: str) -> None:
        """Store what describes it, and what it was when that was written; an unknown id is no error."""

    def mark_changed(self, community_id: int) -> None:
        """Empty its fingerprint: the text describes something else."""

    def remove(self, namespace: str, ids: Sequence[int]) -> None:
        """Delete communities; their members belong to none then."""

    def portrait(self, namespace: str, community_id: int) -> Portrait:
        """The members and the active facts between them."""

    def assign(self, namespace: str, entity_id: int) -> int | None:
        """Put an entity without community into that of most of its neighbours, ties by smallest id; which one.

        One vote for each active edge. None when it is in one already or no neighbour is.
        """

    def stats(self, namespace: str) -> CommunityStats:
        """What the communities cover."""

    def asked_at(self, namespace: str) -> int:
        """How many extractions were stored when a refresh was last due."""

    def mark_refreshed(self, namespace: str, at: int) -> None:
        """Remember when the graph was read for the last detection."""


class CommunityUnit(Protocol):
    """A unit of work for communities."""

    @property
    def jobs(self) -> JobRows:
        """The job ledger."""

    @property
    def replies(self) -> ReplyRows:
        """Kept replies of language models."""

    @property
    def communities(self) -> CommunityRows:
        """Communities."""


class CommunityDatabase(Protocol):
    """Opens units of work."""

    def write(self, *, durable: bool = True) -> AbstractContextManager[CommunityUnit]:
        """One transaction."""

    def read(self) -> AbstractContextManager[CommunityUnit]:
        """One consistent view."""


def assign_new(unit: CommunityUnit, namespace: str, entity_ids: Sequence[int]) -> int:
    """Let these entities join the communities of their neighbours, until the next refresh decides; how many did.

    Call it in the unit that stored their edges. A community that gains a member is described anew at the next refresh.
    """
    joined = [unit.communities.assign(namespace, entity) for entity in sorted(set(entity_ids))]
    return sum(community is not None for community in joined)


def refresh_job_if_due(unit: GraphUnit, namespace: str, interval: int) -> NewJob | None:
    """The job to enqueue in this unit when `interval` extractions were stored since the last one; 0 is never."""
    if interval < 1 or not unit.graph.claim_refresh(namespace, interval):
        return None
    return refresh_job(namespace)


def refresh_job(namespace: str) -> NewJob:
    """A refresh of one namespace; of several waiting ones the ledger keeps one."""
    return NewJob(GRAPH_REFRESH, {"namespace": namespace}, namespace, dedupe_key=namespace)


@dataclass(frozen=True, slots=True)
class Refreshed:
    """What a refresh did. `failed` communities keep their old text and are tried again next time."""

    communities: int
    changed: int
    removed: int
    described: int
    failed: int


class Communities:
    """Detects, describes and lists communities."""

    def __init__(
        self, database: CommunityDatabase, model: LanguageModel | None, clock: Clock, limits: CommunityLimits
    ) -> None:
        self._database = database
        self._model = None if model is None or not limits.prompt_bytes else RecordedModel(database, model)
        self._clock = clock
        self._limits = limits

    def listed(self, *, namespace: str) -> list[Community]:
        """All communities, the largest first."""
        with self._database.read() as unit:
            found = unit.communities.listed(namespace)
        return sorted(found, key=lambda one: (-len(one.entity_ids), one.id))

    def of_entity(self, namespace: str, entity_id: int) -> Community | None:
        """The community of an entity, if it is in one."""
        with self._database.read() as unit:
            return next(iter(unit.communities.listed(namespace, of=entity_id)), None)

    def stats(self, *, namespace: str) -> CommunityStats:
        """What the communities cover, and how far the graph has moved on since they were detected."""
        with self._database.read() as unit:
            return unit.communities.stats(namespace)

    # ---- for workers -----------------------------------------------------------------------------------------

    def sweep(self, run: JobRun) -> None:
        """Refresh the namespace that the job names, or all whose graph has changed since their last refresh."""
        namespace = run.text("namespace") if "namespace" in run.payload else None
        with self._database.read() as unit:
            rows = unit.communities
            wanted = (
                [namespace] if namespace else [one for one in rows.namespaces() if _is_stale(rows.stats(one))]
            )
            asked = rows.asked_at(namespace) if namespace else 0
        done = Counter[str]()
        for one in wanted:
            done.update(asdict(self.refresh(one, checkpoint=run.checkpoint)))
        with self._database.write() as unit:
            run.finish(unit, {"status": "refreshed", "namespaces": len(wanted), **done})
            if namespace and unit.communities.asked_at(namespace) != asked:
                # Of the same work the ledger kept this job, which had read the graph already.
                unit.jobs.enqueue([refresh_job(namespace)])

    def refresh(self, namespace: str, *, checkpoint: Callable[[], None] = lambda: None) -> Refreshed:
        """Bring the communities in step with the graph; the partition first, then the texts.

        Raises PermanentError when detection takes more than five minutes: the old communities stay then.
        """
        started = self._clock.now()
        groups = self._detect(namespace, checkpoint)
        with self._database.write() as unit:
            changed, removed = self._store(unit.communities, namespace, groups)
            unit.communities.mark_refreshed(namespace, started)
            pending = [one.id for one in unit.communities.listed(namespace) if not one.fingerprint]
        described, failed = self._describe_all(namespace, pending, checkpoint)
        return Refreshed(len(groups), changed, removed, described, failed)

    # ---- steps -----------------------------------------------------------------------------------------------

    def _detect(self, namespace: str, checkpoint: Callable[[], None]) -> list[Group]:
        deadline = self._clock.monotonic() + _DETECTION_SECONDS

        def check() -> None:
            checkpoint()
            if self._clock.monotonic() > deadline:
                raise errors.PermanentError(
                    f"communities of namespace {namespace} were not found within {_DETECTION_SECONDS:.0f} s: "
                    "keep fewer entities (memory.graph.max_entities)"
                )

        with self._database.read() as unit:
            entities = unit.communities.entity_ids(namespace)
        return detect(entities, self._edges(namespace), checkpoint=check)

    def _edges(self, namespace: str) -> Iterator[GraphEdge]:
        """The active edges, a page at a time: no transaction lasts for the whole of a large graph."""
        after = 0
        while True:
            with self._database.read() as unit:
                page = unit.communities.edges(namespace, after=after, limit=self._limits.page)
            if not page:
                return
            yield from page
            after = page[-1].id

    def _store(self, rows: CommunityRows, namespace: str, groups: Sequence[Group]) -> tuple[int, int]:
        """Store the partition; how many communities changed, and how many went."""
        stored = rows.listed(namespace)
        kept, heirs = _match(groups, stored)
        rows.remove(namespace, [one.id for one in stored if one.id not in {*kept, *heirs.values()}])
        for at, group in enumerate(groups):
            if at in kept.values():
                continue
            community = heirs.get(at) or rows.add(namespace, "", "")
            rows.set_members(community, group.entity_ids)
            rows.mark_changed(community)
        for one in stored:
            if one.id in kept and self._model is not None and one.fingerprint.startswith(_LOCAL):
                rows.mark_changed(one.id)
        return len(groups) - len(kept), len(stored) - len(kept) - len(heirs)

    def _describe_all(
        self, namespace: str, pending: Sequence[int], checkpoint: Callable[[], None]
    ) -> tuple[int, int]:
        """How many were described, and how many must wait for another time."""
        described, in_a_row = 0, 0
        waiting = iter(pending)
        with ThreadPoolExecutor(self._limits.concurrency if self._model else 1) as pool:
            while in_a_row < _MAX_FAILURES:
                part = list(islice(waiting, self._limits.concurrency))
                if not part:
                    break
                checkpoint()
                for done in pool.map(lambda one: self._describe(namespace, one), part):
                    described += done
                    in_a_row = 0 if done else in_a_row + 1
        return described, len(pending) - described

    def _describe(self, namespace: str, community_id: int) -> bool:
        with self._database.read() as unit:
            portrait = unit.communities.portrait(namespace, community_id)
        if len(portrait.members) < 2:
            # Merged or forgotten meanwhile: the next detection removes it.
            return True
        found = fingerprint(
            (entity for entity, _ in portrait.members), (fact.edge_id for fact in portrait.facts)
        )
        if self._model is None:
            with self._database.write(durable=False) as unit:
                unit.communities.describe(
                    community_id, portrait.name, local_summary(portrait), _LOCAL + found
                )
            return True
        request = summary_request(
            portrait,
            max_bytes=self._limits.prompt_bytes,
            redact=self._limits.redact,
            timeout_seconds=self._limits.timeout_seconds,
        )
        try:
            answer = self._model.ask(request, read_summary, namespace=namespace)
        except (errors.TransientError, errors.ModelRejected) as error:
            log.warning("community_not_described community=%d reason=%s", community_id, error)
            text = portrait.summary or local_summary(portrait)
            with self._database.write(durable=False) as unit:
                unit.communities.describe(community_id, portrait.name, text, "")
            return False
        with self._database.write(durable=False) as unit:
            unit.communities.describe(community_id, portrait.name, answer.value, found)
            unit.replies.forget(namespace, answer.key)
        return True


def _match(groups: Sequence[Group], stored: Sequence[Community]) -> tuple[dict[int, int], dict[int, int]]:
    """Which stored communities stay as they are (id -> place of the group), and which live on changed (place -> id).

    A changed group inherits the community that most of its members come from, so that its id and its text last.
    """
    known = {(one.fingerprint.removeprefix(_LOCAL), one.entity_ids): one.id for one in stored}
    same = ((group.fingerprint, tuple(sorted(group.entity_ids))) for group in groups)
    kept = {known[what]: at for at, what in enumerate(same) if what in known}
    home = {entity: one.id for one in stored if one.id not in kept for entity in one.entity_ids}
    unchanged = set(kept.values())
    shared = Counter(
        (home[entity], at)
        for at, group in enumerate(groups)
        if at not in unchanged
        for entity in group.entity_ids
        if entity in home
    )
    heirs: dict[int, int] = {}
    taken: set[int] = set()
    for (community, at), _ in sorted(shared.items(), key=lambda pair: (-pair[1], pair[0])):
        if at not in heirs and community not in taken:
            heirs[at] = community
            taken.add(community)
    return kept, heirs


def _is_stale(stats: CommunityStats) -> bool:
    # Forgetting leaves entities without a community, and no fact that came or went.
    return stats.refreshed_at is None or stats.drift > 0 or stats.undescribed > 0 or stats.unassigned > 0
