"""`zeph graph`: what is known of people and things, and how it hangs together. See `graph_upkeep` for changing it."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from services import errors
from workers.cli import graph_extraction, graph_upkeep
from workers.cli.graph_facts import Provenance, fact_json, print_fact, shown_relation
from workers.cli.session import (
    AsJson,
    Namespace,
    iso_time,
    microseconds,
    open_container,
    print_json,
    say,
    table,
)
from workers.cli.snapshot import Force

if TYPE_CHECKING:
    from services.bootstrap import Container
    from services.graph.models import AsOf, Entity, GraphFact

app = typer.Typer(no_args_is_help=True, help="Entities and facts: find them, look at them, look after them.")
app.command("extract")(graph_extraction.extract)
app.command("backfill")(graph_extraction.backfill)
app.command("merge")(graph_upkeep.merge)
app.command("split")(graph_upkeep.split)
app.command("alias")(graph_upkeep.alias)
app.command("forget")(graph_upkeep.forget)
app.command("refresh")(graph_upkeep.refresh)
app.command("evict")(graph_upkeep.evict)

Name = Annotated[str, typer.Argument(help="The name or another name of an entity, or its id as id:7.")]
Limit = Annotated[int, typer.Option("--limit", "-k", min=1, max=1_000, help="At most so many.")]
AsOfTime = Annotated[
    str | None,
    typer.Option(
        "--as-of", help="What was true then, such as 2031-05-08; a date is its first moment, in UTC."
    ),
]
KnownAt = Annotated[
    str | None, typer.Option("--known-at", help="What had been heard of by then, such as 2031-05-08T10:30.")
]
_NOTHING_STATED = "seen together in a text, not stated"


@app.command()
def stats(context: typer.Context, *, namespace: Namespace = None, as_json: AsJson = False) -> None:
    """How large the graph is, how its communities stand, and what extraction counted."""
    with open_container(context) as container:
        mine = namespace or container.settings.namespace
        counts = container.graph.stats(mine)
        found = container.communities.stats(namespace=mine)
        unread = container.graph_extraction.waiting(mine)
    if as_json:
        print_json({**counts, "unread": unread, "communities": asdict(found)})
        return
    when = "never" if found.refreshed_at is None else iso_time(found.refreshed_at)
    rows: list[tuple[Any, ...]] = [
        ("entities", counts.pop("entities")),
        ("facts", counts.pop("edges")),
        ("past facts", counts.pop("history")),
        ("names", counts.pop("aliases")),
        ("messages nobody has read for it", unread),
        ("communities", found.communities),
        ("  members", found.members),
        ("  entities with facts in none", found.unassigned),
        ("  to be described", found.undescribed),
        ("  detected", when),
        ("  facts that came or went since", f"{found.drift:.0%}"),
    ]
    rows += [(name.replace("_", " "), count) for name, count in sorted(counts.items())]
    table("what", "count", rows=rows)


@app.command()
def recall(
    context: typer.Context,
    query: Annotated[str, typer.Argument(help="A question that names people or things.")],
    *,
    limit: Annotated[
        int | None, typer.Option("--limit", "-k", min=1, max=1_000, help="Facts at most.")
    ] = None,
    hops: Annotated[int | None, typer.Option(min=1, max=10, help="Steps from what is named.")] = None,
    as_of: AsOfTime = None,
    known_at: KnownAt = None,
    namespace: Namespace = None,
    as_json: AsJson = False,
) -> None:
    """Facts around what a question names, best first."""
    with open_container(context) as container:
        mine = namespace or container.settings.namespace
        answer = container.graph_recall.recall(
            query, namespace=mine, limit=limit, max_hops=hops, as_of=_as_of(as_of, known_at)
        )
        if as_json:
            print_json(
                {
                    "query": query,
                    "named": [
                        {"entity": entity.name, "score": seed.score, "by": seed.tier}
                        for entity, seed in answer.seeds
                    ],
                    "facts": [asdict(fact) for fact in answer.facts],
                    "truncated": answer.truncated,
                    "reasons": list(answer.reasons),
                }
            )
            return
        for rank, fact in enumerate(answer.facts, start=1):
            _print_hit(rank, fact)
    for reason in answer.reasons:
        say(reason, err=True)
    if answer.truncated:
        say("there is more around these than was walked: ask for something narrower", err=True, dim=True)


@app.command()
def entities(
    context: typer.Context,
    *,
    kind: Annotated[
        str | None, typer.Option("--type", help="person, tool, concept, project, language, file, ...")
    ] = None,
    limit: Limit = 50,
    namespace: Namespace = None,
    as_json: AsJson = False,
) -> None:
    """The entities named last, those first."""
    from services.graph.models import EntityType

    if kind is not None and kind not in list(EntityType):
        raise errors.InputError(f"type is {kind!r}: use one of {', '.join(EntityType)}")
    with open_container(context) as container:
        mine = namespace or container.settings.namespace
        found = container.graph.entities(mine, kind=EntityType(kind) if kind else None, limit=limit)
    if as_json:
        print_json([asdict(one) for one in found])
        return
    rows = [(one.id, one.name, one.type, iso_time(one.last_seen_at), one.summary or "") for one in found]
    table("id", "name", "type", "named last", "summary", rows=rows)


@app.command()
def entity(
    context: typer.Context, name: Name, *, namespace: Namespace = None, as_json: AsJson = False
) -> None:
    """What an entity is, its other names and its community."""
    with open_container(context) as container:
        mine = namespace or container.settings.namespace
        one = the_entity(container, mine, name)
        names = container.graph.aliases(mine, one.id)
        group = container.communities.of_entity(mine, one.id)
    if as_json:
        print_json({**asdict(one), "aliases": names, "community": asdict(group) if group else None})
        return
    say(f"{one.name} ({one.type}), id:{one.id}", bold=True)
    if names:
        say(f"   also: {', '.join(names)}")
    if one.summary:
        say(f"   {one.summary}")
    say(f"   named first {iso_time(one.first_seen_at)}, last {iso_time(one.last_seen_at)}")
    if group:
        say(f"   in community {group.id}: {group.summary}")


@app.command()
def facts(
    context: typer.Context,
    name: Name,
    *,
    as_of: AsOfTime = None,
    known_at: KnownAt = None,
    history: Annotated[
        bool, typer.Option("--history", help="Past facts too, with what became of them.")
    ] = False,
    limit: Limit = 100,
    namespace: Namespace = None,
    as_json: AsJson = False,
) -> None:
    """The facts that an entity is part of, newest first, each with where it comes from."""
    if history and (as_of or known_at):
        raise errors.InputError("--history shows all times: leave out --as-of and --known-at")
    with open_container(context) as container:
        mine = namespace or container.settings.namespace
        one = the_entity(container, mine, name)
        found = (
            container.graph.history(mine, one.name if name.startswith("id:") else name, limit=limit)
            if history
            else container.graph.facts(mine, one.id, _as_of(as_of, known_at), limit=limit)
        )
        told = Provenance(container, mine, found)
    if as_json:
        print_json({"entity": asdict(one), "facts": [fact_json(record, told) for record in found]})
        return
    say(f"{one.name} ({one.type})", bold=True)
    for record in found:
        print_fact(record, told)
    if not found:
        say("nothing is known of it" + (" as of then" if as_of or known_at else ""), err=True)


@app.command()
def path(
    context: typer.Context,
    start: Annotated[str, typer.Argument(help="An entity.")],
    goal: Annotated[str, typer.Argument(help="Another one.")],
    *,
    as_of: AsOfTime = None,
    known_at: KnownAt = None,
    namespace: Namespace = None,
    as_json: AsJson = False,
) -> None:
    """How two entities are connected: the facts of a shortest way between them."""
    with open_container(context) as container:
        mine = namespace or container.settings.namespace
        ends = (the_entity(container, mine, start), the_entity(container, mine, goal))
        found = container.graph_recall.path(*ends, namespace=mine, as_of=_as_of(as_of, known_at))
        told = Provenance(container, mine, found or [])
    if as_json:
        print_json(None if found is None else [fact_json(record, told) for record in found])
        return
    for record in found or []:
        print_fact(record, told)
    if found is None:
        say(f"no way of eight facts or fewer leads from {ends[0].name} to {ends[1].name}", err=True)


@app.command()
def communities(
    context: typer.Context,
    *,
    limit: Annotated[
        int | None, typer.Option("--limit", "-k", min=1, max=100_000, help="The largest so many.")
    ] = None,
    namespace: Namespace = None,
    as_json: AsJson = False,
) -> None:
    """What hangs together, largest first. `zeph graph refresh` brings it up to date."""
    with open_container(context) as container:
        mine = namespace or container.settings.namespace
        found = container.communities.listed(namespace=mine)[:limit]
        state = container.communities.stats(namespace=mine)
    if as_json:
        print_json({"stats": asdict(state), "communities": [asdict(one) for one in found]})
        return
    for one in found:
        say(f"{one.id}. {one.name}  [{len(one.entity_ids)} entities]", bold=True)
        say(f"   {one.summary or 'not described yet'}")
    if not found:
        say("no communities yet: `zeph graph refresh` looks for them", err=True)
    elif state.drift:
        say(f"{state.drift:.0%} of the facts came or went since: `zeph graph refresh`", err=True, dim=True)


@app.command()
def export(
    context: typer.Context,
    *,
    form: Annotated[str, typer.Option("--format", "-f", help="graphml, json or dot.")] = "json",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File; default: standard output.")
    ] = None,
    history: Annotated[bool, typer.Option("--history", help="Past facts too.")] = False,
    force: Force = False,
    namespace: Namespace = None,
) -> None:
    """The whole graph for other programs."""
    from services.graph.export import as_text, read_whole

    with open_container(context) as container:
        whole = read_whole(container.database, namespace or container.settings.namespace, history=history)
    text = as_text(whole, form)
    if output is None:
        typer.echo(text, nl=False)
        return
    _write(output, text, force=force)
    say(f"{output}: {len(whole.entities)} entities, {len(whole.edges)} facts", err=True)


@app.command()
def draw(
    context: typer.Context,
    name: Name,
    *,
    output: Annotated[Path, typer.Option("--output", "-o", help="The HTML file to write.")] = Path(
        "graph.html"
    ),
    hops: Annotated[int, typer.Option(min=1, max=5, help="Steps from the entity.")] = 2,
    limit: Annotated[int, typer.Option("--limit", "-k", min=2, max=300, help="Entities at most.")] = 60,
    as_of: AsOfTime = None,
    known_at: KnownAt = None,
    force: Force = False,
    namespace: Namespace = None,
) -> None:
    """A picture of an entity and what is around it: one file for any browser, which needs no network."""
    from services.graph.drawing import draw as drawn

    with open_container(context) as container:
        mine = namespace or container.settings.namespace
        one = the_entity(container, mine, name)
        around = container.graph_recall.around(
            one, namespace=mine, max_hops=hops, max_entities=limit, as_of=_as_of(as_of, known_at)
        )
    text = drawn(around.entities, around.facts, focus=one.id, truncated=around.truncated)
    _write(output, text, force=force)
    say(f"{output}: {len(around.entities)} entities, {len(around.facts)} facts")


def the_entity(container: Container, namespace: str, name: str) -> Entity:
    """The entity that a name or an id as id:7 means. Raises NotFound, which offers names that resemble it."""
    found = container.graph.entity(namespace, graph_upkeep.entity_name(name))
    if found is not None:
        return found
    near = container.graph_recall.near_names(name, namespace=namespace)
    hint = f"did you mean {', '.join(near)}?" if near else "`zeph graph entities` lists some"
    raise errors.NotFound(f"namespace {namespace} has no entity {name!r}: {hint}")


def _as_of(valid: str | None, known: str | None) -> AsOf | None:
    from services.graph.models import AsOf

    if valid is None and known is None:
        return None
    return AsOf(microseconds("as-of", valid), microseconds("known-at", known))


def _print_hit(rank: int, fact: GraphFact) -> None:
    line = f"{rank}. {fact.entity_name} {shown_relation(fact.relation)} {fact.target_name}"
    say(f"{line}  [{fact.score:.3f}]", bold=True)
    say(f"   {fact.fact}")
    texts = [f"message {item}" for item in fact.message_ids] + [f"chunk {item}" for item in fact.chunk_ids]
    how = ", ".join(fact.extractors) if fact.stated else _NOTHING_STATED
    say(
        f"   fact {fact.edge_id}, confidence {fact.confidence:.2f}, {how}; {', '.join(texts) or 'by hand'}",
        dim=True,
    )


def _write(path: Path, text: str, *, force: bool) -> None:
    # A pipe or a terminal holds nothing that could be lost.
    anew = force or (path.exists() and not path.is_file())
    try:
        with path.open("w" if anew else "x", encoding="utf-8", errors="replace") as file:
            file.write(text)
    except FileExistsError:
        raise errors.InputError(f"{path} exists: use --force to replace it") from None
    except OSError as error:
        raise errors.InputError(f"{path} cannot be written: {error.strerror}") from error
