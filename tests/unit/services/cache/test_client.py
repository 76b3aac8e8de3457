"""An OpenAI-compatible client behind the cache: a client of the usual shape, over real HTTP."""

import asyncio
import sys
import types
from dataclasses import dataclass
from types import SimpleNamespace

import httpx
import pytest

from services import errors
from services.cache.client import cached_client
from services.cache.models import Source, SourceKind
from tests.fake_openai import FakeOpenAi, Reply

QUESTION = {"model": "m", "messages": [{"role": "user", "content": "capital of France?"}]}


class ServerError(Exception):
    pass


class Completion(SimpleNamespace):
    """A reply with attributes that can be dumped, like those of generated clients."""

    def model_dump(self, *, mode, exclude_unset):
        assert (mode, exclude_unset) == ("json", True)
        return self.raw

    @classmethod
    def model_construct(cls, **fields):
        return cls(
            raw=fields,
            choices=[SimpleNamespace(message=SimpleNamespace(**one["message"])) for one in fields["choices"]],
        )


@dataclass
class Client:
    """What the cache sees of a client: `base_url`, `chat.completions.create`, and anything else."""

    base_url: str
    dicts: bool = False
    models: str = "all of them"

    @property
    def chat(self):
        return SimpleNamespace(completions=self, other="chat")

    def create(self, **arguments):
        stream = arguments.pop("stream", False)
        body = {name: getattr(value, "raw", value) for name, value in arguments.items() if name != "timeout"}
        body["messages"] = [getattr(one, "raw", one) for one in body["messages"]]
        response = httpx.post(f"{self.base_url}/chat/completions", json=body)
        if response.status_code != 200:
            raise ServerError(response.status_code)
        found = response.json()
        return iter([found]) if stream else found if self.dicts else Completion.model_construct(**found)


@pytest.fixture
def server():
    with FakeOpenAi() as fake:
        fake.chat = lambda _body: "Paris"
        yield fake


@pytest.fixture
def client(server, container):
    return cached_client(Client(server.base_url), container.response_cache)


def said(reply):
    return reply.choices[0].message.content


def test_the_same_request_is_sent_once_and_answered_alike(client, server):
    first = client.chat.completions.create(**QUESTION, temperature=0, timeout=5)
    second = client.chat.completions.create(**QUESTION, temperature=0.0, timeout=9)
    assert said(first) == said(second) == "Paris"
    assert len(server.requests) == 1


def test_a_reply_comes_back_as_the_clients_own_type_where_that_can_be_had(client, server, monkeypatch):
    package, chat = types.ModuleType("some_client.types"), types.ModuleType("some_client.types.chat")
    chat.ChatCompletion = Completion
    for module in (types.ModuleType("some_client"), package, chat):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(Client, "__module__", "some_client._client")
    replies = [client.chat.completions.create(**QUESTION) for _ in range(2)]
    assert [type(reply) for reply in replies] == [Completion, Completion]
    assert replies[0] == replies[1]


def test_a_client_that_answers_with_dictionaries_gets_dictionaries(server, container):
    client = cached_client(Client(server.base_url, dicts=True), container.response_cache)
    first, second = (client.chat.completions.create(**QUESTION) for _ in range(2))
    assert first == second
    assert first["choices"][0]["message"]["content"] == "Paris"
    assert len(server.requests) == 1


def test_a_stream_goes_past_the_cache_b25(client, server):
    for _ in range(2):
        assert next(client.chat.completions.create(**QUESTION, stream=True))["choices"]
    assert said(client.chat.completions.create(**QUESTION, stream=False)) == "Paris"
    client.chat.completions.create(**QUESTION)
    assert len(server.requests) == 3


def test_errors_are_raised_as_they_are_and_never_stored(client, server):
    server.replies.append(Reply(500, {"error": {"message": "overloaded"}}))
    with pytest.raises(ServerError):
        client.chat.completions.create(**QUESTION)
    assert said(client.chat.completions.create(**QUESTION)) == "Paris"


