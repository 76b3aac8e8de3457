"""`zeph memory export`, `import` and `evict`: memory as a file, and keeping it within its size."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from services import errors
from workers.cli.chat import make_vectors, say_what_waits
from workers.cli.session import AsJson, Namespace, open_container, print_json, say

if TYPE_CHECKING:
    from services.bootstrap import Container

_MIB = 1024 * 1024

NewFile = Annotated[Path, typer.Argument(help="A new file; compressed if its name ends in .gz.")]
Snapshot = Annotated[Path, typer.Argument(help="A snapshot, compressed or not.")]
Vectors = Annotated[
    bool, typer.Option("--vectors", help="Also write the vectors, for another place with this model.")
]
Force = Annotated[bool, typer.Option("--force", help="Replace the file if it exists.")]
MaxSize = Annotated[
    int, typer.Option("--max-mib", min=1, max=1_048_576, help="Refuse larger files, unpacked.")
]
Detach = Annotated[bool, typer.Option("--detach", help="Leave embedding to workers.")]


def export(
    context: typer.Context,
    file: NewFile,
    *,
    vectors: Vectors = False,
    force: Force = False,
    namespace: Namespace = None,
    as_json: AsJson = False,
) -> None:
    """Write all that a namespace remembers, but for documents and caches, into one private file."""
    with open_container(context) as container:
        print_export(container, file, namespace, vectors=vectors, force=force, as_json=as_json)


def print_export(
    container: Container,
    file: Path,
    namespace: str | None,
    *,
    force: bool,
    as_json: bool,
    vectors: bool = False,
    session_id: str | None = None,
) -> None:
    """Export and say what was written."""
    report = container.snapshots.export_to(
        file.expanduser().absolute(),
        namespace=namespace or container.settings.namespace,
        session_id=session_id,
        vectors=vectors,
        overwrite=force,
    )
    if container.settings.memory.redact_credentials:
        say(
            "the file holds what was said, word for word: keys and passwords are kept from models, not from it",
            err=True,
        )
    if as_json:
        print_json(asdict(report))
        return
    say(f"wrote {file}: {_counts(asdict(report), 'bytes', 'parts_lost', 'sources_left_out')}")
    if report.parts_lost:
        say(f"{report.parts_lost} messages had parts that are no JSON: only their text was written")
    if report.sources_left_out:
        say(
            f"{report.sources_left_out} mentions and sources in documents were left out, because those do not travel"
        )


def import_file(
    context: typer.Context,
    file: Snapshot,
    *,
    max_mib: MaxSize = 256,
    detach: Detach = False,
    namespace: Namespace = None,
    as_json: AsJson = False,
) -> None:
    """Add what a snapshot holds and this namespace does not: all of it or, if the file is not sound, nothing."""
    with open_container(context) as container:
        report = container.snapshots.import_from(
            file.expanduser().absolute(),
            namespace=namespace or container.settings.namespace,
            max_bytes=max_mib * _MIB,
        )
        alone = not container.settings.jobs.broker_url.get_secret_value()
        if report.messages and alone and not detach:
            make_vectors(container, quiet=as_json)
        left = container.message_vectors.waiting() if report.messages else 0
    if as_json:
        print_json(asdict(report))
        return
    say(f"imported {_counts(asdict(report), 'skipped', 'dangling', 'keys_taken')}")
    say(f"{report.skipped} were here already")
    if report.dangling:
        say(f"{report.dangling} references to what the file does not hold were dropped")
    if report.keys_taken:
        say(f"{report.keys_taken} conversations lost their key to another one that has it here")
    say_what_waits(left, alone=alone, detached=detach)


def evict(
    context: typer.Context,
    *,
    max_entries: Annotated[
        int | None,
        typer.Option(
            min=1, max=1_000_000_000, help="Messages to keep; default: memory.eviction.max_entries."
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say how many would go.")] = False,
    namespace: Namespace = None,
    as_json: AsJson = False,
) -> None:
    """Forget the messages that are neither new nor recalled, down to a number, and erase them for good."""
    with open_container(context) as container:
        if not (max_entries or container.settings.memory.eviction.max_entries):
            raise errors.InputError("memory.eviction.max_entries is 0, which keeps all: say --max-entries N")
        mine = namespace or container.settings.namespace
        report = container.eviction.evict(mine, max_entries=max_entries, dry_run=dry_run)
        erased = 0
        if not dry_run:
            if not container.settings.jobs.broker_url.get_secret_value():
                from workers.local import run_pending

                run_pending(container, ["maintenance"])
            erased = container.eviction.erase(mine)
    if as_json:
        print_json(asdict(report) | {"erased": erased, "dry_run": dry_run})
        return
    verb = "would be evicted" if dry_run else "evicted"
    say(f"{report.evicted} of {report.messages} messages {verb}, {erased} erased for good")
    if report.protected:
        say(f"{report.protected} more than that are protected: summaries and the end of each conversation")


def _counts(report: dict[str, Any], *left_out: str) -> str:
    return ", ".join(f"{count} {name}" for name, count in report.items() if name not in left_out)
