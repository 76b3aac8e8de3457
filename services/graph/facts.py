"""What becomes of stored facts when another one meets them. Pure.

Two clocks: a fact is true in the world from `valid_from` until before `valid_to`, and known from `created_at` until
before `expired_at`. What another fact retired has both ends; what somebody took back has `expired_at` alone.
The order in which texts are read does not matter: what a text from the past states finds its place in the past.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from services.graph.models import CO_OCCURRENCE, Edge
from services.graph.names import same_fact

# Relations of which one holds at a time: a new target retires the one before it. All others hold side by side.
SINGLE_VALUED = frozenset({"works_at", "works_for", "lives_in", "born_in", "manages"})


@dataclass(slots=True, eq=False)
class EdgeDraft:
    """A fact that is being worked on: a stored one, or a new one with id None.

    `absorbed_by` is the fact that says it already and takes over its sources.
    """

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
    def key(self) -> tuple[int, str, int]:
        """What only one active fact may have."""
        return self.source_id, self.relation, self.target_id

    @property
    def active(self) -> bool:
        """Whether it holds now, as far as is known."""
        return self.valid_to is None and self.expired_at is None

    @property
    def retracted(self) -> bool:
        """Whether somebody took it back."""
        return self.valid_to is None and self.expired_at is not None

    def covers(self, moment: int) -> bool:
        """Whether it was true then."""
        return self.valid_from <= moment and (self.valid_to is None or moment < self.valid_to)


def draft_of(edge: Edge) -> EdgeDraft:
    """A stored fact, to be worked on."""
    return EdgeDraft(
        edge.id,
        edge.source_id,
        edge.target_id,
        edge.relation,
        edge.fact,
        edge.confidence,
        edge.valid_from,
        edge.valid_to,
        edge.expired_at,
    )


class Timeline:
    """The facts of some keys, among which new ones are placed.

    `stored` are all facts, past ones too, of every key and, for single-valued relations, of every (source, relation)
    that is to be placed. `stated` are those that the text being read is known to state, with its words.
    """

    def __init__(self, stored: Iterable[Edge], *, now: int, stated: Mapping[int, str] | None = None) -> None:
        self._now = now
        self._stated = stated or {}
        self._heads: defaultdict[tuple[int, str], list[EdgeDraft]] = defaultdict(list)
        self.drafts: list[EdgeDraft] = []
        for edge in stored:
            self._keep(draft_of(edge))

    def place(self, new: EdgeDraft) -> EdgeDraft:
        """Find the place of a fact that is active or has an end of its own; the fact that stands for it.

        That is a stored one where one says the same of the same time (the surer and earlier of both wins), and any of
        two that stand together in one sentence. Else it is new, and retires or is retired by those that cannot be true
        with it: another wording under the same key, another target of a single-valued relation.
        """
        rows = [row for row in self._heads[new.source_id, new.relation] if row.absorbed_by is None]
        mine = [row for row in rows if row.target_id == new.target_id]
        for row in mine:
            # Read again: whatever became of it since then stands.
            words = None if row.id is None else self._stated.get(row.id)
            if words is not None and _alike(new, words):
                return row
        alike = [row for row in mine if _alike(new, row.fact)]
        known = next((row for row in alike if not row.retracted and row.covers(new.valid_from)), None)
        if new.valid_to is not None and known is None:
            # A known fact is told to be over, in whatever words.
            known = next((row for row in mine if row.active and row.valid_from < new.valid_to), None)
        rivals = [row for row in rows if not row.retracted and _rival(row, new)]
        if known is None:
            known = self._begun_earlier(alike, rivals, new.valid_from)
        if known is not None:
            return self._absorb(known, new, rivals)
        self._settle(new, [row for row in rivals if row not in alike])
        self._keep(new)
        return new

    def adopt(self, draft: EdgeDraft) -> None:
        """Take in a stored fact whose ends have changed."""
        if draft.active:
            self.place(draft)
            return
        self._keep(draft)

    # ---- steps -----------------------------------------------------------------------------------------------

    def _keep(self, draft: EdgeDraft) -> None:
        self.drafts.append(draft)
        self._heads[draft.source_id, draft.relation].append(draft)

    def _begun_earlier(
        self, alike: Sequence[EdgeDraft], rivals: Sequence[EdgeDraft], moment: int
    ) -> EdgeDraft | None:
        """The later fact that says the same, when nothing else was true between this moment and its beginning."""
        later = [row for row in alike if not row.retracted and row.valid_from > moment]
        if not later:
            return None
        first = min(later, key=lambda row: row.valid_from)
        between = any(moment < row.valid_from < first.valid_from for row in rivals)
        return None if between else first

    def _absorb(self, known: EdgeDraft, new: EdgeDraft, rivals: Sequence[EdgeDraft]) -> EdgeDraft:
        if new.id is not None:
            new.absorbed_by = known
            self.drafts.append(new)
        if new.valid_from < known.valid_from and (new.valid_to is None or new.valid_to > new.valid_from):
            known.valid_from, known.changed = new.valid_from, True
            self._retire_before(known, [row for row in rivals if row is not known])
        if new.confidence > known.confidence:
            known.confidence, known.changed = new.confidence, True
        if new.valid_to is not None and known.active:
            known.valid_to, known.expired_at, known.changed = new.valid_to, self._now, True
        return known

    def _settle(self, new: EdgeDraft, rivals: Sequence[EdgeDraft]) -> None:
        new.changed = True
        later = [row for row in rivals if row.valid_from > new.valid_from]
        if later:
            first = min(later, key=lambda row: row.valid_from)
            if new.valid_to is None:
                new.expired_at, new.superseded_by = self._now, first
            new.valid_to = min(new.valid_to or first.valid_from, first.valid_from)
        self._retire_before(new, rivals)

    def _retire_before(self, new: EdgeDraft, rivals: Sequence[EdgeDraft]) -> None:
        for row in rivals:
            # What was over by itself, and is told as such, ends nothing else.
            if new.valid_to is not None and new.superseded_by is None and row.target_id != new.target_id:
                continue
            if row.valid_from <= new.valid_from and (row.valid_to is None or row.valid_to > new.valid_from):
                row.valid_to, row.superseded_by, row.changed = new.valid_from, new, True
                row.expired_at = self._now if row.expired_at is None else row.expired_at


def _alike(new: EdgeDraft, fact: str) -> bool:
    return new.relation == CO_OCCURRENCE or same_fact(fact, new.fact)


def _rival(row: EdgeDraft, new: EdgeDraft) -> bool:
    """Whether both cannot be true at once. Of two targets told at the same time nobody knows which is the later one."""
    if row.target_id == new.target_id:
        return True
    return new.relation in SINGLE_VALUED and row.valid_from != new.valid_from
