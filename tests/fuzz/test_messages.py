"""B1: any text can be remembered and read back, or is refused as input; nothing else happens."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from services import errors
from services.memory.models import NewMessage, Role, storable
from tests.builders import assert_healthy, rows, work
from tests.fuzz.amounts import MARKS, fuzz

pytestmark = MARKS

PIECES = st.sampled_from(
    [
        "\x00",
        "\ud800",
        "\udc00",
        "\ud83d\ude00",
        "\u202e",
        "\u2066",
        "\ufeff",
        "\u200b",
        "\uffff",
        "\x1b[31m",
        "\r\n",
        "\u2028",
        "e\u0301" * 50,
        "x" * 1_000,
        "</memory>",
        "<|endoftext|>",
        "{{x}}",
        "';--",
        "漢字",
        "ﷺ",
        " ",
    ]
)
# Now and then a megabyte, of one character or of a few over and over.
LONG = st.tuples(PIECES | st.characters(), st.sampled_from([1_000, 30_000, 1_000_000])).map(
    lambda it: (it[0] * it[1])[: it[1]]
)
TEXTS = st.text(max_size=60) | st.lists(PIECES | st.text(max_size=5), max_size=10).map("".join)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)
PARTS = st.lists(
    st.fixed_dictionaries(
        {"kind": st.sampled_from(["text", "tool_use", "tool_result", ""]) | TEXTS}, optional={"text": VALUES}
    )
    | st.dictionaries(TEXTS, VALUES, max_size=3),
    max_size=3,
)


def test_any_text_is_read_back_as_it_was_said_or_refused_b1(build):
    # A full ledger leaves the vectors to the schedule, which does not run here.
    container = build(memory__graph__enabled=True, jobs__max_live_jobs=1_000_000)
    said: dict[int, str] = {}

    @fuzz(commit=150, nightly=50_000)
    @given(TEXTS, TEXTS | st.none(), PARTS, st.none() | st.integers(-(2**70), 2**70), TEXTS)
    def check(text: Any, speaker: Any, parts: Any, created_at: Any, key: Any) -> None:
        try:
            found = container.memory.remember(
                "user", text, conversation="c", speaker=speaker, parts=parts, created_at=created_at
            )
        except errors.InputError as error:
            assert str(error)  # noqa: PT017 - both outcomes are right
        else:
            said[found] = storable(text)[0]
            with container.database.read() as unit:
                assert unit.messages.get("default", [found])[found].content == said[found]
        try:
            container.memory.remember("user", text, conversation=key)
        except errors.InputError as error:
            assert str(error)  # noqa: PT017

    check()
    stored = dict(rows(container, "SELECT id, content FROM messages"))
    assert said.items() <= stored.items()
    work(container)
    assert rows(container, "SELECT kind, error_message FROM jobs WHERE state = 'dead'") == []
    assert_healthy(container)


def test_long_texts_are_read_back_whole_b1(container):
    @fuzz(commit=8, nightly=300)
    @given(LONG)
    def check(text: Any) -> None:
        added = container.memory.remember_many("c", [NewMessage(Role.USER, storable(text)[0])])
        stored = rows(container, f"SELECT content FROM messages WHERE id = {added[0]}")
        assert stored == [(storable(text)[0],)]

    check()
    work(container)
    assert rows(container, "SELECT kind, error_message FROM jobs WHERE state = 'dead'") == []
