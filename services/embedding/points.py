"""The ids of vectors, derived from what they stand for, so that a repeated write overwrites itself."""

from __future__ import annotations

from services.ids import point_id


def chunk_point_ids(namespace: str, physical: str, chunk_id: int, windows: int) -> list[str]:
    """One id per window of a document chunk. Row ids are never reused, so an old deletion cannot hit a new chunk."""
    return [point_id(namespace, physical, "chunk", str(chunk_id), str(window)) for window in range(windows)]


def message_point_ids(namespace: str, physical: str, message_id: int, windows: int) -> list[str]:
    """One id per window of a message."""
    return [
        point_id(namespace, physical, "message", str(message_id), str(window)) for window in range(windows)
    ]
