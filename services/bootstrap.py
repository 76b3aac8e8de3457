"""The composition root: settings in, wired services out. Nothing else constructs an adapter.

Parts are made when first used, so that a command pays only for what it needs.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, overload

from services import errors
from services.adapters.clock import SystemClock, SystemEntropy
from services.jobs.ledger import Ledger
from services.jobs.models import (
    DETECT_MISSING,
    EMBED_MISSING,
    EVICT_GRAPH,
    EVICT_MESSAGES,
    EVICT_RESPONSES,
    GRAPH_REFRESH,
    PURGE_JOBS,
    RECONCILE,
    RetryPolicy,
)
from services.jobs.schedule import Periodic, Scheduler
from services.ports import Clock, Embedder, EmbedderIdentity, Entropy, LanguageModel, Publisher, VectorStore
from services.settings import Settings, load_settings

if TYPE_CHECKING:
    from services.adapters.database import Database
    from services.adapters.parsing.sandbox import SandboxedParser
    from services.adapters.sqlite import Sqlite
    from services.cache.models import SemanticMatch
    from services.cache.service import ResponseCache
    from services.context.builder import ContextBuilder
    from services.corrections.service import Corrections
    from services.corrections.vectors import CorrectionVectors
    from services.doctor.service import Doctor
    from services.documents.search import DocumentSearch
    from services.documents.service import IngestionPipeline
    from services.embedding.spaces import VectorSpaces
    from services.embedding.upkeep import VectorUpkeep
    from services.graph.communities import Communities
    from services.graph.eviction import GraphEviction
    from services.graph.extraction import Extractor, GraphExtraction
    from services.graph.gate import Limits
    from services.graph.lane import GraphLane
    from services.graph.recall import GraphRecall
    from services.graph.service import GraphStore
    from services.graph.vectors import EntityVectors
    from services.memory.eviction import MessageEviction
    from services.memory.recall import Recall
    from services.memory.service import SemanticMemory
    from services.memory.sessions import SqliteStore
    from services.memory.snapshot import MemorySnapshot
    from services.memory.summaries import Summarizer
    from services.memory.summary_search import SummarySearch
    from services.memory.summary_vectors import SummaryVectors
    from services.memory.tokens import TokenCounter
    from services.memory.vectors import MessageVectors

log = logging.getLogger(__name__)

T = TypeVar("T")

_DAY_SECONDS = 86_400
_RECONCILE_SECONDS = 600
_BACKFILL_SECONDS = 300


def open_container(
    overrides: Mapping[str, object] | None = None,
    *,
    config: Path | None = None,
    publisher: Publisher | None = None,
) -> Container:
    """Settings from file and environment (and overrides such as `{"data_dir": "..."}`), wired. Use it with `with`.

    Raises SettingsError.
    """
    return Container(load_settings(config, overrides), publisher=publisher)


class cached_property(Generic[T]):  # noqa: N801 - named like the one of functools
    """A part that is made once, by whichever of several threads asks first; reading it later costs nothing."""

    def __init__(self, make: Callable[[Any], T]) -> None:
        self._make = make
        self.__doc__ = make.__doc__

    def __set_name__(self, _owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, container: None, _owner: type) -> Self: ...
    @overload
    def __get__(self, container: Container, _owner: type) -> T: ...
    def __get__(self, container: Container | None, _owner: type) -> Self | T:
        """The part; once made, it stands in the instance and this is not called any more."""
        if container is None:
            return self
        with container.making:
            made = vars(container)
            if self._name not in made:
                made[self._name] = self._make(container)
            part: T = made[self._name]
            return part


class Silence:
    """The publisher of the embedded profile: its worker looks into the ledger by itself."""

    def publish(self, queue: str, task: str, job_id: int) -> None:
        """Do nothing."""


class Container:
    """Everything that one process needs, wired by its settings. Safe to share between threads."""

    def __init__(
        self,
        settings: Settings,
        *,
        publisher: Publisher | None = None,
        clock: Clock | None = None,
        entropy: Entropy | None = None,
    ) -> None:
        self.settings = settings
        # Parts are made of parts.
        self.making = threading.RLock()
        self.publisher = publisher or Silence()
        self.clock = clock or SystemClock()
        self.entropy = entropy or SystemEntropy()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give back what this process holds: counts, parser child, connections to servers, database, waiting bells."""
        for name in (
            "memory",
            "parser",
            "response_cache",
            "extraction_model",
            "language_model",
            "embedder",
            "vectors",
            "sqlite",
        ):
            # Not every embedder and vector store holds something.
            close = getattr(self.__dict__.pop(name, None), "close", None)
            if close is not None:
                close()
        # What was counted or stored while closing may have rung.
        if (ring_out := getattr(self.publisher, "close", None)) is not None:
            ring_out()

    # ---- storage and jobs ------------------------------------------------------------------------------------

    @cached_property
    def sqlite(self) -> Sqlite:
        """The database file."""
        from services.adapters.sqlite import Sqlite

        memory = self.settings.memory
        path = Path(self.settings.data_dir) / memory.sqlite_path
        return Sqlite(path, pool_size=memory.sqlite_pool_size, allow_unsafe=memory.allow_unsafe_sqlite)

    @cached_property
    def database(self) -> Database:
        """Units of work, on a database of this version's schema."""
        from services.adapters import migrations
        from services.adapters.database import Database
        from services.adapters.job_rows import LedgerLimits

        migrations.ensure(self.sqlite)
        jobs = self.settings.jobs
        limits = LedgerLimits(jobs.max_live_jobs, jobs.min_free_disk_bytes)
        return Database(self.sqlite, self.clock, ring=self._ring, limits=limits)

    @cached_property
    def ledger(self) -> Ledger:
        """The job ledger."""
        policy, window = self._retry_policy, self.settings.jobs.dispatch_window
        return Ledger(self.database, self.clock, self.entropy, self.publisher, policy, window=window)

    @property
    def _retry_policy(self) -> RetryPolicy:
        jobs = self.settings.jobs
        return RetryPolicy(
            max_attempts=jobs.max_attempts,
            max_lost_leases=jobs.max_lost_leases,
            base_seconds=jobs.backoff_base_secs,
            cap_seconds=jobs.backoff_cap_secs,
            lease_seconds=jobs.lease_secs,
        )

    @cached_property
    def scheduler(self) -> Scheduler:
        """What runs by the clock."""
        return Scheduler(self.database, self.clock, self.periodic)

    @property
    def periodic(self) -> Sequence[Periodic]:
        """The scheduled kinds with their periods."""
        return (
            Periodic(RECONCILE, _RECONCILE_SECONDS),
            Periodic(EMBED_MISSING, _BACKFILL_SECONDS),
            Periodic(DETECT_MISSING, _BACKFILL_SECONDS),
            Periodic(EVICT_MESSAGES, self.settings.memory.eviction.sweep_interval_secs),
            Periodic(EVICT_RESPONSES, self.settings.memory.response_cache_cleanup_interval_secs),
            Periodic(EVICT_GRAPH, _DAY_SECONDS),
            Periodic(GRAPH_REFRESH, _DAY_SECONDS),
            Periodic(PURGE_JOBS, _DAY_SECONDS),
        )

    @property
    def doctor(self) -> Doctor:
        """Finds damage in everything stored, and mends what can be mended."""
        from services.adapters import store_checks as checks
        from services.doctor.service import Doctor
        from services.doctor.vectors import DriftCheck, MissingCheck

        def database() -> Database:
            return self.database

        def upkeep() -> VectorUpkeep:
            return self.upkeep

        store = (
            checks.FileCheck(self.sqlite),
            checks.SchemaCheck(self.sqlite),
            checks.ForeignKeyCheck(self.sqlite),
            checks.RulesCheck(database, self.clock, self._retry_policy),
            checks.DuplicateCheck(self.sqlite),
            checks.FullTextCheck(self.sqlite),
        )
        if self.embedder is None:
            return Doctor(store, self.clock, skipped=["vectors: embedding.provider is none"])
        return Doctor((*store, DriftCheck(upkeep), MissingCheck(upkeep, database)), self.clock)

    def _ring(self, queue: str, task: str, job_id: int) -> None:
        try:
            self.publisher.publish(queue, task, job_id)
        except errors.TransientError as error:
            # The job is accepted: the next sweep rings again.
            log.warning("bell_failed queue=%s reason=%s", queue, error)

    # ---- vectors ---------------------------------------------------------------------------------------------

    @cached_property
    def embedder(self) -> Embedder | None:
        """The configured embedder; None when the provider is none."""
        from services.embedding.queries import RememberedQueries

        embedder = self._embedder(self.settings.embedding.model)
        return None if embedder is None else RememberedQueries(embedder)

    def preload_embedder(self) -> None:
        """Start loading a local model beside whatever comes next: it takes as long as opening the database."""
        embedder = self.embedder
        if embedder is not None and self.settings.embedding.provider == "local":
            threading.Thread(target=_load, args=(embedder,), name="zeph-preload", daemon=True).start()

    @cached_property
    def vectors(self) -> VectorStore:
        """The configured vector store."""
        memory = self.settings.memory
        if memory.vector_backend == "qdrant":
            from services.adapters.qdrant import QdrantOps

            return QdrantOps(memory.qdrant_url, memory.qdrant_api_key.get_secret_value(), clock=self.clock)
        if memory.vector_backend == "memory":
            from services.adapters.in_memory import InMemoryVectorStore

            return InMemoryVectorStore()
        from services.adapters.sqlite_vectors import SqliteVectorStore

        return SqliteVectorStore(self.sqlite, self.cache_dir)

    @cached_property
    def spaces(self) -> VectorSpaces:
        """Collection names resolved to vector spaces."""
        from services.embedding.spaces import VectorSpaces

        return VectorSpaces(self.database, self.vectors, self.embedder, self._other_embedder)

    @property
    def cache_dir(self) -> Path:
        """Where files live that can be rebuilt at any time."""
        return Path(self.settings.data_dir) / "cache"

    def _other_embedder(self, identity: EmbedderIdentity) -> Embedder | None:
        """An embedder for a collection that was filled by another model of the same provider."""
        if identity.provider != self.settings.embedding.provider:
            return self._bundled() if identity.provider == "local" else None
        found = self._embedder(identity.model)
        return found if found is not None and found.identity.label == identity.label else None

    def _embedder(self, model: str) -> Embedder | None:
        embedding = self.settings.embedding
        if embedding.provider == "none":
            return None
        if embedding.provider == "fake":
            from services.adapters.in_memory import HashEmbedder

            return HashEmbedder(embedding.dimensions or 64)
        if embedding.provider == "local":
            return self._bundled()
        from services.adapters import openai_embedder

        return openai_embedder.OpenAiEmbedder(
            embedding.base_url,
            embedding.api_key.get_secret_value(),
            model,
            dimensions=embedding.dimensions or None,
            batch_size=embedding.batch_size or openai_embedder.DEFAULT_BATCH_SIZE,
            timeout_seconds=embedding.timeout_secs,
            max_tokens=embedding.max_tokens,
            query_prefix=embedding.query_prefix,
            document_prefix=embedding.document_prefix,
        )

    def _bundled(self) -> Embedder:
        from services.adapters import minilm

        embedding = self.settings.embedding
        return minilm.MiniLmEmbedder(
            embedding.model_path,
            embedding.tokenizer_path,
            threads=embedding.threads,
            batch_size=embedding.batch_size or minilm.DEFAULT_BATCH_SIZE,
        )

    # ---- language model --------------------------------------------------------------------------------------

    @cached_property
    def language_model(self) -> LanguageModel | None:
        """The configured language model, behind the cache if that is enabled; None when the provider is none."""
        return self._chat(self.settings.llm.model)

    @cached_property
    def extraction_model(self) -> LanguageModel | None:
        """The language model that reads texts for the graph."""
        named = self.settings.memory.graph.extract_model
        return self._chat(named) if named else self.language_model

    def _chat(self, model_name: str) -> LanguageModel | None:
        llm = self.settings.llm
        if llm.provider == "none":
            return None
        from services.adapters.openai_chat import OpenAiChat
        from services.cache.model import CachedModel

        model = OpenAiChat(
            llm.base_url,
            llm.api_key.get_secret_value(),
            model_name,
            timeout_seconds=llm.timeout_secs,
            connect_seconds=llm.connect_timeout_secs,
        )
        return CachedModel(model, self._response_cache()) if llm.response_cache_enabled else model

    @cached_property
    def response_cache(self) -> ResponseCache:
        """Answers of language models, for whoever asks one."""
        from services.cache.models import SemanticMatch

        llm = self.settings.llm
        match = SemanticMatch(llm.semantic_cache_threshold, llm.semantic_cache_max_candidates)
        return self._response_cache(match if llm.semantic_cache_enabled else None)

    def _response_cache(self, semantic: SemanticMatch | None = None) -> ResponseCache:
        from services.cache.models import CacheLimits
        from services.cache.service import ResponseCache

        llm = self.settings.llm
        limits = CacheLimits(
            ttl_seconds=llm.response_cache_ttl_secs,
            max_entries=llm.response_cache_max_entries,
            max_bytes=llm.response_cache_max_bytes,
            max_answer_bytes=llm.response_cache_max_answer_bytes,
            lease_seconds=llm.timeout_secs,
        )
        return ResponseCache(
            self.database,
            self.clock,
            self.entropy,
            namespace=self.settings.namespace,
            limits=limits,
            semantic=semantic,
            embedder=lambda: self.embedder,
        )

    # ---- conversations ---------------------------------------------------------------------------------------

    def sessions(self, namespace: str | None = None) -> SqliteStore:
        """The ACP sessions of a namespace, that of the settings by default."""
        from services.memory.sessions import SqliteStore

        return SqliteStore(
            self.database,
            self.clock,
            namespace=namespace or self.settings.namespace,
            vectors=lambda: self.message_vectors,
            title_max_chars=self.settings.memory.sessions.title_max_chars,
        )

    @cached_property
    def memory(self) -> SemanticMemory:
        """What agents said: remembered, recalled, forgotten."""
        from services.corrections.detection_jobs import detection_job
        from services.graph.extraction_jobs import message_jobs
        from services.memory.access import AccessCounts
        from services.memory.models import EmbeddingRule
        from services.memory.service import SemanticMemory

        memory = self.settings.memory
        return SemanticMemory(
            self.database,
            self.message_vectors,
            self.recall,
            AccessCounts(self.database, self.clock),
            namespace=self.settings.namespace,
            rule=EmbeddingRule(memory.autosave_assistant, memory.autosave_min_length),
            history_limit=memory.history_limit,
            # Without a language model there is nobody to write them.
            summarize_after=0 if self.settings.llm.provider == "none" else memory.summarization_threshold,
            detection_job=detection_job if memory.corrections.correction_detection else None,
            corrections=lambda: self.corrections,
            context=lambda: self.context,
            graph_jobs=message_jobs,
            extract_graph=memory.graph.enabled,
            graph=(lambda: self.graph_recall) if memory.graph.enabled else None,
        )

    @cached_property
    def context(self) -> ContextBuilder:
        """Quotes what matters for a question."""
        from services.context.builder import ContextBuilder, ContextConfig

        memory = self.settings.memory
        config = ContextConfig(
            token_budget=memory.context_budget_tokens,
            messages=memory.semantic.recall_limit,
            collection=memory.documents.collection,
            documents=memory.documents.top_k,
            rag_enabled=memory.documents.rag_enabled,
            redact=memory.redact_credentials,
        )
        return ContextBuilder(
            self.tokens,
            self.recall,
            self.summaries,
            self.documents,
            self.corrections,
            self.graph_recall if memory.graph.enabled else None,
            config,
        )

    @cached_property
    def recall(self) -> Recall:
        """Finds messages again."""
        from services.memory.recall import Recall, SemanticConfig

        config = SemanticConfig(**self.settings.memory.semantic.model_dump())
        graph = self.graph_lane if self.settings.memory.graph.enabled else None
        return Recall(self.database, self.spaces, self.clock, config=config, graph=graph)

    @cached_property
    def message_vectors(self) -> MessageVectors:
        """Gives messages their vectors."""
        from services.memory.vectors import MessageVectors

        return MessageVectors(self.database, self.spaces)

    @cached_property
    def tokens(self) -> TokenCounter:
        """Counts tokens, with the configured margin."""
        from services.memory.tokens import TokenCounter

        return TokenCounter(safety_margin=self.settings.memory.token_safety_margin)

    @cached_property
    def summarizer(self) -> Summarizer:
        """Writes summaries of conversations and the facts in them."""
        from services.memory.summaries import Summarizer, SummaryLimits

        memory, llm = self.settings.memory, self.settings.llm
        limits = SummaryLimits(
            threshold=memory.summarization_threshold,
            context_tokens=llm.context_tokens,
            timeout_seconds=llm.timeout_secs,
            redact=memory.redact_credentials,
        )
        return Summarizer(
            self.database, self.summary_vectors, self.language_model, self.tokens, self.clock, limits
        )

    @cached_property
    def summary_vectors(self) -> SummaryVectors:
        """Gives summaries and key facts their vectors."""
        from services.memory.summary_vectors import SummaryVectors

        similarity = self.settings.memory.key_fact_similarity
        return SummaryVectors(self.database, self.spaces, duplicate_similarity=similarity)

    @cached_property
    def summaries(self) -> SummarySearch:
        """Finds summaries and key facts again."""
        from services.memory.summary_search import SummarySearch

        threshold = self.settings.memory.cross_session_score_threshold
        return SummarySearch(self.database, self.spaces, score_threshold=threshold)

    @cached_property
    def corrections(self) -> Corrections:
        """What users put right: found, recalled, taken back."""
        from services.corrections.detector import FeedbackDetector
        from services.corrections.judge import CorrectionJudge
        from services.corrections.service import Corrections
        from services.language.recorded import RecordedModel

        chosen = self.settings.memory.corrections
        model = self.language_model if chosen.correction_judge else None
        judge = None
        if model is not None:
            calls = chosen.correction_judge_calls_per_minute
            judge = CorrectionJudge(RecordedModel(self.database, model), self.clock, calls_per_minute=calls)
        return Corrections(
            self.database,
            self.spaces,
            self.correction_vectors,
            self.clock,
            FeedbackDetector(chosen.correction_confidence_threshold),
            namespace=self.settings.namespace,
            judge=judge,
            recall_limit=chosen.correction_recall_limit,
            min_similarity=chosen.correction_min_similarity,
        )

    @cached_property
    def correction_vectors(self) -> CorrectionVectors:
        """Gives corrections their vectors."""
        from services.corrections.vectors import CorrectionVectors

        return CorrectionVectors(self.database, self.spaces)

    @cached_property
    def eviction(self) -> MessageEviction:
        """Keeps memory within its size."""
        from services.memory.eviction import MessageEviction

        memory = self.settings.memory
        return MessageEviction(
            self.database,
            self.clock,
            max_entries=memory.eviction.max_entries,
            preserve_tail=memory.compaction_preserve_tail,
            per_conversation=memory.eviction.per_conversation,
        )

    @cached_property
    def snapshots(self) -> MemorySnapshot:
        """Exports and imports memory as files."""
        from services.memory.snapshot import MemorySnapshot
        from services.memory.vector_transfer import VectorTransfer

        return MemorySnapshot(self.database, VectorTransfer(self.database, self.spaces))

    # ---- graph -----------------------------------------------------------------------------------------------

    @cached_property
    def graph(self) -> GraphStore:
        """Stores entities and facts, and answers what is known of a name."""
        from services.corrections.facts import retire_facts_of
        from services.graph.resolution import EntityResolver
        from services.graph.service import GraphStore

        graph = self.settings.memory.graph
        resolver = None
        if graph.use_embedding_resolution:
            resolver = EntityResolver(
                self.database,
                self.spaces,
                self.language_model,
                similarity=graph.entity_similarity_threshold,
                ambiguous=graph.entity_ambiguous_threshold,
                timeout_seconds=graph.extraction_timeout_secs,
            )
        return GraphStore(
            self.database,
            self.clock,
            resolver=resolver,
            refresh_every=graph.community_refresh_interval,
            embed=graph.use_embedding_resolution,
            take_back=retire_facts_of,
        )

    @cached_property
    def graph_extraction(self) -> GraphExtraction:
        """Has texts read for the graph."""
        from services.graph.extraction import ExtractionConfig, GraphExtraction
        from services.graph.gate import Limits

        graph = self.settings.memory.graph
        limits = Limits(
            graph.max_entities_per_message,
            graph.max_edges_per_message,
            tuple(filter(None, map(str.strip, graph.forbidden_text.split(",")))),
        )
        config = ExtractionConfig(limits, redact=self.settings.memory.redact_credentials)
        return GraphExtraction(self.database, self.graph, self._extractor(limits), config)

    def _extractor(self, limits: Limits) -> Extractor:
        graph = self.settings.memory.graph
        model = self.extraction_model
        if model is None:
            from services.graph.extraction import LocalExtractor

            return LocalExtractor(self.database, typed_relations=graph.typed_relations)
        from services.graph.llm_extraction import LlmExtractor

        return LlmExtractor(
            self.database,
            model,
            self.clock,
            limits=limits,
            timeout_seconds=graph.extraction_timeout_secs,
        )

    @cached_property
    def entity_vectors(self) -> EntityVectors:
        """Gives entities their vectors, where resolution uses them."""
        from services.graph.vectors import EntityVectors

        graph = self.settings.memory.graph
        return EntityVectors(
            self.database,
            self.spaces,
            self.clock,
            similarity=graph.entity_similarity_threshold,
            wanted=graph.use_embedding_resolution,
        )

    @cached_property
    def graph_eviction(self) -> GraphEviction:
        """Keeps the graph within its size."""
        from services.graph.eviction import GraphEviction

        graph = self.settings.memory.graph
        return GraphEviction(
            self.database,
            self.clock,
            retention_days=graph.expired_edge_retention_days,
            max_entities=graph.max_entities,
        )

    @cached_property
    def graph_recall(self) -> GraphRecall:
        """Finds facts around what a question names."""
        from services.graph.ranking import Activation
        from services.graph.recall import GraphRecall, GraphRecallConfig

        graph = self.settings.memory.graph
        spreading = graph.spreading_activation
        activation = Activation(**spreading.model_dump(exclude={"enabled"})) if spreading.enabled else None
        config = GraphRecallConfig(graph.recall_limit, graph.max_hops, graph.temporal_decay_rate, activation)
        return GraphRecall(self.database, self.clock, config, spaces=self.spaces)

    @cached_property
    def graph_lane(self) -> GraphLane:
        """Finds texts by way of the graph."""
        from services.graph.lane import GraphLane

        return GraphLane(self.database, self.graph_recall)

    @cached_property
    def communities(self) -> Communities:
        """Finds and describes what hangs together in the graph."""
        from services.graph.communities import DEFAULT_PAGE, Communities, CommunityLimits

        graph, llm = self.settings.memory.graph, self.settings.llm
        limits = CommunityLimits(
            page=graph.lpa_edge_chunk_size or DEFAULT_PAGE,
            prompt_bytes=graph.community_summary_max_prompt_bytes,
            concurrency=graph.community_summary_concurrency,
            timeout_seconds=llm.timeout_secs,
            redact=self.settings.memory.redact_credentials,
        )
        return Communities(self.database, self.language_model, self.clock, limits)

    # ---- documents -------------------------------------------------------------------------------------------

    @cached_property
    def parser(self) -> SandboxedParser:
        """Reads files in a child process with hard limits."""
        from services.adapters.parsing.sandbox import ParserLimits, SandboxedParser

        documents = self.settings.memory.documents
        return SandboxedParser(
            ParserLimits(
                memory_bytes=documents.parser_memory_bytes,
                cpu_seconds=documents.parser_cpu_seconds,
                wall_seconds=documents.parser_wall_seconds,
                pages=documents.parser_max_pages,
                output_chars=documents.parser_max_chars,
            )
        )

    @cached_property
    def ingestion(self) -> IngestionPipeline:
        """Files to documents, chunks and vectors."""
        from services.documents.service import IngestionPipeline
        from services.graph.extraction_jobs import enqueue_document

        limit = self.settings.memory.documents.max_file_bytes
        return IngestionPipeline(
            self.database,
            self.spaces,
            self.parser,
            max_file_bytes=limit,
            graph_jobs=enqueue_document,
        )

    @cached_property
    def documents(self) -> DocumentSearch:
        """Answers questions from the documents."""
        from services.documents.search import DocumentSearch

        weights = self.settings.memory.documents
        return DocumentSearch(
            self.database,
            self.spaces,
            vector_weight=weights.vector_weight,
            keyword_weight=weights.keyword_weight,
            next_step=self.graph_lane if weights.graph_lane else None,
        )

    @cached_property
    def upkeep(self) -> VectorUpkeep:
        """Keeps vectors in step with rows."""
        from services.corrections.vectors import COLLECTION as CORRECTION_COLLECTION
        from services.embedding.upkeep import VectorUpkeep
        from services.graph.vectors import COLLECTION as ENTITY_COLLECTION
        from services.memory.vectors import COLLECTION

        owners = {
            COLLECTION: self.message_vectors.owner,
            CORRECTION_COLLECTION: self.correction_vectors.owner,
            ENTITY_COLLECTION: self.entity_vectors.owner,
            **self.summary_vectors.owners,
        }
        return VectorUpkeep(self.database, self.spaces, self.ingestion.owner, owners)


def _load(embedder: Embedder) -> None:
    # What is wrong with the model is said by the call that needs it.
    with suppress(errors.MemoryError):
        embedder.embed(["load"], kind="query")
