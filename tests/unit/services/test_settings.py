import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from pydantic import BaseModel, SecretStr, ValidationError

import services
from services import errors
from services.settings import Settings, default_config_toml, load_settings, masked_url


@pytest.fixture(autouse=True)
def data_dir(tmp_path, monkeypatch):
    """A data folder of its own for each test, and no settings from the environment that runs it."""
    for name in list(os.environ):
        if name.startswith("ZEPH_") or name == "XDG_DATA_HOME":
            monkeypatch.delenv(name)
    monkeypatch.setenv("ZEPH_DATA_DIR", str(tmp_path))
    return tmp_path


def write(data_dir: Path, text: str) -> Path:
    path = data_dir / "config.toml"
    path.write_text(text, encoding="utf-8")
    return path


def problems(**overrides) -> list[str]:
    """The lines of the refusal of these overrides, whose keys have `__` for a dot."""
    with pytest.raises(errors.SettingsError) as caught:
        load_settings(overrides={key.replace("__", "."): value for key, value in overrides.items()})
    return [line.strip() for line in str(caught.value).splitlines()[1:]]


def test_nothing_configured_gives_the_embedded_profile(data_dir):
    settings = load_settings()

    assert settings.data_dir == data_dir
    assert settings.memory.sqlite_path == data_dir / "zeph.db"
    assert settings.namespace == "default"
    assert (settings.memory.vector_backend, settings.embedding.provider) == ("sqlite", "local")
    assert (settings.llm.provider, settings.jobs.broker_url.get_secret_value()) == ("none", "")
    assert (settings.memory.documents.chunk_size, settings.memory.documents.chunk_overlap) == (512, 64)
    assert (settings.memory.graph.max_hops, settings.memory.graph.recall_limit) == (2, 10)


def test_the_file_beats_defaults_variables_beat_the_file_and_the_caller_beats_all(data_dir, monkeypatch):
    write(
        data_dir, "[memory]\nhistory_limit = 1\nsummarization_threshold = 1\ncompaction_preserve_tail = 1\n"
    )
    monkeypatch.setenv("ZEPH_MEMORY__SUMMARIZATION_THRESHOLD", "2")
    monkeypatch.setenv("ZEPH_MEMORY__COMPACTION_PRESERVE_TAIL", "2")

    memory = load_settings(overrides={"memory": {"compaction_preserve_tail": 3}}).memory

    assert memory.history_limit == 1
    assert memory.summarization_threshold == 2
    assert memory.compaction_preserve_tail == 3
    assert memory.sqlite_pool_size == 5


@pytest.mark.parametrize(
    ("variable", "text", "section", "name", "value"),
    [
        ("ZEPH_QDRANT_URL", "https://q.example:6333/", ("memory",), "qdrant_url", "https://q.example:6333"),
        ("ZEPH_MEMORY_RECALL_LIMIT", "8", ("memory", "semantic"), "recall_limit", 8),
        ("ZEPH_LLM_RESPONSE_CACHE_ENABLED", "TRUE", ("llm",), "response_cache_enabled", True),
        ("ZEPH_LLM_RESPONSE_CACHE_TTL_SECS", "60", ("llm",), "response_cache_ttl_secs", 60),
        ("ZEPH_MEMORY__SEMANTIC__MMR_LAMBDA", ".5", ("memory", "semantic"), "mmr_lambda", 0.5),
        ("ZEPH_MEMORY__SEMANTIC__VECTOR_WEIGHT", "1", ("memory", "semantic"), "vector_weight", 1.0),
        ("ZEPH_LOG_LEVEL", "INFO", (), "log_level", "info"),
        ("ZEPH_EMBEDDING__MODEL", "true", ("embedding",), "model", "true"),
        ("ZEPH_NAMESPACE", "7", (), "namespace", "7"),
    ],
)
def test_variables_are_read_as_the_type_of_their_setting(variable, text, section, name, value, monkeypatch):
    monkeypatch.setenv(variable, text)

    found = load_settings()
    for step in section:
        found = getattr(found, step)

    assert getattr(found, name) == value
    assert type(getattr(found, name)) is type(value)


def test_an_empty_variable_counts_as_not_set(data_dir, monkeypatch):
    write(data_dir, 'namespace = "mine"\n')
    monkeypatch.setenv("ZEPH_NAMESPACE", "")
    monkeypatch.setenv("ZEPH_LLM__API_KEY", "")

    assert load_settings().namespace == "mine"


def test_an_empty_text_in_the_file_leaves_an_optional_number_open(data_dir):
    write(data_dir, '[memory.semantic]\nvector_weight = ""\nkeyword_weight = 1\n')
    weights = load_settings().memory.semantic
    assert (weights.vector_weight, weights.keyword_weight) == (None, 1.0)


