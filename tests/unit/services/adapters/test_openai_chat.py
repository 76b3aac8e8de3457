import time

import pytest

from services import errors
from services.adapters.openai_chat import OpenAiChat
from services.ports import ChatReply, ChatRequest
from tests.fake_openai import FakeOpenAi, Reply

KEY = "sk-secret-of-the-test"
SCHEMA = {"type": "object", "properties": {"summary": {"type": "string"}}}
PLAIN = ChatRequest("Be brief.", "Hello")
STRUCTURED = ChatRequest("Answer in JSON.", "Hello", schema=SCHEMA, max_tokens=100)


@pytest.fixture
def server():
    with FakeOpenAi() as running:
        running.chat = lambda _request: '{"summary": "s"}'
        yield running


@pytest.fixture
def connect(server):
    made = []

    def make(**options):
        options.setdefault("base_url", server.base_url)
        made.append(OpenAiChat(options.pop("base_url"), KEY, "m", **options))
        return made[-1]

    yield make
    for model in made:
        model.close()


def completion(content, finish_reason="stop", **message):
    return Reply(
        body={"choices": [{"message": {"content": content, **message}, "finish_reason": finish_reason}]}
    )


def test_a_request_names_model_key_roles_limit_and_schema(server, connect):
    assert connect().complete(STRUCTURED) == ChatReply('{"summary": "s"}', 10, 5)
    request = server.requests[0]
    assert request.path == "/v1/chat/completions"
    assert request.headers["Authorization"] == f"Bearer {KEY}"
    assert request.body == {
        "model": "m",
        "max_tokens": 100,
        "temperature": 0,
        "response_format": {"type": "json_schema", "json_schema": {"name": "reply", "schema": SCHEMA}},
        "messages": [
            {"role": "system", "content": "Answer in JSON."},
            {"role": "user", "content": "Hello"},
        ],
    }


def test_without_a_schema_no_format_is_asked_for(server, connect):
    connect().complete(PLAIN)
    assert "response_format" not in server.requests[0].body


def test_a_server_that_refuses_schemas_is_asked_for_objects_and_that_is_remembered(server, connect):
    server.replies.append(Reply(400, {"error": {"message": "response_format json_schema is not supported"}}))
    model = connect()
    model.complete(STRUCTURED)
    model.complete(STRUCTURED)
    formats = [request.body["response_format"]["type"] for request in server.requests]
    assert formats == ["json_schema", "json_object", "json_object"]
    assert '"summary"' in server.requests[1].body["messages"][0]["content"]


def test_a_server_that_refuses_objects_too_is_told_in_words_and_that_is_remembered(server, connect):
    server.replies.extend([Reply(400, {"error": "no"}), Reply(422, {"error": "no"})])
    model = connect()
    model.complete(STRUCTURED)
    model.complete(STRUCTURED)
    assert ["response_format" in request.body for request in server.requests] == [True, True, False, False]
    assert '"summary"' in server.requests[2].body["messages"][0]["content"]


def test_a_request_that_is_refused_in_every_form_leaves_the_next_one_its_schema(server, connect):
    server.replies.extend([Reply(400, {"error": f"prompt too long {i}"}) for i in range(3)])
    model = connect()
    with pytest.raises(errors.ModelRejected, match="prompt too long 0"):
        model.complete(STRUCTURED)
    model.complete(STRUCTURED)
    assert server.requests[3].body["response_format"]["type"] == "json_schema"


def test_newer_parameter_names_are_learnt_from_the_refusal(server, connect):
    server.replies.append(Reply(400, {"error": {"message": "use 'max_completion_tokens' instead"}}))
    server.replies.append(Reply(400, {"error": {"message": "'temperature' does not support 0"}}))
    model = connect()
    model.complete(STRUCTURED)
    model.complete(STRUCTURED)
    for request in server.requests[2:]:
        assert request.body["max_completion_tokens"] == 100
        assert not {"max_tokens", "temperature"} & set(request.body)
        assert request.body["response_format"]["type"] == "json_schema"


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503])
def test_what_may_pass_is_unavailable_with_the_wish_of_the_server(server, connect, status):
    server.replies.append(Reply(status, {"error": {"message": "later"}}, {"Retry-After": "7"}))
    with pytest.raises(errors.ModelUnavailable, match=rf"status {status}: later") as caught:
        connect().complete(STRUCTURED)
    assert caught.value.retry_after_seconds == 7
    assert len(server.requests) == 1


