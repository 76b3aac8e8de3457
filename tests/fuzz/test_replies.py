"""B4: whatever a language model says, each reader gives a value of its type or says that the reply is of no use."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services import errors
from services.corrections.judge import read_judgement
from services.corrections.models import FeedbackSignal
from services.graph import resolution
from services.graph.community_prompt import read_summary
from services.graph.models import Extraction
from services.graph.parser import read_extraction
from services.memory.summary_prompt import Digest, read_plain, read_structured
from tests.fuzz.amounts import MARKS, fuzz

pytestmark = MARKS


def extraction(reply: str) -> Extraction:
    return read_extraction(reply, extractor="llm:m", said_at=1_700_000_000_000_000)


# Each reader, what it gives, and an answer as it should be.
EDGE = {"source": "Ann", "relation": "lives_in", "target": "Rome", "fact": "f", "temporal_hint": "since 2019"}
READERS: dict[str, tuple[Callable[[str], Any], type | tuple[type, ...], dict[str, Any]]] = {
    "graph": (
        extraction,
        Extraction,
        {
            "entities": [{"name": "Ann", "type": "person", "summary": "s"}],
            "edges": [EDGE | {"confidence": 0.9}],
        },
    ),
    "summary": (
        read_structured,
        Digest,
        {"summary": "They met in Rome.", "key_facts": ["Ann is a nurse"], "entities": ["Ann"]},
    ),
    "plain summary": (read_plain, Digest, {"summary": "They met in Rome."}),
    "community": (read_summary, str, {"summary": "They met in Rome."}),
    "resolution": (resolution._read, bool, {"same_entity": True}),
    "judgement": (
        read_judgement,
        (FeedbackSignal, type(None)),
        {"kind": "explicit_rejection", "confidence": 0.8, "reasoning": "r"},
    ),
}
ODD = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.sampled_from(
        [10**400, 1e308, -0.0, "", " ", "\x00", "\ud800", "\u202e", "9" * 5_000, "true", "NaN", "1e999"]
    )
    | st.text(max_size=8)
)
VALUES = st.recursive(
    ODD, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
)


@st.composite
def mutated_value(draw: Any, value: Any) -> Any:
    """The answer with parts of it replaced, dropped, repeated, wrapped or renamed."""
    act = draw(st.integers(0, 9))
    if act == 0:
        return draw(VALUES)
    if act == 1:
        return [value] * draw(st.integers(0, 3))
    if isinstance(value, dict):
        renamed = {name.upper() if not draw(st.integers(0, 9)) else name: it for name, it in value.items()}
        return {name: draw(mutated_value(it)) for name, it in renamed.items() if draw(st.integers(0, 9))}
    if isinstance(value, list):
        return [draw(mutated_value(it)) for it in value]
    return value


@st.composite
def reply(draw: Any, value: Any) -> str:
    """The mutated answer as text, wrapped as models wrap it, then damaged a little."""
    text = json.dumps(draw(mutated_value(value)), ensure_ascii=draw(st.booleans()))
    head = draw(
        st.sampled_from(["", "", "```json\n", '<think>{"kind":', "Sure! ", "[", "{", "\ufeff", "Summary: "])
    )
    tail = draw(st.sampled_from(["", "", "\n```", "</think>", "]", "}", "...", ",", "\x00"]))
    text = f"{head}{text}{tail}"
    for _ in range(draw(st.integers(0, 2))):
        at = draw(st.integers(0, len(text)))
        act = draw(st.integers(0, 3))
        if act == 0:
            text = text[:at]
        elif act == 1:
            text = text[:at] + draw(st.sampled_from([*'"{}[]:,\\', "\\u", "\\ud800", "'", "NaN"])) + text[at:]
        elif act == 2:
            text = text[:at] + text[at + draw(st.integers(1, 9)) :]
        else:
            text = text[:at] + text[at : at + 40] * draw(st.integers(2, 50)) + text[at:]
    return text


@pytest.mark.parametrize("name", READERS)
def test_any_reply_is_a_typed_result_or_of_no_use_b4(name):
    read, kind, value = READERS[name]

    @fuzz(commit=350, nightly=10_000)
    @given(reply(value) | st.text(max_size=60))
    def check(text: str) -> None:
        try:
            found = read(text)
        except errors.ReplyUnusable:
            return
        assert isinstance(found, kind)
        # It goes into a database, which holds no half of a pair.
        json.dumps(found, default=asdict, ensure_ascii=False).encode()

    check()
