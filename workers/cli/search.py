"""`zeph search`: questions answered from the documents, with the place of every passage."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from workers.cli.session import (
    AsJson,
    Collection,
    Namespace,
    legs_json,
    open_container,
    print_json,
    say,
    say_excerpt,
)

if TYPE_CHECKING:
    from services.documents.search import PassageHit


def search(
    context: typer.Context,
    query: Annotated[str, typer.Argument(help="A question, some words, an identifier: any text.")],
    *,
    limit: Annotated[
        int | None, typer.Option("--limit", "-k", min=1, max=1_000, help="Passages at most.")
    ] = None,
    collection: Collection = None,
    namespace: Namespace = None,
    mode: Annotated[str, typer.Option(help="hybrid, keyword or vector.")] = "hybrid",
    explain: Annotated[bool, typer.Option("--explain", help="Show what each retriever said.")] = False,
    as_json: AsJson = False,
) -> None:
    """Print the passages that answer best, each with file, heading, page and character offsets."""
    with open_container(context) as container:
        if mode != "keyword":
            container.preload_embedder()
        documents = container.settings.memory.documents
        answer = container.documents.search(
            query,
            collection=collection or documents.collection,
            namespace=namespace or container.settings.namespace,
            limit=limit or documents.top_k,
            mode=mode,
        )
    if as_json:
        hits = [_as_json(hit) for hit in answer.hits]
        print_json(
            {"query": query, "degraded": list(answer.degraded), "reasons": list(answer.reasons), "hits": hits}
        )
        return
    for leg, reason in zip(answer.degraded, answer.reasons, strict=True):
        say(f"degraded: no {leg} results: {reason}", err=True)
    if not answer.hits:
        say("nothing found: `zeph documents list` shows what this namespace and collection hold", err=True)
    for rank, hit in enumerate(answer.hits, start=1):
        _print_hit(rank, hit, explain=explain)


def _print_hit(rank: int, hit: PassageHit, *, explain: bool) -> None:
    passage = hit.passage
    place = [passage.source]
    place += [f"page {passage.page}"] if passage.page else []
    place += [f"characters {passage.start}-{passage.end}"]
    say(f"{rank}. {', '.join(place)}  [{hit.score:.3f}]", bold=True)
    if passage.heading:
        say(f"   {' > '.join(passage.heading)}", fg="cyan")
    if explain:
        legs = (f"{name} {score:.4f} rank {at}" for name, (score, at) in sorted(hit.legs.items()))
        say(f"   {'; '.join(legs)}", dim=True)
    say_excerpt(passage.text)


def _as_json(hit: PassageHit) -> dict[str, Any]:
    passage = hit.passage
    return {
        "score": hit.score,
        "source": passage.source,
        "title": passage.title,
        "heading": list(passage.heading),
        "page": passage.page,
        "start": passage.start,
        "end": passage.end,
        "text": passage.text,
        "legs": legs_json(hit.legs),
    }