@pytest.mark.parametrize(
    "choice",
    [
        {"message": {"content": "Par"}, "finish_reason": "length"},
        {"message": {"content": ""}, "finish_reason": "content_filter"},
        {"message": {"content": "  "}, "finish_reason": "stop"},
        {"message": {"content": "Paris", "refusal": "I cannot"}, "finish_reason": "stop"},
        {"message": {"content": "Paris"}, "finish_reason": None},
    ],
)
def test_what_is_no_whole_answer_is_given_and_not_stored(client, server, choice):
    server.replies.append(Reply(body={"choices": [choice]}))
    client.chat.completions.create(**QUESTION)
    assert said(client.chat.completions.create(**QUESTION)) == "Paris"
    assert len(server.requests) == 2


@pytest.mark.parametrize(
    "body", [{"choices": []}, {"choices": ["odd"]}, {"choices": [{"message": None}]}, {"error": "x"}, []]
)
def test_a_reply_of_another_shape_is_given_and_not_stored(server, container, body):
    client = cached_client(Client(server.base_url, dicts=True), container.response_cache)
    server.replies.append(Reply(body=body))
    assert client.chat.completions.create(**QUESTION) == body
    assert container.response_cache.stats().entries == 0


def test_calls_of_tools_are_whole_answers(client, server):
    call = {"message": {"content": None, "tool_calls": [{"id": "1"}]}, "finish_reason": "tool_calls"}
    server.replies.append(Reply(body={"choices": [call]}))
    for _ in range(2):
        reply = client.chat.completions.create(**QUESTION, tools=[{"type": "function"}])
        assert reply.choices[0].message.tool_calls
    assert len(server.requests) == 1


def test_a_reply_given_back_as_a_message_makes_a_key(client, server):
    messages = [
        Completion(raw={"role": "assistant", "content": "Paris"}),
        {"role": "user", "content": "and Spain?"},
    ]
    for _ in range(2):
        client.chat.completions.create(model="m", messages=messages)
    assert len(server.requests) == 1


def test_a_request_that_is_no_json_is_sent_each_time(client, server):
    odd = SimpleNamespace(raw={"type": "text"})
    for _ in range(2):
        assert said(client.chat.completions.create(**QUESTION, response_format=odd)) == "Paris"
    assert len(server.requests) == 2


def test_arguments_that_say_not_given_are_absent(client, server):
    class NotGiven:
        raw = None

    client.chat.completions.create(**QUESTION)
    client.chat.completions.create(**QUESTION, seed=NotGiven(), stop=None)
    assert len(server.requests) == 1


def test_servers_and_namespaces_do_not_share_answers(client, server, container):
    client.chat.completions.create(**QUESTION)
    with FakeOpenAi() as other:
        other.chat = lambda _body: "Lyon"
        elsewhere = cached_client(Client(other.base_url), container.response_cache)
        assert said(elsewhere.chat.completions.create(**QUESTION)) == "Lyon"
    theirs = cached_client(Client(server.base_url), container.response_cache, namespace="other")
    theirs.chat.completions.create(**QUESTION)
    assert len(server.requests) == 2


def test_an_answer_goes_with_the_rows_that_its_prompt_was_made_of(server, container):
    message = container.memory.remember("user", "we are in France")
    sources = [Source(SourceKind.MESSAGE, message)]
    client = cached_client(Client(server.base_url), container.response_cache, sources=sources)
    client.chat.completions.create(**QUESTION)
    assert container.response_cache.stats().entries == 1
    with container.database.write() as unit:
        unit.messages.soft_delete("default", [message])
    assert container.response_cache.stats().entries == 0


def test_everything_else_of_the_client_works_as_before(client):
    assert client.models == "all of them"
    assert client.chat.other == "chat"
    with pytest.raises(AttributeError):
        client.nothing  # noqa: B018


def test_an_asynchronous_client_is_refused_with_the_way_out(container):
    class Asynchronous(Client):
        async def create(self, **_arguments):
            await asyncio.sleep(0)

    client = cached_client(Asynchronous("http://127.0.0.1:1"), container.response_cache)
    with pytest.raises(errors.InputError, match=r"asyncio\.to_thread"):
        client.chat.completions.create(**QUESTION)


def test_a_time_to_live_that_is_none_is_refused_at_once(container):
    with pytest.raises(errors.InputError):
        cached_client(Client("http://127.0.0.1:1"), container.response_cache, ttl_seconds=-1)
