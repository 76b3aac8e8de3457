"""Our own language model behind the cache, on the path that jobs take."""

import pytest

from services import errors
from services.adapters.in_memory import ScriptedModel
from services.cache.model import CachedModel
from services.language.recorded import RecordedModel
from services.ports import ChatReply, ChatRequest
from tests.builders import rows, work
from tests.fake_openai import FakeOpenAi

REQUEST = ChatRequest("system", "user", namespace="default")


@pytest.fixture
def cached(container):
    def make(*replies):
        model = ScriptedModel(*replies)
        return model, CachedModel(model, container.response_cache)

    return make


def test_the_settings_put_the_model_behind_the_cache_b25(build):
    with FakeOpenAi() as server:
        server.chat = lambda _body: "a reply"
        llm = {"llm__provider": "openai", "llm__base_url": server.base_url, "llm__model": "m"}
        model = build(**llm, llm__response_cache_enabled=True).language_model
        assert model.identity == "openai/m"
        assert model.complete(REQUEST) == ChatReply("a reply", 10, 5)
        assert model.complete(REQUEST) == ChatReply("a reply")
        assert len(server.requests) == 1
        plain = build(**llm).language_model
        for _ in range(2):
            plain.complete(REQUEST)
        assert len(server.requests) == 3


def test_other_limits_and_schemas_are_other_requests_and_times_are_not(cached):
    model, asking = cached("1", "2", "3")
    asking.complete(REQUEST)
    asking.complete(ChatRequest("system", "user", max_tokens=7, namespace="default"))
    asking.complete(ChatRequest("system", "user", schema={"type": "object"}, namespace="default"))
    assert asking.complete(ChatRequest("system", "user", timeout_seconds=1, namespace="default")).text == "1"
    assert len(model.requests) == 3


def test_namespaces_and_requests_without_one_do_not_share(cached):
    _, asking = cached("1", "2", "3", "4")
    assert asking.complete(REQUEST).text == "1"
    assert asking.complete(ChatRequest("system", "user", namespace="other")).text == "2"
    assert asking.complete(ChatRequest("system", "user")).text == "3"
    assert asking.complete(ChatRequest("system", "user")).text == "4"


def test_errors_are_not_cached(cached):
    _, asking = cached(errors.ReplyUnusable("cut off"), "whole")
    with pytest.raises(errors.ReplyUnusable):
        asking.complete(REQUEST)
    assert asking.complete(REQUEST).text == "whole"


def test_a_reply_that_nobody_could_read_is_asked_for_anew(container, cached):
    model, asking = cached("rubbish", "good")
    recorded = RecordedModel(container.database, asking)

    def read(text):
        if text == "rubbish":
            raise errors.ReplyUnusable("unreadable")
        return text

    with pytest.raises(errors.ReplyUnusable):
        recorded.ask(REQUEST, read, namespace="default")
    assert recorded.ask(REQUEST, read, namespace="default").value == "good"
    assert [request.fresh for request in model.requests] == [False, True]


def test_a_summary_of_the_same_words_is_paid_for_once(build):
    with FakeOpenAi() as server:
        server.chat = lambda _body: (
            '{"summary": "They talked about a winch.", "key_facts": [], "entities": []}'
        )
        container = build(
            llm__provider="openai",
            llm__base_url=server.base_url,
            llm__model="m",
            llm__response_cache_enabled=True,
            memory__summarization_threshold=1,
        )
        for conversation in ("one", "two"):
            for text in ("the winch broke", "it was repaired"):
                container.memory.remember("user", text, conversation=conversation)
        work(container)
        assert len(server.requests) == 1
        assert rows(container, "SELECT content FROM summaries") == [("They talked about a winch.",)] * 2


def test_closing_it_closes_what_it_wraps_and_stores_the_counts(container, cached):
    closed = []
    model, asking = cached("1")
    model.close = lambda: closed.append(1)
    asking.complete(REQUEST)
    asking.complete(REQUEST)
    asking.close()
    assert closed == [1]
    assert container.response_cache.stats().hits == 1
