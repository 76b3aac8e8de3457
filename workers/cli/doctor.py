"""`zeph doctor`: whether everything stored is as it should be."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from workers.cli.session import (
    EXIT_FAILURES,
    EXIT_UNAVAILABLE,
    AsJson,
    open_container,
    print_json,
    say,
    table,
)

if TYPE_CHECKING:
    from services.doctor.models import Finding, Report


def doctor(
    context: typer.Context,
    *,
    repair: Annotated[bool, typer.Option("--repair", help="Mend what can be mended.")] = False,
    as_json: AsJson = False,
) -> None:
    """Look for damage: file, indexes, jobs, conversations, documents, graph, vectors. Exit code 1 with findings.

    Exit code 3 when a part could not be looked at. Repairs are transactions and jobs: a worker does the latter.
    """
    with open_container(context) as container:
        report = container.doctor.examine(repair=repair)
    if as_json:
        print_json(asdict(report) | {"healthy": report.healthy})
    else:
        _print(report, repair=repair)
    if report.remaining:
        raise typer.Exit(EXIT_FAILURES)
    if report.unchecked:
        raise typer.Exit(EXIT_UNAVAILABLE)


def _print(report: Report, *, repair: bool) -> None:
    if report.findings:
        rows = [
            (it.code, it.where, it.count, ", ".join(it.examples), it.what, _advice(it, repair=repair))
            for it in report.findings
        ]
        table("finding", "where", "count", "such as", "what", "repair", rows=rows)
    for reason in (*report.skipped, *report.unchecked):
        say(f"not checked: {reason}")
    if report.healthy:
        say(f"all is well ({report.seconds:.1f} s)")
    elif report.remaining and not repair and any(it.repairable for it in report.remaining):
        say("`zeph doctor --repair` mends what can be mended")


def _advice(finding: Finding, *, repair: bool) -> str:
    if finding.repaired:
        return f"done: {finding.note}"
    if not finding.repairable:
        return f"by hand: {finding.remedy}"
    return f"did not help: {finding.note}; {finding.remedy}" if repair else f"--repair {finding.remedy}"
