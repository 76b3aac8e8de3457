"""`zeph summaries` and `zeph facts`: what conversations were about, and what they taught."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

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
    from services.memory.summary_search import SummaryAnswer
    from services.memory.summary_store import Summary

app = typer.Typer(no_args_is_help=True, help="Summarise conversations, list and search the summaries.")
facts_app = typer.Typer(no_args_is_help=True, help="Search the key facts that summaries found.")

Query = Annotated[str, typer.Argument(help="A question, some words: any text.")]
Limit = Annotated[int, typer.Option("--limit", "-k", min=1, max=1_000, help="Results at most.")]


@app.command()
def run(
    context: typer.Context,
    *,
    conversation: Conversation = None,
    messages: Annotated[
        int | None,
        typer.Option(min=1, max=100_000, help="In one summary; default: memory.summarization_threshold."),
    ] = None,
    detach: Annotated[bool, typer.Option("--detach", help="Leave the work to workers.")] = False,
    namespace: Namespace = None,
    as_json: AsJson = False,
) -> None:
    """Summarise what a conversation has beyond its last summary. Needs a language model and enough messages."""
    with open_container(context) as container:
        mine = namespace or container.settings.namespace
        name = conversation_name(conversation)
        job_id = container.summarizer.submit(name, namespace=mine, limit=messages)
        if detach or container.settings.jobs.broker_url.get_secret_value():
            _print_one(
                {"job_id": job_id}, f"job {job_id} is queued: `zeph jobs show {job_id}`", as_json=as_json
            )
            return
        from workers.local import run_pending, try_job

        before = {summary.id for summary in container.summaries.load_summaries(name, namespace=mine)}
        try_job(container, job_id)
        run_pending(container, ["graph", "embedding"])
        found = [it for it in container.summaries.load_summaries(name, namespace=mine) if it.id not in before]
    _print_summaries(found, as_json=as_json, nothing="nothing to summarise: too few messages")


@app.command("list")
def list_summaries(
    context: typer.Context,
    *,
    conversation: Conversation = None,
    namespace: Namespace = None,
    as_json: AsJson = False,
) -> None:
    """The summaries of a conversation, oldest first."""
    with open_container(context) as container:
        mine = namespace or container.settings.namespace
        found = container.summaries.load_summaries(conversation_name(conversation), namespace=mine)
    _print_summaries(found, as_json=as_json, nothing="this conversation has no summary yet")


@app.command("search")
def search_summaries(
    context: typer.Context,
    query: Query,
    *,
    limit: Limit = 5,
    namespace: Namespace = None,
    as_json: AsJson = False,
) -> None:
    """Conversations by what they were about; the setting memory.cross_session_score_threshold is the floor."""
    with open_container(context) as container:
        mine = namespace or container.settings.namespace
        answer = container.summaries.search_summaries(query, namespace=mine, limit=limit)
    lines = [_line(hit.item) for hit in answer.hits]
    _print_answer(query, answer, lines, as_json=as_json)


@facts_app.command("search")
def search_facts(
    context: typer.Context,
    query: Query,
    *,
    limit: Limit = 5,
    namespace: Namespace = None,
    as_json: AsJson = False,
) -> None:
    """Key facts of all conversations, best first."""
    with open_container(context) as container:
        mine = namespace or container.settings.namespace
        answer = container.summaries.search_key_facts(query, namespace=mine, limit=limit)
    lines = [f"{hit.item.fact} (conversation id:{hit.item.conversation_id})" for hit in answer.hits]
    _print_answer(query, answer, lines, as_json=as_json)


def _line(summary: Summary) -> str:
    where = f"conversation id:{summary.conversation_id}"
    if summary.first_message_id is not None:
        where += f", messages {summary.first_message_id}-{summary.last_message_id}"
    return f"{where}: {summary.content}"


def _print_summaries(found: list[Summary], *, as_json: bool, nothing: str) -> None:
    if as_json:
        print_json([asdict(summary) for summary in found])
        return
    for summary in found:
        say(_line(summary))
    if not found:
        say(nothing, err=True)


def _print_answer(query: str, answer: SummaryAnswer[Any], lines: list[str], *, as_json: bool) -> None:
    if as_json:
        hits = [{"score": hit.score, **asdict(hit.item)} for hit in answer.hits]
        print_json({"query": query, "degraded": answer.degraded, "hits": hits})
        return
    if answer.degraded:
        say(f"degraded: found by words alone: {answer.degraded}", err=True)
    for hit, line in zip(answer.hits, lines, strict=True):
        say(f"[{hit.score:.3f}] {line}")
    if not answer.hits:
        say("nothing found", err=True)


def _print_one(value: dict[str, Any], text: str, *, as_json: bool) -> None:
    if as_json:
        print_json(value)
    else:
        say(text)