def test_short_and_long_name_may_agree_but_not_differ(monkeypatch):
    monkeypatch.setenv("ZEPH_MEMORY_RECALL_LIMIT", "8")
    monkeypatch.setenv("ZEPH_MEMORY__SEMANTIC__RECALL_LIMIT", "8")
    assert load_settings().memory.semantic.recall_limit == 8

    monkeypatch.setenv("ZEPH_MEMORY__SEMANTIC__RECALL_LIMIT", "9")
    (line,) = problems()
    assert line.startswith("ZEPH_MEMORY_RECALL_LIMIT and ZEPH_MEMORY__SEMANTIC__RECALL_LIMIT both set")


def test_every_problem_is_listed_at_once_with_key_value_place_and_range(data_dir, monkeypatch):
    path = write(data_dir, '[llm]\nprovider = "openia"\n[memory.semantics]\nrecall_limit = 3\n')
    monkeypatch.setenv("ZEPH_MEMORY_RECALL_LIMIT", "0")
    monkeypatch.setenv("ZEPH_MEMORY_SQLITE_PATH", "x.db")

    assert sorted(problems(memory__token_safety_margin=0.5)) == [
        f'llm.provider is "openia", set by {path}: use one of none, openai',
        "memory.semantic.recall_limit is 0, set by ZEPH_MEMORY_RECALL_LIMIT: use a whole number from 1 to 1000",
        "memory.token_safety_margin is 0.5, set by the caller: use a number from 1 to 10",
        f"unknown setting memory.semantics.recall_limit in {path}: did you mean memory.semantic.recall_limit?",
        "unknown variable ZEPH_MEMORY_SQLITE_PATH: did you mean ZEPH_MEMORY__SQLITE_PATH?",
    ]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("memory.semantic.vector_weight", float("nan")),
        ("memory.semantic.vector_weight", float("inf")),
        ("memory.semantic.vector_weight", 1.01),
        ("memory.semantic.vector_weight", 10**400),
        ("memory.semantic.temporal_decay_half_life_days", -1),
        ("memory.soft_compaction_threshold", 0),
        ("memory.hard_compaction_threshold", 1),
        ("memory.history_limit", True),
        ("memory.history_limit", "50"),
        ("memory.history_limit", 5.5),
        ("memory.redact_credentials", "yes"),
        ("memory.redact_credentials", 1),
        ("memory.vector_backend", "SQLITE"),
        ("memory.qdrant_url", "localhost:6333"),
        ("memory.qdrant_url", "http://"),
        ("memory.qdrant_url", "http://h:99999"),
        ("memory.qdrant_url", "http://[::1"),
        ("memory.sqlite_path", "a\0b"),
        ("memory.sqlite_path", "~no-such-user/zeph.db"),
        ("memory.documents.collection", "../etc"),
        ("memory.documents.chunk_size", 0),
        ("embedding.batch_size", -1),
        ("llm.response_cache_ttl_secs", 31_536_001),
        ("llm.timeout_secs", 0),
        ("llm.api_key", 7),
        ("namespace", ""),
        ("namespace", "two words"),
        ("namespace", "n" * 129),
        ("memory.graph.expired_edge_retention_days", -1),
        ("jobs.dispatch_window", [64]),
    ],
)
def test_a_value_of_the_wrong_type_or_range_is_refused_by_name(key, value):
    (line,) = problems(**{key: value})
    assert line.startswith(f"{key} is ")
    assert len(line) < 300


