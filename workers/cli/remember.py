"""`zeph remember`: one message into memory."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from services import errors
from workers.cli.session import (
    AsJson,
    Conversation,
    Namespace,
    conversation_name,
    open_container,
    print_json,
    say,
)


def remember(
    context: typer.Context,
    text: Annotated[str, typer.Argument(help="What was said; - reads it from standard input.")],
    *,
    role: Annotated[str, typer.Option(help="user, assistant or system.")] = "user",
    conversation: Conversation = None,
    speaker: Annotated[str | None, typer.Option(help="Name of who said it.")] = None,
    namespace: Namespace = None,
    as_json: AsJson = False,
) -> None:
    """Store a message and return at once: found by its words now, by its meaning when a worker has embedded it."""
    content = _standard_input() if text == "-" else text
    if not content.strip():
        raise errors.InputError("there is nothing to remember: the text is empty")
    with open_container(context) as container:
        message = container.memory.remember(
            role,
            content,
            conversation=conversation_name(conversation),
            speaker=speaker,
            namespace=namespace,
        )
        alone = not container.settings.jobs.broker_url.get_secret_value()
    if as_json:
        print_json({"message": message})
        return
    say(f"remembered as message {message}")
    if nuls := content.count("\x00"):
        say(f"without {nuls} NUL characters, which no text holds", err=True)
    if alone:
        say("no broker is configured: `zeph worker` makes the vectors")


def _standard_input() -> str:
    try:
        return sys.stdin.buffer.read().decode().rstrip("\n")
    except UnicodeDecodeError as error:
        raise errors.InputError(
            f"standard input is not UTF-8 at byte {error.start}: convert it first, for instance with iconv"
        ) from None
