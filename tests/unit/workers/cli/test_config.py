import json
import stat

import pytest
from typer.testing import CliRunner

from services import errors
from services.settings import load_settings
from workers.cli.config import app
from workers.cli.main import app as program


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    for name in ("ZEPH_CONFIG", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ZEPH_DATA_DIR", str(tmp_path / "data"))
    return tmp_path / "data"


def zeph_config(*arguments):
    return CliRunner().invoke(app, list(arguments), catch_exceptions=False)


def test_init_writes_a_private_file_that_changes_nothing(home):
    before = load_settings().model_dump()

    result = zeph_config("init")

    written = home / "config.toml"
    assert str(written) in result.output
    assert stat.S_IMODE(written.stat().st_mode) == 0o600
    assert load_settings().model_dump() == before


def test_init_keeps_an_existing_file(home):
    home.mkdir()
    (home / "config.toml").write_text('namespace = "mine"\n')

    with pytest.raises(errors.SettingsError, match=r"exists: use --force"):
        zeph_config("init")

    assert load_settings().namespace == "mine"


def test_init_replaces_a_file_when_told_to(home):
    home.mkdir()
    (home / "config.toml").write_text('namespace = "mine"\n')
    (home / "config.toml").chmod(0o644)

    zeph_config("init", "--force")

    assert load_settings().namespace == "default"
    assert stat.S_IMODE((home / "config.toml").stat().st_mode) == 0o600


def test_init_says_why_it_cannot_write(tmp_path):
    (tmp_path / "file").touch()

    with pytest.raises(errors.SettingsError, match=r"cannot be written: "):
        zeph_config("init", "--path", str(tmp_path / "file" / "config.toml"))


def test_show_names_the_origin_of_every_changed_setting(home, monkeypatch):
    home.mkdir()
    (home / "config.toml").write_text("[memory]\nhistory_limit = 9\n")
    monkeypatch.setenv("ZEPH_MEMORY_RECALL_LIMIT", "7")

    lines = [" ".join(line.split()) for line in zeph_config("show").output.splitlines()]

    assert f"memory.history_limit = 9 # file {home / 'config.toml'}" in lines
    assert "memory.semantic.recall_limit = 7 # environment ZEPH_MEMORY_RECALL_LIMIT" in lines
    assert 'namespace = "default"' in lines


def test_show_as_json_has_no_secret_in_it(monkeypatch):
    monkeypatch.setenv("ZEPH_LLM__API_KEY", "sesame")
    monkeypatch.setenv("ZEPH_JOBS__BROKER_URL", "redis://:sesame@queue.example/0")

    result = zeph_config("show", "--json")

    rows = {row["key"]: row for row in json.loads(result.output)}
    assert rows["llm.api_key"] == {
        "key": "llm.api_key",
        "value": "***",
        "source": "environment",
        "place": "ZEPH_LLM__API_KEY",
    }
    assert rows["jobs.broker_url"]["value"] == "redis://:***@queue.example/0"
    assert "sesame" not in result.output


def test_path_prefers_the_option_then_the_variable_then_the_data_folder(home, monkeypatch):
    assert zeph_config("path").output.strip() == str(home / "config.toml")
    monkeypatch.setenv("ZEPH_CONFIG", "/etc/zeph.toml")
    assert zeph_config("path").output.strip() == "/etc/zeph.toml"
    assert zeph_config("path", "--config", "here.toml").output.strip() == "here.toml"


def test_the_options_of_the_program_say_which_settings_are_meant(home, tmp_path, monkeypatch):
    def zeph(*arguments):
        return CliRunner().invoke(program, list(map(str, arguments)), catch_exceptions=False).output.strip()

    mine = tmp_path / "mine" / "c.toml"
    assert zeph("--config", mine, "config", "init") == f"wrote {mine}"
    assert not (home / "config.toml").exists()
    mine.write_text('namespace = "mine"\n')
    shown = " ".join(zeph("--config", mine, "--data-dir", tmp_path / "d", "config", "show").split())
    assert f'namespace = "mine" # file {mine}' in shown
    assert f'data_dir = "{tmp_path / "d"}" # override' in shown
    assert zeph("--config", mine, "config", "path") == str(mine)
    assert zeph("--data-dir", tmp_path / "d", "config", "path") == str(tmp_path / "d" / "config.toml")
    with pytest.raises(errors.SettingsError, match=r"nope\.toml"):
        zeph("--config", "nope.toml", "config", "show")
