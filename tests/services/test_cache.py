"""Many processes with the same questions, and what one session teaches the next through real workers."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from services.bootstrap import open_container
from tests.fake_openai import FakeOpenAi
from tests.services.harness import Stack, wait_until

pytestmark = [pytest.mark.services, pytest.mark.timeout(300)]

PROMPTS, ASKERS = 500, 10

ASKER = """
import sys
import httpx
from services import cached_client, open_container

class Client:
    def __init__(self, base_url):
        self.base_url = base_url
        self.chat = self.completions = self
        self.http = httpx.Client(timeout=60)

    def create(self, **body):
        return self.http.post(f"{self.base_url}/chat/completions", json=body).json()

data_dir, base_url, prompts = sys.argv[1:]
with open_container({"data_dir": data_dir, "embedding.provider": "none"}) as zeph:
    client = cached_client(Client(base_url), zeph.response_cache)
    zeph.response_cache.stats()
    print("ready", flush=True)
    sys.stdin.readline()
    for number in range(int(prompts)):
        messages = [{"role": "user", "content": f"prompt {number}"}]
        reply = client.chat.completions.create(model="m", messages=messages)
        assert reply["choices"][0]["message"]["content"] == f"answer to prompt {number}", reply
"""


def test_five_hundred_prompts_of_ten_processes_at_once_are_asked_once_each(tmp_path: Path) -> None:
    with open_container({"data_dir": str(tmp_path), "embedding.provider": "none"}) as zeph:
        assert zeph.response_cache.stats().entries == 0
    with FakeOpenAi() as server:
        server.chat = lambda body: f"answer to {body['messages'][0]['content']}"
        command = [sys.executable, "-c", ASKER, str(tmp_path), server.base_url, str(PROMPTS)]
        askers = [
            subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            for _ in range(ASKERS)
        ]
        try:
            for asker in askers:
                assert asker.stdout is not None
                assert asker.stdout.readline() == "ready\n"
            for asker in askers:
                assert asker.stdin is not None
                asker.stdin.write("go\n")
                asker.stdin.flush()
            assert [asker.wait(280) for asker in askers] == [0] * ASKERS
        finally:
            for asker in askers:
                asker.kill()
                asker.communicate()
        assert PROMPTS <= len(server.requests) <= PROMPTS * 1.01


def test_what_one_session_corrects_the_next_is_given_through_celery_workers(start: type[Stack]) -> None:
    stack = start()
    stack.worker()
    memory = stack.container.memory
    memory.remember("user", "How do I install the dependencies?", conversation="one")
    memory.remember("assistant", "Run npm install.", conversation="one")
    memory.remember("user", "No, that's wrong, we use pnpm here.", conversation="one")

    def given() -> bool:
        process = stack.run_zeph("context", "How do I install the dependencies?", "--json")
        quotes = json.loads(process.stdout)["quotes"]
        return any(quote["part"] == "correction" and "pnpm" in quote["text"] for quote in quotes)

    wait_until(given, "the context of another process quotes the correction", pause=0.2)
