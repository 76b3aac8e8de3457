"""Two sessions as a user has them, with real workers: what the first one corrects, the second one is given."""

from __future__ import annotations

import json
from typing import Any

import pytest

from services.bootstrap import Container
from services.jobs.models import DETECT_MISSING
from tests.builders import enqueue, new_job
from tests.services.harness import Stack, wait_until

pytestmark = [pytest.mark.services, pytest.mark.timeout(240)]

ASKED = "How do I install the dependencies?"
SESSION_ONE = (
    ("user", ASKED),
    ("assistant", "Run npm install."),
    ("user", "No, that's wrong, we use pnpm here."),
    ("assistant", "Then run pnpm install."),
    ("user", "From now on answer in German."),
)


def corrections_given(stack: Stack, question: str) -> list[str]:
    """The corrections that another process puts into the context of a question."""
    answer: dict[str, Any] = json.loads(stack.run_zeph("context", question, "--json").stdout)
    return [quote["text"] for quote in answer["quotes"] if quote["part"] == "correction"]


def test_what_one_session_corrects_the_next_is_given_even_if_the_ledger_was_full_meanwhile(start):
    stack = start()
    settings = stack.settings
    crowded = settings.model_copy(update={"jobs": settings.jobs.model_copy(update={"max_live_jobs": 1})})
    with Container(crowded) as first:
        first.sessions().create_acp_session("one")
        for role, text in SESSION_ONE:
            first.memory.remember(role, text, conversation="one")
        assert first.corrections.select() == []
    worker = stack.worker()
    # As beat does every five minutes.
    enqueue(stack.container, new_job(DETECT_MISSING))
    corrections = stack.container.corrections
    wait_until(lambda: len(corrections.select()) == 2, "both corrections are found", worker, seconds=60)
    wait_until(lambda: bool(corrections.recall(ASKED).hits), "the correction has vectors", worker, seconds=60)

    told = corrections_given(stack, ASKED)
    assert any("we use pnpm here" in text and f"asked: {ASKED}" in text for text in told)
    assert SESSION_ONE[4][1] in told
    # The order holds for whatever is asked, the correction for what it is about.
    assert corrections_given(stack, "What is the weather like?") == [SESSION_ONE[4][1]]

    (order,) = corrections.select(standing=True)
    stack.run_zeph("corrections", "undo", str(order.id))
    assert corrections_given(stack, "What is the weather like?") == []
