"""`zeph recall`: messages found again, by words, by meaning and by what the query names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from services.times import utc
from workers.cli.session import (
    AsJson,
    Namespace,
    Time,
    conversation_name,
    legs_json,
    microseconds,
    open_container,
    print_json,
    say,
    say_excerpt,
)

if TYPE_CHECKING:
    from services.memory.recall import RecallHit


def recall(
    context: typer.Context,
    query: Annotated[str, typer.Argument(help="A question, some words, an identifier: any text.")],
    *,
    limit: Annotated[
        int | None, typer.Option("--limit", "-k", min=1, max=1_000, help="Messages at most.")
    ] = None,
    conversation: Annotated[
        str | None, typer.Option(help="Only this one: its key, or its id as id:7; default: all.")
    ] = None,
    role: Annotated[list[str] | None, typer.Option(help="Only user, assistant or system.")] = None,
    since: Time = None,
    before: Time = None,
    as_of: Time = None,
    mode: Annotated[
        str | None, typer.Option(help="hybrid, keyword or vector; default: as the query suggests.")
    ] = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Show the route and what each leg said.")
    ] = False,
    namespace: Namespace = None,
    as_json: AsJson = False,
) -> None:
    """Print the messages that matter most for a query, best first, near-duplicates of better ones later.

    `--as-of` answers as memory would have then.
    """
    from services.memory.models import MessageFilter, as_role

    with open_container(context) as container:
        if mode != "keyword":
            container.preload_embedder()
        where = MessageFilter(
            roles=tuple(as_role(name) for name in role or ()),
            since=microseconds("since", since),
            before=microseconds("before", before),
        )
        answer = container.memory.recall(
            query,
            limit=limit,
            conversation=None if conversation is None else conversation_name(conversation),
            where=where,
            mode=mode,
            as_of=microseconds("as-of", as_of),
            namespace=namespace,
        )
    if as_json:
        print_json(
            {
                "query": query,
                "route": answer.routing.route,
                "degraded": list(answer.degraded),
                "reasons": list(answer.reasons),
                "hits": [_as_json(hit) for hit in answer.hits],
            }
        )
        return
    for leg, reason in zip(answer.degraded, answer.reasons, strict=True):
        say(f"degraded: no {leg} results: {reason}", err=True)
    if explain:
        say(f"route {answer.routing.route}, searched for: {answer.routing.query}", dim=True)
    if not answer.hits:
        say("nothing found", err=True)
    for rank, hit in enumerate(answer.hits, start=1):
        _print_hit(rank, hit, explain=explain)


def _print_hit(rank: int, hit: RecallHit, *, explain: bool) -> None:
    message = hit.message
    who = f"{message.role} ({message.speaker})" if message.speaker else message.role
    place = f"message {message.id}, conversation {message.conversation_id}"
    say(f"{rank}. {_when(message.created_at)} {who}, {place}  [{hit.score:.3f}]", bold=True)
    if explain:
        legs = (f"{name} {score:.4g} rank {at}" for name, (score, at) in sorted(hit.legs.items()))
        say(f"   {'; '.join(legs)}", dim=True)
    say_excerpt(message.content)


def _as_json(hit: RecallHit) -> dict[str, Any]:
    message = hit.message
    return {
        "score": hit.score,
        "message": message.id,
        "conversation": message.conversation_id,
        "role": message.role,
        "speaker": message.speaker,
        "created_at": message.created_at,
        "content": message.content,
        "legs": legs_json(hit.legs),
    }


def _when(microseconds: int) -> str:
    return f"{utc(microseconds):%Y-%m-%d %H:%M:%S}"
