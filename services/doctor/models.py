"""What an examination finds."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

# How many ids a finding names.
EXAMPLES = 5


@dataclass(frozen=True, slots=True)
class Finding:
    """One kind of damage in one place: what does not hold, for how many, and a few of them by id, never by content.

    `code` is stable, for machines. `remedy` says what repair does, or what to do where nothing can be repaired.
    After a repair `note` says what was done, and `repaired` whether a second look found nothing more.
    """

    code: str
    where: str
    what: str
    count: int
    examples: tuple[str, ...] = ()
    repairable: bool = False
    remedy: str = ""
    note: str = ""
    repaired: bool = False


@dataclass(frozen=True, slots=True)
class Report:
    """The result of an examination.

    `skipped` names what the settings leave out, `unchecked` what could not be looked at now, each with the reason.
    """

    findings: tuple[Finding, ...] = ()
    skipped: tuple[str, ...] = ()
    unchecked: tuple[str, ...] = ()
    seconds: float = 0.0

    @property
    def remaining(self) -> tuple[Finding, ...]:
        """What is still broken."""
        return tuple(finding for finding in self.findings if not finding.repaired)

    @property
    def healthy(self) -> bool:
        """Whether all was looked at and nothing is broken now."""
        return not self.remaining and not self.unchecked


class Check(Protocol):
    """One thing that must hold. Both methods may raise MemoryError when they cannot look or act now."""

    @property
    def name(self) -> str:
        """What is looked at, for people."""

    def find(self) -> Iterable[Finding]:
        """What does not hold. Changes nothing."""

    def repair(self, finding: Finding) -> str:
        """Mend a repairable finding of this check, in one transaction; what was done."""
