"""`zeph config`: see the settings, write a settings file, find it."""

from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path
from typing import Annotated

import typer

from services import errors

app = typer.Typer(no_args_is_help=True, help="See and write the settings.")

ConfigOption = Annotated[
    Path | None,
    typer.Option("--config", help="Settings file; default: $ZEPH_CONFIG, else in the data folder."),
]


def _given(context: typer.Context, config: Path | None) -> tuple[Path | None, dict[str, object]]:
    """The settings file and the overrides that are asked for, behind `config` or before it."""
    given = context.obj or {}
    return config or given.get("config"), given.get("overrides", {})


def _located(context: typer.Context, config: Path | None) -> Path:
    """Where zeph looks for its settings file, given these options."""
    from services.settings import config_file

    path, overrides = _given(context, config)
    data_dir = overrides.get("data_dir")
    return config_file(path, data_dir=Path(str(data_dir)) if data_dir else None)


@app.command()
def show(
    context: typer.Context,
    *,
    config: ConfigOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for machines.")] = False,
) -> None:
    """Print every setting and where it comes from; secrets are starred."""
    from services.settings import load_settings

    rows = load_settings(*_given(context, config)).describe()
    if as_json:
        typer.echo(json.dumps([dataclasses.asdict(row) for row in rows], ensure_ascii=False, indent=2))
        return
    lines = [f"{row.key} = {json.dumps(row.value, ensure_ascii=False)}" for row in rows]
    width = max(len(line) for line, row in zip(lines, rows, strict=True) if row.source == "default")
    for line, row in zip(lines, rows, strict=True):
        origin = f"  # {row.source} {row.place}".rstrip() if row.source != "default" else ""
        typer.echo(f"{line:<{width}}{origin}".rstrip())


@app.command()
def init(
    context: typer.Context,
    *,
    path: Annotated[Path | None, typer.Option(help="Where to write; default: where zeph looks.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
) -> None:
    """Write a settings file in which every setting is explained and commented out."""
    from services.settings import default_config_toml

    target = _located(context, path)
    if os.path.lexists(target) and not force:
        raise errors.SettingsError(f"{target} exists: use --force to replace it, or --path for another")
    try:
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if force:
            target.unlink(missing_ok=True)
        # Its owner alone may read it: keys will be written into it.
        descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(default_config_toml())
    except OSError as error:
        raise errors.SettingsError(f"{target} cannot be written: {error.strerror}") from error
    typer.echo(f"wrote {target}")


@app.command("path")
def show_path(context: typer.Context, *, config: ConfigOption = None) -> None:
    """Print where the settings file is, or would be."""
    typer.echo(str(_located(context, config)))
