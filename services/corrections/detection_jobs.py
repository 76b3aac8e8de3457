"""The job of a message that may be a correction; apart from the detector, whose import takes long."""

from __future__ import annotations

from services.ids import MessageId
from services.jobs.models import DETECT_CORRECTION, NewJob


def detection_job(namespace: str, message_id: MessageId) -> NewJob:
    """The job that looks whether a message corrects something."""
    return NewJob(DETECT_CORRECTION, {"message_id": message_id}, namespace, dedupe_key=str(message_id))
