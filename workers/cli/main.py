"""The `zeph` program: its commands, its global options, and the one place that turns errors into exit codes.

The modules imported here are light: what costs time is imported inside the commands, so that `zeph --help` is fast.
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from services import errors
from workers.cli import (
    cache,
    chat,
    collections,
    config,
    context,
    corrections,
    database,
    doctor,
    documents,
    evaluate,
    graph,
    history,
    ingest,
    jobs,
    memory,
    recall,
    remember,
    search,
    sessions,
    status,
    summaries,
    worker,
)
from workers.cli.session import EXIT_UNAVAILABLE, EXIT_USAGE, visible

app = typer.Typer(
    name="zeph",
    help="Durable memory for AI agents: ingest documents, search them, look after the work in between.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command("ingest")(ingest.ingest)
app.command("remember")(remember.remember)
app.command("recall")(recall.recall)
app.command("context")(context.context)
app.command("history")(history.history)
app.command("search")(search.search)
app.command("status")(status.status)
app.command("doctor")(doctor.doctor)
app.command("worker")(worker.worker)
app.add_typer(jobs.app, name="jobs")
app.add_typer(memory.app, name="memory")
app.add_typer(sessions.app, name="sessions")
app.add_typer(chat.app, name="chat")
app.add_typer(summaries.app, name="summaries")
app.add_typer(summaries.facts_app, name="facts")
app.add_typer(cache.app, name="cache")
app.add_typer(corrections.app, name="corrections")
app.add_typer(graph.app, name="graph")
app.add_typer(documents.app, name="documents")
app.add_typer(collections.app, name="collections")
app.add_typer(database.app, name="db")
app.add_typer(evaluate.app, name="eval")
app.add_typer(config.app, name="config")


@app.callback(invoke_without_command=True)
def options(
    context: typer.Context,
    *,
    config_path: Annotated[Path | None, typer.Option("--config", help="Settings file.")] = None,
    data_dir: Annotated[
        str | None, typer.Option("--data-dir", metavar="PATH", help="Folder of everything stored.")
    ] = None,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Log what happens to standard error.")
    ] = False,
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    """Durable memory for AI agents."""
    if version:
        from importlib.metadata import version as installed

        typer.echo(f"zeph {installed('zeph-memory')}")
        raise typer.Exit
    if data_dir == "":
        raise errors.InputError(
            "--data-dir is empty: name a folder, or leave it out for that of the settings"
        )
    overrides = {"data_dir": str(Path(data_dir).expanduser().absolute())} if data_dir else {}
    context.obj = {"config": config_path, "overrides": overrides, "verbose": verbose}


def main() -> None:
    """Run the program. Errors become one line on standard error and an exit code, never a traceback.

    Typer itself ends Ctrl-C with 130, and quietly when the reader of a pipe has gone.
    """
    for stream in (sys.stdout, sys.stderr):
        # File names may hold what no encoding can express.
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    try:
        app()
    except OSError as error:
        # A file of ours is an error of its own long before: this is the input or the output that was given.
        what = f"{error.filename} cannot be used" if error.filename else "input or output failed"
        _fail(f"error: {what}: {error.strerror or error}", EXIT_UNAVAILABLE)
    except errors.TransientError as error:
        _fail(f"error: {error} (try again later)", EXIT_UNAVAILABLE)
    except errors.MemoryError as error:
        _fail(f"error: {error}", EXIT_USAGE)


def program() -> None:
    """`main` as a process: ends at once when the work is done, because taking the model apart costs 150 ms."""
    # Systemd, containers and `timeout` interrupt a command in this way.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    _open_streams()
    try:
        main()
        code: int | str | None = 0
    except SystemExit as ending:
        code = ending.code
    for stream in (sys.stdout, sys.stderr):
        # What could not be written has been said.
        with suppress(OSError):
            stream.flush()
    os._exit(code if isinstance(code, int) else int(code is not None))


def _open_streams() -> None:
    """Give a process that was started without them standard streams, or the first files it opens would be these."""
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if getattr(sys, name) is None:
            # The lowest free number is taken, and those below are open by now.
            os.open(os.devnull, os.O_RDWR)
            setattr(sys, name, os.fdopen(number, mode, encoding="utf-8"))


def _fail(message: str, code: int) -> None:
    with suppress(OSError):
        sys.stderr.write(visible(message) + "\n")
        sys.stderr.flush()
    raise SystemExit(code) from None
