"""`zeph graph extract` and `zeph graph backfill`: texts into the graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from services import errors
from services.ids import MessageId
from services.jobs.models import Queue
from workers.cli.session import (
    EXIT_FAILURES,
    AsJson,
    Conversation,
    Namespace,
    console,
    open_container,
    print_json,
    say,
    the_conversation,
)

if TYPE_CHECKING:
    from services.bootstrap import Container
    from services.graph.models import Extraction

_LISTED = 20

Detach = Annotated[bool, typer.Option("--detach", help="Leave the work to workers.")]
Concurrency = Annotated[int, typer.Option(min=1, max=64, help="Texts at once, without a broker.")]


def extract(
    context: typer.Context,
    text: Annotated[
        str | None, typer.Argument(help="Show what would be found in this text; nothing is stored.")
    ] = None,
    *,
    conversation: Conversation = None,
    message: Annotated[
        list[int] | None, typer.Option(min=1, max=2**63 - 1, help="Read this message; repeatable.")
    ] = None,
    speaker: Annotated[str | None, typer.Option(help="Who says the text.")] = None,
    concurrency: Concurrency = 2,
    detach: Detach = False,
    namespace: Namespace = None,
    as_json: AsJson = False,
) -> None:
    """Find entities and facts in a text, in messages or in a conversation. What was read before is not read again.

    Exit code 1: some of it could not be read; each reason is named.
    """
    if sum((text is not None, conversation is not None, bool(message))) != 1:
        raise errors.InputError("name one of: a text, --conversation, --message")
    with open_container(context) as container:
        mine = namespace or container.settings.namespace
        if text is not None:
            found = container.graph_extraction.preview(
                text, namespace=mine, said_at=container.clock.now(), speaker=speaker
            )
            _print_extraction(found, as_json=as_json)
            return
        if message:
            _refuse_unknown(container, mine, message)
            jobs = container.graph_extraction.submit(mine, message)
        else:
            jobs = container.graph_extraction.submit_conversation(
                mine, the_conversation(container, mine, conversation)
            )
        _follow(container, jobs, lambda: 0, concurrency=concurrency, detach=detach, as_json=as_json)


def backfill(
    context: typer.Context,
    *,
    limit: Annotated[
        int | None, typer.Option("--limit", "-k", min=1, help="Texts at most, the oldest first.")
    ] = None,
    replace_local: Annotated[
        bool,
        typer.Option("--replace-local", help="Also read again what only the local extractor has read."),
    ] = False,
    concurrency: Concurrency = 2,
    detach: Detach = False,
    namespace: Namespace = None,
    as_json: AsJson = False,
) -> None:
    """Find entities and facts in every message that was not read yet, oldest first. Safe to interrupt and to repeat.

    Exit code 1: some messages could not be read; each reason is named, and the rest is read.
    """
    with open_container(context) as container:
        mine = namespace or container.settings.namespace
        extraction = container.graph_extraction
        job_id = extraction.submit_backfill(mine, limit=limit, replace_local=replace_local)
        _follow(
            container,
            [job_id],
            lambda: extraction.waiting(mine, replace_local=replace_local),
            concurrency=concurrency,
            detach=detach,
            as_json=as_json,
        )


def _refuse_unknown(container: Container, namespace: str, messages: Sequence[int]) -> None:
    with container.database.read() as unit:
        found = unit.messages.get(namespace, [MessageId(message) for message in messages])
    unknown = [message for message in messages if message not in found]
    if unknown:
        raise errors.NotFound(f"namespace {namespace} has no message {', '.join(map(str, unknown))}")


def _follow(
    container: Container,
    jobs: Sequence[int],
    waiting: Callable[[], int],
    *,
    concurrency: int,
    detach: bool,
    as_json: bool,
) -> None:
    """Do the work of these jobs here and now, unless workers are to do it, and say what came of it."""
    if detach or container.settings.jobs.broker_url.get_secret_value():
        if as_json:
            print_json({"jobs": list(jobs), "extractor": container.graph_extraction.label})
        else:
            say(
                f"queued as {', '.join(f'job {job}' for job in jobs) or 'nothing'}: `zeph jobs list` shows it"
            )
        return
    read_texts(container, waiting, concurrency=concurrency, quiet=as_json)
    report = container.graph_extraction.report(jobs)
    if as_json:
        print_json({"extractor": container.graph_extraction.label, **asdict(report)})
    else:
        for reason in report.failures[:_LISTED]:
            say(reason)
        if len(report.failures) > _LISTED:
            say(f"... and {len(report.failures) - _LISTED} more (--json lists all)")
        say(
            f"{report.texts} texts read by {container.graph_extraction.label}: {report.entities} mentions of entities, "
            f"{report.edges} statements"
        )
        if report.open_jobs:
            say(f"{report.open_jobs} jobs wait for another try: `zeph jobs list` says why")
    if report.failures or report.open_jobs:
        raise typer.Exit(EXIT_FAILURES)


def read_texts(
    container: Container, waiting: Callable[[], int], *, concurrency: int = 2, quiet: bool
) -> None:
    """Run what is due of the graph's queue, with a progress bar on a terminal; what waits for a retry stays."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from workers.local import LocalWorker, nothing_due

    out = console(stderr=True)
    columns = (TextColumn("texts"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    total = waiting()
    with (
        Progress(
            *columns, console=out, disable=quiet or not out.is_terminal or not total, transient=True
        ) as bar,
        LocalWorker(container, concurrency=concurrency, queues=[Queue.GRAPH]) as worker,
    ):
        task = bar.add_task("texts", total=total)

        def idle() -> bool:
            # Counting reads every message.
            if not bar.disable:
                bar.update(task, completed=total - waiting())
            return nothing_due(container, [Queue.GRAPH])

        worker.run_until(idle)


def _print_extraction(found: Extraction, *, as_json: bool) -> None:
    if as_json:
        print_json(asdict(found) | {"dropped": dict(found.dropped)})
        return
    for entity in found.entities:
        say(f"{entity.name} ({entity.type})" + (f": {entity.summary}" if entity.summary else ""))
    for edge in found.edges:
        say(f"{edge.source} {edge.relation} {edge.target}  [{edge.confidence:.2f}] {edge.fact}")
    if found.dropped:
        left_out = ", ".join(f"{count} {reason}" for reason, count in found.dropped)
        say(f"left out: {left_out}", err=True)
    if not found.entities:
        say("nothing found", err=True)
