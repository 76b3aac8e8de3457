"""The README is checked by running it: its examples work, its commands exist, its tests are real."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from typer.main import get_command

from workers.cli.main import app

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
CONSOLE = [
    line.split("#")[0].strip()
    for block in re.findall(r"```console\n(.*?)```", README, re.DOTALL)
    for line in block.splitlines()
]


@pytest.mark.parametrize("example", re.findall(r"```python\n(.*?)```", README, re.DOTALL))
def test_the_python_examples_run_and_answer(example, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ZEPH_CONFIG", "")
    monkeypatch.setenv("ZEPH_DATA_DIR", str(tmp_path / "data"))

    exec(compile(example, "README.md", "exec"), {})

    out = capsys.readouterr().out
    assert "The batteries last 18 minutes." in out or "repaired by Hanne" in out


@pytest.mark.parametrize("line", sorted({line for line in CONSOLE if line.startswith("zeph ")}))
def test_every_command_of_the_readme_exists_with_its_options(line, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "log.jsonl").touch()
    command, words = get_command(app), shlex.split(line)[1:]
    with command.make_context("zeph", [], resilient_parsing=True) as context:
        while hasattr(command, "commands"):
            command = command.get_command(context, words.pop(0))
            assert command is not None, line
        # Parses or raises; nothing is run.
        command.make_context(line, words, parent=context)


def test_every_make_target_of_the_readme_exists():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = {line.split()[1] for line in CONSOLE if line.startswith("make ")}
    assert targets
    assert {target for target in targets if f"\n{target}:" not in makefile} == set()


def test_every_test_that_the_readme_names_exists():
    defined = {
        name
        for path in (ROOT / "tests").rglob("test_*.py")
        for name in re.findall(r"^def (test_\w+)", path.read_text(encoding="utf-8"), re.MULTILINE)
    }
    named = set(re.findall(r"`(test_\w+)`", README))
    assert named - defined == set()


def test_every_command_group_is_shown_in_the_readme():
    groups = set(get_command(app).commands)
    assert {group for group in groups if not re.search(rf"zeph (--data-dir \w+ )?{group}\b", README)} == set()


def test_every_kind_of_job_stands_in_the_readme_beside_its_queue():
    import workers.tasks  # noqa: F401 - declares them
    from workers.job import REGISTRY

    rows = dict(re.findall(r"^\| `(\w+)` \| (.*?) \|$", README, re.MULTILINE))
    for name, spec in REGISTRY.items():
        # Tests declare kinds of their own.
        if not name.startswith("test."):
            assert f"`{name}`" in rows[spec.kind.queue], name
