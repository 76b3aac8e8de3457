"""Summaries and key facts end to end: real jobs, real rows, and a scripted model behind real HTTP."""

from __future__ import annotations

import json

import pytest

from services import errors
from services.adapters.in_memory import ScriptedModel
from services.ids import ConversationId
from services.jobs.models import PURGE_JOBS, RECONCILE, SUMMARIZE, JobState
from services.memory.models import NewMessage
from services.memory.summaries import summary_job_if_due
from services.memory.summary_search import SummarySearch
from services.memory.summary_vectors import FACT_COLLECTION, SUMMARY_COLLECTION
from services.ports import ChatRequest
from tests.builders import FallibleStore, ScriptedEmbedder, claim, enqueue, job, new_job, work
from tests.fake_openai import FakeOpenAi, Reply
from workers.job import Runner
from workers.local import LocalWorker, nothing_left

FACTS = ["Ana moved to Lisbon in 2024.", "The backup runs at three at night."]
SUMMARY = "Ana talked about her move and about backups."
GOOD = json.dumps({"summary": SUMMARY, "key_facts": FACTS, "entities": ["Ana", "Lisbon"]})


@pytest.fixture
def server():
    with FakeOpenAi() as running:
        running.chat = lambda _request: GOOD
        yield running


@pytest.fixture
def connected(build, server):
    """A container whose language model is the scripted server; 10 messages make a summary."""

    def make(**overrides):
        given = {
            "llm__provider": "openai",
            "llm__base_url": server.base_url,
            "llm__model": "m",
            "memory__summarization_threshold": 10,
        }
        return build(**{**given, **overrides})

    return make


def remember(container, count, conversation="c", start=0, **options):
    messages = [NewMessage("user", f"message {number}") for number in range(start, start + count)]
    container.memory.remember_many(conversation, messages, **options)
    return conversation_id(container, conversation)


def conversation_id(container, key="c"):
    with container.database.read() as unit:
        found = unit.messages.find_conversation("default", key)
    assert found is not None
    return found.id


def summaries(container, key="c"):
    return container.summaries.load_summaries(conversation_id(container, key), namespace="default")


def facts(container):
    answer = container.summaries.search_key_facts("Ana backup", namespace="default", limit=100)
    return sorted(hit.item.fact for hit in answer.hits)


def vectors(container, name):
    space = container.spaces.for_reading(name)
    return 0 if space is None else container.vectors.count(space.collection.physical)


def rows(container, table):
    with container.database.sqlite.read() as connection:
        return connection.exec_driver_sql(f"SELECT count(*) FROM {table}").scalar()


def summary_jobs(container):
    with container.database.read() as unit:
        return unit.jobs.select(kind=SUMMARIZE.name)


def make_dead(container):
    """Run what is due and let time pass until the summary job is dead."""
    while summary_jobs(container)[0].state is not JobState.DEAD:
        work(container)
        container.clock.advance(1_000)
    return summary_jobs(container)[0]


# ---- 4.5 from end to end -----------------------------------------------------------------------------------------


def test_b_19_sixty_messages_end_as_a_summary_and_facts_in_rows_and_vectors(build, server):
    container = build(real_time=True, llm__provider="openai", llm__base_url=server.base_url, llm__model="m")
    for number in range(60):
        container.memory.remember("user", f"message {number}", conversation="c")
    with LocalWorker(container) as worker:
        worker.run_until(lambda: nothing_left(container, ["graph", "embedding"]), poll_seconds=0.02)
    (summary,) = summaries(container)
    assert (summary.content, summary.token_estimate) == (SUMMARY, container.tokens.count(SUMMARY))
    assert facts(container) == sorted(FACTS)
    assert (vectors(container, SUMMARY_COLLECTION), vectors(container, FACT_COLLECTION)) == (1, 2)
    assert len(server.requests) == 1
    history = container.memory.history("c", limit=100)
    assert (summary.first_message_id, summary.last_message_id) == (history[0].id, history[49].id)
    found = container.summaries.search_summaries("Ana talked about her move", namespace="default")
    assert [hit.item.id for hit in found.hits] == [summary.id]
    assert rows(container, "model_replies") == 0


