"""Examines a store, and repairs it on request. What is looked at is decided by the checks it is given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from services import errors
from services.doctor.models import Check, Finding, Report
from services.ports import Clock


class Doctor:
    """Runs all checks, in the order in which their repairs build on one another.

    Safe while others work: what jobs under way explain is no finding. The check of a full-text index holds the
    write lock for a moment.
    """

    def __init__(self, checks: Sequence[Check], clock: Clock, *, skipped: Sequence[str] = ()) -> None:
        self.checks = checks
        self._clock = clock
        self._skipped = tuple(skipped)

    def examine(self, *, repair: bool = False) -> Report:
        """Look at everything; with `repair`, mend what can be mended and look again."""
        began = self._clock.monotonic()
        findings: list[Finding] = []
        unchecked: dict[str, list[str]] = {}
        for check in self.checks:
            try:
                found = list(check.find())
                if repair and any(finding.repairable for finding in found):
                    found = _mended(check, found)
            except errors.MemoryError as error:
                unchecked.setdefault(str(error), []).append(check.name)
            else:
                findings += found
        seconds = self._clock.monotonic() - began
        reasons = tuple(f"{', '.join(names)}: {reason}" for reason, names in unchecked.items())
        return Report(tuple(findings), self._skipped, reasons, seconds)


def _mended(check: Check, found: Sequence[Finding]) -> list[Finding]:
    noted = [
        replace(finding, note=check.repair(finding)) if finding.repairable else finding for finding in found
    ]
    left = {(finding.code, finding.where): finding for finding in check.find()}
    known = {(finding.code, finding.where) for finding in noted}
    # Mending one thing may bring another to light.
    return [
        replace(finding, repaired=bool(finding.note) and (finding.code, finding.where) not in left)
        for finding in noted
    ] + [finding for key, finding in left.items() if key not in known]
