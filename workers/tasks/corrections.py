"""Jobs of corrections."""

from __future__ import annotations

from services.bootstrap import Container
from services.jobs.models import DETECT_CORRECTION, DETECT_MISSING, EMBED_CORRECTION
from services.jobs.run import JobRun
from workers.job import job


@job(DETECT_CORRECTION)
def detect_correction(container: Container, run: JobRun) -> None:
    """Look whether a message corrects something."""
    container.corrections.detect(run)


@job(DETECT_MISSING)
def detect_missing(container: Container, run: JobRun) -> None:
    """Have the messages looked at for which the ledger had no room."""
    container.corrections.detect_missing(run)


@job(EMBED_CORRECTION)
def embed_correction(container: Container, run: JobRun) -> None:
    """Give a correction its vectors."""
    container.correction_vectors.embed(run)
