"""How a fact is printed, with the texts that it comes from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from services.ids import MessageId
from workers.cli.session import iso_time, say

if TYPE_CHECKING:
    from services.bootstrap import Container
    from services.graph.models import EdgeSource, FactRecord

_SHOWN_SOURCES = 5
_SHOWN_EVIDENCE = 200


class Provenance:
    """The texts that some facts come from."""

    def __init__(self, container: Container, namespace: str, facts: Sequence[FactRecord]) -> None:
        sources = [source for fact in facts for source in fact.sources]
        messages = sorted({source.message_id for source in sources if source.message_id is not None})
        chunks = sorted({source.chunk_id for source in sources if source.chunk_id is not None})
        with container.database.read() as unit:
            self._messages = unit.messages.get(namespace, [MessageId(item) for item in messages])
            self._passages = unit.documents.passages(namespace, chunks)

    def place(self, source: EdgeSource) -> dict[str, Any]:
        """Where this is: of a message its time and speaker, of a chunk its file and page; {} for facts by hand."""
        message = self._messages.get(MessageId(source.message_id)) if source.message_id is not None else None
        if message is not None:
            return {
                "message": message.id,
                "conversation": message.conversation_id,
                "said_at": message.created_at,
                "role": message.role.value,
                "speaker": message.speaker,
            }
        passage = self._passages.get(source.chunk_id) if source.chunk_id is not None else None
        if passage is not None:
            return {
                "chunk": passage.chunk_id,
                "source": passage.source,
                "page": passage.page,
                "heading": list(passage.heading),
                "start": passage.start,
                "end": passage.end,
            }
        return {}


def print_fact(record: FactRecord, told: Provenance) -> None:
    """A fact in a few lines: what it says, since when, and who says so."""
    from services.graph.models import CO_OCCURRENCE

    edge = record.edge
    seen = edge.relation == CO_OCCURRENCE
    triple = f"{record.source} {shown_relation(edge.relation)} {record.target}"
    say(triple, bold=True)
    if edge.fact.rstrip(".") not in ("", triple):
        say(f"   {edge.fact}")
    what = f"fact {edge.id}, confidence {edge.confidence:.2f}, {_period(record)}"
    say(f"   {what}{'; seen together in a text, not stated' if seen else ''}", dim=True)
    for source in record.sources[:_SHOWN_SOURCES]:
        say(f"   {_line(source, told.place(source), edge.fact)}", dim=True)
    if len(record.sources) > _SHOWN_SOURCES:
        say(f"   and {len(record.sources) - _SHOWN_SOURCES} more texts", dim=True)


def shown_relation(relation: str) -> str:
    """A relation as words of a sentence."""
    from services.graph.models import CO_OCCURRENCE

    return "is mentioned with" if relation == CO_OCCURRENCE else relation.replace("_", " ")


def fact_json(record: FactRecord, told: Provenance) -> dict[str, Any]:
    """The same for machines."""
    sources = [{**asdict(source), "place": told.place(source)} for source in record.sources]
    return {
        **asdict(record.edge),
        "source": record.source,
        "target": record.target,
        "active": record.edge.active,
        "ended_by": record.ended_by,
        "replaced_by": record.replaced_by.id if record.replaced_by else None,
        "sources": sources,
    }


def _period(record: FactRecord) -> str:
    edge = record.edge
    since = f"since {_day(edge.valid_from)}"
    if edge.active:
        return since
    until = f" until {_day(edge.valid_to)}" if edge.valid_to is not None else ""
    by = f" by fact {record.replaced_by.id}" if record.replaced_by else ""
    return f"{since}{until} ({record.ended_by or 'ended'}{by})"


def _day(microseconds: int) -> str:
    """A day where the time is its first moment, else the time."""
    return iso_time(microseconds).removesuffix("T00:00:00+00:00")


def _line(source: EdgeSource, place: dict[str, Any], fact: str) -> str:
    from services.graph.models import MANUAL_EXTRACTOR

    evidence = (
        source.evidence
        if len(source.evidence) <= _SHOWN_EVIDENCE
        else source.evidence[:_SHOWN_EVIDENCE] + " ..."
    )
    said = f': "{evidence}"' if evidence and source.evidence != fact else ""
    if "message" in place:
        who = f"{place['role']} ({place['speaker']})" if place["speaker"] else place["role"]
        where = f"message {place['message']}, {iso_time(place['said_at'])}, {who}"
    elif "chunk" in place:
        page = f", page {place['page']}" if place["page"] else ""
        where = f"{place['source']}{page}, chunk {place['chunk']}"
    else:
        return (
            "by hand"
            if source.extractor == MANUAL_EXTRACTOR
            else f"{source.extractor} from a text that is gone"
        )
    return f"{source.extractor} from {where}{said}"
