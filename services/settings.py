"""Every setting, its default, its range and where it comes from.

`load_settings` reads, later ones winning: the defaults below, one TOML file, `ZEPH_*` variables, overrides
of the caller. `ZEPH_MEMORY__SEMANTIC__RECALL_LIMIT=8` is `recall_limit = 8` under `[memory.semantic]`; an
empty variable counts as not set. Nothing is read when this module is imported.

A plain pydantic model over `tomllib` instead of pydantic-settings: unknown names, short names and the origin
of each value need code of our own either way, and every command starts 100 ms earlier.
"""

import difflib
import ipaddress
import json
import os
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, Self, get_args, get_origin
from urllib.parse import parse_qs, urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PrivateAttr,
    SecretStr,
    ValidationError,
    model_validator,
)
from pydantic.fields import FieldInfo

from services import errors

MIB = 1024 * 1024
GIB = 1024 * MIB
DAY_SECS = 86_400
YEAR_SECS = 365 * DAY_SECS

CONFIG_VARIABLE = "ZEPH_CONFIG"
PREFIX = "ZEPH_"
TEST_PREFIX = "ZEPH_TEST_"  # for the test suite; no setting

# Short names that people know; each is the same setting as the long name of its key.
SHORT_NAMES = {
    "ZEPH_QDRANT_URL": "memory.qdrant_url",
    "ZEPH_MEMORY_RECALL_LIMIT": "memory.semantic.recall_limit",
    "ZEPH_LLM_RESPONSE_CACHE_ENABLED": "llm.response_cache_enabled",
    "ZEPH_LLM_RESPONSE_CACHE_TTL_SECS": "llm.response_cache_ttl_secs",
}

Origin = Literal["default", "file", "environment", "override"]


def _expanded(text: str) -> Path:
    if "\0" in text:
        raise ValueError("a path cannot contain a NUL character")
    try:
        return Path(text).expanduser()
    except RuntimeError as error:  # an unknown ~user, or no home folder at all
        raise ValueError("its home folder is unknown: use a path without ~") from error


def _path(value: object) -> object:
    return _expanded(value) if isinstance(value, str) else value


def _path_or_none(value: object) -> object:
    return None if value == "" else _path(value)


def _none_if_empty(value: object) -> object:
    return None if value == "" else value


def _lower(value: object) -> object:
    return value.lower() if isinstance(value, str) else value


def _http_url(value: str) -> str:
    try:
        parts = urlsplit(value)
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise ValueError("use a URL such as http://localhost:6333")
    if "@" in parts.netloc:
        raise ValueError("leave user and password out of the URL; use the api_key setting")
    return value.rstrip("/")


def _http_url_or_empty(value: str) -> str:
    return _http_url(value) if value else value


AnyPath = Annotated[Path, BeforeValidator(_path)]
OptionalPath = Annotated[Path | None, BeforeValidator(_path_or_none)]
OptionalNumber = Annotated[float | None, BeforeValidator(_none_if_empty)]
HttpUrl = Annotated[str, AfterValidator(_http_url)]
OptionalHttpUrl = Annotated[str, AfterValidator(_http_url_or_empty)]


class Section(BaseModel):
    """A group of settings: frozen, exact types, no unknown keys, no NaN or infinity."""

    model_config = ConfigDict(
        frozen=True, strict=True, extra="forbid", allow_inf_nan=False, protected_namespaces=()
    )


