"""`zeph chat`: conversations from files."""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from services.jobs.models import Queue
from workers.cli.graph_extraction import read_texts
from workers.cli.session import (
    EXIT_FAILURES,
    AsJson,
    Namespace,
    console,
    conversation_name,
    open_container,
    print_json,
    say,
)

if TYPE_CHECKING:
    from services.bootstrap import Container

app = typer.Typer(no_args_is_help=True, help="Bring conversations in from files.")

_LISTED = 20


@app.command("import")
def import_file(
    context: typer.Context,
    file: Annotated[
        Path, typer.Argument(exists=True, dir_okay=False, help="JSON Lines, one message a line.")
    ],
    *,
    conversation: Annotated[
        str | None,
        typer.Option(
            help="Where lines that name none go: its key, or its id as id:7; default: the file's name."
        ),
    ] = None,
    namespace: Namespace = None,
    detach: Annotated[bool, typer.Option("--detach", help="Leave vectors and graph to workers.")] = False,
    as_json: AsJson = False,
) -> None:
    """Store the messages of a file; the same file again adds nothing.

    A line is an object with role and content, and perhaps conversation, speaker, created_at and parts. Lines that name
    no conversation go to the one given, or to one named like the file, to which another file of that name may not add.
    Exit code 1: some lines are bad; each is named, and the rest is stored.
    """
    from services.memory.transcript import check_origin, import_transcript

    with open_container(context) as container:
        started = time.monotonic()
        with file.open("rb") as lines:
            name = conversation_name(conversation)
            # A pipe can be read once only.
            if name is None and lines.seekable():
                check_origin(container.memory, lines, conversation=file.stem, namespace=namespace)
                lines.seek(0)
            report = import_transcript(
                container.memory, lines, conversation=name or file.stem, namespace=namespace
            )
        alone = not container.settings.jobs.broker_url.get_secret_value()
        if alone and not detach:
            make_vectors(container, quiet=as_json)
            if container.settings.memory.graph.enabled:
                mine = namespace or container.settings.namespace
                read_texts(container, lambda: container.graph_extraction.waiting(mine), quiet=as_json)
        waiting = container.message_vectors.waiting()
        seconds = time.monotonic() - started
    if as_json:
        print_json(asdict(report) | {"waiting": waiting, "seconds": round(seconds, 3)})
    else:
        for line in report.bad[:_LISTED]:
            say(f"line {line.number}: {line.reason}")
        if len(report.bad) > _LISTED:
            say(f"... and {len(report.bad) - _LISTED} more bad lines (--json lists all)")
        nuls = f", {report.nuls} NUL characters left out" if report.nuls else ""
        say(f"{report.added} added, {report.known} known, {len(report.bad)} bad{nuls} in {seconds:.1f} s")
        say_what_waits(waiting, alone=alone, detached=detach)
    if report.bad:
        raise typer.Exit(EXIT_FAILURES)


def make_vectors(container: Container, *, quiet: bool) -> None:
    """Embed what waits in all namespaces, here and now, with a progress bar on a terminal."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from workers.local import LocalWorker, nothing_left

    queues = [Queue.EMBEDDING]
    if nothing_left(container, queues):
        return
    out = console(stderr=True)
    columns = (TextColumn("vectors"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with (
        Progress(*columns, console=out, disable=quiet or not out.is_terminal, transient=True) as bar,
        LocalWorker(container, queues=queues) as worker,
    ):
        total = container.message_vectors.waiting()
        task = bar.add_task("vectors", total=total)

        def finished() -> bool:
            bar.update(task, completed=total - container.message_vectors.waiting())
            return nothing_left(container, queues)

        worker.run_until(finished)


def say_what_waits(waiting: int, *, alone: bool, detached: bool) -> None:
    """How many messages have no vectors yet, and who makes them; `alone` is without Celery workers."""
    if not waiting:
        return
    if not alone:
        way = "the Celery workers make them"
    else:
        way = "`zeph worker` makes them" if detached else "`zeph jobs list --state dead` says why"
    say(f"{waiting} messages have no vectors yet: {way}")
