"""What the graph adds to searching texts: what states the facts around a question, and what good passages lead to."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import islice
from typing import Protocol

from services.graph import seeds
from services.graph.models import AsOf
from services.graph.names import canonical
from services.graph.recall import GraphRecall

# Facts whose texts count.
_FACTS = 100
# A question's next step begins at what these passages name, those of the best first.
_BEGINNINGS, _MOST_NAMES = 5, 60
_MOST_TITLED = 240
_NOTE = re.compile(r"\s*\([^()]*\)$")


@dataclass(frozen=True, slots=True)
class Titled:
    """A chunk with the titles that it stands under: that of its document and its headings."""

    chunk_id: int
    document_id: int
    titles: tuple[str, ...]

    @property
    def names(self) -> set[str]:
        """The names that its titles are, "The Piano (film)" also without the note."""
        return {form for title in self.titles for form in (canonical(title), canonical(_NOTE.sub("", title)))}


class LaneRows(Protocol):
    """What the lane asks of the database."""

    def names_in(self, namespace: str, chunk_ids: Sequence[int]) -> dict[int, dict[int, list[str]]]:
        """The entities that these chunks name: chunk -> entity -> its canonical name and aliases."""

    def under_titles(
        self, namespace: str, collection: str, names: Sequence[str], *, limit: int
    ) -> list[Titled]:
        """Chunks with one of these names in a title that they stand under, by BM25, ties by id."""


class LaneUnit(Protocol):
    """A unit of work for the lane."""

    @property
    def lane(self) -> LaneRows:
        """Texts and what they name."""


class LaneDatabase(Protocol):
    """Opens units of work."""

    def read(self) -> AbstractContextManager[LaneUnit]:
        """One consistent view."""


class GraphLane:
    """Texts that the graph leads to."""

    def __init__(self, database: LaneDatabase, recall: GraphRecall) -> None:
        self._database = database
        self._recall = recall

    def messages(self, query: str, *, namespace: str, as_of: int | None = None) -> dict[int, float]:
        """The messages that state the facts around what the query names: id -> sum of the scores of those facts.

        With `as_of` (microseconds) only facts count that were known then.
        """
        known = None if as_of is None else AsOf(known_at=as_of)
        scores: dict[int, float] = {}
        for fact in self._recall.recall(query, namespace=namespace, limit=_FACTS, as_of=known).facts:
            for message in fact.message_ids:
                scores[message] = scores.get(message, 0.0) + fact.score
        return scores

    def passages(
        self, query: str, found: Mapping[int, float], *, namespace: str, collection: str
    ) -> list[int]:
        """Chunks about what the best of `found` (chunk -> score, best first) name and the query does not.

        That is the next step of a question whose answer no single passage holds. A chunk is about something when its
        document or a section that it is in is titled by a name of it; one chunk of each document, the nearest first.
        """
        best = list(islice(found, _BEGINNINGS))
        with self._database.read() as unit:
            mentions = unit.lane.names_in(namespace, best)
            if not mentions:
                return []
            names = _unasked(best, mentions, {span.name for span in seeds.spans(query)})
            wanted = list(islice(names, _MOST_NAMES))
            titled = unit.lane.under_titles(namespace, collection, wanted, limit=_MOST_TITLED)
        own = {one.chunk_id: one.names for one in titled if one.chunk_id in best}
        ranked = []
        for one in titled:
            # What a passage calls itself leads nowhere.
            ranks = [
                rank
                for name in one.names
                for rank in names.get(name, ())
                if name not in own.get(best[rank], set())
            ]
            if ranks and one.chunk_id not in best:
                ranked.append((min(ranks), -found.get(one.chunk_id, 0.0), one.chunk_id, one.document_id))
        chosen: dict[int, int] = {}
        for _, _, chunk, document in sorted(ranked):
            chosen.setdefault(document, chunk)
        return list(chosen.values())


def _unasked(
    best: Sequence[int], mentions: Mapping[int, Mapping[int, Iterable[str]]], asked: set[str]
) -> dict[str, list[int]]:
    """The names of what these chunks name and the query does not: name -> places of those chunks."""
    names: dict[str, list[int]] = {}
    for rank, chunk in enumerate(best):
        for known_as in mentions.get(chunk, {}).values():
            if asked.isdisjoint(known_as):
                for name in known_as:
                    names.setdefault(name, []).append(rank)
    return names
