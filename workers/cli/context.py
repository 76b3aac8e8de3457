"""`zeph context`: what an agent would be given for a question."""

from __future__ import annotations

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
    the_conversation,
)

if TYPE_CHECKING:
    from services.context.models import BuiltContext


def context(
    context: typer.Context,
    query: Annotated[str, typer.Argument(help="The question, or the user's message.")],
    *,
    budget: Annotated[
        int | None,
        typer.Option(
            "--budget", "-b", min=0, max=100_000_000, help="Tokens; default: memory.context_budget_tokens."
        ),
    ] = None,
    conversation: Annotated[
        str | None,
        typer.Option(help="The one the agent is in, by key or as id:7: its summaries are left out."),
    ] = None,
    documents: Annotated[
        bool | None,
        typer.Option("--documents/--no-documents", help="Default: memory.documents.rag_enabled."),
    ] = None,
    namespace: Namespace = None,
    as_json: AsJson = False,
) -> None:
    """Print what is remembered that matters for a question, quoted for a prompt, within a token budget."""
    with open_container(context) as container:
        if conversation is not None:
            the_conversation(container, namespace or container.settings.namespace, conversation)
        container.preload_embedder()
        built = container.memory.build_context(
            query,
            budget,
            conversation=conversation_name(conversation),
            documents=documents,
            namespace=namespace,
        )
    if as_json:
        print_json(_as_json(built))
        return
    if built.text:
        say(built.text)
    else:
        say("nothing to quote", err=True)
    for part, reason in zip(built.degraded, built.reasons, strict=True):
        say(f"degraded: {part}: {reason}", err=True)
    limit = "" if built.budget is None else f" of {built.budget}"
    say(f"{built.tokens}{limit} tokens, {len(built.quotes)} quoted, {built.left_out} left out", err=True)


def _as_json(built: BuiltContext) -> dict[str, Any]:
    return {
        "text": built.text,
        "tokens": built.tokens,
        "budget": built.budget,
        "left_out": built.left_out,
        "degraded": dict(zip(built.degraded, built.reasons, strict=True)),
        "quotes": [
            {
                "part": quote.part,
                "id": str(quote.source),
                "text": quote.text,
                "origin": quote.origin,
                "at": None if quote.at is None else iso_time(quote.at),
                "score": quote.score,
                "cut": quote.cut,
                **quote.marks,
            }
            for quote in built.quotes
        ],
    }
