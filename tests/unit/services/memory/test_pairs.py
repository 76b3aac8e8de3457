from dataclasses import replace

import pytest

from services.memory.models import Message, Origin, Role
from services.memory.pairs import paired

PLAIN = Message(
    id=1,
    namespace="default",
    conversation_id=1,
    role=Role.USER,
    content="",
    speaker=None,
    origin=Origin.USER,
    parts=(),
    agent_visible=True,
    user_visible=True,
    created_at=1,
    compacted_at=None,
    deleted_at=None,
    last_accessed_at=None,
    access_count=0,
)


def text(content):
    return replace(PLAIN, content=content)


def call(number, content=""):
    return replace(PLAIN, role=Role.ASSISTANT, content=content, parts=({"kind": "tool_use", "id": number},))


def result(number):
    return replace(PLAIN, parts=({"kind": "tool_result", "tool_use_id": number, "content": "done"},))


def test_a_whole_exchange_is_left_as_it_is():
    messages = [text("go"), call("a"), result("a"), text("thanks")]
    assert paired(messages) == messages


@pytest.mark.parametrize(
    ("messages", "left"),
    [
        ([text("go"), call("a")], [text("go")]),
        ([result("a"), text("go")], [text("go")]),
        ([result("a"), call("a")], []),
        ([call("a"), text("go"), call("b"), result("b")], [text("go"), call("b"), result("b")]),
    ],
    ids=["interrupted", "page edge", "wrong order", "interrupted earlier"],
)
def test_b47_half_an_exchange_is_left_out(messages, left):
    assert paired(messages) == left


@pytest.mark.parametrize(
    ("messages", "left"),
    [
        ([call("call_0"), result("call_0"), text("and"), call("call_0"), result("call_0")], None),
        (
            [call("call_0"), result("call_0"), text("and"), call("call_0")],
            [call("call_0"), result("call_0"), text("and")],
        ),
        (
            [call("call_0"), text("and"), call("call_0"), result("call_0")],
            [text("and"), call("call_0"), result("call_0")],
        ),
        ([call(["no", "id"]), result(["no", "id"])], None),
    ],
    ids=["twice", "the second interrupted", "the first interrupted", "no text"],
)
def test_b47_calls_of_one_id_are_paired_in_their_order(messages, left):
    assert paired(messages) == (messages if left is None else left)


def test_b47_what_was_said_beside_an_interrupted_call_stays():
    assert paired([call("a", "let me look")]) == [replace(call("a", "let me look"), parts=())]


def test_other_parts_and_empty_messages_without_parts_stay():
    image = replace(PLAIN, parts=({"kind": "image"},))
    assert paired([image, PLAIN]) == [image, PLAIN]
