"""What becomes of stored facts when another one meets them. Pure.

Two clocks: a fact is true in the world from `valid_from` until before `valid_to`, and known from `created_at` until
before `expired_at`. What another fact retired has both ends; what somebody took back has `expired_at` alone.
What counts is when something was said, not when it was read: what a text from the past states finds its place in the
past, and of two statements that cannot both be true the later one holds.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from services.graph.models import CO_OCCURRENCE, Edge
from services.graph.names import same_fact

# Relations of which one holds at a time: a new target retires the one before it. All others hold side by side.
SINGLE_VALUED = frozenset({"works_at", "works_for", "lives_in", "born_in", "manages"})


@dataclass(slots=True, eq=False)
class EdgeDraft:
    """A fact that is being worked on: a stored one, or a new one with id None. `stated` are the times it was told.

    `absorbed_by` is the fact that says it already and takes over its sources. `split_from` is the fact of which this
    is the first part, with the sources from before its end.
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
    created_at: int | None = None
    stated: list[int] = field(default_factory=list)
    superseded_by: EdgeDraft | None = field(default=None, repr=False)
    absorbed_by: EdgeDraft | None = field(default=None, repr=False)
    split_from: EdgeDraft | None = field(default=None, repr=False)
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
    ends = (edge.source_id, edge.target_id, edge.relation)
    times = (edge.valid_from, edge.valid_to, edge.expired_at, edge.created_at)
    return EdgeDraft(edge.id, *ends, edge.fact, edge.confidence, *times)


class Timeline:
    """The facts of some keys, among which others are placed.

    `stored` are all facts, past ones too, of every key and, for single-valued relations, of every (source, relation)
    that is to be placed. `told` gives the times at which a stored fact was told, for those few that compete with
    another. `known` are the facts that the text being read is known to state, with its words.
    """

    def __init__(
        self,
        stored: Iterable[Edge],
        *,
        now: int,
        told: Callable[[int], Iterable[int]],
        known: Mapping[int, str] | None = None,
    ) -> None:
        self._now = now
        self._told = told
        self._known = known or {}
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
            words = None if row.id is None else self._known.get(row.id)
            if words is not None and _alike(new, words):
                return row
        alike = [row for row in mine if _alike(new, row.fact) and not row.retracted]
        said = max(self._times(new))
        same = next((row for row in alike if row.covers(said)), None)
        if new.valid_to is not None:
            # A fact is told to be over, in whatever words.
            same = next((row for row in mine if row.active and row.valid_from < new.valid_to), same)
        rivals = [
            row for row in rows if row not in alike and not row.retracted and self._rival(row, new, said)
        ]
        if same is None and new.valid_to is None:
            same = self._begun_earlier(alike, rivals, said)
        if same is not None:
            self._absorb(same, new, rivals)
            return same
        self._settle(new, rivals, said)
        self._keep(new)
        return new

    def adopt(self, draft: EdgeDraft) -> None:
        """Take in a stored fact whose ends have changed."""
        if draft.active:
            self.place(draft)
        else:
            self._keep(draft)

    # ---- steps -----------------------------------------------------------------------------------------------

    def _keep(self, draft: EdgeDraft) -> None:
        self.drafts.append(draft)
        self._heads[draft.source_id, draft.relation].append(draft)

    def _times(self, draft: EdgeDraft) -> list[int]:
        if not draft.stated:
            draft.stated = sorted(self._told(draft.id)) if draft.id is not None else []
            draft.stated = draft.stated or [draft.valid_from]
        return draft.stated

    def _held(self, row: EdgeDraft) -> list[int]:
        """The times at which it was told and not overruled since."""
        return [time for time in self._times(row) if row.covers(time)]

    def _rival(self, row: EdgeDraft, new: EdgeDraft, said: int) -> bool:
        """Whether both cannot be true at once. Of two targets told at the same time nobody knows which is the later."""
        if row.target_id == new.target_id:
            return True
        return new.relation in SINGLE_VALUED and said not in self._times(row)

    def _begun_earlier(
        self, alike: Sequence[EdgeDraft], rivals: Sequence[EdgeDraft], said: int
    ) -> EdgeDraft | None:
        """The later fact that says the same, when nothing else was told between this time and its beginning."""
        later = [row for row in alike if row.valid_from > said]
        if not later:
            return None
        first = min(later, key=lambda row: row.valid_from)
        between = any(said < time < first.valid_from for row in rivals for time in self._held(row))
        return None if between else first

    def _absorb(self, same: EdgeDraft, new: EdgeDraft, rivals: Sequence[EdgeDraft]) -> None:
        if new.id is not None:
            new.absorbed_by = same
            self.drafts.append(new)
        if same.stated or same.id is None:
            same.stated = sorted({*self._times(same), *self._times(new)})
        if new.valid_from < same.valid_from and new.valid_to is None:
            same.valid_from, same.changed = new.valid_from, True
            if new.relation == CO_OCCURRENCE:
                # Any sentence will do: the first one, whichever was read first.
                same.fact = new.fact
            for row in rivals:
                if row.covers(new.valid_from):
                    self._end(row, new.valid_from, same)
        if new.confidence > same.confidence:
            same.confidence, same.changed = new.confidence, True
        if new.valid_to is not None and same.active:
            same.valid_to, same.expired_at, same.changed = new.valid_to, self._now, True

    def _settle(self, new: EdgeDraft, rivals: Sequence[EdgeDraft], said: int) -> None:
        new.changed = True
        over = new.valid_to is not None
        for row in rivals:
            # What is told to be over ends nothing but what has its key.
            if over and row.target_id != new.target_id:
                continue
            later = [time for time in self._held(row) if time > said]
            if not later:
                if row.covers(said):
                    self._end(row, max(new.valid_from, row.valid_from), new)
                continue
            before = [time for time in self._held(row) if time <= said]
            if before and row.covers(said):
                self._split(row, before, later, new)
            begin = max(new.valid_from, row.valid_from)
            if not over and (new.valid_to is None or begin < new.valid_to):
                new.valid_to, new.expired_at, new.superseded_by = begin, self._now, row

    def _end(self, row: EdgeDraft, moment: int, by: EdgeDraft) -> None:
        row.valid_to, row.superseded_by, row.changed = moment, by, True
        row.expired_at = self._now if row.expired_at is None else row.expired_at

    def _split(self, row: EdgeDraft, before: list[int], later: list[int], new: EdgeDraft) -> None:
        """It was told before and after what comes between: two facts, of which the later one stays where it is."""
        first = replace(row, id=None, split_from=row, stated=before)
        self._end(first, max(new.valid_from, row.valid_from), new)
        row.valid_from, row.stated, row.changed = later[0], later, True
        self._keep(first)


def _alike(new: EdgeDraft, fact: str) -> bool:
    return new.relation == CO_OCCURRENCE or same_fact(fact, new.fact)
