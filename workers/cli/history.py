"""`zeph history`: a conversation as it was."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from services.times import utc
from workers.cli.session import (
    AsJson,
    Conversation,
    Namespace,
    conversation_name,
    open_container,
    print_json,
    say,
)

if TYPE_CHECKING:
    from services.memory.models import Message


def history(
    context: typer.Context,
    *,
    conversation: Conversation = None,
    limit: Annotated[
        int | None, typer.Option("--limit", "-k", min=1, max=100_000, help="The newest so many.")
    ] = None,
    namespace: Namespace = None,
    as_json: AsJson = False,
) -> None:
    """Print the newest messages of a conversation, oldest first, those included that are hidden from the agent."""
    with open_container(context) as container:
        found = container.memory.history(conversation_name(conversation), limit=limit, namespace=namespace)
    if as_json:
        print_json([asdict(message) for message in found])
        return
    for message in found:
        say(_line(message))


def _line(message: Message) -> str:
    when = f"{utc(message.created_at):%Y-%m-%d %H:%M:%S}"
    who = f"{message.role} ({message.speaker})" if message.speaker else message.role
    tools = "".join(f" [{part.get('kind', 'part')}]" for part in message.parts)
    hidden = "" if message.agent_visible else " (hidden from the agent)"
    return f"{when} {message.id} {who}{hidden}: {message.content}{tools}"
