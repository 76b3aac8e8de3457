"""`zeph ingest`: files and folders into memory."""

from __future__ import annotations

import time
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from workers.cli.session import (
    EXIT_FAILURES,
    EXIT_INTERRUPTED,
    AsJson,
    Collection,
    Namespace,
    console,
    open_container,
    print_json,
    say,
    visible,
)

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from services.bootstrap import Container
    from services.documents.report import BatchProgress, FileReport
    from services.documents.service import IngestRequest

_LISTED = 20
_POLL_SECONDS = 0.25
_STANDSTILL_SECONDS = 15.0
_REMINDER_SECONDS = 60.0
_NO_WORKER = (
    "waiting: no worker has taken batch {batch} yet. Is one running (`celery -A workers.app worker`), and does its "
    "broker answer? `zeph worker` does the work without one. Ctrl-C loses nothing, and `zeph jobs show {batch}` tells "
    "how far it is"
)


def ingest(
    context: typer.Context,
    paths: Annotated[
        list[Path], typer.Argument(help="Files and folders; folders are read with all below them.")
    ],
    *,
    chunk_size: Annotated[
        int | None, typer.Option(help="Largest chunk in tokens; default: the setting.")
    ] = None,
    chunk_overlap: Annotated[
        int | None, typer.Option(help="Tokens that neighbours share; default: the setting.")
    ] = None,
    collection: Collection = None,
    namespace: Namespace = None,
    prune: Annotated[
        bool, typer.Option("--prune", help="Also forget files that are gone from these folders.")
    ] = False,
    graph: Annotated[
        bool, typer.Option("--graph", help="Also read them for the graph: entities and facts.")
    ] = False,
    detach: Annotated[
        bool, typer.Option("--detach", help="Accept the work and return; workers do it.")
    ] = False,
    concurrency: Annotated[int, typer.Option(min=1, max=64, help="Jobs at once, without a broker.")] = 2,
    as_json: AsJson = False,
) -> None:
    """Read files and folders into memory: stored by words at once, by meaning as vectors are made.

    Safe to interrupt and to repeat: unchanged files are skipped, changed ones replace their old version.
    Exit code: 0 all read, 1 some files failed (each is named), 2 bad request, 3 temporarily impossible.
    """
    from services.documents.models import SplitterConfig
    from services.documents.service import IngestRequest

    with open_container(context) as container:
        defaults = container.settings.memory.documents
        request = IngestRequest(
            paths=tuple(str(path.expanduser()) for path in paths),
            collection=collection or defaults.collection,
            namespace=namespace or container.settings.namespace,
            splitter=SplitterConfig(
                defaults.chunk_size if chunk_size is None else chunk_size,
                defaults.chunk_overlap if chunk_overlap is None else chunk_overlap,
            ),
            prune=prune,
            graph=graph,
        )
        _refuse_mismatch(container, request)
        if detach:
            _detached(container, request, as_json=as_json)
            return
        started = time.monotonic()
        try:
            progress = _run(container, request, concurrency=concurrency, quiet=as_json)
        except KeyboardInterrupt:
            console(stderr=True).print("interrupted: nothing is lost; run the same command again to go on")
            raise typer.Exit(EXIT_INTERRUPTED) from None
        _report(container, progress, seconds=time.monotonic() - started, as_json=as_json)
        if progress.failures or progress.error:
            raise typer.Exit(EXIT_FAILURES)


def _refuse_mismatch(container: Container, request: IngestRequest) -> None:
    """Say at once that the collection holds another model's vectors, not once per file."""
    from services import errors

    try:
        container.spaces.for_writing(request.collection)
    except errors.TransientError:
        # The embedder is away: files are stored by words now and get their vectors later.
        return


def _detached(container: Container, request: IngestRequest, *, as_json: bool) -> None:
    batch_id = container.ingestion.submit(request).batch_id
    if as_json:
        print_json({"batch": batch_id, "state": "pending"})
        return
    say(f"accepted as batch {batch_id}: follow it with `zeph jobs show {batch_id}`")
    if not container.settings.jobs.broker_url.get_secret_value():
        say("no broker is configured: `zeph worker` does the work")