@pytest.mark.parametrize(("count", "expected"), [(9, 0), (10, 0), (11, 1)])
def test_4_5_exactly_the_threshold_makes_no_summary_and_one_more_does(connected, count, expected):
    container = connected()
    remember(container, count)
    work(container)
    assert len(summaries(container)) == len(summary_jobs(container)) == expected


@pytest.mark.parametrize(("count", "expected"), [(10, 0), (11, 1)])
def test_4_5_a_summary_on_demand_needs_more_messages_than_it_takes(connected, server, count, expected):
    container = connected(memory__summarization_threshold=100)
    found = remember(container, count)
    job_id = container.summarizer.submit(found, namespace="default", limit=10)
    work(container)
    assert len(summaries(container)) == len(server.requests) == expected
    assert job(container, job_id).outcome["status"] == ("summarized" if expected else "nothing_due")


def test_4_5_successive_summaries_never_overlap_and_messages_stay(connected):
    container = connected()
    remember(container, 35)
    work(container)
    ranges = [(summary.first_message_id, summary.last_message_id) for summary in summaries(container)]
    history = [message.id for message in container.memory.history("c", limit=100)]
    assert ranges == [(history[0], history[9]), (history[10], history[19]), (history[20], history[29])]
    assert len(history) == 35
    remember(container, 10, start=35)
    work(container)
    assert summaries(container)[-1].first_message_id == history[30]


def test_4_5_the_outcome_counts_what_was_paid_and_found(connected):
    container = connected()
    remember(container, 11)
    work(container)
    outcome = summary_jobs(container)[0].outcome
    assert outcome["prompt_tokens"] == 10
    assert outcome["completion_tokens"] == 5
    assert (outcome["messages"], outcome["key_facts"], outcome["entities"]) == (10, 2, ["Ana", "Lisbon"])


def test_4_5_another_namespace_sees_nothing_of_it(connected):
    container = connected()
    remember(container, 11)
    work(container)
    assert container.summaries.search_key_facts("Ana", namespace="other").hits == ()
    assert container.summaries.search_summaries("Ana", namespace="other").hits == ()
    with pytest.raises(errors.NotFound):
        container.summaries.load_summaries(conversation_id(container), namespace="other")
    with pytest.raises(errors.NotFound):
        container.summarizer.submit(conversation_id(container), namespace="other")


def test_without_a_language_model_there_is_no_job_and_asking_for_one_says_so(build):
    container = build(memory__summarization_threshold=10)
    found = remember(container, 30)
    assert summary_jobs(container) == []
    with pytest.raises(errors.InputError, match=r"no language model is configured.*llm\.provider"):
        container.summarizer.submit(found, namespace="default")


def test_a_threshold_of_zero_never_calls_for_a_summary(connected):
    container = connected(memory__summarization_threshold=100)
    found = remember(container, 30)
    with container.database.read() as unit:
        assert summary_job_if_due(unit, "default", found, 0) is None
        assert summary_job_if_due(unit, "default", found, 29) is not None
        assert summary_job_if_due(unit, "default", found, 30) is None


# ---- what goes wrong ---------------------------------------------------------------------------------------------


def test_garbage_is_asked_for_again_then_dead_with_a_reason_and_nothing_is_stored(connected, server):
    server.chat = lambda _request: '{"not": "it", "key": "sk-abcdefghijklmnopqrstuv"'
    container = connected()
    remember(container, 11)
    dead = make_dead(container)
    assert dead.attempts == 2
    assert dead.error_type == "ModelRejected"
    assert "3 replies could not be used" in dead.error_message
    assert "sk-abc" not in dead.error_message
    assert len(server.requests) == 3
    assert [rows(container, table) for table in ("summaries", "key_facts")] == [0, 0]


def test_a_dead_summary_can_be_retried_when_the_model_is_better(connected, server):
    server.chat = lambda _request: ""
    container = connected()
    remember(container, 11)
    dead = make_dead(container)
    server.chat = lambda _request: GOOD
    with container.database.write() as unit:
        assert unit.jobs.retry(dead.id, now=container.clock.now())
    work(container)
    assert len(summaries(container)) == 1


