"""The jobs that read texts for the graph. Light: whoever remembers or ingests something imports it."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from services.ids import content_hash
from services.jobs.models import EXTRACT_GRAPH, NewJob

if TYPE_CHECKING:
    from services.graph.texts import ExtractionUnit

# One job reads so many texts: few enough to share the work, many enough that the ledger stays short.
TEXTS_PER_JOB = 50
# Behind what agents wait for.
_BATCH_PRIORITY = 7


class TextKind(StrEnum):
    """What a text is; the value is its field in the payload of a job."""

    MESSAGES = "messages"
    CHUNKS = "chunks"


def message_jobs(namespace: str, ids: Sequence[int]) -> list[NewJob]:
    """The jobs that read these messages."""
    return text_jobs(TextKind.MESSAGES, namespace, ids)


def enqueue_document(unit: ExtractionUnit, namespace: str, document_id: int, parent: int | None) -> None:
    """Enqueue, in this unit, the jobs that read the chunks of a document that nobody has read yet."""
    ids = unit.texts.of_document(namespace, document_id)
    unit.jobs.enqueue(text_jobs(TextKind.CHUNKS, namespace, ids, parent=parent))


def text_jobs(
    kind: TextKind,
    namespace: str,
    ids: Sequence[int],
    *,
    parent: int | None = None,
    replacing: str | None = None,
) -> list[NewJob]:
    """The jobs that read these texts, 50 each; `replacing` is an extractor whose reading counts as none."""
    listed = sorted(set(ids))
    parts = [listed[at : at + TEXTS_PER_JOB] for at in range(0, len(listed), TEXTS_PER_JOB)]
    return [_job(kind, namespace, part, parent, replacing) for part in parts]


def _job(kind: TextKind, namespace: str, ids: list[int], parent: int | None, replacing: str | None) -> NewJob:
    payload: dict[str, Any] = {kind.value: ids}
    name = str(ids[0]) if len(ids) == 1 else content_hash(repr(ids))
    key = f"{kind}/{name}"
    if replacing is not None:
        payload["replacing"] = replacing
        key += f"/{replacing}"
    if parent is None:
        return NewJob(EXTRACT_GRAPH, payload, namespace, key)
    # A batch waits for its own children: a live job of somebody else would not be one.
    return NewJob(EXTRACT_GRAPH, payload, namespace, f"{parent}/{key}", parent, _BATCH_PRIORITY)
