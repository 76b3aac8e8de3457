"""Identifiers and content hashes. Nothing here reads a clock or a random source."""

from __future__ import annotations

import uuid
from typing import Any, NewType

import blake3

ConversationId = NewType("ConversationId", int)
MessageId = NewType("MessageId", int)

DEFAULT_NAMESPACE = "default"

# Fixed for all time: changing it would orphan every stored vector.
_POINT_SPACE = uuid.UUID("6f0c9b0e-5c0d-5a53-9d6c-0f6f5a65e1aa")


def content_hash(data: bytes | str) -> str:
    """BLAKE3 of the bytes (text as UTF-8), 64 hexadecimal digits."""
    raw = data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data
    return blake3.blake3(raw).hexdigest()


def new_hasher() -> Any:
    """A BLAKE3 that takes a long text in pieces: `update(bytes)`, then `hexdigest()`."""
    return blake3.blake3()


def fields_hash(*fields: str) -> str:
    """BLAKE3 over length-prefixed fields, so that ("ab", "c") and ("a", "bc") differ."""
    encoded = [field.encode("utf-8", "surrogatepass") for field in fields]
    prefixed = b"".join(len(raw).to_bytes(8, "little") + raw for raw in encoded)
    return blake3.blake3(prefixed).hexdigest()


def point_id(*fields: str) -> str:
    """A vector's UUID derived from what it stands for, so that a repeat overwrites it."""
    return str(uuid.uuid5(_POINT_SPACE, fields_hash(*fields)))
