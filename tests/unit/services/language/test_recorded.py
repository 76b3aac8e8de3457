"""A reply is stored before it is read, and paid for once."""

import pytest

from services import errors
from services.adapters.in_memory import ScriptedModel
from services.language.recorded import RecordedModel
from services.ports import ChatRequest

REQUEST = ChatRequest("system", "user")


def unreadable(_text):
    raise errors.ReplyUnusable("unreadable")


def kept(container, model, request=REQUEST, namespace="default"):
    with container.database.read() as unit:
        return unit.replies.find(namespace, RecordedModel(container.database, model).key(request))


@pytest.fixture
def recorded(container):
    def make(*replies):
        model = ScriptedModel(*replies)
        return model, RecordedModel(container.database, model)

    return make


def test_a_kept_reply_is_read_again_without_asking(container, recorded):
    model, asking = recorded("one", "two")
    first = asking.ask(REQUEST, str.upper, namespace="default")
    second = asking.ask(REQUEST, str.title, namespace="default")
    assert (first.value, second.value, len(model.requests)) == ("ONE", "One", 1)
    assert first.key == second.key


def test_a_reader_that_crashes_finds_the_reply_kept(container, recorded):
    model, asking = recorded("one")
    with pytest.raises(ZeroDivisionError):
        asking.ask(REQUEST, lambda _text: 1 // 0, namespace="default")
    assert kept(container, model).text == "one"
    assert asking.ask(REQUEST, str, namespace="default").value == "one"


def test_a_reply_that_cannot_be_read_is_asked_for_again_and_refused_after_the_third(container, recorded):
    model, asking = recorded("1", "2", "3", "4")
    for _ in range(2):
        with pytest.raises(errors.ReplyUnusable, match=r"^unreadable$"):
            asking.ask(REQUEST, unreadable, namespace="default")
        assert kept(container, model) is None
    with pytest.raises(errors.ModelRejected, match="3 replies could not be used, the last one: unreadable"):
        asking.ask(REQUEST, unreadable, namespace="default")
    assert asking.ask(REQUEST, str, namespace="default").value == "4"


def test_a_model_that_sends_nothing_usable_counts_as_well(container, recorded):
    _, asking = recorded(*[errors.ReplyUnusable("cut off")] * 3)
    for _ in range(2):
        with pytest.raises(errors.ReplyUnusable):
            asking.ask(REQUEST, str, namespace="default")
    with pytest.raises(errors.ModelRejected):
        asking.ask(REQUEST, str, namespace="default")


def test_other_questions_models_forms_and_namespaces_have_replies_of_their_own(container, recorded):
    model, asking = recorded("1", "2", "3", "4", "5")
    asking.ask(REQUEST, str, namespace="default")
    for request, namespace in (
        (ChatRequest("system", "other"), "default"),
        (ChatRequest("systemuser", ""), "default"),
        (ChatRequest("system", "user", schema={"type": "object"}), "default"),
        (REQUEST, "other"),
    ):
        asking.ask(request, str, namespace=namespace)
    assert len(model.requests) == 5
    other = ScriptedModel("6")
    other.identity = "fake/other"
    assert RecordedModel(container.database, other).ask(REQUEST, str, namespace="default").value == "6"


def test_a_forgotten_reply_is_gone_and_old_ones_are_purged(container, recorded):
    model, asking = recorded("1\ud800", "2")
    assert asking.ask(REQUEST, str, namespace="default").value == "1\ud800"
    assert kept(container, model).text == "1?"
    container.clock.advance(10)
    asking.ask(ChatRequest("system", "later"), str, namespace="default")
    with container.database.write() as unit:
        assert unit.replies.purge(before=container.clock.now()) == 1
        unit.replies.forget("default", asking.key(ChatRequest("system", "later")))
    assert kept(container, model) is None
    assert kept(container, model, ChatRequest("system", "later")) is None
