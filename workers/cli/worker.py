"""`zeph worker`: the embedded worker."""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Annotated

import typer

from services.jobs.models import Queue
from workers.cli.session import open_container, say
from workers.priority import give_way_as_a_session


def worker(
    context: typer.Context,
    *,
    concurrency: Annotated[int, typer.Option(min=1, max=64, help="Jobs at once.")] = 2,
    queue: Annotated[list[Queue] | None, typer.Option(help="Only these queues; default: all.")] = None,
    until_idle: Annotated[
        bool, typer.Option("--until-idle", help="Stop when nothing is left to do.")
    ] = False,
) -> None:
    """Run queued and scheduled jobs in this process, without a broker. Stops cleanly on Ctrl-C and SIGTERM."""
    from workers.local import LocalWorker, nothing_left

    stop = threading.Event()

    def ask_to_stop(_number: int, _frame: FrameType | None) -> None:
        stop.set()

    signal.signal(signal.SIGTERM, ask_to_stop)
    signal.signal(signal.SIGINT, ask_to_stop)
    with open_container(context) as container:
        queues = queue or list(Queue)
        niceness = container.settings.jobs.niceness
        give_way_as_a_session(niceness)
        with LocalWorker(container, concurrency=concurrency, queues=queues, niceness=niceness) as local:
            say(f"working on {', '.join(queues)} with {concurrency} threads; Ctrl-C stops")
            local.run_until(
                lambda: stop.is_set() or (until_idle and nothing_left(container, queues)), poll_seconds=0.5
            )
