"""What every command shares: global options, a container for them, and how results and errors are printed."""

from __future__ import annotations

import json
import logging
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from services import errors
from services.times import stored, utc

if TYPE_CHECKING:
    from rich.console import Console

    from services.bootstrap import Container
    from services.ids import ConversationId
    from services.memory.models import ConversationName

_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")

# Names of stored times, besides all that end in `_at`.
_TIMES = frozenset({"lease_until", "run_after", "valid_from", "valid_to"})
_PIPE_WIDTH = 400
_SHOWN_CHARACTERS = 600
_LONGEST_ID = 18

EXIT_FAILURES = 1
EXIT_USAGE = 2
EXIT_UNAVAILABLE = 3
EXIT_INTERRUPTED = 130

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]


def _checked_namespace(value: str | None) -> str | None:
    if value is None:
        return None
    from services.settings import NAMESPACE_PATTERN

    if not re.fullmatch(NAMESPACE_PATTERN, value):
        raise typer.BadParameter("use 1 to 128 characters without blanks")
    return value


Namespace = Annotated[
    str | None,
    typer.Option(
        "--namespace",
        "-n",
        help="Whose memory; default: the setting `namespace`.",
        callback=_checked_namespace,
    ),
]
OnlyNamespace = Annotated[
    str | None,
    typer.Option("--namespace", "-n", help="Only of this one; default: all.", callback=_checked_namespace),
]
Collection = Annotated[
    str | None,
    typer.Option("--collection", "-c", help="Document collection; default: memory.documents.collection."),
]

Conversation = Annotated[
    str | None,
    typer.Option(
        "--conversation", help="Its key, or its id as id:7; default: the latest or the obvious one."
    ),
]

Time = Annotated[
    str | None,
    typer.Option(help="A date or time such as 2031-05-08 or 2031-05-08T10:30; UTC unless it says else."),
]


@contextmanager
def open_container(context: typer.Context) -> Iterator[Container]:
    """The wired services for this command's global options; closed at the end."""
    from services.settings import load_settings
    from workers.client import connected

    given: dict[str, Any] = context.obj or {}
    settings = load_settings(given.get("config"), given.get("overrides"))
    logging.basicConfig(
        stream=sys.stderr, format="%(levelname)s %(name)s %(message)s", level=_level(settings, given)
    )
    with connected(settings) as container:
        yield container


def conversation_name(value: str | None) -> ConversationName:
    """What --conversation means. Raises InputError."""
    prefix, _, number = (value or "").partition(":")
    if prefix != "id":
        return value
    if not number.isdecimal() or len(number) > _LONGEST_ID:
        raise errors.InputError(f"conversation is {value!r}: use a key, or an id such as id:7")
    return cast("ConversationId", int(number))


def the_conversation(container: Container, namespace: str, value: str | None) -> ConversationId:
    """The id of the conversation that --conversation means. Raises InputError, NotFound."""
    with container.database.read() as unit:
        found = unit.messages.resolve(namespace, conversation_name(value))
    if found is None:
        which = "at all" if value is None else repr(value)
        hint = f" (an id is written id:{value})" if value and value.isdigit() else ""
        raise errors.NotFound(
            f"namespace {namespace} has no conversation {which}{hint}: `zeph memory conversations` shows them"
        )
    return found


def microseconds(option: str, text: str | None) -> int | None:
    """A time that an option of that name gives, as it is stored; None for none. Raises InputError."""
    if text is None:
        return None
    try:
        return stored(datetime.fromisoformat(text))
    except ValueError:
        raise errors.InputError(
            f"--{option} is {text!r}: use a date or time such as 2031-05-08T10:30"
        ) from None


def print_json(value: Any) -> None:
    """One JSON document on standard output; stored times in it become ISO 8601 in UTC, to the microsecond."""
    sys.stdout.write(json.dumps(_with_times(value), ensure_ascii=False, indent=2, default=str) + "\n")


def _with_times(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            name: utc(each).isoformat()
            if (name.endswith("_at") or name in _TIMES) and type(each) is int
            else _with_times(each)
            for name, each in value.items()
        }
    return [_with_times(each) for each in value] if isinstance(value, list | tuple) else value


def say_facts(facts: Mapping[str, Any]) -> None:
    """One line for each fact, times readable."""
    for name, value in _with_times(dict(facts)).items():
        say(f"{name.replace('_', ' ')}: {'-' if value is None else value}")


def console(*, stderr: bool = False) -> Console:
    """A rich console: colours and tables on a terminal, plain text in a pipe."""
    from rich.console import Console

    out = Console(stderr=stderr, highlight=False, soft_wrap=True)
    if not out.is_terminal:
        # A pipe has no width: nothing may be cut.
        out.width = _PIPE_WIDTH
    return out


def visible(text: str) -> str:
    """The text without control characters other than newline and tab: a file's name must not steer the terminal."""
    return _CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", text)


def say(text: str, *, err: bool = False, **style: Any) -> None:
    """A line on standard output or error; `style` is that of click, and goes where no terminal is."""
    typer.secho(visible(text), err=err, **style)


def say_excerpt(text: str) -> None:
    """A stored text, indented and cut after 600 characters, and an empty line."""
    whole = text.strip()
    shown = whole if len(whole) <= _SHOWN_CHARACTERS else whole[:_SHOWN_CHARACTERS].rstrip() + " ..."
    say("\n".join(f"   {line}" for line in shown.splitlines()) + "\n")


def legs_json(legs: Mapping[str, tuple[float, int]]) -> dict[str, dict[str, float]]:
    """What each retriever gave a hit, for machines."""
    return {name: {"score": score, "rank": rank} for name, (score, rank) in legs.items()}


def table(*columns: str, rows: list[tuple[Any, ...]], title: str | None = None) -> None:
    """A table on standard output."""
    from rich.table import Table
    from rich.text import Text

    drawn = Table(*columns, title=title, box=None, pad_edge=False, title_justify="left")
    for row in rows:
        # Text, not markup: file names and queries may hold brackets.
        drawn.add_row(*(Text(visible(str(cell))) for cell in row))
    console().print(drawn)


def iso_time(at: int) -> str:
    """A stored time as ISO 8601 in UTC."""
    return utc(at).isoformat(timespec="seconds")


def _level(settings: Any, given: dict[str, Any]) -> int:
    if given.get("verbose"):
        return logging.INFO
    return int(getattr(logging, settings.log_level.upper()))