class SemanticSettings(Section):
    """[memory.semantic]: how recall ranks."""

    enabled: bool = Field(default=True, description="Search by meaning as well as by words.")
    recall_limit: int = Field(default=5, ge=1, le=1_000, description="Messages that one recall returns.")
    vector_weight: OptionalNumber = Field(
        default=None,
        ge=0,
        le=1,
        description="Weight of similarity by meaning; empty = by length of messages.",
    )
    keyword_weight: OptionalNumber = Field(
        default=None, ge=0, le=1, description="Weight of matching words; empty = by length of messages."
    )
    assistant_weight: float = Field(
        default=0.5, ge=0, le=1, description="What a message of the assistant counts beside a user's."
    )
    session_weight: OptionalNumber = Field(
        default=None,
        ge=0,
        le=1,
        description="Weight of what else was found in the same session; empty = by length of messages.",
    )
    graph_weight: float = Field(
        default=0.0,
        ge=0,
        le=1,
        description="Weight of the graph in questions that ask for no relation; 0 = it has none.",
    )
    similarity_floor: float = Field(
        default=0.0, ge=-1, le=1, description="Less similar messages are not found by meaning."
    )
    temporal_decay_enabled: bool = Field(default=False, description="Rank recent messages higher.")
    temporal_decay_half_life_days: float = Field(
        default=30.0, ge=0, le=36_500, description="Age in days at which a score has halved; 0 = no decay."
    )
    mmr_enabled: bool = Field(default=True, description="Prefer results that differ from one another (MMR).")
    mmr_lambda: float = Field(
        default=0.7, ge=0, le=1, description="1 = relevance alone, 0 = diversity alone."
    )
    mmr_threshold: float = Field(
        default=0.95, ge=0, le=1, description="MMR looks only at pairs at least as similar as this."
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.vector_weight == self.keyword_weight == 0:
            raise ValueError("vector_weight and keyword_weight are both 0: set at least one above 0")
        return self


class DocumentSettings(Section):
    """[memory.documents]: ingestion of files and their retrieval."""

    collection: str = Field(
        default="zeph_documents",
        pattern=r"^[A-Za-z0-9_.-]{1,128}$",
        description="Collection for ingested files.",
    )
    chunk_size: int = Field(default=512, ge=1, le=8_192, description="Largest chunk, in tokens.")
    chunk_overlap: int = Field(
        default=64, ge=0, le=8_191, description="Tokens shared by neighbouring chunks."
    )
    top_k: int = Field(default=3, ge=1, le=100, description="Chunks that one search returns.")
    rag_enabled: bool = Field(
        default=False, description="Put matching chunks into the agent's context on every turn."
    )
    max_file_bytes: int = Field(default=50 * MIB, ge=1, le=10 * GIB, description="Larger files are skipped.")
    vector_weight: float = Field(default=0.5, ge=0, le=1, description="Weight of similarity by meaning.")
    keyword_weight: float = Field(default=0.5, ge=0, le=1, description="Weight of matching words.")
    graph_lane: bool = Field(
        default=True,
        description="Find passages about what good ones name, where they were read for the graph.",
    )
    parser_memory_bytes: int = Field(
        default=2 * GIB,
        ge=256 * MIB,
        le=64 * GIB,
        description="Address space of the process that reads one file.",
    )
    parser_cpu_seconds: int = Field(default=60, ge=1, le=3_600, description="CPU time for reading one file.")
    parser_wall_seconds: int = Field(default=90, ge=1, le=7_200, description="Time for reading one file.")
    parser_max_pages: int = Field(default=2_000, ge=1, le=100_000, description="Pages read of one file.")
    parser_max_chars: int = Field(
        default=10_000_000, ge=1_000, le=1_000_000_000, description="Characters read of one file."
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.chunk_overlap >= self.chunk_size:
            raise ValueError(
                f"chunk_overlap is {self.chunk_overlap}, chunk_size is {self.chunk_size}: "
                "the overlap must be smaller"
            )
        if self.vector_weight == self.keyword_weight == 0:
            raise ValueError("vector_weight and keyword_weight are both 0: set at least one above 0")
        return self


class RoutingSettings(Section):
    """[memory.routing]: which search serves a query."""

    strategy: Literal["heuristic"] = Field(default="heuristic", description="How queries are classified.")


class EvictionSettings(Section):
    """[memory.eviction]: forgetting of messages; off by default."""

    policy: Literal["ebbinghaus"] = Field(default="ebbinghaus", description="Which messages go first.")
    max_entries: int = Field(
        default=0, ge=0, le=1_000_000_000, description="Messages to keep in each namespace; 0 = all."
    )
    per_conversation: bool = Field(
        default=False, description="Keep `max_entries` messages in each conversation instead."
    )
    sweep_interval_secs: int = Field(default=3_600, ge=1, le=YEAR_SECS, description="Seconds between sweeps.")


class SessionSettings(Section):
    """[memory.sessions]: stored ACP sessions."""

    max_history: int = Field(
        default=100, ge=0, le=1_000_000, description="Sessions that a listing shows; 0 = all."
    )
    title_max_chars: int = Field(default=60, ge=1, le=1_000, description="Longer titles are cut.")


class SpreadingActivationSettings(Section):
    """[memory.graph.spreading_activation]: ranking facts by activation instead of distance."""

    enabled: bool = Field(default=False, description="Rank by spreading activation.")
    decay_lambda: float = Field(
        default=0.85, gt=0, le=1, description="Share of activation that a step passes on."
    )
    max_hops: int = Field(default=3, ge=1, le=10, description="Steps that activation spreads.")
    activation_threshold: float = Field(
        default=0.1, ge=0, le=1, description="Less activation counts for nothing."
    )
    inhibition_threshold: float = Field(
        default=0.8, ge=0, le=1, description="Entities with this much receive no more."
    )
    max_activated_nodes: int = Field(
        default=50, ge=1, le=10_000, description="Entities kept active after each step."
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.activation_threshold >= self.inhibition_threshold:
            raise ValueError(
                f"activation_threshold is {self.activation_threshold}: "
                f"use less than inhibition_threshold, {self.inhibition_threshold}"
            )
        return self


class GraphSettings(Section):
    """[memory.graph]: entities and their relations."""

    enabled: bool = Field(default=False, description="Extract entities and relations from messages.")
    extract_model: str = Field(default="", description="Model for extraction; empty = the one of [llm].")
    max_entities_per_message: int = Field(
        default=10, ge=1, le=1_000, description="Entities kept of one message."
    )
    max_edges_per_message: int = Field(
        default=15, ge=1, le=1_000, description="Relations kept of one message."
    )
    max_hops: int = Field(
        default=2, ge=1, le=10, description="Steps that recall walks from an entity of the query."
    )
    recall_limit: int = Field(default=10, ge=1, le=1_000, description="Facts that one recall returns.")
    extraction_timeout_secs: int = Field(default=15, ge=1, le=600, description="Time for one extraction.")
    typed_relations: bool = Field(
        default=False,
        description="Without a language model, read relations from sentences such as: Ann works at Acme.",
    )
    forbidden_text: str = Field(
        default="", description="Words, separated by commas, that nothing in the graph may contain."
    )
    use_embedding_resolution: bool = Field(
        default=False, description="Merge entities by similarity of their names."
    )
    entity_similarity_threshold: float = Field(
        default=0.85, ge=0, le=1, description="Merge at this similarity."
    )
    entity_ambiguous_threshold: float = Field(
        default=0.70, ge=0, le=1, description="Ask the model from here on."
    )
    community_refresh_interval: int = Field(
        default=100,
        ge=0,
        le=1_000_000,
        description="Extractions between two community detections; 0 = never.",
    )
    community_summary_max_prompt_bytes: int = Field(
        default=8_192,
        ge=0,
        le=1_000_000,
        description="Size of the question for a community's summary; 0 = no model is asked.",
    )
    community_summary_concurrency: int = Field(
        default=4, ge=1, le=64, description="Summaries of communities asked for at once."
    )
    lpa_edge_chunk_size: int = Field(
        default=10_000,
        ge=0,
        le=1_000_000,
        description="Relations that detection reads at once; 0 = the default, never all.",
    )
    temporal_decay_rate: float = Field(
        default=0.0,
        ge=0,
        le=10,
        allow_inf_nan=False,
        description="How fast recall loses its liking for recent facts; 0 = it has none.",
    )
    expired_edge_retention_days: int = Field(
        default=90, ge=0, le=36_500, description="Days for which superseded relations are kept."
    )
    max_entities: int = Field(default=0, ge=0, le=100_000_000, description="Entities to keep; 0 = all.")
    spreading_activation: SpreadingActivationSettings = Field(default_factory=SpreadingActivationSettings)

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.entity_ambiguous_threshold > self.entity_similarity_threshold:
            raise ValueError(
                f"entity_ambiguous_threshold is {self.entity_ambiguous_threshold}: "
                f"use at most entity_similarity_threshold, {self.entity_similarity_threshold}"
            )
        return self


class CorrectionSettings(Section):
    """[memory.corrections]: what users put right, and its recall."""

    correction_detection: bool = Field(default=True, description="Look for corrections in user messages.")
    correction_confidence_threshold: float = Field(
        default=0.7, ge=0, le=1, description="Confidence from which a correction is stored."
    )
    correction_recall_limit: int = Field(
        default=5, ge=1, le=100, description="Corrections put into the context."
    )
    correction_min_similarity: float = Field(
        default=0.75, ge=0, le=1, description="Less similar ones are left out."
    )
    correction_judge: bool = Field(
        default=False, description="Ask the language model where words leave it open."
    )
    correction_judge_calls_per_minute: int = Field(
        default=5, ge=1, le=1_000, description="Most questions to it in a minute of one process."
    )


class MemorySettings(Section):
    """[memory]: storage, context and everything remembered."""

    sqlite_path: AnyPath = Field(default=Path("zeph.db"), description="The database, relative to data_dir.")
    vector_backend: Literal["sqlite", "qdrant", "memory"] = Field(
        default="sqlite", description="Where vectors live; memory: nowhere, for tests."
    )
    qdrant_url: HttpUrl = Field(default="http://localhost:6333", description="REST address of Qdrant.")
    qdrant_api_key: SecretStr = Field(
        default=SecretStr(""), description="Needed unless Qdrant is on this machine."
    )
    history_limit: int = Field(default=50, ge=1, le=100_000, description="Messages loaded of a conversation.")
    summarization_threshold: int = Field(
        default=50, ge=1, le=100_000, description="Messages without a summary that call for one."
    )
    context_budget_tokens: int = Field(
        default=0, ge=0, le=100_000_000, description="Size of a context; 0 = unlimited."
    )
    soft_compaction_threshold: float = Field(
        default=0.70,
        gt=0,
        lt=1,
        description="For agents: share of the budget at which to drop old tool output; nothing here acts on it.",
    )
    hard_compaction_threshold: float = Field(
        default=0.90,
        gt=0,
        lt=1,
        description="For agents: share of the budget at which to summarise old turns; nothing here acts on it.",
    )
    compaction_preserve_tail: int = Field(
        default=6, ge=0, le=100_000, description="Last messages never compacted."
    )
    cross_session_score_threshold: float = Field(
        default=0.35, ge=0, le=1, description="Similarity from which another session's summary is used."
    )
    key_fact_similarity: float = Field(
        default=0.95, ge=0, le=1, description="Similarity from which a key fact counts as known already."
    )
    token_safety_margin: float = Field(default=1.0, ge=1, le=10, description="Factor on every token count.")
    redact_credentials: bool = Field(
        default=True, description="Replace keys and passwords before models see them."
    )
    autosave_assistant: bool = Field(default=False, description="Embed the assistant's messages as well.")
    autosave_min_length: int = Field(
        default=20, ge=0, le=1_000_000, description="Shorter ones are not embedded."
    )
    sqlite_pool_size: int = Field(
        default=5, ge=1, le=100, description="Open database connections per process."
    )
    response_cache_cleanup_interval_secs: int = Field(
        default=3_600, ge=1, le=YEAR_SECS, description="Seconds between removals of expired responses."
    )
    allow_unsafe_sqlite: bool = Field(
        default=False,
        description="Accept a SQLite before 3.51.3, which can corrupt under concurrent writers.",
    )
    semantic: SemanticSettings = Field(default_factory=SemanticSettings)
    documents: DocumentSettings = Field(default_factory=DocumentSettings)
    routing: RoutingSettings = Field(default_factory=RoutingSettings)
    eviction: EvictionSettings = Field(default_factory=EvictionSettings)
    sessions: SessionSettings = Field(default_factory=SessionSettings)
    graph: GraphSettings = Field(default_factory=GraphSettings)
    corrections: CorrectionSettings = Field(default_factory=CorrectionSettings)

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.soft_compaction_threshold >= self.hard_compaction_threshold:
            raise ValueError(
                f"soft_compaction_threshold is {self.soft_compaction_threshold}: "
                f"use less than hard_compaction_threshold, {self.hard_compaction_threshold}"
            )
        host = urlsplit(self.qdrant_url).hostname
        if self.vector_backend == "qdrant" and not is_loopback(host) and not self.qdrant_api_key:
            raise ValueError(
                f"qdrant_url names another host, {host}: set qdrant_api_key, or anyone can read it"
            )
        return self


class EmbeddingSettings(Section):
    """[embedding]: how text becomes vectors."""

    provider: Literal["local", "none", "openai", "fake"] = Field(
        default="local",
        description="local: the bundled model; openai: any compatible server; none: words only.",
    )
    model: str = Field(default="", description="Model name; empty = the bundled one.")
    base_url: OptionalHttpUrl = Field(default="", description="Server, e.g. http://localhost:11434/v1.")
    api_key: SecretStr = Field(default=SecretStr(""), description="Key for the server, if it wants one.")
    dimensions: int = Field(
        default=0, ge=0, le=65_536, description="Length of a vector; 0 = the model's own."
    )
    batch_size: int = Field(
        default=0, ge=0, le=2_048, description="Texts per model call; 0 = what suits the provider."
    )
    timeout_secs: float = Field(default=30.0, gt=0, le=3_600, description="Time for one call of the server.")
    model_path: OptionalPath = Field(default=None, description="ONNX file to use instead of the bundled one.")
    tokenizer_path: OptionalPath = Field(
        default=None, description="tokenizer.json that belongs to model_path."
    )
    threads: int = Field(
        default=0, ge=0, le=1_024, description="Threads of the local model; 0 = one per core."
    )
    query_prefix: str = Field(default="", description="Put before queries, as some models want.")
    document_prefix: str = Field(default="", description="Put before documents, as some models want.")
    max_tokens: int = Field(
        default=0, ge=0, le=1_000_000, description="Tokens the model reads; 0 = its own limit."
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.provider == "openai" and not (self.base_url and self.model):
            raise ValueError('provider "openai" needs base_url and model: set both, or use provider "local"')
        if (self.model_path is None) != (self.tokenizer_path is None):
            raise ValueError("model_path and tokenizer_path belong together: set both or neither")
        return self


class LlmSettings(Section):
    """[llm]: the language model; none is needed."""

    provider: Literal["none", "openai"] = Field(default="none", description="openai: any compatible server.")
    base_url: OptionalHttpUrl = Field(default="", description="Server, e.g. http://localhost:11434/v1.")
    api_key: SecretStr = Field(default=SecretStr(""), description="Key for the server, if it wants one.")
    model: str = Field(default="", description="Model name.")
    timeout_secs: float = Field(default=60.0, gt=0, le=3_600, description="Time for one reply.")
    connect_timeout_secs: float = Field(
        default=5.0, gt=0, le=300, description="Time for reaching the server."
    )
    context_tokens: int = Field(
        default=16_384,
        ge=2_048,
        le=10_000_000,
        description="Tokens of question and reply that the model holds.",
    )
    response_cache_enabled: bool = Field(
        default=False, description="Answer repeated requests from the database."
    )
    response_cache_ttl_secs: int = Field(
        default=3_600, ge=0, le=YEAR_SECS, description="Seconds for which a cached response is valid."
    )
    response_cache_max_entries: int = Field(
        default=100_000, ge=1, le=100_000_000, description="Cached responses to keep; the oldest go first."
    )
    response_cache_max_bytes: int = Field(
        default=256 * MIB, ge=1, le=1_024 * GIB, description="Size of all cached responses together."
    )
    response_cache_max_answer_bytes: int = Field(
        default=MIB, ge=1, le=GIB, description="Larger responses are not cached."
    )
    semantic_cache_enabled: bool = Field(
        default=False, description="Let a cached response answer questions that mean the same."
    )
    semantic_cache_threshold: float = Field(
        default=0.95, ge=0, le=1, description="Similarity from which two questions mean the same."
    )
    semantic_cache_max_candidates: int = Field(
        default=10, ge=1, le=1_000, description="Newest questions that are compared."
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.provider == "openai" and not (self.base_url and self.model):
            raise ValueError('provider "openai" needs base_url and model: set both, or use provider "none"')
        return self


class JobSettings(Section):
    """[jobs]: background work."""

    broker_url: SecretStr = Field(
        default=SecretStr(""),
        description="Celery broker, e.g. redis://:PASSWORD@host:6379/0; empty = no server.",
    )
    lease_secs: float = Field(
        default=30.0, ge=1, le=3_600, description="A job silent this long goes to another worker."
    )
    heartbeat_secs: float = Field(
        default=10.0, gt=0, le=1_800, description="A worker renews its lease this often."
    )
    max_attempts: int = Field(default=8, ge=1, le=100, description="Failures after which a job is dead.")
    max_lost_leases: int = Field(
        default=3, ge=1, le=100, description="Lost workers after which a job is dead."
    )
    backoff_base_secs: float = Field(
        default=2.0, gt=0, le=3_600, description="First wait before a retry, at most."
    )
    backoff_cap_secs: float = Field(
        default=900.0, gt=0, le=DAY_SECS, description="Longest wait before a retry."
    )
    sweep_interval_secs: float = Field(
        default=10.0, gt=0, le=3_600, description="Seconds between looks for due jobs."
    )
    dispatch_window: int = Field(
        default=64, ge=1, le=10_000, description="Wake-ups per queue held by the broker."
    )
    max_live_jobs: int = Field(default=100_000, ge=1, le=100_000_000, description="More jobs are refused.")
    min_free_disk_bytes: int = Field(
        default=GIB, ge=0, le=1_024 * GIB, description="Below this, jobs are refused."
    )
    retention_days: int = Field(
        default=30, ge=0, le=36_500, description="Days for which finished jobs are kept."
    )
    slice_secs: float = Field(
        default=5.0, gt=0, le=300, description="Longest stretch of work between two saves."
    )
    niceness: int = Field(
        default=10,
        ge=0,
        le=19,
        description="How far workers step aside for other processes, as in `nice`; 0: not at all.",
    )

    @property
    def own_sweep_interval_secs(self) -> float:
        """Seconds between two sweeps of one process: few beside a lease, so that what a lost worker did goes on soon."""
        return min(self.sweep_interval_secs, self.lease_secs / 10)

    @model_validator(mode="after")
    def _check(self) -> Self:
        problems = [
            problem
            for url in self.broker_url.get_secret_value().split(";")
            if (problem := _broker_problem(url)) is not None
        ]
        if self.heartbeat_secs >= self.lease_secs / 2:
            problems.append(
                f"heartbeat_secs is {self.heartbeat_secs}: use less than half of lease_secs, {self.lease_secs}"
            )
        if self.backoff_base_secs > self.backoff_cap_secs:
            problems.append(
                f"backoff_base_secs is {self.backoff_base_secs}: "
                f"use at most backoff_cap_secs, {self.backoff_cap_secs}"
            )
        if problems:
            raise ValueError("; ".join(problems))
        return self


def _default_data_dir() -> Path:
    root = Path(os.environ.get("XDG_DATA_HOME", ""))
    # The XDG specification says that a relative path here is to be ignored.
    if root.is_absolute():
        return root / "zeph"
    try:
        return _expanded("~/.local/share/zeph")
    except ValueError as error:
        raise errors.SettingsError("this user has no home folder: set ZEPH_DATA_DIR") from error


NAMESPACE_PATTERN = r"^\S{1,128}$"


class Settings(Section):
    """All settings, checked. Equal input gives equal settings; nothing changes them later."""

    data_dir: AnyPath = Field(default_factory=_default_data_dir, description="Folder of everything stored.")
    namespace: str = Field(
        default="default",
        pattern=NAMESPACE_PATTERN,
        description="Whose memory this is: a user, an agent or a tenant.",
    )
    log_level: Annotated[Literal["debug", "info", "warning", "error"], BeforeValidator(_lower)] = Field(
        default="warning", description="Least important message that is logged."
    )
    memory: MemorySettings = Field(default_factory=MemorySettings)
    embedding: EmbeddingSettings = Field(default_factory=EmbeddingSettings)
    llm: LlmSettings = Field(default_factory=LlmSettings)
    jobs: JobSettings = Field(default_factory=JobSettings)

    _places: dict[str, tuple[Origin, str]] = PrivateAttr(default_factory=dict)

    def model_post_init(self, context: Any, /) -> None:
        """Make both paths absolute and note where the values came from."""
        data_dir = self.data_dir.absolute()
        memory = self.memory.model_copy(update={"sqlite_path": data_dir / self.memory.sqlite_path})
        self.__dict__.update(data_dir=data_dir, memory=memory)
        self._places = {key: (given.source, given.place) for key, given in (context or {}).items()}

    def describe(self) -> list["Described"]:
        """Every setting in the order of the file, secrets starred, with where it came from."""
        rows = []
        for key in _fields():
            value: Any = self
            for name in key.split("."):
                value = getattr(value, name)
            source, place = self._places.get(key, ("default", ""))
            rows.append(Described(key, _shown(value), source, place))
        return rows


@dataclass(frozen=True, slots=True)
class Described:
    """One setting for people: `place` is the file or variable that set it, empty for a default."""

    key: str
    value: str | int | float | bool
    source: Origin
    place: str


@dataclass(frozen=True, slots=True)
class _Given:
    """One setting as it was found, not yet checked."""

    key: str
    value: object
    source: Origin
    place: str


def config_file(config_path: Path | None = None, *, data_dir: Path | None = None) -> Path:
    """The file to read: `config_path`, else $ZEPH_CONFIG, else config.toml in the data folder."""
    if config_path is not None:
        return config_path
    if named := os.environ.get(CONFIG_VARIABLE):
        return _located(named, CONFIG_VARIABLE)
    if data_dir is None:
        named = os.environ.get("ZEPH_DATA_DIR")
        data_dir = _located(named, "ZEPH_DATA_DIR") if named else _default_data_dir()
    return data_dir / "config.toml"


def load_settings(config_path: Path | None = None, overrides: Mapping[str, object] | None = None) -> Settings:
    """Read and check everything. Overrides may be nested or dotted (`{"memory.history_limit": 9}`).

    Raises SettingsError that lists every problem at once: the key, its value, where it was set, what is allowed.
    """
    wanted = dict(_flat(overrides or {}))
    data_dir = wanted.get("data_dir")
    path = config_file(config_path, data_dir=_located(str(data_dir), "data_dir") if data_dir else None)
    must_exist = config_path is not None or bool(os.environ.get(CONFIG_VARIABLE))

    problems: list[str] = []
    given: dict[str, _Given] = {}
    for one in (
        *_from_mapping(_read_toml(path, must_exist=must_exist), "file", str(path)),
        *_from_environment(problems),
        *_from_mapping(wanted, "override", "the caller"),
    ):
        if one.key in _fields():
            given[one.key] = one
        elif one.value != {} or not _is_table(one.key):
            problems.append(_unknown(one.key, one.place))
    try:
        settings = Settings.model_validate(_nested(given.values()), context=given)
    except ValidationError as error:
        problems += [_problem(detail, given) for detail in error.errors(include_url=False)]
    else:
        if not problems:
            return settings
    raise errors.SettingsError(
        "\n".join(["the settings cannot be used:", *(f"  {line}" for line in problems)])
    )


def default_config_toml() -> str:
    """A config.toml in which every setting is a comment with its default, range and purpose."""
    lines = [
        "# Settings of zeph. Remove the # before a line to change it; `zeph config show` tells the result."
    ]
    section = ""
    for key, field in _fields().items():
        table, _, name = key.rpartition(".")
        if table != section:
            section = table
            lines += ["", f"[{table}]"]
        allowed = _allowed(field)
        lines += [
            f"# {field.description}" + (f" ({allowed})" if allowed else ""),
            f"# {name} = {_toml(field.get_default(call_default_factory=True))}",
        ]
    return "\n".join(lines) + "\n"


def is_loopback(host: str | None) -> bool:
    """Whether the host of a URL is this machine; no host (a socket file) is."""
    if not host or host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def masked_url(url: str) -> str:
    """The URL, or several joined by semicolons, without passwords and tokens."""
    return ";".join(_masked_one(part) for part in url.split(";"))


def _located(text: str, name: str) -> Path:
    try:
        return _expanded(text)
    except ValueError as error:
        raise errors.SettingsError(f"{name} is {text!r}: {error}") from error


def _masked_one(url: str) -> str:
    url = re.sub(r"(?i)((?:password|token|secret|key)=)[^&]*", r"\1***", url)
    scheme, separator, rest = url.partition("://")
    login, at, host = rest.rpartition("@")
    if not separator or not at:
        return url
    user, colon, _ = login.partition(":")
    return f"{scheme}://{user if colon else ''}{colon}***@{host}"


def _broker_problem(url: str) -> str | None:
    if not url:
        return None
    try:
        parts = urlsplit(url)
        host, password = parts.hostname, parts.password or parse_qs(parts.query).get("password")
    except ValueError:
        return "broker_url is no URL: use one such as redis://:PASSWORD@host:6379/0"
    if not parts.scheme:
        return "broker_url has no scheme: use one such as redis://:PASSWORD@host:6379/0"
    if parts.scheme in {"redis", "rediss"} and not is_loopback(host) and not password:
        return (
            f"broker_url names another host, {host}, without a password: anyone who reaches it could run jobs; "
            f"use {parts.scheme}://:PASSWORD@{host}"
        )
    return None


@cache
def _fields() -> dict[str, FieldInfo]:
    """Every leaf setting by its dotted key, plain keys of a table before its sub-tables."""
    return dict(_leaves(Settings, ""))


def _leaves(model: type[BaseModel], prefix: str) -> Iterator[tuple[str, FieldInfo]]:
    tables = []
    for name, field in model.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            tables.append((field.annotation, f"{prefix}{name}."))
        else:
            yield prefix + name, field
    for table, table_prefix in tables:
        yield from _leaves(table, table_prefix)


@cache
def _variables() -> dict[str, str]:
    """The key behind each environment variable."""
    return {PREFIX + key.replace(".", "__").upper(): key for key in _fields()} | SHORT_NAMES


def _from_mapping(table: Mapping[str, object], source: Origin, place: str) -> Iterator[_Given]:
    for key, value in _flat(table):
        yield _Given(key, value, source, place)


def _flat(table: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, object]]:
    for name, value in table.items():
        if isinstance(value, Mapping) and value:
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def _nested(given: Iterable[_Given]) -> dict[str, Any]:
    root: dict[str, Any] = {}
    for one in given:
        *tables, name = one.key.split(".")
        table = root
        for step in tables:
            table = table.setdefault(step, {})
        table[name] = one.value
    return root


def _read_toml(path: Path, *, must_exist: bool) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_bytes().decode("utf-8-sig"))
    except (FileNotFoundError, NotADirectoryError):
        # A data folder that is a file is named by whoever needs the folder.
        if not must_exist:
            return {}
        raise errors.SettingsError(
            f"the settings file {path} does not exist: create it with `zeph config init --path {path}`"
        ) from None
    except OSError as error:
        raise errors.SettingsError(f"the settings file {path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise errors.SettingsError(f"the settings file {path} is not UTF-8: save it as UTF-8") from error
    except tomllib.TOMLDecodeError as error:
        raise errors.SettingsError(f"the settings file {path} is not valid TOML: {error}") from error


def _from_environment(problems: list[str]) -> Iterator[_Given]:
    """The settings among the variables; what cannot be used is added to `problems`."""
    seen: dict[str, _Given] = {}
    for name, text in sorted(os.environ.items()):
        if not name.startswith(PREFIX) or not text or name == CONFIG_VARIABLE or name.startswith(TEST_PREFIX):
            continue
        key = _variables().get(name)
        if key is None:
            problems.append(f"unknown variable {name}" + _nearest(name, [*_variables(), CONFIG_VARIABLE]))
            continue
        one = _Given(key, _typed(text, _fields()[key]), "environment", name)
        first = seen.setdefault(key, one)
        if first is not one and first.value != one.value:
            problems.append(f"{first.place} and {name} both set {key} and differ: keep one of them")
        yield one


def _typed(text: str, field: FieldInfo) -> object:
    """The text as the field's type if it can be read so; validation refuses the rest."""
    if field.annotation is bool:
        words = {"true": True, "1": True, "yes": True, "on": True}
        return (words | {"false": False, "0": False, "no": False, "off": False}).get(
            text.strip().lower(), text
        )
    if (number := _number(field)) is not None:
        try:
            return number(text)
        except ValueError:
            return text
    return text


def _number(field: FieldInfo) -> type[int] | type[float] | None:
    """The kind of number that the field holds, where it holds one."""
    if field.annotation is int:
        return int
    return float if field.annotation in (float, float | None) else None


def _is_table(key: str) -> bool:
    return any(known.startswith(key + ".") for known in _fields())


def _unknown(key: str, place: str) -> str:
    if _is_table(key):
        return f"{key} in {place} is a table: write [{key}] and its settings below"
    return f"unknown setting {key} in {place}" + _nearest(key, list(_fields()))


def _nearest(name: str, names: list[str]) -> str:
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.7)
    return (
        f": did you mean {close[0]}?" if close else ": `zeph config init` writes a file that lists them all"
    )


def _problem(detail: Mapping[str, Any], given: Mapping[str, _Given]) -> str:
    key = ".".join(str(step) for step in detail["loc"])
    field = _fields().get(key)
    message = str(detail.get("ctx", {}).get("error", detail["msg"]))
    if field is None:  # a check of several settings of one table
        return f"[{key}] {message}"
    place = given[key].place if key in given else "its default"
    value = "***" if field.annotation is SecretStr else _brief(_toml(detail["input"]))
    wish = f"use {_allowed(field)}" if _allowed(field) else message
    return f"{key} is {value}, set by {place}: {wish}"


def _allowed(field: FieldInfo) -> str:
    """What the field accepts, in words; empty where any text will do."""
    if field.annotation is bool:
        return "true or false"
    if get_origin(field.annotation) is Literal:
        return "one of " + ", ".join(get_args(field.annotation))
    number = _number(field)
    if number is None:
        patterns = [rule.pattern for rule in field.metadata if getattr(rule, "pattern", None)]
        return f"text that matches {patterns[0]}" if patterns else ""
    bounds = {
        name: value
        for rule in field.metadata
        for name in ("ge", "gt", "le", "lt")
        if (value := getattr(rule, name, None)) is not None
    }
    low = f"from {bounds['ge']}" if "ge" in bounds else f"above {bounds['gt']}"
    high = f"to {bounds['le']}" if "le" in bounds else f"and below {bounds['lt']}"
    if "gt" in bounds and "le" in bounds:
        high = f"and at most {bounds['le']}"
    return f"{'a whole number' if number is int else 'a number'} {low} {high}"


def _shown(value: object) -> str | int | float | bool:
    if isinstance(value, SecretStr):
        secret = value.get_secret_value()
        return masked_url(secret) if "://" in secret else "***" if secret else ""
    if isinstance(value, bool | int | float):
        return value
    return masked_url(str(value)) if value is not None else ""


def _brief(text: str) -> str:
    return text if len(text) <= 80 else text[:79] + "…"


def _toml(value: object) -> str:
    return json.dumps(_shown(value), ensure_ascii=False)