@pytest.mark.parametrize("status", [400, 401, 403, 404])
def test_what_cannot_pass_is_rejected_without_showing_the_key(server, connect, status):
    server.replies.append(Reply(status, {"error": {"message": f"bad key {KEY} " + "x" * 1_000}}))
    with pytest.raises(errors.ModelRejected, match=r"bad key \*\*\* xxx") as caught:
        connect().complete(PLAIN)
    assert KEY not in str(caught.value)
    assert len(str(caught.value)) < 500
    assert (caught.value.status, len(server.requests)) == (status, 1)


def test_a_key_that_a_server_repeats_from_a_message_is_not_shown(server, connect):
    told = "sk-canary-that-a-user-told"
    server.replies.append(Reply(401, {"error": f"you said: my key is {told}, and the password: open-sesame"}))
    with pytest.raises(errors.ModelRejected) as caught:
        connect().complete(ChatRequest("s", f"My key is {told}."))
    assert told not in str(caught.value)
    assert "open-sesame" not in str(caught.value)
    assert "[redacted]" in str(caught.value)


def test_no_server_is_unavailable_and_soon_known(connect):
    started = time.monotonic()
    with pytest.raises(errors.ModelUnavailable, match=r"127\.0\.0\.1:9"):
        connect(base_url="http://127.0.0.1:9/v1").complete(PLAIN)
    assert time.monotonic() - started < 3


def test_a_slow_server_is_given_up_as_a_timeout(server, connect):
    server.replies.append(Reply(delay=5))
    with pytest.raises(errors.ModelTimeout, match=r"0\.1 s"):
        connect(timeout_seconds=0.1).complete(PLAIN)


def test_a_cut_off_reply_is_asked_for_once_more_with_more_room(server, connect):
    server.replies.append(completion('{"summary": "never en', "length"))
    assert connect().complete(STRUCTURED).text == '{"summary": "s"}'
    assert [request.body["max_tokens"] for request in server.requests] == [100, 400]


def test_a_fresh_request_has_the_room_at_once_and_is_not_asked_a_second_time(server, connect):
    server.finish_reason = "length"
    with pytest.raises(errors.ReplyUnusable) as caught:
        connect().complete(ChatRequest("s", "u", max_tokens=100, fresh=True))
    assert [request.body["max_tokens"] for request in server.requests] == [400]
    assert caught.value.replies == 1


def test_a_reply_that_never_ends_is_unusable(server, connect):
    server.finish_reason = "length"
    with pytest.raises(errors.ReplyUnusable, match="400 tokens"):
        connect().complete(STRUCTURED)
    assert len(server.requests) == 2


@pytest.mark.parametrize(
    "reply",
    [
        Reply(200, "<html>login</html>"),
        Reply(200, b"\xff\xfe"),
        Reply(200, "[" * 100_000),
        Reply(200, {}),
        Reply(200, {"choices": []}),
        Reply(200, {"choices": [{"message": None}]}),
        Reply(200, [1, 2]),
        Reply(200, b'{"choices": ' + b" " * 300_000 + b"}"),
        completion(""),
        completion(None),
        completion(" \n"),
        completion([{"type": "image"}]),
    ],
)
def test_a_reply_without_an_answer_is_unusable(server, connect, reply):
    server.replies.append(reply)
    with pytest.raises(errors.ReplyUnusable):
        connect().complete(PLAIN)


@pytest.mark.parametrize(
    "reply", [completion(None, refusal="I cannot help with that"), completion("", "content_filter")]
)
def test_a_model_that_declines_is_not_asked_again(server, connect, reply):
    server.replies.append(reply)
    with pytest.raises(errors.ModelRejected, match="declines"):
        connect().complete(PLAIN)


def test_text_in_parts_is_joined_and_odd_usage_is_not_believed(server, connect):
    body = completion([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]).body
    server.replies.append(Reply(body=body | {"usage": {"prompt_tokens": "many", "completion_tokens": -1}}))
    assert connect().complete(PLAIN) == ChatReply("ab", 0, 0)


def test_a_lone_surrogate_does_not_break_the_request(server, connect):
    connect().complete(ChatRequest("s", "a\ud800b"))
    assert server.requests[0].body["messages"][1]["content"] == "a?b"