@pytest.mark.slow
def test_b_22_a_structured_call_that_times_out_is_followed_by_a_plain_one_in_the_rest_of_the_time(
    connected, server, monkeypatch
):
    monkeypatch.setattr("services.language.recorded._LEAST_SECONDS", 0.1)
    server.replies.append(Reply(delay=5))
    server.chat = lambda _request: "They talked about Lisbon and backups."
    container = connected(llm__timeout_secs=2.4, real_time=True)
    remember(container, 11)
    work(container)
    assert [summary.content for summary in summaries(container)] == ["They talked about Lisbon and backups."]
    assert [("response_format" in request.body) for request in server.requests] == [True, False]


def test_b_22_a_structured_reply_that_cannot_be_read_is_followed_by_a_plain_one_without_facts(
    connected, server
):
    server.chat = lambda request: (
        "I would rather not." if "response_format" in request else "They talked about Lisbon."
    )
    container = connected()
    remember(container, 11)
    work(container)
    assert [summary.content for summary in summaries(container)] == ["They talked about Lisbon."]
    assert summary_jobs(container)[0].outcome["partial"] is True
    assert (facts(container), rows(container, "model_replies")) == ([], 0)


@pytest.mark.parametrize("status", [401, 403, 404])
def test_a_wrong_key_or_address_is_not_asked_again_in_other_words(connected, server, status):
    server.replies.append(Reply(status, {"error": {"message": "no"}}))
    container = connected()
    remember(container, 11)
    work(container)
    assert (summary_jobs(container)[0].state, len(server.requests)) == (JobState.DEAD, 1)


def test_a_busy_server_is_asked_again_when_it_said(connected, server):
    server.replies.append(Reply(429, {"error": {"message": "slow down"}}, {"Retry-After": "30"}))
    container = connected()
    remember(container, 11)
    work(container)
    assert (len(server.requests), summaries(container)) == (1, [])
    waiting = summary_jobs(container)[0]
    assert waiting.run_after == container.clock.now() + 30_000_000
    container.clock.advance(31)
    work(container)
    assert (len(server.requests), len(summaries(container))) == (2, 1)


def test_a_worker_that_vanished_after_the_reply_costs_no_second_payment_and_stores_once(connected, server):
    container = connected()
    remember(container, 11)
    (waiting,) = summary_jobs(container)
    first = claim(container, waiting.id)
    first.stop(KeyboardInterrupt)
    with pytest.raises(KeyboardInterrupt):
        container.summarizer.summarize(first)
    assert (rows(container, "model_replies"), rows(container, "summaries")) == (1, 0)
    container.clock.advance(31)
    container.ledger.sweep()
    work(container)
    assert (len(server.requests), len(summaries(container))) == (1, 1)
    outcome = summary_jobs(container)[0].outcome
    assert (outcome["prompt_tokens"], outcome["completion_tokens"]) == (0, 0)


def test_a_worker_whose_lease_lapsed_stores_nothing_beside_its_successor(connected, server):
    container = connected()
    remember(container, 11)
    (waiting,) = summary_jobs(container)
    slow = claim(container, waiting.id)
    container.clock.advance(31)
    container.ledger.sweep()
    work(container)
    assert len(summaries(container)) == 1
    with container.database.write() as unit:
        unit.summaries._connection.exec_driver_sql("DELETE FROM summaries")
    with pytest.raises(errors.LeaseLost):
        container.summarizer.summarize(slow)
    assert rows(container, "summaries") == 0


def test_what_is_forgotten_while_the_model_writes_is_not_retold(connected, server):
    container = connected()
    remember(container, 12)
    victim = container.memory.history("c")[3].id

    def forget_meanwhile(_request):
        container.memory.forget(messages=[victim])
        server.chat = lambda _request: GOOD
        return GOOD

    server.chat = forget_meanwhile
    work(container)
    assert (summaries(container), rows(container, "model_replies")) == ([], 0)
    container.clock.advance(1)
    work(container)
    assert len(summaries(container)) == 1
    assert "message 3\n" not in server.requests[-1].body["messages"][1]["content"]


# ---- ranges ------------------------------------------------------------------------------------------------------


def test_b_51_a_summary_without_a_range_does_not_move_the_cursor_back(connected):
    container = connected()
    found = remember(container, 11)
    work(container)
    with container.database.write() as unit:
        unit.summaries.add("default", found, "The whole session.", first=None, last=None, token_estimate=4)
    remember(container, 10, start=11)
    work(container)
    first, session, second = summaries(container)
    assert session.last_message_id is None
    assert second.first_message_id > first.last_message_id


