"""What becomes of stored facts when a new one meets them. Pure.

Two clocks: a fact is true in the world from `valid_from` until before `valid_to`, and known from `created_at` until
before `expired_at`. What is retired by another fact has both ends, what somebody took back has `expired_at` alone.
The outcome does not depend on the order in which texts are read: a text from the past finds its place in the past.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True, eq=False)
class EdgeDraft:
    """A fact that is being worked on: a stored one, or a new one with id None. `gone`: it was absorbed by another."""

    id: int | None
    source_id: int
    target_id: int
    relation: str
    fact: str
    confidence: float
    valid_from: int
    valid_to: int | None = None
    expired_at: int | None = None
    superseded_by: EdgeDraft | None = field(default=None, repr=False)
    absorbed_by: EdgeDraft | None = field(default=None, repr=False)
    changed: bool = False

    @property
    def active(self) -> bool:
        """Whether it holds now, as far as is known."""
        return self.valid_to is None and self.expired_at is None