def _run(container: Container, request: IngestRequest, *, concurrency: int, quiet: bool) -> BatchProgress:
    """Submit, work (or wait for the workers), and return the final counts."""
    from workers.local import LocalWorker

    embedded = not container.settings.jobs.broker_url.get_secret_value()
    with LocalWorker(container, concurrency=concurrency) if embedded else nullcontext():
        submission = container.ingestion.submit(request)
        if submission.resumed:
            # What was begun is finished first; then files that changed since are looked for.
            console(stderr=True).print(f"resuming batch {submission.batch_id}")
            _wait(container, submission.batch_id, request.namespace, quiet=quiet)
            submission = container.ingestion.submit(request)
        return _wait(container, submission.batch_id, request.namespace, quiet=quiet)


def _wait(container: Container, batch_id: int, namespace: str, *, quiet: bool) -> BatchProgress:
    from services.documents.report import batch_progress, waits_for

    out = console(stderr=True)
    bar = _progress_bar(out, shown=out.is_terminal and not quiet)
    started, moved, told = time.monotonic(), -1, float("-inf")
    with bar:
        files = bar.add_task("files", total=None, rate="", failures="")
        chunks = bar.add_task("chunks", total=None, rate="", failures="")
        while True:
            now = batch_progress(container.database, batch_id, namespace)
            _draw(bar, files, chunks, now)
            if now.finished:
                return now
            if moved != (moved := now.files_done + now.vectors):
                started = time.monotonic()
            elif time.monotonic() > max(started + _STANDSTILL_SECONDS, told + _REMINDER_SECONDS):
                reason = waits_for(container.database, batch_id)
                if now.state == "pending":
                    waits = _NO_WORKER.format(batch=batch_id)
                else:
                    waits = f"waiting: {reason} (what is read is found by words; Ctrl-C loses nothing)"
                if now.state == "pending" or reason is not None:
                    out.print(visible(waits), markup=False)
                    told = time.monotonic()
            time.sleep(_POLL_SECONDS)


def _progress_bar(out: Any, *, shown: bool) -> Progress:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    return Progress(
        TextColumn("{task.description:>6}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
        TextColumn("[red]{task.fields[failures]}"),
        console=out,
        disable=not shown,
        transient=True,
    )


def _draw(bar: Progress, files: TaskID, chunks: TaskID, now: BatchProgress) -> None:
    failures = f"{now.failures} failed" if now.failures else ""
    bar.update(files, total=None if now.walking else now.files, completed=now.files_done, failures=failures)
    if now.chunks:
        bar.update(chunks, total=now.chunks, completed=max(0, now.chunks - now.chunks_without_vectors))
    for task in (files, chunks):
        speed = bar.tasks[task].speed
        bar.update(task, rate=f"{speed:.1f}/s" if speed else "")


def _report(container: Container, progress: BatchProgress, *, seconds: float, as_json: bool) -> None:
    from services.documents.report import batch_files

    files = list(batch_files(container.database, progress.batch_id))
    if as_json:
        counts = {
            name: getattr(progress, name) for name in ("outcomes", "chunks", "added", "vectors", "dead_jobs")
        }
        listed = [asdict(file) for file in sorted(files, key=lambda file: file.source)]
        state = {"batch": progress.batch_id, "state": progress.state, "seconds": round(seconds, 3)}
        print_json(state | counts | {"error": progress.error, "files": listed})
        return
    _print_problems(files)
    summary = ", ".join(f"{count} {name}" for name, count in sorted(progress.outcomes.items())) or "no files"
    rate = f", {progress.files_done / seconds:.1f} files/s" if seconds > 0 else ""
    say(
        f"{summary}; {progress.chunks} chunks ({progress.added} new), {progress.vectors} vectors in {seconds:.1f} s{rate}"
    )
    if progress.error:
        say(f"the batch did not finish: {progress.error}")
    if progress.dead_jobs:
        say(f"{progress.dead_jobs} jobs were given up: `zeph jobs list --state dead` says why")


def _print_problems(files: list[FileReport]) -> None:
    bad = sorted(
        (file for file in files if file.status in ("failed", "skipped")), key=lambda file: file.source
    )
    for status in ("failed", "skipped"):
        listed = [file for file in bad if file.status == status]
        for file in listed[:_LISTED]:
            say(f"{status}: {file.source}: {file.message or file.reason}")
        if len(listed) > _LISTED:
            say(f"{status}: ... and {len(listed) - _LISTED} more (--json lists all)")