@pytest.mark.parametrize(
    ("table", "wrong", "reason"),
    [
        ("memory.documents", {"chunk_size": 64, "chunk_overlap": 64}, "overlap must be smaller"),
        ("memory.documents", {"chunk_size": 32}, "overlap must be smaller"),
        ("memory.documents", {"vector_weight": 0, "keyword_weight": 0.0}, "both 0"),
        ("memory.semantic", {"vector_weight": 0, "keyword_weight": 0.0}, "both 0"),
        ("memory", {"soft_compaction_threshold": 0.9}, "less than hard_compaction_threshold"),
        ("memory.graph", {"entity_ambiguous_threshold": 0.9}, "at most entity_similarity_threshold"),
        ("jobs", {"lease_secs": 20.0}, "less than half of lease_secs"),
        ("jobs", {"backoff_cap_secs": 1.0}, "at most backoff_cap_secs"),
        ("jobs", {"broker_url": "redis://queue:6379/0"}, "without a password"),
        ("jobs", {"broker_url": "redis://127.0.0.1/0;rediss://user@queue/0"}, "without a password"),
        ("jobs", {"broker_url": "queue"}, "no scheme"),
        ("memory", {"vector_backend": "qdrant", "qdrant_url": "http://q:6333"}, "set qdrant_api_key"),
        ("embedding", {"provider": "openai", "model": "m"}, "needs base_url and model"),
        ("embedding", {"model_path": "/m.onnx"}, "belong together"),
        ("llm", {"provider": "openai", "base_url": "http://localhost:11434/v1"}, "needs base_url and model"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(table, wrong, reason):
    (line,) = problems(**{f"{table}.{name}": value for name, value in wrong.items()})
    assert line.startswith(f"[{table}] ")
    assert reason in line


@pytest.mark.parametrize(
    "url",
    [
        "redis://localhost:6379/0",
        "redis://[::1]:6379/0",
        "redis+socket:///run/redis.sock",
        "rediss://:pass@queue:6379/0",
        "redis://queue:6379/0?password=pass",
        "amqp://guest:guest@queue//",
    ],
)
def test_a_broker_that_is_local_or_has_a_password_is_accepted(url):
    assert load_settings(overrides={"jobs.broker_url": url}).jobs.broker_url.get_secret_value() == url


def test_a_remote_qdrant_with_a_key_is_accepted():
    wanted = {"vector_backend": "qdrant", "qdrant_url": "http://q:6333", "qdrant_api_key": "k"}
    assert load_settings(overrides={"memory": wanted}).memory.qdrant_api_key == SecretStr("k")


def test_secrets_show_in_no_message_and_no_representation(monkeypatch):
    monkeypatch.setenv("ZEPH_LLM__API_KEY", "sesame")
    monkeypatch.setenv("ZEPH_JOBS__BROKER_URL", "redis://:sesame@localhost/0")
    settings = load_settings()
    assert "sesame" not in repr(settings) + str(settings) + repr(settings.describe())

    monkeypatch.setenv("ZEPH_LLM__BASE_URL", "http://me:sesame@host/v1")
    monkeypatch.setenv("ZEPH_LLM__PROVIDER", "openai")
    assert "sesame" not in "".join(problems(jobs__lease_secs=1))


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://:pass@h:1/0", "redis://:***@h:1/0"),
        ("redis://user:p@ss/w@h/0", "redis://user:***@h/0"),
        ("redis://token@h/0", "redis://***@h/0"),
        ("redis://h/0?password=pass&x=1", "redis://h/0?password=***&x=1"),
        ("redis://:a@h/0;redis://:b@i/0", "redis://:***@h/0;redis://:***@i/0"),
        ("http://localhost:6333", "http://localhost:6333"),
        ("/data/a@b", "/data/a@b"),
    ],
)
def test_a_url_is_shown_without_its_password(url, shown):
    assert masked_url(url) == shown


def test_describe_tells_the_origin_of_each_value(data_dir, monkeypatch):
    path = write(data_dir, "[memory]\nhistory_limit = 9\n")
    monkeypatch.setenv("ZEPH_QDRANT_URL", "http://127.0.0.1:1")

    rows = {row.key: row for row in load_settings(overrides={"namespace": "mine"}).describe()}

    assert (rows["memory.history_limit"].value, rows["memory.history_limit"].place) == (9, str(path))
    assert rows["memory.qdrant_url"].source == "environment"
    assert rows["memory.qdrant_url"].place == "ZEPH_QDRANT_URL"
    assert rows["namespace"].source == "override"
    assert (rows["memory.semantic.recall_limit"].value, rows["memory.semantic.recall_limit"].source) == (
        5,
        "default",
    )
    assert rows["memory.sqlite_path"].value == str(data_dir / "zeph.db")


def test_the_generated_file_names_every_setting_and_uncommented_equals_the_defaults(data_dir):
    text = default_config_toml()
    assert tomllib.loads(text) == {
        "memory": {
            name: {} for name in ("semantic", "documents", "routing", "eviction", "sessions", "corrections")
        }
        | {"graph": {"spreading_activation": {}}},
        "embedding": {},
        "llm": {},
        "jobs": {},
    }
    expected = load_settings()

    write(
        data_dir,
        re.sub(r"^# (?=[a-z_]+ = )", "", text, flags=re.MULTILINE),
    )
    settings = load_settings(overrides={"data_dir": str(data_dir)})

    assert settings.model_dump() == expected.model_dump()
    assert {row.key for row in settings.describe() if row.source == "default"} == set()


def test_every_setting_is_read_somewhere():
    """Graph bug 1: keys that were parsed and ignored."""
    root = Path(services.__file__).parents[1]
    code = "\n".join(
        path.read_text(encoding="utf-8")
        for folder in ("services", "workers")
        for path in (root / folder).rglob("*.py")
        if path.name != "settings.py"
    )
    read = set(re.findall(r"\w+", code))
    names = {name for section in sections(Settings) for name in section.model_fields}
    assert len(names) > 90
    # For the agent that holds the conversation: memory compacts what it is told to.
    assert names - read == {"soft_compaction_threshold", "hard_compaction_threshold"}


def sections(model):
    """A section of the settings and those inside it."""
    yield model
    for field in model.model_fields.values():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from sections(field.annotation)


def test_every_setting_has_a_description():
    lines = default_config_toml().splitlines()
    names = [index for index, line in enumerate(lines) if re.match(r"# [a-z_]+ = ", line)]
    assert len(names) > 90
    assert all(re.match(r"# .*[.)]$", lines[index - 1]) for index in names)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"[memory", "not valid TOML"),
        (b"a = 1\na = 2", "not valid TOML"),
        (b'namespace = "\xff"', "not UTF-8"),
    ],
)
def test_a_broken_file_is_refused_by_name(content, reason, data_dir):
    path = data_dir / "config.toml"
    path.write_bytes(content)

    with pytest.raises(errors.SettingsError, match=f"{re.escape(str(path))} is {reason}"):
        load_settings()


