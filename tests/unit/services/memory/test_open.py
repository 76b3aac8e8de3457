"""Memory as a program uses it: opened with `with`, shared by threads, awaited from asyncio."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from services import SemanticMemory, errors
from services.bootstrap import Container
from services.settings import load_settings


@pytest.fixture
def settings(tmp_path, build, monkeypatch):
    """The overrides for a data folder with an empty database."""
    build()
    monkeypatch.setenv("ZEPH_CONFIG", "")
    return {"data_dir": str(tmp_path / "data"), "embedding.provider": "fake", "jobs.min_free_disk_bytes": 0}


def test_memory_opens_remembers_recalls_builds_a_context_and_closes(settings):
    with SemanticMemory.open(settings) as memory:
        message = memory.remember("user", "the winch is broken")
        assert memory.recall("winch").hits[0].message.id == message
        assert "the winch is broken" in memory.build_context("winch", 200).text
    with SemanticMemory.open(settings) as memory:
        assert memory.history()[0].access_count == 2


def test_settings_come_from_a_file_too(settings, tmp_path):
    config = tmp_path / "config.toml"
    config.write_text('namespace = "other"\n', encoding="utf-8")
    with SemanticMemory.open(settings, config=config) as memory:
        memory.remember("user", "theirs")
        assert memory.stats(namespace="other").messages == 1
    with pytest.raises(errors.SettingsError, match="nonsense"):
        SemanticMemory.open(settings | {"nonsense": 1})


def test_closing_gives_back_what_opening_took_and_twice_does_no_harm(settings):
    before = set(threading.enumerate())
    memory = SemanticMemory.open(settings)
    memory.remember("user", "the winch is broken")
    memory.recall("winch")
    memory.close()
    memory.close()
    assert set(threading.enumerate()) <= before


def test_a_memory_of_a_container_leaves_the_container_open(container):
    with container.memory as memory:
        memory.remember("user", "the winch is broken")
    assert container.memory.history()


def test_parts_are_made_once_whichever_thread_asks_first(settings):
    for _ in range(5):
        gate = threading.Barrier(16)
        with Container(load_settings(None, settings)) as container, ThreadPoolExecutor(16) as threads:

            def ask(_number, gate=gate, container=container):
                gate.wait()
                return container.memory, container.sqlite, container.embedder

            assert len(set(threads.map(ask, range(16)))) == 1


@pytest.mark.slow
def test_many_threads_share_one_memory_and_lose_nothing(settings):
    def work(number):
        for turn in range(4):
            memory.remember("user", f"winch {number} turn {turn}", conversation=f"c{number}")
            assert memory.recall(f"winch {number}", conversation=f"c{number}").hits
            assert memory.build_context(f"winch {number}", 150).tokens <= 150
        return [message.content for message in memory.history(f"c{number}")]

    with SemanticMemory.open(settings) as memory:
        with ThreadPoolExecutor(16) as threads:
            histories = list(threads.map(work, range(16)))
        assert memory.stats().messages == 64
    assert histories == [[f"winch {number} turn {turn}" for turn in range(4)] for number in range(16)]


def test_memory_is_awaited_through_threads(settings):
    async def converse():
        with SemanticMemory.open(settings) as memory:
            said = (asyncio.to_thread(memory.remember, "user", f"winch {number}") for number in range(20))
            ids = await asyncio.gather(*said)
            context = await asyncio.to_thread(memory.build_context, "winch", 300)
            return ids, context

    ids, context = asyncio.run(converse())
    assert len(set(ids)) == 20
    assert context.quotes
