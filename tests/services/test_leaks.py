"""I11 and I13: the broker holds ids alone, and no secret gets into a log, the ledger or a figure."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from services.documents.models import DocumentMetadata
from services.jobs.models import JobState
from services.memory.models import Role
from tests.builders import job, rows
from tests.fake_openai import FakeOpenAi, Reply
from tests.services.harness import Stack, wait_until
from tests.services.leaks import SECRETS, leaks, words_in_broker

pytestmark = [pytest.mark.services, pytest.mark.timeout(400)]

TOLD = "sk-canary-that-a-user-told-4714"
SAID = f"My key is {TOLD}, and the password: {TOLD}-2 too."


def test_the_broker_holds_ids_and_no_secret_is_written_anywhere_i11_i13(start: Callable[..., Stack]):
    with FakeOpenAi() as server:
        key = SECRETS["llm__api_key"]
        # A server that repeats what it was sent, the key included, first in errors and then in what it says.
        server.replies.extend(
            Reply(401, {"error": {"message": f"{key} is no key; you said: {SAID}"}}) for _ in range(2)
        )
        server.chat = lambda body: f"I think that {body['messages'][-1]['content']} and {key} are secrets."
        stack = start(
            llm__provider="openai",
            llm__base_url=server.base_url,
            llm__model="m",
            memory__graph__enabled=True,
            memory__summarization_threshold=3,
            jobs__max_attempts=2,
        )
        container = stack.container
        for number in range(4):
            container.memory.remember(Role.USER, f"{number}: {SAID}", conversation="ops")
        container.ingestion.add_text(SAID, DocumentMetadata("note", "text/plain"))
        # Hints wait in the broker as long as there is no worker.
        assert leaks(stack, TOLD) == []
        assert words_in_broker(stack) == []
        assert any(text for text in queued(stack))

        worker = stack.worker()
        live = "SELECT 1 FROM jobs WHERE state NOT IN ('done', 'dead') LIMIT 1"
        wait_until(lambda: not rows(container, live), "all work has ended", worker, seconds=240, pause=0.25)
        dead = [each for (each,) in rows(container, "SELECT id FROM jobs WHERE state = 'dead'")]
        assert dead
        assert all(job(container, each).state is JobState.DEAD for each in dead)
        for command in (
            ["jobs", "list", "--json"],
            ["doctor", "--json"],
            ["config", "show"],
            ["jobs", "stats"],
        ):
            stack.zeph(*command).wait(60)
    assert len(server.requests) > 2
    assert leaks(stack, TOLD) == []
    assert words_in_broker(stack) == []


def queued(stack: Stack) -> list[bytes]:
    client = stack.redis.client()
    try:
        return [
            each
            for key in client.scan_iter()
            if client.type(key) == b"list"
            for each in client.lrange(key, 0, -1)
        ]
    finally:
        client.close()


def test_what_is_leaked_is_found(start: Callable[..., Stack]):
    stack = start()
    client = stack.redis.client()
    body = "W1sidGVsbCBldmVyeWJvZHkiXSwge30sIG51bGxd"  # [["tell everybody"], {}, null]
    client.lpush("graph", json.dumps({"body": body, "headers": {}}))
    client.hset("unacked", "tag", json.dumps([{"body": body}, "", "graph"]))
    stack.container.database  # noqa: B018 - makes the tables
    (stack.folder / "worker.err").write_text("the key is " + SECRETS["embedding__api_key"])
    assert len(words_in_broker(stack)) == 2
    assert leaks(stack, "tell everybody") == [
        "sk-canary-of... in worker.err",
        "tell everybo... in redis graph, body",
        "tell everybo... in redis unacked, body",
    ]
    (stack.folder / "worker.err").unlink()
    client.flushall()
    client.close()
