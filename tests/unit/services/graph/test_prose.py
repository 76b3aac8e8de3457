"""Code, logs and settings that stand in a message state nothing (graph bug 17)."""

from __future__ import annotations

import time

import pytest

from services.graph.prose import prose, within


@pytest.mark.parametrize(
    "pasted",
    [
        "```python\nimport os\nAlice = Bob()\n```",
        "~~~\nAlice\n~~~",
        "``` \nAlice without an end",
        "\n    indented = Alice\n    more(Bob)\n",
        "2024-01-01 12:00:00 ERROR [main] Alice failed",
        "ERROR: Alice failed",
        "timeout = 30",
        'name = "Alice and Bob"',
        "app = Flask(__name__, x)",
        "[memory.graph]",
        "enabled: true",
        '{"alice": 1, "bob": [',
        '  "alice": "bob",',
        "$ pip install alice",
        ">>> Alice()",
        "@@ -1,3 +1,3 @@",
        "Traceback (most recent call last):",
        '  File "alice.py", line 3',
        "  at alice.Bob(alice.js:3)",
        "import alice",
        "from alice import bob",
        "def alice(bob):",
        "for alice in bob():",
        "class Alice {",
        "x = Alice();",
        "#include <alice.h>",
        "<div class='alice'>",
        "| Alice | Bob |",
        "https://alice.example/Bob?c=D",
    ],
)
def test_what_is_pasted_goes_and_what_is_said_stays(pasted):
    assert prose(pasted) == ""
    kept = prose(f"Ann lives in Rome.\n\n{pasted}")
    assert kept == "Ann lives in Rome."


@pytest.mark.parametrize(
    "text",
    [
        "if you see Bob: tell him",
        "let's see what Bob says:",
        "Note: Ann likes it",
        "- Ann lives here\n* Bob too",
        "> Ann wrote that",
        "She knows; she paused; then she left;",
        "I like C++ {really}",
        "from 2019 on I lived in Rome",
        "import taxes are high",
        "return to sender",
        "password=[redacted] Ann lives in Rome",
        "\u6211\u4f4f\u5728\u5317\u4eac\u3002",
    ],
)
def test_what_people_write_stays_as_it_is(text):
    assert prose(text) == text


def test_an_address_in_a_sentence_goes_alone():
    assert prose("See https://x.example/a_(b) for Ann.").split() == ["See", "for", "Ann."]


def test_a_cut_text_ends_between_two_words_and_never_inside_a_character():
    assert within("Ann lives in Rome", 12) == "Ann lives"
    assert within("\u674e\u660e" * 10, 10) == "\u674e\u660e\u674e"
    assert within("short", 100) == "short"


def test_what_was_quoted_from_memory_goes_to_its_end():
    """Graph bug 24: an agent's own recalled memory is extracted again."""
    quoted = "<memory>\n<message id=1>Bob left.\n\n```\nI said so.</message>\n</memory>"
    assert prose(f"{quoted}\n\nAnn lives in Rome.") == "Ann lives in Rome."
    assert prose(f"Ann lives in Rome.\n{quoted}") == "Ann lives in Rome."
    assert prose("<memory>\nBob left, and here the text was cut") == ""
    assert prose("My <memory> of Bob\nis good.") == "My <memory> of Bob\nis good."


@pytest.mark.parametrize(
    "text",
    [
        "<memory>\n" * 20_000,
        "`" * 100_000,
        "```\n" * 20_000,
        "\n    x" * 20_000,
        "{" * 50_000,
        "a=" * 50_000,
        "[" * 50_000 + "\n",
    ],
)
def test_no_text_makes_it_slow(text):
    started = time.process_time()
    prose(text)
    assert time.process_time() - started < 2
