"""Facts of the graph that corrections take back: what it knows from a message alone that was put right."""

from __future__ import annotations

from services.corrections.models import UserCorrection
from services.corrections.store import CorrectionUnit
from services.ids import MessageId


def retire_facts(unit: CorrectionUnit, correction: UserCorrection) -> None:
    """Take back what the graph knows from the message that was put right alone.

    Of several facts, which one is wrong is certain only where the correction names what it is about.
    """
    if not correction.lowers or correction.target_message_id is None:
        return
    stated = unit.corrections.stated_facts(correction.namespace, correction.target_message_id)
    said = correction.correction_text.casefold()
    meant = [fact for fact in stated if fact.subject.casefold() in said or fact.object.casefold() in said]
    unit.corrections.retire_facts(
        correction.id, [fact.edge_id for fact in (stated if len(stated) == 1 else meant)]
    )


def retire_facts_of(unit: CorrectionUnit, namespace: str, message_id: MessageId) -> None:
    """The same for a message that is read for the graph only after it was put right."""
    for correction in unit.corrections.select(namespace, target=message_id):
        retire_facts(unit, correction)