def test_a_byte_order_mark_is_no_problem(data_dir):
    (data_dir / "config.toml").write_bytes(b'\xef\xbb\xbfnamespace = "mine"\n')
    assert load_settings().namespace == "mine"


def test_a_file_that_was_asked_for_must_exist(data_dir, monkeypatch):
    with pytest.raises(
        errors.SettingsError, match=r"none\.toml does not exist: create it with `zeph config init"
    ):
        load_settings(data_dir / "none.toml")
    monkeypatch.setenv("ZEPH_CONFIG", str(data_dir))
    with pytest.raises(errors.SettingsError, match="cannot be read"):
        load_settings()


def test_a_table_given_as_a_value_is_explained(data_dir):
    write(data_dir, "memory = 3\n")
    assert problems() == [
        f"memory in {data_dir / 'config.toml'} is a table: write [memory] and its settings below"
    ]


def test_an_unknown_table_is_refused_even_when_empty(data_dir):
    write(data_dir, "[memroy.graph]\n[memory.graph]\n")
    (line,) = problems()
    assert "memroy.graph" in line


def test_the_settings_file_is_found_in_a_data_folder_given_by_the_caller(tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    write(other, 'namespace = "other"\n')

    settings = load_settings(overrides={"data_dir": other})

    assert (settings.namespace, settings.memory.sqlite_path) == ("other", other / "zeph.db")


def test_without_a_data_folder_the_xdg_one_is_used(monkeypatch, tmp_path):
    monkeypatch.delenv("ZEPH_DATA_DIR")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert load_settings().data_dir == tmp_path / ".local/share/zeph"
    monkeypatch.setenv("XDG_DATA_HOME", "relative/is/ignored")
    assert load_settings().data_dir == tmp_path / ".local/share/zeph"
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "xdg"))
    assert load_settings().data_dir == tmp_path / "xdg/zeph"


def test_relative_folders_are_made_absolute_once(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ZEPH_DATA_DIR", "here")
    settings = load_settings(overrides={"memory.sqlite_path": "sub/m.db"})
    monkeypatch.chdir("/")
    assert settings.memory.sqlite_path == tmp_path / "here/sub/m.db"


def test_variables_of_the_test_suite_are_no_settings(monkeypatch):
    monkeypatch.setenv("ZEPH_TEST_QDRANT_URL", "http://localhost:6333")
    assert load_settings() == load_settings()


def test_settings_never_change():
    settings = load_settings()
    with pytest.raises(ValidationError, match="frozen"):
        settings.memory.graph.max_hops = 3
    with pytest.raises(ValidationError, match="Extra inputs"):
        Settings(nonsense=1)


def test_importing_the_settings_reads_nothing_and_loads_nothing_heavy():
    script = (
        "import sys\n"
        "from services import settings\n"
        "heavy = {'pydantic_settings', 'sqlalchemy', 'celery', 'numpy', 'rich', 'typer'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    environment = {"PATH": os.environ["PATH"], "ZEPH_NONSENSE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_a_process_sweeps_several_times_within_a_lease_that_may_have_run_out():
    assert load_settings(None, {}).jobs.own_sweep_interval_secs == 3
    assert load_settings(None, {"jobs.sweep_interval_secs": 1}).jobs.own_sweep_interval_secs == 1