def test_a_compactions_summary_is_not_summarised_again(connected, server):
    container = connected()
    remember(container, 8)
    history = container.memory.history("c")
    container.memory.replace_conversation("c", first=history[0].id, last=history[3].id, summary="COMPACTED")
    remember(container, 3, start=8)
    work(container)
    prompt = server.requests[0].body["messages"][1]["content"]
    assert "message 0" in prompt
    assert "COMPACTED" not in prompt


def test_what_the_agent_never_saw_is_neither_summarised_nor_counted(connected, server):
    container = connected()
    container.memory.remember("user", "SALARIES", conversation="c", agent_visible=False)
    remember(container, 10)
    assert summary_jobs(container) == []
    remember(container, 1, start=10)
    work(container)
    (request,) = server.requests
    assert "message 0" in request.body["messages"][1]["content"]
    assert "SALARIES" not in request.body["messages"][1]["content"]


# ---- facts -------------------------------------------------------------------------------------------------------


def reply_with(*told, summary=SUMMARY):
    return json.dumps({"summary": summary, "key_facts": list(told), "entities": []})


def test_b_21_a_fact_known_in_another_case_or_spacing_is_stored_once_per_namespace(connected, server):
    container = connected(embedding__provider="none")
    server.chat = lambda _request: reply_with("Ana lives in Lisbon.", "ANA  lives in Lisbon")
    remember(container, 11, "one")
    remember(container, 11, "two")
    work(container)
    assert facts(container) == ["Ana lives in Lisbon."]
    remember(container, 11, "one", namespace="other")
    work(container)
    assert rows(container, "key_facts") == 2


def test_b_21_a_fact_whose_nearest_neighbour_is_almost_equal_is_dropped_and_others_stay(connected, server):
    container = connected()
    replies = iter(
        [
            reply_with("Ana moved the backup job to Lisbon last year", "Bread needs yeast"),
            reply_with("Ana moved the backup job to Lisbon last year!", "Pumps need oil"),
        ]
    )
    server.chat = lambda _request: next(replies)
    remember(container, 11, "one")
    work(container)
    remember(container, 11, "two")
    work(container)
    with container.database.read() as unit:
        kept = sorted(fact.fact for fact in unit.key_facts.get("default", range(10)).values())
    assert kept == ["Ana moved the backup job to Lisbon last year", "Bread needs yeast", "Pumps need oil"]
    assert vectors(container, FACT_COLLECTION) == 3


def test_a_fact_that_corrects_an_older_one_in_a_number_stays_however_alike(connected, server):
    container = connected(memory__key_fact_similarity=0.5)
    told = iter(
        [reply_with("The key is rotated every 30 days"), reply_with("The key is rotated every 90 days")]
    )
    server.chat = lambda _request: next(told)
    remember(container, 11, "one")
    work(container)
    remember(container, 11, "two")
    work(container)
    assert rows(container, "key_facts") == 2


def test_b_21_the_similarity_from_which_facts_are_equal_is_a_setting(connected, server):
    container = connected(memory__key_fact_similarity=0.0)
    server.chat = lambda _request: reply_with("Ana lives in Lisbon", "Ana lives in Lisbon today")
    remember(container, 11)
    work(container)
    assert rows(container, "key_facts") == 1


def test_b_21_a_store_that_is_away_hides_no_fact(connected, server):
    container = connected()
    container.__dict__["vectors"] = store = FallibleStore()
    remember(container, 11)
    store.down = True
    work(container)
    assert facts(container) == sorted(FACTS)
    store.down = False
    container.clock.advance(1_000)
    work(container)
    assert vectors(container, FACT_COLLECTION) == 2


def test_facts_and_summaries_of_a_forgotten_conversation_are_gone_with_their_vectors(connected):
    container = connected()
    remember(container, 11)
    work(container)
    container.memory.forget(conversation="c")
    work(container)
    assert [rows(container, table) for table in ("summaries", "key_facts")] == [0, 0]
    assert (vectors(container, SUMMARY_COLLECTION), vectors(container, FACT_COLLECTION)) == (0, 0)


def told_by(container):
    with container.database.sqlite.read() as connection:
        return connection.exec_driver_sql(
            "SELECT k.fact, c.key FROM key_facts k JOIN conversations c ON c.id = k.conversation_id"
        ).all()


