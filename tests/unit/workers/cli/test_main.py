import os
import subprocess
import sys
from pathlib import Path

import pytest

from services import errors
from workers.cli import status
from workers.cli.main import app

PROGRAM = Path(sys.executable).with_name("zeph")


def run(*arguments, **environment):
    """The installed program in a process of its own."""
    return subprocess.run(
        [PROGRAM, *arguments],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_the_version_is_printed(zeph):
    result = zeph("--version")
    assert (result.code, result.out.startswith("zeph 0.")) == (0, True)


def test_help_lists_every_command_with_a_line_about_it(zeph):
    result = zeph("--help")
    assert result.code == 0
    for name in [*(it.name for it in app.registered_commands), *(it.name for it in app.registered_groups)]:
        (line,) = [line for line in result.out.splitlines() if line.strip().startswith(f"{name} ")]
        assert len(line.split()) > 2


def test_help_answers_without_the_heavy_libraries():
    code = (
        "import sys; sys.argv = ['zeph', '--help']\n"
        "from workers.cli.main import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "heavy = {'sqlalchemy', 'numpy', 'onnxruntime', 'celery', 'qdrant_client', 'unstructured', 'alembic'}\n"
        "sys.exit(' '.join(heavy & set(sys.modules)) or 0)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr) == (0, "")


@pytest.mark.parametrize(
    "arguments",
    [
        ["nonsense"],
        ["search"],
        ["search", "x", "--limit", "0"],
        ["search", "x", "--mode", "magic"],
        ["ingest"],
        ["ingest", "/does/not/exist"],
        ["ingest", "/dev/null", "--concurrency", "0"],
        ["ingest", "/etc/hostname", "--chunk-size", "0"],
        ["ingest", "/etc/hostname", "--chunk-size", "10", "--chunk-overlap", "10"],
        ["ingest", "/etc/hostname", "--chunk-size", "many"],
        ["jobs", "show", "4711"],
        ["jobs", "show", "four"],
        ["jobs", "show", "99999999999999999999"],
        ["jobs", "retry"],
        ["jobs", "retry", "1", "--all"],
        ["jobs", "retry", "4711"],
        ["jobs", "cancel", "4711"],
        ["jobs", "purge", "--state", "running"],
        ["jobs", "purge", "--older-than-days", "inf"],
        ["jobs", "purge", "--older-than-days", "nan"],
        ["jobs", "retry", "99999999999999999999"],
        ["jobs", "list", "--parent", "99999999999999999999"],
        ["jobs", "list", "--state", "lost"],
        ["documents", "remove", "nothing"],
        ["documents", "remove", "\udcff"],
        ["ingest", "/etc/hostname", "--collection", "\udcff"],
        ["collections", "reembed", "nothing"],
        ["worker", "--queue", "nonsense"],
        ["--config", "/does/not/exist.toml", "status"],
        ["--data-dir", "/dev/null/x", "status"],
        ["--data-dir", "", "status"],
        ["remember", "x", "--namespace", ""],
        ["remember", "x", "--namespace", "a b"],
        ["remember", "x", "--namespace", "a" * 129],
        ["history", "--conversation", "nothing"],
        ["db", "backup", "/does/not/exist/copy.db"],
    ],
    ids=lambda arguments: " ".join(arguments).encode("ascii", "replace").decode(),
)
def test_a_wrong_request_is_exit_code_2_and_says_why_without_a_traceback(zeph, arguments):
    result = zeph(*arguments)
    assert result.code == 2, result
    assert result.out == ""
    assert "error" in result.err.lower()
    assert "Traceback" not in result.err


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (errors.StorageBusy("the disk is full"), 3, "error: the disk is full (try again later)"),
        (errors.InputError("no such thing"), 2, "error: no such thing"),
        (errors.SchemaError("too new"), 2, "error: too new"),
    ],
)
def test_errors_become_exit_codes_and_one_line(zeph, monkeypatch, error, code, line):
    def fail(*_arguments, **_options):
        raise error

    monkeypatch.setattr(status, "open_container", fail)
    result = zeph("status")
    assert result.code == code
    assert line in result.err.splitlines()


def test_ctrl_c_is_exit_code_130(zeph, monkeypatch):
    def interrupt(*_arguments, **_options):
        raise KeyboardInterrupt

    monkeypatch.setattr(status, "open_container", interrupt)
    assert zeph("status").code == 130


def test_a_file_that_is_no_database_is_named_without_a_traceback(zeph, data_dir):
    (data_dir / "zeph.db").write_text("This is a letter. " * 500)
    result = zeph("status")
    assert result.code == 2
    assert "zeph.db is damaged or no SQLite database" in result.err


def test_a_settings_error_lists_every_problem(zeph, monkeypatch):
    monkeypatch.setenv("ZEPH_JOBS__MAX_ATTEMPTS", "none")
    monkeypatch.setenv("ZEPH_NONSENSE", "1")
    result = zeph("status")
    assert result.code == 2
    assert "ZEPH_JOBS__MAX_ATTEMPTS" in result.err
    assert "ZEPH_NONSENSE" in result.err


def test_the_data_folder_can_be_named_on_the_command_line(zeph, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert zeph("--data-dir", "elsewhere", "db", "upgrade").code == 0
    assert (tmp_path / "elsewhere" / "zeph.db").exists()


def test_the_installed_program_is_quiet_when_its_reader_goes_away(data_dir):
    shell = ["bash", "-c", f"{PROGRAM} config show | head -1"]
    result = subprocess.run(shell, capture_output=True, text=True, timeout=60, check=False)
    assert len(result.stdout.splitlines()) == 1
    assert result.stderr == ""


def test_a_data_folder_that_is_a_file_is_named(zeph, tmp_path):
    (tmp_path / "afile").write_text("x")
    result = zeph("--data-dir", tmp_path / "afile", "status")
    assert (result.code, result.out) == (2, "")
    assert "afile" in result.err
    assert "data_dir" in result.err
    assert "settings file" not in result.err


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_the_installed_program_works_without_standard_streams(data_dir, opened, closed):
    shell = ["bash", "-c", f"{PROGRAM} remember 'said into the void' {closed}"]
    result = subprocess.run(shell, capture_output=True, text=True, timeout=60, check=False)
    assert (result.returncode, result.stderr) == (0, "")
    assert [message.content for message in opened.memory.history()] == ["said into the void"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device of Linux")
def test_output_that_cannot_be_written_is_one_line_and_no_traceback(data_dir):
    shell = ["bash", "-c", f"{PROGRAM} status >/dev/full"]
    result = subprocess.run(shell, capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 3
    assert result.stderr == "error: input or output failed: No space left on device\n"
    deaf = ["bash", "-c", f"{PROGRAM} jobs show 4711 2>/dev/full"]
    assert subprocess.run(deaf, capture_output=True, timeout=60, check=False).returncode == 2


def test_the_installed_program_says_what_is_wrong_in_one_line(data_dir):
    result = run("jobs", "show", "4711")
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == "error: there is no job 4711: `zeph jobs list` shows them\n"
