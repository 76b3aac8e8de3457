import json

import pytest

from services.memory.transcript import import_transcript
from tests.builders import rows

SECOND = 1_000_000


def run(container, *lines, conversation="chat"):
    raw = [line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines]
    return import_transcript(container.memory, raw, conversation=conversation)


def said(content, role="user", **fields):
    return {"role": role, "content": content, **fields}


def contents(container, conversation="chat"):
    return [message.content for message in container.memory.history(conversation)]


def test_every_field_of_a_line_is_stored(container):
    parts = [{"kind": "text", "text": "hello"}]
    run(container, said("hello", "assistant", speaker="Ann", created_at=1_700_000_000, parts=parts, other=1))
    (message,) = container.memory.history("chat")
    assert (message.role, message.content, message.speaker) == ("assistant", "hello", "Ann")
    assert (message.created_at, list(message.parts)) == (1_700_000_000 * SECOND, parts)


def test_importing_twice_adds_nothing_and_a_longer_file_adds_its_tail(container):
    lines = [
        said("hello"),
        said("ok", "assistant"),
        said("ok", "assistant"),
        said("bye", conversation="other"),
    ]
    assert run(container, *lines).added == 4
    again = run(container, *lines, said("more"))
    assert (again.added, again.known) == (1, 4)
    assert contents(container) == ["hello", "ok", "ok", "more"]
    assert contents(container, "other") == ["bye"]


def test_lines_that_differ_only_in_their_parts_are_different_messages(container):
    uses = [said("", "assistant", parts=[{"kind": "tool_use", "id": number}]) for number in "ab"]
    assert run(container, uses[0]).added == 1
    report = run(container, uses[1], uses[0])
    assert (report.added, report.known) == (1, 1)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"nonsense", "not JSON: Expecting value"),
        (b"[" * 100_000, "not JSON"),
        (b"\xff\xfe{", "not UTF-8 at byte 0"),
        ([], "not a JSON object"),
        (said("x", "robot"), "role is 'robot'"),
        ({"content": "x"}, "role is missing"),
        ({"role": "user"}, "content is missing"),
        (said(7), "content is no text"),
        (said("x", parts="text"), "parts is no list of objects"),
        (said("x", parts=["text"]), "parts is no list of objects"),
        (said("x", created_at="yesterday"), "created_at is 'yesterday'"),
        (said("x", created_at=True), "created_at is 'True'"),
        (said("x", created_at=1e300), "created_at is 1000000000000000"),
        (said("x", created_at=-1e12), "created_at is -1000000000000000000: use whole microseconds"),
        (b'{"role": "user", "content": "x", "created_at": NaN}', "created_at is 'nan'"),
    ],
)
def test_a_bad_line_is_named_and_the_rest_goes_on(container, line, reason):
    report = run(container, said("before"), line, said("after"))
    ((number, text),) = [(bad.number, bad.reason) for bad in report.bad]
    assert (number, text.startswith(reason)) == (2, True), text
    assert (report.added, contents(container)) == (2, ["before", "after"])


def test_split_pairs_are_joined_lone_halves_replaced_and_nuls_counted(container):
    """Cases unicode-01 and unicode-03."""
    report = run(
        container,
        b'{"role": "user", "content": "cut emoji \\ud83d"}',
        b'{"role": "user", "content": "whole \\ud83d\\ude00"}',
        b'{"role": "user", "content": "nul\\u0000 and \\u0000"}',
    )
    assert (report.added, report.nuls, report.bad) == (3, 2, ())
    assert contents(container) == ["cut emoji \ufffd", "whole \U0001f600", "nul and "]


def test_blank_lines_and_a_byte_order_mark_are_no_errors(container):
    report = run(
        container, b"\xef\xbb\xbf" + json.dumps(said("first")).encode(), b"\n", said("second"), b"  \n"
    )
    assert (report.added, report.bad) == (2, ())


@pytest.mark.parametrize(
    ("value", "microseconds"),
    [
        ("2026-01-15T10:30:00", 1_768_473_000 * SECOND),
        ("2026-01-15T10:30:00Z", 1_768_473_000 * SECOND),
        ("2026-01-15T10:30:00.000001+02:00", 1_768_465_800 * SECOND + 1),
        ("1969-12-31T23:59:59Z", -SECOND),
        (1_768_473_000, 1_768_473_000 * SECOND),
        (1_768_473_000.25, 1_768_473_000 * SECOND + 250_000),
        (1_768_473_000_000, 1_768_473_000 * SECOND),
        (1_768_473_000_000_000, 1_768_473_000 * SECOND),
        (0, 0),
    ],
)
@pytest.mark.parametrize("zone", ["Asia/Shanghai", "America/Los_Angeles"])
def test_times_are_utc_unless_they_say_otherwise_wherever_it_runs(
    container, monkeypatch, value, microseconds, zone
):
    import time

    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        run(container, said("x", created_at=value))
    finally:
        monkeypatch.undo()
        time.tzset()
    assert rows(container, "SELECT created_at FROM messages") == [(microseconds,)]


def test_lines_of_several_conversations_keep_their_order_within_each(container):
    run(container, *(said(str(number), conversation="ab"[number % 2]) for number in range(10)))
    assert contents(container, "a") == ["0", "2", "4", "6", "8"]
    assert contents(container, "b") == ["1", "3", "5", "7", "9"]


def test_an_interrupted_import_is_repeated_as_a_whole(container, monkeypatch):
    lines = [said(f"line {number}") for number in range(1_200)]
    add = container.memory._add
    calls = []

    def fail_later(*arguments):
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return add(*arguments)

    monkeypatch.setattr(container.memory, "_add", fail_later)
    with pytest.raises(KeyboardInterrupt):
        run(container, *lines)
    report = run(container, *lines)
    assert (report.added, report.known) == (700, 500)
    assert rows(container, "SELECT count(*), count(DISTINCT content) FROM messages") == [(1_200, 1_200)]
