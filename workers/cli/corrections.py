"""`zeph corrections`: what users put right."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from workers.cli.session import (
    AsJson,
    Namespace,
    conversation_name,
    iso_time,
    open_container,
    print_json,
    say,
    say_excerpt,
)

if TYPE_CHECKING:
    from services.corrections.models import UserCorrection
    from services.ids import MessageId

app = typer.Typer(no_args_is_help=True, help="See what users put right, add to it, take it back, forget it.")

Id = Annotated[
    int, typer.Argument(min=1, max=2**63 - 1, help="As `zeph corrections list` prints it.", metavar="ID")
]
Limit = Annotated[int, typer.Option("--limit", "-k", min=1, max=1_000, help="Corrections at most.")]
Session = Annotated[str | None, typer.Option(help="The ACP session that it belongs to.")]
Skill = Annotated[str | None, typer.Option(help="The skill that it is about.")]


@app.command("list")
def list_corrections(
    context: typer.Context,
    *,
    session: Session = None,
    skill: Skill = None,
    conversation: Annotated[
        str | None, typer.Option(help="Only of this one: its key, or its id as id:7.")
    ] = None,
    kind: Annotated[str | None, typer.Option(help="Only of this kind, such as explicit_rejection.")] = None,
    standing: Annotated[bool, typer.Option("--standing", help="Only what holds from now on.")] = False,
    everything: Annotated[bool, typer.Option("--all", help="Those taken back as well.")] = False,
    limit: Limit = 50,
    namespace: Namespace = None,
    as_json: AsJson = False,
) -> None:
    """Corrections, newest first."""
    with open_container(context) as container:
        found = container.corrections.select(
            namespace=namespace,
            session=session,
            skill=skill,
            conversation=conversation_name(conversation),
            kind=kind,
            standing=standing or None,
            in_force=not everything,
            limit=limit,
        )
    if as_json:
        print_json([asdict(correction) for correction in found])
        return
    for correction in found:
        _print_line(correction)
    if not found:
        say("no corrections", err=True)


@app.command()
def show(
    context: typer.Context, correction: Id, *, namespace: Namespace = None, as_json: AsJson = False
) -> None:
    """One correction with what it answers: what was asked, what was said, by which message it was put right, when."""
    with open_container(context) as container:
        found = container.corrections.get(correction, namespace=namespace)
    if as_json:
        print_json(asdict(found))
        return
    _print_line(found)
    for title, text, message in (
        ("asked", found.request, found.request_message_id),
        ("put right", found.original_output, found.target_message_id),
        ("correction", found.correction_text, found.message_id),
    ):
        if text:
            say(f"{title}{'' if message is None else f', message {message}'}:", bold=True)
            say_excerpt(text)
    if found.skill_name or found.session_id:
        say(f"skill {found.skill_name or '-'}, session {found.session_id or '-'}")
    if found.lowers:
        effect = "ranks lower" if found.retired_at is None else "ranks as before"
        say(f"message {found.target_message_id} {effect} in recall")


@app.command()
def recall(
    context: typer.Context,
    query: Annotated[str, typer.Argument(help="A question, some words: any text.")],
    *,
    limit: Annotated[
        int | None, typer.Option("--limit", "-k", min=1, max=1_000, help="Corrections at most.")
    ] = None,
    namespace: Namespace = None,
    as_json: AsJson = False,
) -> None:
    """Corrections that matter for a query, best first, and what holds whatever is asked."""
    with open_container(context) as container:
        answer = container.corrections.recall(query, namespace=namespace, limit=limit)
    if as_json:
        hits = [{"score": hit.score, **asdict(hit.correction)} for hit in answer.hits]
        standing = [asdict(correction) for correction in answer.standing]
        print_json({"query": query, "degraded": answer.degraded, "hits": hits, "standing": standing})
        return
    if answer.degraded:
        say(f"degraded: found by words alone: {answer.degraded}", err=True)
    for hit in answer.hits:
        _print_line(hit.correction, score=hit.score)
    for correction in answer.standing:
        _print_line(correction)
    if not (answer.hits or answer.standing):
        say("nothing found", err=True)


@app.command()
def add(
    context: typer.Context,
    text: Annotated[str, typer.Argument(help="What is to be done otherwise.")],
    *,
    request: Annotated[str, typer.Option("--about", help="The question or task that it is about.")] = "",
    message: Annotated[
        int | None,
        typer.Option(min=1, max=2**63 - 1, help="The message that is wrong: recall ranks it lower."),
    ] = None,
    kind: Annotated[
        str, typer.Option(help="explicit_rejection, factual, alternative_request, ...")
    ] = "explicit_rejection",
    standing: Annotated[
        bool | None,
        typer.Option(
            "--standing/--once", help="Whether it holds whatever is asked. Default: as its words say."
        ),
    ] = None,
    session: Session = None,
    skill: Skill = None,
    namespace: Namespace = None,
    as_json: AsJson = False,
) -> None:
    """Store a correction."""
    target: MessageId | None = message  # type: ignore[assignment]
    with open_container(context) as container:
        added = container.corrections.add(
            text,
            kind=kind,
            request=request,
            target=target,
            session=session,
            skill=skill,
            standing=standing,
            namespace=namespace,
        )
        if not container.settings.jobs.broker_url.get_secret_value():
            from workers.local import run_pending

            run_pending(container, ["embedding"])
    _say(added, f"correction {added.id} is stored", as_json=as_json)


@app.command()
def undo(
    context: typer.Context, correction: Id, *, namespace: Namespace = None, as_json: AsJson = False
) -> None:
    """Take a correction back: it is recalled no more and lowers nothing, until `redo`."""
    with open_container(context) as container:
        container.corrections.undo(correction, namespace=namespace)
        found = container.corrections.get(correction, namespace=namespace)
    _say(found, f"correction {correction} is taken back", as_json=as_json)


@app.command()
def redo(
    context: typer.Context, correction: Id, *, namespace: Namespace = None, as_json: AsJson = False
) -> None:
    """Put a correction into force again."""
    with open_container(context) as container:
        container.corrections.redo(correction, namespace=namespace)
        found = container.corrections.get(correction, namespace=namespace)
    _say(found, f"correction {correction} is in force", as_json=as_json)


@app.command()
def forget(
    context: typer.Context, correction: Id, *, namespace: Namespace = None, as_json: AsJson = False
) -> None:
    """Erase a correction for good, with its vectors."""
    with open_container(context) as container:
        container.corrections.forget(correction, namespace=namespace)
        if not container.settings.jobs.broker_url.get_secret_value():
            from workers.local import run_pending

            run_pending(container, ["maintenance"])
    if as_json:
        print_json({"forgotten": correction})
    else:
        say(f"correction {correction} is forgotten")


def _print_line(correction: UserCorrection, *, score: float | None = None) -> None:
    back = (", standing" if correction.standing else "") + (
        "" if correction.retired_at is None else ", taken back"
    )
    rank = "" if score is None else f" [{score:.3f}]"
    say(f"{correction.id} {iso_time(correction.created_at)} {correction.kind}{back}{rank}", bold=True)
    say_excerpt(correction.correction_text)


def _say(correction: UserCorrection, text: str, *, as_json: bool) -> None:
    if as_json:
        found: dict[str, Any] = asdict(correction)
        print_json(found)
    else:
        say(text)
