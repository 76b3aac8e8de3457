"""`zeph memory`: what is remembered, and taking it away."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from services import errors
from workers.cli import snapshot
from workers.cli.chat import make_vectors, say_what_waits
from workers.cli.session import (
    AsJson,
    Conversation,
    Namespace,
    conversation_name,
    open_container,
    print_json,
    say,
    say_facts,
    table,
)

app = typer.Typer(
    no_args_is_help=True, help="See what is remembered, forget it, move it, repair its vectors."
)
app.command("export")(snapshot.export)
app.command("import")(snapshot.import_file)
app.command("evict")(snapshot.evict)


@app.command()
def stats(context: typer.Context, *, namespace: Namespace = None, as_json: AsJson = False) -> None:
    """Conversations, messages, and how many of them have vectors."""
    with open_container(context) as container:
        facts = asdict(container.memory.stats(namespace=namespace))
    if as_json:
        print_json(facts)
        return
    say_facts(facts)


@app.command()
def conversations(
    context: typer.Context,
    *,
    after: Annotated[int, typer.Option(min=0, max=2**63 - 1, help="Continue behind this id.")] = 0,
    limit: Annotated[
        int, typer.Option("--limit", "-k", min=1, max=10_000, help="Conversations at most.")
    ] = 100,
    namespace: Namespace = None,
    as_json: AsJson = False,
) -> None:
    """Conversations by id, with their keys and sizes."""
    with open_container(context) as container:
        found = container.memory.conversations(after=after, limit=limit, namespace=namespace)
    if as_json:
        print_json([asdict(item) for item in found])
        return
    table("id", "key", "messages", rows=[(item.id, item.key or "-", item.messages) for item in found])


@app.command()
def forget(
    context: typer.Context,
    messages: Annotated[
        list[int] | None, typer.Argument(min=1, max=2**63 - 1, help="Ids as `zeph history` prints them.")
    ] = None,
    *,
    conversation: Conversation = None,
    everything: Annotated[
        bool, typer.Option("--everything", help="All of the namespace, documents included.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask before forgetting everything.")] = False,
    namespace: Namespace = None,
    as_json: AsJson = False,
) -> None:
    """Erase messages, a conversation or everything, with whatever retells it; prints what went.

    All of the messages, or none if one is not there.
    """
    from services.ids import MessageId

    if everything and not yes:
        typer.confirm("Erase everything of this namespace, documents included?", abort=True, err=True)
    with open_container(context) as container:
        wanted = [MessageId(each) for each in messages or ()]
        with container.database.read() as unit:
            known = unit.messages.stored(namespace or container.settings.namespace, wanted)
        if unknown := [each for each in wanted if each not in known]:
            raise errors.NotFound(
                f"there is no message {unknown[0]}: `zeph history` shows them. Nothing was forgotten"
            )
        gone = container.memory.forget(
            messages=wanted,
            conversation=conversation_name(conversation),
            everything=everything,
            namespace=namespace,
        )
        if not container.settings.jobs.broker_url.get_secret_value():
            from workers.local import run_pending

            run_pending(container, ["maintenance"])
    if as_json:
        print_json(asdict(gone))
        return
    counts = [f"{count} {name.replace('_', ' ')}" for name, count in asdict(gone).items() if count]
    say(f"forgotten: {', '.join(counts) or 'nothing was there'}")


@app.command()
def reembed(
    context: typer.Context,
    *,
    detach: Annotated[bool, typer.Option("--detach", help="Leave the work to workers.")] = False,
    as_json: AsJson = False,
) -> None:
    """Embed the messages of all namespaces that should have vectors and have none.

    `zeph collections reembed zeph_conversations` is what moves all of them to another model.
    """
    with open_container(context) as container:
        waiting, _ = container.message_vectors.embed_missing()
        alone = not container.settings.jobs.broker_url.get_secret_value()
        if alone and not detach:
            make_vectors(container, quiet=as_json)
        left = container.message_vectors.waiting()
    if as_json:
        print_json({"waiting": waiting, "embedded": waiting - left, "left": left})
        return
    say(f"{waiting} messages lacked vectors, {waiting - left} have them now")
    say_what_waits(left, alone=alone, detached=detach)
