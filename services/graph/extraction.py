"""Texts into the graph, through the job ledger: one job reads a few messages or chunks, each stored when it is read.

A text that was read is marked in the transaction that stores what was found, also when that is nothing; so whatever dies
is run again and reads the rest. What could not be read stays unmarked, and a backfill finds it.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, cast

from services import errors
from services.embedding.windows import utf8
from services.graph.communities import assign_new
from services.graph.extraction_jobs import TextKind, message_jobs, text_jobs
from services.graph.gate import Limits, admitted
from services.graph.llm_extraction import Found, is_hopeless
from services.graph.local_extraction import KnownName, candidate_names
from services.graph.local_extraction import extract as extract_locally
from services.graph.models import LOCAL_EXTRACTOR, Extraction, StoredExtraction
from services.graph.names import canonical
from services.graph.prompt import MAX_TEXT_BYTES
from services.graph.prose import prose, within
from services.graph.service import GraphStore
from services.graph.store import GraphUnit
from services.graph.texts import ExtractionDatabase, ExtractionUnit, Reading
from services.jobs.models import BACKFILL_GRAPH, LIVE_STATES, Job, JobState, NewJob
from services.jobs.run import JobRun
from services.language.prompts import redacted

log = logging.getLogger(__name__)

_PAGE = 1_000
_COUNTED = ("texts", "entities", "edges", "prompt_tokens", "completion_tokens")
_MODEL_ERRORS = (errors.ModelUnavailable, errors.ReplyUnusable, errors.ModelRejected)
# What one text can do to a model, and what no other text suffers from.
_ITS_OWN_FAULT = (errors.ModelTimeout, errors.ReplyUnusable, errors.ModelRejected)


class Extractor(Protocol):
    """Reads one text; `label` stands beside everything it found."""

    @property
    def label(self) -> str:
        """`local`, or `llm:` and the model."""

    def extract(self, reading: Reading, *, namespace: str) -> Found:
        """What the text states, not yet admitted. Raises what a language model raises."""


@dataclass(frozen=True, slots=True)
class ExtractionConfig:
    """What is kept of a text; `redact` replaces keys and passwords before anybody reads it."""

    limits: Limits = field(default_factory=Limits)
    redact: bool = True


@dataclass(frozen=True, slots=True)
class ExtractionReport:
    """What jobs came to: texts read, names and statements found in them, jobs still open, and why others are dead.

    `entities` and `edges` count a name once for each text that has it.
    """

    texts: int = 0
    entities: int = 0
    edges: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    open_jobs: int = 0
    failures: tuple[str, ...] = ()


class LocalExtractor:
    """Reads texts without a language model, with the names that are stored already."""

    label = LOCAL_EXTRACTOR

    def __init__(self, database: ExtractionDatabase, *, typed_relations: bool = False) -> None:
        self._database = database
        self._typed = typed_relations

    def extract(self, reading: Reading, *, namespace: str) -> Found:
        """See Extractor."""
        with self._database.read() as unit:
            matches = unit.graph.named(namespace, candidate_names(reading.text))
        known: dict[str, KnownName] = {}
        for match in matches:
            known.setdefault(match.name, KnownName(match.entity.name, match.entity.type))
        return Found(extract_locally(reading, known=known, typed_relations=self._typed))


class GraphExtraction:
    """Has texts read for the graph."""

    def __init__(
        self,
        database: ExtractionDatabase,
        store: GraphStore,
        extractor: Extractor,
        config: ExtractionConfig | None = None,
    ) -> None:
        self._database = database
        self._store = store
        self._extractor = extractor
        self._config = config or ExtractionConfig()

    # ---- for callers -----------------------------------------------------------------------------------------

    @property
    def label(self) -> str:
        """Who reads: `local`, or `llm:` and the model."""
        return self._extractor.label

    def preview(self, text: str, *, namespace: str, said_at: int, speaker: str | None = None) -> Extraction:
        """What would be stored if somebody said this; nothing is. Raises what the model raises."""
        # Unlike what is stored, it may hold halves of surrogate pairs.
        reading = Reading(utf8(text), said_at, None if speaker is None else utf8(speaker))
        found = self._read(_prepared(reading, redact=self._config.redact), namespace)
        if found.reply_keys:
            with self._database.write() as unit:
                _forget_replies(unit, namespace, found)
        return found.extraction

    def submit(self, namespace: str, message_ids: Sequence[int]) -> list[int]:
        """Have these messages read that nobody has read yet; the jobs' ids. Raises BackPressure."""
        with self._database.write() as unit:
            return unit.jobs.enqueue(message_jobs(namespace, message_ids))

    def submit_conversation(self, namespace: str, conversation_id: int) -> list[int]:
        """Have the messages of a conversation read that nobody has read yet; the jobs' ids. Raises BackPressure."""
        with self._database.write() as unit:
            ids = unit.texts.of_conversation(namespace, conversation_id)
            wanted = [reading.text_id for reading in unit.texts.unread(TextKind.MESSAGES, namespace, ids)]
            return unit.jobs.enqueue(message_jobs(namespace, wanted))

    def submit_backfill(
        self, namespace: str, *, limit: int | None = None, replace_local: bool = False
    ) -> int:
        """Have every message read that nobody has read yet, oldest first, `limit` at most; the job's id.

        `replace_local`: those, and chunks, that only the local extractor has read are read again, and what it found in
        them goes. Raises BackPressure, and InputError when the local extractor is the one to read them.
        """
        self._replacing(replace_local=replace_local)
        payload = {"limit": limit, "replace_local": replace_local}
        with self._database.write() as unit:
            # One that waits for what it has found does not look again: what came since is other work.
            key = f"{limit}/{replace_local}/{unit.texts.newest()}"
            return unit.jobs.enqueue([NewJob(BACKFILL_GRAPH, payload, namespace, key)])[0]

    def waiting(self, namespace: str, *, replace_local: bool = False) -> int:
        """How many texts such a backfill would have read."""
        with self._database.read() as unit:
            replacing = self._replacing(replace_local=replace_local)
            return unit.texts.count_unread(namespace, replacing=replacing)

    def report(self, job_ids: Sequence[int]) -> ExtractionReport:
        """How far these jobs are, with the jobs that they were split into."""
        counts: Counter[str] = Counter()
        failures: list[str] = []
        for job in self._whole(job_ids):
            if job.state is JobState.DEAD:
                failures.append(f"job {job.id}: {job.error_message}")
            counts["open_jobs"] += job.state in LIVE_STATES
            counts += Counter({name: (job.outcome or {}).get(name, 0) for name in _COUNTED})
        return ExtractionReport(**counts, failures=tuple(failures))

    # ---- for workers -----------------------------------------------------------------------------------------

    def extract(self, run: JobRun) -> None:
        """Read the job's texts. One that spoils the call for itself alone gets a job of its own, to be retried alone."""
        namespace, replacing = (
            run.job.namespace,
            run.text("replacing") if "replacing" in run.payload else None,
        )
        kind = TextKind.CHUNKS if TextKind.CHUNKS in run.payload else TextKind.MESSAGES
        text_ids = run.numbers(kind.value)
        with self._database.read() as unit:
            readings = unit.texts.unread(kind, namespace, text_ids, replacing=replacing)
        alone = len(text_ids) == 1
        counts: Counter[str] = Counter()
        apart: list[int] = []
        for reading in readings:
            run.checkpoint()
            try:
                counts += self._extract_one(run, kind, reading, replacing)
            except _MODEL_ERRORS as error:
                # Attempts are what `extraction_count` counts: those that fail here, the others when they are stored.
                failure = "parse" if isinstance(error, errors.ReplyUnusable) else "extraction"
                self._store.count(namespace, **{"extraction_count": 1, f"{failure}_failures": 1})
                if alone or is_hopeless(error) or not isinstance(error, _ITS_OWN_FAULT):
                    raise
                log.warning("text_waits_alone %s=%d reason=%s", kind, reading.text_id, error)
                apart += self._set_apart(run, kind, reading.text_id, replacing)
        with self._database.write(durable=False) as unit:
            run.finish(unit, {**counts, "set_apart": apart})

    def backfill(self, run: JobRun) -> None:
        """Enqueue a job for every 50 texts that nobody has read, oldest first; done when they are."""
        namespace = run.job.namespace
        left = 2**63 if run.payload.get("limit") is None else run.number("limit")
        replacing = self._replacing(replace_local=run.payload.get("replace_local") is True)
        for kind in TextKind:
            after = 0
            while left > 0:
                run.checkpoint()
                with self._database.write() as unit:
                    # Of many jobs at once: to find the next page costs as much as the page.
                    page = min(_PAGE, left)
                    ids = unit.texts.next_unread(
                        kind, namespace, after=after, limit=page, replacing=replacing
                    )
                    unit.jobs.enqueue(text_jobs(kind, namespace, ids, parent=run.job.id, replacing=replacing))
                if not ids:
                    break
                after, left = ids[-1], left - len(ids)
        with self._database.write() as unit:
            run.wait_for_children(unit)

    # ---- steps -----------------------------------------------------------------------------------------------

    def _extract_one(
        self, run: JobRun, kind: TextKind, reading: Reading, replacing: str | None
    ) -> Counter[str]:
        namespace = run.job.namespace
        prepared = _prepared(reading, redact=self._config.redact)
        found = self._read(prepared, namespace)

        def also(stored_in: GraphUnit, stored: StoredExtraction) -> None:
            # One database hands out all units.
            unit = cast("ExtractionUnit", stored_in)
            if not unit.texts.mark(kind, namespace, reading.text_id, self.label, replacing=replacing):
                raise _ReadByOthers
            unit.graph.count(namespace, {"extraction_count": int(bool(prepared.text))})
            _forget_replies(unit, namespace, found)
            assign_new(unit, namespace, stored.created_ids)

        try:
            stored = self._store.store(namespace, found.extraction, reading.source(run.job.id), also=also)
        except _ReadByOthers:
            # What a model said of a text that is gone tells of it.
            with self._database.write() as unit:
                _forget_replies(unit, namespace, found)
            return Counter(gone=1)
        return Counter(
            texts=1,
            entities=len(stored.entity_ids),
            edges=len(stored.edge_ids),
            prompt_tokens=found.prompt_tokens,
            completion_tokens=found.completion_tokens,
        )

    def _read(self, prepared: Reading, namespace: str) -> Found:
        """What may be stored of a text; nothing of one without prose, and then nobody is asked."""
        if not prepared.text:
            return Found(Extraction(self.label))
        found = self._extractor.extract(prepared, namespace=namespace)
        extraction = found.extraction
        if prepared.shortened:
            extraction = replace(extraction, dropped=(*extraction.dropped, ("shortened_text", 1)))
        listed = {canonical(entity.name) for entity in extraction.entities}
        ends = {canonical(name) for edge in extraction.edges for name in (edge.source, edge.target)}
        known: set[str] = set()
        if unlisted := sorted(ends - listed):
            with self._database.read() as unit:
                known = {match.name for match in unit.graph.named(namespace, unlisted)}
        return replace(found, extraction=admitted(extraction, self._config.limits, known=known))

    def _set_apart(self, run: JobRun, kind: TextKind, text_id: int, replacing: str | None) -> list[int]:
        job = text_jobs(kind, run.job.namespace, [text_id], parent=run.job.parent_id, replacing=replacing)
        with self._database.write() as unit:
            return unit.jobs.enqueue(job)

    def _whole(self, job_ids: Sequence[int]) -> Iterator[Job]:
        """These jobs, their children, and the jobs of texts that were set apart."""
        with self._database.read() as unit:
            jobs = [job for job_id in job_ids if (job := unit.jobs.get(job_id)) is not None]
            yield from jobs
            for parent in jobs:
                apart = (parent.outcome or {}).get("set_apart", ())
                yield from (job for job_id in apart if (job := unit.jobs.get(job_id)) is not None)
                before: int | None = None
                while page := unit.jobs.select(parent_id=parent.id, before_id=before, limit=_PAGE):
                    yield from page
                    before = page[-1].id

    def _replacing(self, *, replace_local: bool) -> str | None:
        if not replace_local:
            return None
        if self.label == LOCAL_EXTRACTOR:
            raise errors.InputError(
                'no language model is configured to read better than the local extractor: set llm.provider = "openai" '
                "with llm.base_url and llm.model"
            )
        return LOCAL_EXTRACTOR


class _ReadByOthers(Exception):
    """The text is gone, or another worker has stored it."""


def _prepared(reading: Reading, *, redact: bool) -> Reading:
    """The prose of a text and of what stands before it, without secrets, cut to size."""

    def shown(text: str) -> str:
        return prose(redacted(text) if redact else text)

    whole = shown(reading.text)
    text = within(whole, MAX_TEXT_BYTES)
    context = tuple(filter(None, (within(shown(each), MAX_TEXT_BYTES) for each in reading.context)))
    return replace(reading, text=text, context=context, shortened=text != whole)


def _forget_replies(unit: ExtractionUnit, namespace: str, found: Found) -> None:
    for key in found.reply_keys:
        unit.replies.forget(namespace, key)
