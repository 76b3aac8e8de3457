"""Durable memory for AI agents: the public names.

Each is imported from its home when first used, so that importing this package costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from services.adapters.parsing.pdf import PdfLoader
    from services.adapters.parsing.text import TextLoader
    from services.adapters.qdrant import QdrantOps
    from services.bootstrap import Container, open_container
    from services.cache.client import cached_client
    from services.cache.models import CacheRequest
    from services.cache.service import ResponseCache
    from services.context.models import BuiltContext
    from services.corrections.detector import FeedbackDetector
    from services.corrections.models import UserCorrection
    from services.documents.loaders import DocumentLoader
    from services.documents.models import Chunk, Document, DocumentMetadata, SplitterConfig
    from services.documents.service import IngestionPipeline
    from services.documents.splitter import TextSplitter
    from services.embedding.registry import Embeddable, EmbeddingRegistry
    from services.errors import DocumentError, MemoryError  # noqa: A004 - the public name
    from services.graph.models import AsOf, GraphFact
    from services.graph.service import GraphStore
    from services.ids import ConversationId, MessageId
    from services.memory.recall import SemanticConfig
    from services.memory.router import HeuristicRouter, MemoryRouter
    from services.memory.service import SemanticMemory
    from services.memory.sessions import AcpSessionInfo, SqliteStore
    from services.memory.snapshot import MemorySnapshot
    from services.memory.tokens import TokenCounter

_HOMES = {
    "AcpSessionInfo": "memory.sessions",
    "AsOf": "graph.models",
    "BuiltContext": "context.models",
    "CacheRequest": "cache.models",
    "Chunk": "documents.models",
    "Container": "bootstrap",
    "ConversationId": "ids",
    "Document": "documents.models",
    "DocumentError": "errors",
    "DocumentLoader": "documents.loaders",
    "DocumentMetadata": "documents.models",
    "Embeddable": "embedding.registry",
    "EmbeddingRegistry": "embedding.registry",
    "FeedbackDetector": "corrections.detector",
    "GraphFact": "graph.models",
    "GraphStore": "graph.service",
    "HeuristicRouter": "memory.router",
    "IngestionPipeline": "documents.service",
    "MemoryError": "errors",
    "MemoryRouter": "memory.router",
    "MemorySnapshot": "memory.snapshot",
    "MessageId": "ids",
    "PdfLoader": "adapters.parsing.pdf",
    "QdrantOps": "adapters.qdrant",
    "ResponseCache": "cache.service",
    "SemanticConfig": "memory.recall",
    "SemanticMemory": "memory.service",
    "SplitterConfig": "documents.models",
    "SqliteStore": "memory.sessions",
    "TextLoader": "adapters.parsing.text",
    "TextSplitter": "documents.splitter",
    "TokenCounter": "memory.tokens",
    "UserCorrection": "corrections.models",
    "cached_client": "cache.client",
    "open_container": "bootstrap",
}

__all__ = [
    "AcpSessionInfo",
    "AsOf",
    "BuiltContext",
    "CacheRequest",
    "Chunk",
    "Container",
    "ConversationId",
    "Document",
    "DocumentError",
    "DocumentLoader",
    "DocumentMetadata",
    "Embeddable",
    "EmbeddingRegistry",
    "FeedbackDetector",
    "GraphFact",
    "GraphStore",
    "HeuristicRouter",
    "IngestionPipeline",
    "MemoryError",
    "MemoryRouter",
    "MemorySnapshot",
    "MessageId",
    "PdfLoader",
    "QdrantOps",
    "ResponseCache",
    "SemanticConfig",
    "SemanticMemory",
    "SplitterConfig",
    "SqliteStore",
    "TextLoader",
    "TextSplitter",
    "TokenCounter",
    "UserCorrection",
    "cached_client",
    "open_container",
]


def __getattr__(name: str) -> Any:
    """Import a public name from its home."""
    if name not in _HOMES:
        raise AttributeError(f"services has no public name {name}")
    return getattr(import_module(f"services.{_HOMES[name]}"), name)
