"""What full-text indexes tell namespaces apart by: a word of its own that stands in every row of one."""

from __future__ import annotations

from services.ids import fields_hash


def scope_token(first: str, second: str) -> str:
    """One word of digits, which no stemmer changes: of a namespace and a collection, or a kind of rows and a namespace."""
    return f"{int(fields_hash(first, second)[:15], 16):d}"
