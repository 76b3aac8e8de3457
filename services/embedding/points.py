"""The ids of vectors, derived from what they stand for, so that a repeated write overwrites itself; and the way back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from services.ids import point_id


def point_ids(kind: str, namespace: str, physical: str, row_id: int, windows: int) -> list[str]:
    """One id per window of a row. Row ids are never reused, so an old deletion cannot hit a new row."""
    return [point_id(namespace, physical, kind, str(row_id), str(window)) for window in range(windows)]


def chunk_point_ids(namespace: str, physical: str, chunk_id: int, windows: int) -> list[str]:
    """One id per window of a document chunk."""
    return point_ids("chunk", namespace, physical, chunk_id, windows)


def message_point_ids(namespace: str, physical: str, message_id: int, windows: int) -> list[str]:
    """One id per window of a message."""
    return point_ids("message", namespace, physical, message_id, windows)


def row_of(payload: Mapping[str, Any], field: str) -> int:
    """The row that a point names in this field; 0, which is no row, for a point that others wrote or that is damaged."""
    named = payload.get(field)
    return named if type(named) is int else 0