def test_a_fact_that_two_conversations_tell_goes_with_the_last_of_them(connected, server):
    container = connected()
    server.chat = lambda _request: reply_with("Ana lives in Lisbon.")
    for key in ("one", "two"):
        remember(container, 11, key)
    work(container)
    assert container.memory.forget(conversation="one").key_facts == 0
    work(container)
    assert told_by(container) == [("Ana lives in Lisbon.", "two")]
    assert vectors(container, FACT_COLLECTION) == 1
    assert container.memory.forget(conversation="two").key_facts == 1
    work(container)
    assert (facts(container), vectors(container, FACT_COLLECTION)) == ([], 0)


@pytest.mark.parametrize(
    ("forgotten", "left"),
    [("one", ("the backup runs at night", "two")), ("two", ("At night the backup runs", "one"))],
)
def test_a_fact_that_two_conversations_tell_is_left_in_the_words_of_the_one_that_stays(
    connected, server, forgotten, left
):
    container = connected(memory__key_fact_similarity=0.8)
    replies = iter(["At night the backup runs", "the backup runs at night"])
    server.chat = lambda _request: reply_with(next(replies))
    for key in ("one", "two"):
        remember(container, 11, key)
        work(container)
    assert told_by(container) == [("At night the backup runs", "one")]
    container.memory.forget(conversation=forgotten)
    assert told_by(container) == [left]


def test_a_fact_that_is_told_with_one_that_is_forgotten_meanwhile_stays(connected, server):
    container = connected()
    server.chat = lambda _request: reply_with("Ana lives in Lisbon.", "Bread needs yeast.")
    remember(container, 11)
    work(container)
    with container.database.write() as unit:
        assert unit.key_facts.merge("default", {2: 3, 4: 1}) == set()
        assert unit.key_facts.merge("other", {2: 1}) == set()
    assert rows(container, "key_facts") == 2


# ---- vectors -----------------------------------------------------------------------------------------------------


def test_b_32_summaries_have_a_collection_and_ids_of_their_own(connected):
    container = connected()
    found = remember(container, 11)
    work(container)
    (summary,) = summaries(container)
    physical = container.spaces.for_reading(SUMMARY_COLLECTION).collection.physical
    ((_, payload),) = container.vectors.scroll(physical, "default")
    assert payload == {"summary_id": summary.id, "conversation_id": found}
    messages = container.spaces.for_reading("zeph_conversations").collection.physical
    assert all("summary_id" not in each for _, each in container.vectors.scroll(messages, "default"))
    assert vectors(container, "zeph_conversations") == 11


def test_reconciling_finds_nothing_amiss_and_brings_back_what_was_lost(connected):
    container = connected()
    remember(container, 11)
    work(container)
    (quiet,) = enqueue(container, new_job(RECONCILE))
    work(container)
    assert job(container, quiet).outcome == {"missing": 0, "orphans": 0}
    physical = container.spaces.for_reading(FACT_COLLECTION).collection.physical
    points = [point for point, _ in container.vectors.scroll(physical, "default")]
    container.vectors.delete(physical, "default", points)
    enqueue(container, new_job(RECONCILE))
    work(container)
    assert vectors(container, FACT_COLLECTION) == 2


def test_a_new_embedder_gets_summaries_and_facts_by_reembedding(connected):
    container = connected()
    remember(container, 11)
    work(container)
    other = connected(embedding__dimensions=32)
    for name in (SUMMARY_COLLECTION, FACT_COLLECTION):
        other.upkeep.submit_reembed(name)
    work(other)
    assert (vectors(other, SUMMARY_COLLECTION), vectors(other, FACT_COLLECTION)) == (1, 2)
    assert other.spaces.for_reading(FACT_COLLECTION).collection.identity.dimension == 32
    assert facts(other) == sorted(FACTS)


# ---- search ------------------------------------------------------------------------------------------------------


@pytest.fixture
def two_sessions(connected, server):
    container = connected()
    for key, summary in (("one", "The pump was repaired by Ana"), ("two", "Ana bakes bread with yeast")):
        server.chat = lambda _request, summary=summary: reply_with(f"{summary} today", summary=summary)
        remember(container, 11, key)
        work(container)
    return container


