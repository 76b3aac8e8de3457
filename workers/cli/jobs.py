"""`zeph jobs`: look at the ledger and steer it."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from services import errors
from services.jobs.models import INGEST_BATCH, JobState
from workers.cli.session import (
    AsJson,
    OnlyNamespace,
    iso_time,
    open_container,
    print_json,
    say,
    say_facts,
    table,
)

if TYPE_CHECKING:
    from services.jobs.models import Job
    from services.jobs.store import JobUnit

app = typer.Typer(no_args_is_help=True, help="See and steer queued, running and dead jobs.")

_LARGEST_ID = 2**63 - 1
JobId = Annotated[int, typer.Argument(min=1, max=_LARGEST_ID, help="The job's number.")]
_DAY_MICROSECONDS = 86_400_000_000


@app.command("list")
def list_jobs(
    context: typer.Context,
    *,
    state: Annotated[JobState | None, typer.Option(help="Only jobs in this state.")] = None,
    kind: Annotated[str | None, typer.Option(help="Only jobs of this kind.")] = None,
    parent: Annotated[
        int | None, typer.Option(min=1, max=_LARGEST_ID, help="Only jobs of this batch.")
    ] = None,
    namespace: OnlyNamespace = None,
    limit: Annotated[int, typer.Option("--limit", "-k", min=1, max=10_000, help="Jobs at most.")] = 50,
    as_json: AsJson = False,
) -> None:
    """The newest jobs."""
    with open_container(context) as container, container.database.read() as unit:
        states = (state,) if state else ()
        found = unit.jobs.select(namespace=namespace, states=states, kind=kind, parent_id=parent, limit=limit)
    if as_json:
        print_json([_as_json(job) for job in found])
        return
    rows = [
        (
            job.id,
            job.kind,
            job.state,
            job.namespace,
            job.attempts,
            iso_time(job.created_at),
            job.error_message or "",
        )
        for job in found
    ]
    table("job", "kind", "state", "namespace", "attempts", "created", "reason", rows=rows)


@app.command()
def show(context: typer.Context, job_id: JobId, *, as_json: AsJson = False) -> None:
    """Everything about one job; for a batch, how far it is."""
    from services.documents.report import batch_progress

    with open_container(context) as container:
        with container.database.read() as unit:
            job = _required(unit, job_id)
        facts = _as_json(job)
        if job.kind == INGEST_BATCH.name:
            facts["progress"] = asdict(batch_progress(container.database, job_id, job.namespace))
    if as_json:
        print_json(facts)
        return
    say_facts(facts)


@app.command()
def retry(
    context: typer.Context,
    job_id: Annotated[
        int | None, typer.Argument(min=1, max=_LARGEST_ID, help="The dead job's number.")
    ] = None,
    *,
    all_dead: Annotated[bool, typer.Option("--all", help="Every dead job.")] = False,
    kind: Annotated[str | None, typer.Option(help="With --all: only of this kind.")] = None,
) -> None:
    """Give dead jobs another chance, with a clean slate."""
    if (job_id is None) is not all_dead:
        raise errors.InputError("name one job, or say --all")
    with open_container(context) as container, container.database.write() as unit:
        dead = unit.jobs.select(states=(JobState.DEAD,), kind=kind, limit=10_000) if all_dead else []
        # Batches before their children, whose retry would make a dead batch wait instead of run.
        ids = sorted(job.id for job in dead) if job_id is None else [job_id]
        done = sum(unit.jobs.retry(found, now=container.clock.now()) for found in ids)
        if job_id is not None and not done:
            found_job = _required(unit, job_id)
            is_dead = found_job.state is JobState.DEAD
            reason = "the same work is queued anew" if is_dead else f"it is {found_job.state}, not dead"
            raise errors.InputError(f"job {job_id} cannot be retried: {reason}")
    say(f"{done} jobs wait again")


@app.command()
def cancel(context: typer.Context, job_id: JobId) -> None:
    """Stop a job and its children: at once if they wait, at their next item if they run."""
    with open_container(context) as container, container.database.write() as unit:
        if not unit.jobs.cancel(job_id, now=container.clock.now()):
            raise errors.InputError(
                f"job {job_id} cannot be cancelled: it is {_required(unit, job_id).state} already"
            )
    say(f"job {job_id} is cancelled")


@app.command()
def purge(
    context: typer.Context,
    *,
    state: Annotated[JobState, typer.Option(help="done or dead.")] = JobState.DONE,
    older_than_days: Annotated[
        float, typer.Option(min=0, max=36_500, help="Finished at least so many days ago.")
    ] = 30.0,
) -> None:
    """Delete finished jobs of all namespaces from the ledger. What they stored stays."""
    if state not in (JobState.DONE, JobState.DEAD):
        raise errors.InputError(f"jobs that are {state} cannot be purged: cancel them first")
    with open_container(context) as container, container.database.write() as unit:
        before = container.clock.now() - int(older_than_days * _DAY_MICROSECONDS)
        count = unit.jobs.purge(finished_before=before, states=(state,))
    say(f"{count} jobs purged")


def _required(unit: JobUnit, job_id: int) -> Job:
    found = unit.jobs.get(job_id)
    if found is None:
        raise errors.NotFound(f"there is no job {job_id}: `zeph jobs list` shows them")
    return found


def _as_json(job: Job) -> dict[str, Any]:
    facts = asdict(job)
    facts.pop("lease_token")
    return facts
