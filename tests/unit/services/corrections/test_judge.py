"""When a language model is asked about a message, how often, and how its reply is read."""

from __future__ import annotations

import pytest

from services import errors
from services.adapters.in_memory import ManualClock, ScriptedModel
from services.corrections.judge import CorrectionJudge, read_judgement
from services.corrections.models import CorrectionKind, FeedbackSignal
from services.language.recorded import RecordedModel


def judge(container, *replies, calls_per_minute=5):
    clock = ManualClock()
    model = ScriptedModel(*replies)
    made = CorrectionJudge(RecordedModel(container.database, model), clock, calls_per_minute=calls_per_minute)
    return made, model, clock


def signal(confidence):
    return FeedbackSignal(CorrectionKind.EXPLICIT_REJECTION, confidence)


@pytest.mark.parametrize(
    ("confidence", "asked"),
    [(0.49, False), (0.5, True), (0.7, True), (0.79, True), (0.8, False), (1.0, False)],
)
def test_only_what_is_neither_clear_nor_hopeless_is_judged(container, confidence, asked):
    made, _, _ = judge(container)
    assert made.is_asked(signal(confidence)) is asked
    assert not made.is_asked(None)


def test_so_many_calls_in_any_minute_and_no_more(container):
    reply = '{"kind": "factual", "confidence": 0.9}'
    made, model, clock = judge(container, *[reply] * 10, calls_per_minute=2)

    def asked(number):
        return made.ask(f"message {number}", "an answer", namespace="default") is not None

    assert [asked(1), asked(2), asked(3)] == [True, True, False]
    clock.advance(59)
    assert not asked(4)
    clock.advance(1)
    assert [asked(5), asked(6), asked(7)] == [True, True, False]
    assert len(model.requests) == 4


@pytest.mark.parametrize(
    ("reply", "wanted"),
    [
        ('{"kind": "factual", "confidence": 0.9}', (CorrectionKind.FACTUAL, 0.9)),
        ('{"kind": " Self Correction ", "confidence": 1}', (CorrectionKind.SELF_CORRECTION, 1.0)),
        ('Sure!\n```json\n{"kind": "repetition", "confidence": 7}\n```', (CorrectionKind.REPETITION, 1.0)),
        ('{"kind": "factual", "confidence": -3}', (CorrectionKind.FACTUAL, 0.0)),
    ],
)
def test_a_reply_is_read_as_it_is_meant(reply, wanted):
    found = read_judgement(reply)
    assert (found.kind, found.confidence) == wanted
    assert not found.targets_turn


@pytest.mark.parametrize(
    "reply", ['{"kind": "none", "confidence": 1}', '{"kind": "sarcasm", "confidence": 1}']
)
def test_no_kind_and_an_unknown_kind_are_none(reply):
    assert read_judgement(reply) is None


@pytest.mark.parametrize(
    "reply",
    [
        "I think so.",
        '{"kind": 3, "confidence": 1}',
        '{"kind": "factual", "confidence": "high"}',
        '{"kind": "factual", "confidence": NaN}',
        '{"kind": "factual", "confidence": true}',
    ],
)
def test_a_reply_that_says_nothing_is_an_error_and_not_none(reply):
    with pytest.raises(errors.ReplyUnusable):
        read_judgement(reply)