def found(answer):
    return [getattr(hit.item, "content", None) or hit.item.fact for hit in answer.hits]


def test_4_6_summaries_of_other_sessions_are_found_and_ones_own_is_left_out(two_sessions):
    search = two_sessions.summaries.search_summaries
    assert found(search("pump repaired by Ana", namespace="default"))[0] == "The pump was repaired by Ana"
    own = conversation_id(two_sessions, "one")
    others = search("Ana bakes bread", namespace="default", exclude_conversation=own)
    assert found(others) == ["Ana bakes bread with yeast"]


def test_4_6_summaries_below_the_threshold_are_not_offered(two_sessions):
    strict = SummarySearch(two_sessions.database, two_sessions.spaces, score_threshold=0.99)
    assert found(strict.search_summaries("pump", namespace="default")) == []
    assert (
        found(strict.search_key_facts("pump", namespace="default"))[0] == "The pump was repaired by Ana today"
    )


def test_4_5_key_facts_are_found_across_conversations_best_first_within_the_limit(two_sessions):
    search = two_sessions.summaries.search_key_facts
    assert found(search("bread with yeast", namespace="default", limit=1)) == [
        "Ana bakes bread with yeast today"
    ]
    assert len(found(search("Ana", namespace="default"))) == 2
    assert search(" \n", namespace="default").hits == ()


def test_words_serve_while_the_vectors_are_away_and_the_answer_says_so(two_sessions):
    def down(*_args, **_options):
        raise errors.VectorStoreUnavailable("the vector store does not answer")

    two_sessions.spaces.search = down
    answer = two_sessions.summaries.search_summaries("who bakes bread?", namespace="default")
    assert found(answer) == ["Ana bakes bread with yeast"]
    assert answer.degraded == "the vector store does not answer"
    own = conversation_id(two_sessions, "two")
    assert (
        found(two_sessions.summaries.search_summaries("bread", namespace="default", exclude_conversation=own))
        == []
    )


def test_words_serve_without_an_embedder_and_chinese_is_found_by_any_part(connected, server):
    container = connected(embedding__provider="none")
    server.chat = lambda _request: reply_with(
        "安娜住在里斯本的老城区", summary="他们谈到了安娜搬家和数据备份的事情"
    )
    remember(container, 11)
    work(container)
    answer = container.summaries.search_key_facts("里斯本", namespace="default")
    assert (found(answer), answer.degraded) == (["安娜住在里斯本的老城区"], "")
    assert len(found(container.summaries.search_summaries("备份", namespace="default"))) == 1


@pytest.mark.parametrize("query", ['"', "AND", "a\ud800b", "*", "x" * 50_000])
def test_any_text_is_a_query(connected, query):
    container = connected(embedding__provider="none")
    assert container.summaries.search_key_facts(query, namespace="default").hits == ()


# ---- purge and ports ---------------------------------------------------------------------------------------------


def test_replies_that_nobody_used_are_purged_by_age(connected, server):
    server.chat = lambda _request: ""
    container = connected()
    remember(container, 11)
    work(container)
    assert rows(container, "model_replies") == 2
    container.clock.advance(31 * 86_400)
    enqueue(container, new_job(PURGE_JOBS))
    Runner(container).drain(["maintenance"], seconds=10)
    assert rows(container, "model_replies") == 0


def test_the_scripted_model_answers_in_order_and_remembers_the_questions():
    model = ScriptedModel("one", errors.ModelTimeout("late"), "two")
    request = ChatRequest("s", "u")
    assert model.complete(request).text == "one"
    with pytest.raises(errors.ModelTimeout):
        model.complete(request)
    assert model.complete(request).text == "two"
    assert len(model.requests) == 3
    with pytest.raises(errors.ModelRejected):
        model.complete(request)


def test_a_container_may_be_given_another_model(build):
    container = build(memory__summarization_threshold=10)
    container.__dict__["language_model"] = model = ScriptedModel(GOOD)
    container.__dict__["embedder"] = ScriptedEmbedder()
    found_id = remember(container, 11)
    container.summarizer.submit(ConversationId(found_id), namespace="default")
    work(container)
    assert [summary.content for summary in summaries(container)] == [SUMMARY]
    assert model.requests[0].schema is not None
