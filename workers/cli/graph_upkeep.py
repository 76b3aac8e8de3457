"""`zeph graph merge`, `split`, `alias`, `forget`, `refresh` and `evict`: putting the graph right, keeping it small."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from services import errors
from workers.cli.session import AsJson, Namespace, open_container, print_json, say

if TYPE_CHECKING:
    from services.graph.models import Entity

_LONGEST_ID = 18

Ids = Annotated[
    list[int] | None,
    typer.Option("--fact", min=1, max=2**63 - 1, help="A fact that goes with it; repeatable."),
]
Which = Annotated[str, typer.Argument(help="The name of an entity, or its id as id:7.")]


def merge(
    context: typer.Context,
    winner: Annotated[str, typer.Argument(help="The entity that stays: its name, or its id as id:7.")],
    loser: Annotated[str, typer.Argument(help="The entity that becomes the same.")],
    *,
    namespace: Namespace = None,
    as_json: AsJson = False,
) -> None:
    """Two names, one thing: names and facts of the second become those of the first."""
    with open_container(context) as container:
        mine = namespace or container.settings.namespace
        kept = container.graph.merge(mine, entity_name(winner), entity_name(loser))
        names = container.graph.aliases(mine, kept.id)
    _print_entity(kept, f"{kept.name}, also: {', '.join(names)}", as_json=as_json)


def split(
    context: typer.Context,
    entity: Which,
    names: Annotated[list[str], typer.Argument(help="The names of the new entity.")],
    *,
    fact: Ids = None,
    namespace: Namespace = None,
    as_json: AsJson = False,
) -> None:
    """One name, two things: give names, and with --fact facts, of an entity to a new one."""
    with open_container(context) as container:
        mine = namespace or container.settings.namespace
        new = container.graph.split(mine, entity_name(entity), names, fact or [])
    _print_entity(new, f"{new.name} is an entity of its own now, id:{new.id}", as_json=as_json)


def alias(
    context: typer.Context,
    entity: Which,
    name: Annotated[str, typer.Argument(help="Another name of it.")],
    *,
    remove: Annotated[bool, typer.Option("--remove", help="It is not called so.")] = False,
    namespace: Namespace = None,
    as_json: AsJson = False,
) -> None:
    """Let an entity be known by another name, or not any more."""
    with open_container(context) as container:
        mine = namespace or container.settings.namespace
        change = container.graph.remove_alias if remove else container.graph.add_alias
        change(mine, entity_name(entity), name)
        names = container.graph.aliases(mine, entity_name(entity))
    if as_json:
        print_json(names)
        return
    say(f"{entity}, also: {', '.join(names)}" if names else f"{entity} has no other name")


def forget(
    context: typer.Context,
    fact: Annotated[
        int,
        typer.Argument(min=1, max=2**63 - 1, help="The number of a fact, as `zeph graph facts` prints it."),
    ],
    *,
    erase: Annotated[bool, typer.Option("--erase", help="From history as well.")] = False,
    namespace: Namespace = None,
) -> None:
    """Take a fact back. It stays in history unless erased."""
    with open_container(context) as container:
        container.graph.forget_edge(namespace or container.settings.namespace, fact, erase=erase)
    say(f"fact {fact} is {'erased' if erase else 'taken back'}")


def refresh(context: typer.Context, *, namespace: Namespace = None, as_json: AsJson = False) -> None:
    """Detect and describe communities now. Workers do it each day and after many extractions."""
    with open_container(context) as container:
        done = container.communities.refresh(namespace or container.settings.namespace)
    if as_json:
        print_json(asdict(done))
        return
    say(
        f"{done.communities} communities: {done.changed} changed, {done.removed} gone, {done.described} described"
        + (f", {done.failed} to be described another time" if done.failed else "")
    )


def evict(
    context: typer.Context,
    *,
    days: Annotated[
        int | None, typer.Option("--retention-days", min=0, help="Keep what was retired within so many days.")
    ] = None,
    most: Annotated[int | None, typer.Option("--max-entities", min=0, help="Keep so many; 0 = all.")] = None,
    namespace: Namespace = None,
    as_json: AsJson = False,
) -> None:
    """Delete facts retired long ago, entities that stand alone, and those beyond the cap of the settings."""
    with open_container(context) as container:
        mine = namespace or container.settings.namespace
        report = container.graph_eviction.evict(mine, retention_days=days, max_entities=most)
    if as_json:
        print_json(asdict(report))
        return
    say(
        f"deleted {report.expired_edges} retired facts, {report.orphan_entities} entities without facts, "
        f"{report.capped_entities} beyond the cap"
    )


def entity_name(text: str) -> str | int:
    """A name as it is, or the number of id:7. Raises InputError."""
    prefix, _, number = text.partition(":")
    if prefix != "id":
        return text
    if not number.isdecimal() or len(number) > _LONGEST_ID:
        raise errors.InputError(f"entity is {text!r}: use a name, or an id such as id:7")
    return int(number)


def _print_entity(entity: Entity, text: str, *, as_json: bool) -> None:
    if as_json:
        print_json(asdict(entity))
    else:
        say(text)
