"""`zeph sessions`: stored ACP sessions."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from services import errors
from workers.cli.session import (
    AsJson,
    Namespace,
    iso_time,
    open_container,
    print_json,
    say,
    say_facts,
    table,
    the_conversation,
)
from workers.cli.snapshot import Force, NewFile, import_file, print_export

app = typer.Typer(no_args_is_help=True, help="Stored agent sessions: list, replay, move and remove them.")
app.command("import")(import_file)

SessionId = Annotated[str, typer.Argument(help="The session's id.")]
Title = Annotated[str | None, typer.Option(help="A name for people.")]


@app.command("list")
def list_sessions(
    context: typer.Context,
    *,
    limit: Annotated[
        int | None,
        typer.Option(
            "--limit", "-k", min=0, max=1_000_000, help="0 = all; default: memory.sessions.max_history."
        ),
    ] = None,
    namespace: Namespace = None,
    as_json: AsJson = False,
) -> None:
    """Sessions, the newest first."""
    with open_container(context) as container:
        most = container.settings.memory.sessions.max_history if limit is None else limit
        found = container.sessions(namespace).list_acp_sessions(most)
    if as_json:
        print_json([asdict(info) for info in found])
        return
    rows = [
        (info.id, info.title or "-", info.events, iso_time(info.created_at), iso_time(info.updated_at))
        for info in found
    ]
    table("session", "title", "events", "created", "updated", rows=rows)


@app.command()
def show(
    context: typer.Context, session_id: SessionId, *, namespace: Namespace = None, as_json: AsJson = False
) -> None:
    """A session with its events in order."""
    with open_container(context) as container:
        store = container.sessions(namespace)
        info, events = store.acp_session(session_id), store.load_acp_events(session_id)
    facts = asdict(info)
    if as_json:
        print_json(facts | {"events": [asdict(event) for event in events]})
        return
    say_facts(facts)
    for event in events:
        say(f"\n[{iso_time(event.created_at)}] {event.event_type}\n{event.payload}")


@app.command()
def create(
    context: typer.Context,
    session_id: SessionId,
    *,
    title: Title = None,
    conversation: Annotated[
        str | None, typer.Option(help="The conversation that it records: its key, or its id as id:7.")
    ] = None,
    namespace: Namespace = None,
) -> None:
    """Create a session; one that exists is left as it is."""
    with open_container(context) as container:
        mine = namespace or container.settings.namespace
        known = None if conversation is None else the_conversation(container, mine, conversation)
        created = container.sessions(namespace).create_acp_session(
            session_id,
            title=title,
            conversation_id=known,
        )
    say(f"session {session_id} {'is created' if created else 'exists already'}")


@app.command()
def export(
    context: typer.Context,
    session_id: SessionId,
    file: NewFile,
    *,
    force: Force = False,
    namespace: Namespace = None,
    as_json: AsJson = False,
) -> None:
    """Write one session with its events into a snapshot, which `zeph sessions import` reads elsewhere."""
    with open_container(context) as container:
        print_export(container, file, namespace, force=force, as_json=as_json, session_id=session_id)


@app.command()
def title(
    context: typer.Context,
    session_id: SessionId,
    text: Annotated[str, typer.Argument(help="The title; empty takes it away.")],
    *,
    namespace: Namespace = None,
) -> None:
    """Name a session."""
    with open_container(context) as container:
        container.sessions(namespace).set_acp_title(session_id, text or None)
    say(f"session {session_id} is named {text}" if text else f"session {session_id} has no title")


@app.command()
def delete(context: typer.Context, session_id: SessionId, *, namespace: Namespace = None) -> None:
    """Remove a session with all its events. Its conversation stays."""
    with open_container(context) as container:
        if not container.sessions(namespace).delete_acp_session(session_id):
            raise errors.NotFound(f"there is no session {session_id}: `zeph sessions list` shows them")
    say(f"session {session_id} is deleted")
