"""Texts into the graph end to end: real jobs, real rows, and a scripted model behind real HTTP."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from services import errors
from services.graph.models import CO_OCCURRENCE
from services.jobs.models import BACKFILL_GRAPH, EXTRACT_GRAPH, JobState
from services.memory.models import NewMessage, Origin
from tests.builders import claim, job, rows, work, write_files
from tests.builders import ingest as ingest_files
from tests.fake_openai import FakeOpenAi, Reply
from workers.job import Runner

EMPTY = json.dumps({"entities": [], "edges": []})


def reply(*triples, **fields):
    """A reply with these (source, relation, target) and the people and things in them."""
    names = dict.fromkeys(name for source, _, target in triples for name in (source, target))
    edges = [
        {
            "source": source,
            "relation": relation,
            "target": target,
            "fact": f"{source} {relation} {target}.",
            **fields,
        }
        for source, relation, target in triples
    ]
    return json.dumps({"entities": [{"name": name, "type": "person"} for name in names], "edges": edges})


GOOD = reply(("Ann", "lives_in", "Rome"))


@pytest.fixture
def server():
    with FakeOpenAi() as running:
        running.chat = lambda _request: GOOD
        yield running


@pytest.fixture
def local(build):
    """A container with the graph enabled and no language model."""
    return lambda **overrides: build(**{"memory__graph__enabled": True, **overrides})


@pytest.fixture
def connected(build, server):
    """A container with the graph enabled whose language model is the scripted server."""

    def make(**overrides):
        given = {
            "memory__graph__enabled": True,
            "memory__summarization_threshold": 1_000,
            "llm__provider": "openai",
            "llm__base_url": server.base_url,
            "llm__model": "m",
            "jobs__max_attempts": 3,
        }
        return build(**{**given, **overrides})

    return make


def jobs(container, kind=EXTRACT_GRAPH):
    with container.database.read() as unit:
        return unit.jobs.select(kind=kind.name)


def until_final(container):
    """Run what is due and let time pass until no job is left."""
    while any(one.state not in (JobState.DONE, JobState.DEAD) for one in jobs(container)):
        work(container)
        container.clock.advance(1_000)


def readers(container):
    """Who has read each message."""
    return [reader for (reader,) in rows(container, "SELECT graph_extractor FROM messages ORDER BY id")]


def facts(container, namespace="default"):
    statement = f"""
        SELECT s.name, e.relation, t.name FROM graph_edges e JOIN graph_entities s ON s.id = e.source_entity_id
        JOIN graph_entities t ON t.id = e.target_entity_id
        WHERE e.namespace = '{namespace}' AND e.valid_to IS NULL ORDER BY e.id"""
    return rows(container, statement)


def counters(container, *names):
    found = container.graph.stats("default")
    return [found.get(name, 0) for name in names]


def prompts(server):
    return [request.body["messages"][1]["content"] for request in server.requests]


# ---- what is read ----------------------------------------------------------------------------------------------


def test_a_remembered_message_is_in_the_graph_with_no_more_than_a_setting(local):
    """graph-09, graph bug 1: through the public entry point."""
    container = local()
    container.memory.remember("user", "Albert Einstein developed relativity at the University of Zurich.")
    work(container)
    names = {entity.name for entity in container.graph.entities("default")}
    assert names == {"Albert Einstein", "University of Zurich"}
    assert readers(container) == ["local"]


def test_what_a_model_reads_is_in_the_graph_with_its_provenance(connected):
    container = connected()
    message = container.memory.remember("user", "I live in Rome.", speaker="Ann")
    work(container)
    (fact,) = container.graph.facts("default", "Ann")
    assert (fact.source, fact.edge.relation, fact.target) == ("Ann", "lives_in", "Rome")
    (source,) = fact.sources
    assert (source.message_id, source.extractor) == (message, "llm:openai/m")
    assert source.job_id == jobs(container)[0].id
    assert readers(container) == ["llm:openai/m"]


def test_without_the_setting_nothing_is_read_until_somebody_asks(connected, server):
    container = connected(memory__graph__enabled=False)
    message = container.memory.remember("user", "Ann lives in Rome.")
    work(container)
    assert (jobs(container), server.requests) == ([], [])
    (spawned,) = container.memory.spawn_graph_extraction([message])
    work(container)
    assert job(container, spawned).state is JobState.DONE
    assert facts(container) == [("Ann", "lives_in", "Rome")]


@pytest.mark.parametrize(
    "message",
    [
        NewMessage("assistant", "Ann lives in Rome."),
        NewMessage("system", "Ann lives in Rome."),
        NewMessage("user", "   "),
        NewMessage("user", "Ann lives in Rome.", origin=Origin.TOOL),
        NewMessage("user", "Ann lives in Rome.", origin=Origin.SUMMARY),
        NewMessage("user", "Ann lives in Rome.", origin=Origin.DOCUMENT),
        NewMessage("user", "Ann lives in Rome.", agent_visible=False),
        NewMessage("user", "Ann lives in Rome.", parts=[{"kind": "tool_result", "content": "x"}]),
    ],
)
def test_only_what_users_say_is_read(connected, server, message):
    """Graph bugs 17 and 24: neither tool output nor injected memory, and a backfill reads no more."""
    container = connected()
    container.memory.remember_many("c", [message])
    assert jobs(container) == []
    container.graph_extraction.submit_backfill("default")
    container.memory.spawn_graph_extraction([1])
    until_final(container)
    assert server.requests == []
    assert container.graph_extraction.waiting("default") == 0


def test_parts_that_only_speak_of_tools_hide_no_message(connected):
    container = connected()
    parts = [{"kind": "text", "text": 'the "tool_x" of "kind": "tool_use"'}]
    container.memory.remember("user", "Ann lives in Rome.", parts=parts)
    work(container)
    assert readers(container) == ["llm:openai/m"]


def test_code_is_not_sent_and_a_message_of_code_alone_asks_nobody(connected, server):
    container = connected()
    container.memory.remember("user", "```\nsecret_code()\n```")
    container.memory.remember("user", "Ann lives in Rome.\n```\nsecret_code()\n```\ntimeout = 30")
    work(container)
    (prompt,) = prompts(server)
    assert "Ann lives in Rome." in prompt
    assert "secret_code" not in prompt.partition("<message")[2]
    assert "timeout" not in prompt
    assert readers(container) == ["llm:openai/m"] * 2


def test_bug_24_what_a_context_quoted_is_not_read_again_out_of_the_prompt(connected, server):
    """Graph bug 24: the agent's own recalled memory is extracted again and outranks the facts."""
    container = connected(memory__graph__enabled=False)
    container.memory.remember("assistant", "Perhaps Bob moved to Rome.", conversation="old")
    context = container.memory.build_context("Where is Bob?").text
    assert "Perhaps Bob moved to Rome." in context
    ids = [
        container.memory.remember("user", f"{context}\n\nWhere is Bob?", speaker="Ann"),
        container.memory.remember("user", f"{context}\nIs he away?"),
    ]
    container.memory.spawn_graph_extraction(ids)
    work(container)
    assert len(server.requests) == 2
    assert all("Where is Bob?" in prompt and "Perhaps" not in prompt for prompt in prompts(server))


def test_four_earlier_messages_of_the_user_help_to_understand_one(connected, server):
    """Graph bug 22; tool results are no context."""
    container = connected(memory__graph__enabled=False)
    for number in range(6):
        container.memory.remember("user", f"earlier {number}", speaker="Ann" if number == 5 else None)
        container.memory.remember("assistant", f"answer {number}")
    container.memory.remember("user", "output", parts=[{"kind": "tool_result", "content": "x"}])
    message = container.memory.remember("user", "She lives there.")
    container.memory.remember("user", "later")
    container.memory.spawn_graph_extraction([message])
    work(container)
    (prompt,) = prompts(server)
    context = prompt[: prompt.index("</context>")].splitlines()[1:]
    assert context == ["earlier 2", "earlier 3", "earlier 4", "Ann: earlier 5"]


def test_a_long_message_is_cut_and_its_keys_are_not_sent(connected, server):
    container = connected()
    container.memory.remember("user", "password=hunter2hunter2 Ann lives in Rome. " + "word " * 5_000)
    work(container)
    (prompt,) = prompts(server)
    assert "hunter2" not in prompt
    assert len(prompt.encode()) < 9_000
    assert counters(container, "shortened_text") == [1]


def test_an_edge_may_end_at_what_earlier_messages_named(connected, server):
    """Graph bug 20: stored names count, unknown ones do not."""
    container = connected()
    container.memory.remember("user", "Ann lives in Rome.")
    work(container)
    edges = [
        {"source": "Ben", "target": "rome", "relation": "visited", "fact": "Ben visited Rome."},
        {"source": "Ben", "target": "Atlantis", "relation": "visited", "fact": "no"},
    ]
    server.chat = lambda _request: json.dumps(
        {"entities": [{"name": "Ben", "type": "person"}], "edges": edges}
    )
    container.memory.remember("user", "Ben was there too.")
    work(container)
    assert facts(container) == [("Ann", "lives_in", "Rome"), ("Ben", "visited", "Rome")]
    assert counters(container, "unknown_endpoint") == [1]


def test_graph_07_what_looks_like_a_delimiter_is_text(connected, server):
    """Case graph-07: an entity whose description held a separator was cut in two."""
    entity = {"name": "Pipe", "type": "tool", "summary": "Joins a <|> b, and ## c."}
    edges = [{"source": "Pipe", "target": "Ann", "relation": "helps", "fact": "Pipe helps a <|> b."}]
    found = {"entities": [entity, {"name": "Ann", "type": "person"}], "edges": edges}
    server.chat = lambda _request: json.dumps(found)
    container = connected()
    container.memory.remember("user", "Pipe helps Ann.")
    work(container)
    assert container.graph.entity("default", "Pipe").summary == "Joins a <|> b, and ## c."
    assert [fact.edge.fact for fact in container.graph.facts("default", "Ann")] == ["Pipe helps a <|> b."]


def test_a_hint_counts_from_the_message_and_not_from_the_worker(connected, server):
    """Graph bug 37: a backfill stamps no fact with today."""
    container = connected()
    said = int(datetime(2020, 5, 15, tzinfo=UTC).timestamp()) * 1_000_000
    server.chat = lambda _request: reply(("Ann", "visited", "Rome"), temporal_hint="last year")
    container.memory.remember("user", "Ann visited Rome last year.", created_at=said)
    container.memory.remember("user", "Ann knows Ben.", created_at=said)
    server.replies.clear()
    work(container)
    starts = {fact.edge.relation: fact.edge.valid_from for fact in container.graph.facts("default", "Ann")}
    assert starts["visited"] == int(datetime(2019, 1, 1, tzinfo=UTC).timestamp()) * 1_000_000


def test_each_namespace_has_its_own_graph(connected):
    """Graph bug 8."""
    container = connected()
    container.memory.remember("user", "Ann lives in Rome.", namespace="zoe")
    container.graph_extraction.submit("default", [1])
    work(container)
    assert (facts(container, "zoe"), facts(container)) == ([("Ann", "lives_in", "Rome")], [])


def test_an_imported_conversation_is_read_in_blocks(connected, server):
    container = connected()
    server.chat = lambda _request: EMPTY
    container.memory.remember_many("c", [NewMessage("user", f"message {number}") for number in range(60)])
    assert sorted(len(one.payload["messages"]) for one in jobs(container)) == [10, 50]
    work(container)
    assert len(server.requests) == 60
    assert set(readers(container)) == {"llm:openai/m"}


# ---- what goes wrong -------------------------------------------------------------------------------------------


def test_nothing_found_is_remembered_and_not_asked_again(connected, server):
    container = connected()
    server.chat = lambda _request: EMPTY
    message = container.memory.remember("user", "Good morning.")
    work(container)
    assert readers(container) == ["llm:openai/m"]
    container.memory.spawn_graph_extraction([message])
    container.graph_extraction.submit_backfill("default")
    work(container)
    assert len(server.requests) == 1


def test_a_job_that_died_in_between_goes_on_where_it_stopped(connected, server):
    container = connected()
    container.memory.remember_many("c", [NewMessage("user", f"message {number}") for number in range(3)])
    (one,) = jobs(container)
    runner = Runner(container)
    server.chat = lambda request: (
        (len(server.requests) == 2 and runner.stop()) or reply(("Ann", "lives_in", "Rome"))
    )
    runner.run(claim(container, one.id))
    assert readers(container) == ["llm:openai/m", "llm:openai/m", None]
    before = facts(container)
    work(container)
    assert set(readers(container)) == {"llm:openai/m"}
    assert facts(container) == before == [("Ann", "lives_in", "Rome")]
    assert len(server.requests) == 3


def test_a_retry_pays_nothing_for_an_answer_that_could_not_be_stored(connected, server):
    container = connected()
    container.memory.remember("user", "Ann lives in Rome.")
    with container.sqlite.write() as connection:
        connection.exec_driver_sql(
            "CREATE TRIGGER full BEFORE INSERT ON graph_edges BEGIN SELECT RAISE(ABORT, 'full'); END"
        )
    work(container)
    assert (readers(container), facts(container)) == ([None], [])
    assert rows(container, "SELECT count(*) FROM model_replies") == [(1,)]
    with container.sqlite.write() as connection:
        connection.exec_driver_sql("DROP TRIGGER full")
    until_final(container)
    assert facts(container) == [("Ann", "lives_in", "Rome")]
    assert len(server.requests) == 1
    assert rows(container, "SELECT count(*) FROM model_replies") == [(0,)]


@pytest.mark.parametrize("garbage", ["I see no graph here.", '{"entities": [null]}', "<html>"])
def test_a_reply_that_nobody_can_read_is_tried_again_and_then_dead_and_never_nothing(
    connected, server, garbage
):
    container = connected(jobs__max_attempts=8)
    server.chat = lambda _request: garbage
    container.memory.remember("user", "Ann lives in Rome.")
    until_final(container)
    (dead,) = jobs(container)
    assert (dead.state, readers(container)) == (JobState.DEAD, [None])
    assert "replies could not be used" in (dead.error_message or "")
    assert counters(container, "parse_failures", "extractions_stored") == [1, 0]
    assert len(server.requests) == 3
    assert container.graph_extraction.waiting("default") == 1


def test_a_reply_in_the_second_form_is_enough(connected, server):
    """Graph bug 19: one repair try, without the schema."""
    container = connected()
    server.chat = lambda request: "no JSON" if "response_format" in request else GOOD
    container.memory.remember("user", "Ann lives in Rome.")
    work(container)
    assert facts(container) == [("Ann", "lives_in", "Rome")]
    assert len(server.requests) == 2


def test_one_message_that_no_model_can_read_holds_up_no_other(connected, server):
    container = connected()
    server.chat = lambda request: (
        "poison" if "poison" in request["messages"][1]["content"].rpartition("<message")[2] else GOOD
    )
    texts = ["Ann lives in Rome.", "poison", "Ben knows Ann."]
    container.memory.remember_many("c", [NewMessage("user", text) for text in texts])
    until_final(container)
    assert readers(container) == ["llm:openai/m", None, "llm:openai/m"]
    states = {tuple(one.payload["messages"]): one.state for one in jobs(container)}
    assert states == {(1, 2, 3): JobState.DONE, (2,): JobState.DEAD}
    report = container.graph_extraction.report([jobs(container)[-1].id])
    assert (report.texts, report.open_jobs, len(report.failures)) == (2, 0, 1)


def test_a_wrong_key_ends_the_job_and_not_every_message_of_its_own(connected, server):
    container = connected()
    server.replies.extend([Reply(401, {"error": {"message": "no such key"}})] * 10)
    container.memory.remember_many("c", [NewMessage("user", f"Ann {number}") for number in range(5)])
    until_final(container)
    (dead,) = jobs(container)
    assert dead.state is JobState.DEAD
    assert readers(container) == [None] * 5
    assert len(server.requests) == 1


def test_what_a_model_that_is_away_did_not_read_is_read_when_it_is_back(connected, server):
    """Graph bug 23: nothing is lost silently."""
    container = connected()
    server.replies.extend([Reply(503)] * 50)
    container.memory.remember("user", "Ann lives in Rome.")
    until_final(container)
    assert (jobs(container)[0].state, readers(container)) == (JobState.DEAD, [None])
    assert counters(container, "extraction_failures") == [3]
    server.replies.clear()
    container.graph_extraction.submit_backfill("default")
    work(container)
    assert facts(container) == [("Ann", "lives_in", "Rome")]


def test_a_backfill_reads_what_came_while_another_one_waits_for_what_it_had_found(build):
    container = build()
    container.memory.remember("user", "Ann lives in Rome with Bob.")
    first = container.graph_extraction.submit_backfill("default")
    assert container.graph_extraction.submit_backfill("default") == first
    Runner(container).run(claim(container, first))
    assert job(container, first).state is JobState.WAITING
    container.memory.remember("user", "Carl works at Initech with Dora.")
    second = container.graph_extraction.submit_backfill("default")
    work(container)
    assert None not in readers(container)
    assert container.graph_extraction.report([second]).texts == 1


def test_what_is_forgotten_while_the_model_reads_it_is_not_stored(connected, server):
    container = connected()
    message = container.memory.remember("user", "Ann lives in Rome.")

    def forget(_request):
        container.memory.forget(messages=[message])
        return GOOD

    server.chat = forget
    work(container)
    assert facts(container) == []
    assert (jobs(container)[0].outcome or {})["gone"] == 1
    assert rows(container, "SELECT * FROM model_replies") == []


def test_a_cancelled_job_stops_between_two_messages(connected, server):
    """Graph bug 25."""
    container = connected()
    container.memory.remember_many("c", [NewMessage("user", f"message {number}") for number in range(5)])
    (one,) = jobs(container)
    run = claim(container, one.id)

    def cancel(_request):
        if len(server.requests) == 2:
            run.stop(lambda: errors.JobCancelled("cancelled"))
        return GOOD

    server.chat = cancel
    Runner(container).run(run)
    assert (job(container, one.id).state, len(server.requests)) == (JobState.DEAD, 2)
    assert readers(container) == ["llm:openai/m"] * 2 + [None] * 3


def test_two_workers_with_one_message_store_it_once(connected, server):
    container = connected()
    message = container.memory.remember("user", "Ann lives in Rome.")
    second = []

    def meanwhile(_request):
        if not second:
            # Another job, as a backfill would have it, overtakes this one.
            second.append(container.graph_extraction.submit_backfill("default"))
            work(container)
        return GOOD

    server.chat = meanwhile
    work(container)
    assert facts(container) == [("Ann", "lives_in", "Rome")]
    (fact,) = container.graph.facts("default", "Ann")
    assert [source.message_id for source in fact.sources] == [message]
    assert counters(container, "extractions_stored") == [1]


def test_a_full_ledger_makes_no_agent_forget(connected):
    container = connected(jobs__max_live_jobs=1, embedding__provider="none")
    for text in ("Ann lives in Rome.", "Ann lives in Rome too.", "And Ben."):
        container.memory.remember("user", text)
    assert len(jobs(container)) == 1
    assert container.memory.spawn_graph_extraction([2]) == []
    work(container)
    assert readers(container) == ["llm:openai/m", None, None]
    assert container.graph_extraction.waiting("default") == 2
    container.memory.spawn_graph_extraction([2, 3])
    work(container)
    assert container.graph_extraction.waiting("default") == 0


# ---- backfill --------------------------------------------------------------------------------------------------


def test_a_backfill_reads_the_oldest_first_in_batches_and_no_more_than_asked(connected, server):
    container = connected(memory__graph__enabled=False)
    server.chat = lambda _request: EMPTY
    container.memory.remember_many("c", [NewMessage("user", f"message {number}") for number in range(70)])
    first = container.graph_extraction.submit_backfill("default", limit=60)
    work(container)
    assert readers(container) == ["llm:openai/m"] * 60 + [None] * 10
    assert [len(one.payload["messages"]) for one in reversed(jobs(container))] == [50, 10]
    assert {one.parent_id for one in jobs(container)} == {first}
    assert job(container, first).state is JobState.DONE
    container.graph_extraction.submit_backfill("default")
    work(container)
    assert set(readers(container)) == {"llm:openai/m"}
    assert container.graph_extraction.report([first]).texts == 60


def test_what_the_local_extractor_read_is_replaced_when_a_model_arrives(local, connected):
    """Only on demand, and in one transaction: what it found goes, what the model found comes."""
    container = local()
    container.memory.remember("user", "We met Ana in Porto.")
    work(container)
    assert facts(container) == [("Ana", CO_OCCURRENCE, "Porto")]
    container.close()
    better = connected()
    better.graph_extraction.submit_backfill("default")
    work(better)
    assert readers(better) == ["local"]
    better.graph_extraction.submit_backfill("default", replace_local=True)
    work(better)
    assert readers(better) == ["llm:openai/m"]
    assert facts(better) == [("Ann", "lives_in", "Rome")]
    assert {entity.name for entity in better.graph.entities("default")} == {"Ann", "Rome"}
    assert better.graph_extraction.waiting("default", replace_local=True) == 0


def test_without_a_model_there_is_nothing_to_replace_the_local_extractor_with(local):
    with pytest.raises(errors.InputError, match=r"llm\.provider"):
        local().graph_extraction.submit_backfill("default", replace_local=True)


def test_a_backfill_that_died_is_finished_by_its_retry(connected, server):
    container = connected(memory__graph__enabled=False)
    server.chat = lambda _request: EMPTY
    container.memory.remember_many("c", [NewMessage("user", f"message {number}") for number in range(60)])
    backfill = container.graph_extraction.submit_backfill("default")
    runner = Runner(container)
    run = claim(container, backfill)
    run.stop(lambda: errors.LeaseLost("taken over"))
    runner.run(run)
    container.clock.advance(3_600)
    container.ledger.sweep()
    work(container)
    assert job(container, backfill).state is JobState.DONE
    assert set(readers(container)) == {"llm:openai/m"}
    assert len(server.requests) == 60


# ---- documents -------------------------------------------------------------------------------------------------


def test_ingested_documents_are_read_when_asked_for(connected, server, tmp_path):
    container = connected()
    folder = write_files(
        tmp_path / "docs", {"a.md": "# Guide\n\nAnn lives in Rome.", "b.txt": "Ben knows Ann."}
    )
    ingest_files(container, folder)
    assert server.requests == []
    batch = ingest_files(container, folder, graph=True)
    assert (batch.state, batch.failures) == (JobState.DONE, 0)
    assert facts(container) == [("Ann", "lives_in", "Rome")]
    (fact,) = container.graph.facts("default", "Ann")
    assert {source.message_id for source in fact.sources} == {None}
    assert len({source.chunk_id for source in fact.sources}) == 2
    assert any("<passage" in prompt and "Guide" in prompt for prompt in prompts(server))
    ingest_files(container, folder, graph=True)
    assert len(server.requests) == 2


def test_the_chunks_of_a_changed_document_are_read_again_and_the_others_not(connected, server, tmp_path):
    container = connected()
    folder = write_files(
        tmp_path / "docs", {"a.md": "# One\n\nAnn lives in Rome.\n\n# Two\n\nBen knows Ann."}
    )
    ingest_files(container, folder, graph=True)
    asked = len(server.requests)
    write_files(folder, {"a.md": "# One\n\nAnn lives in Rome.\n\n# Two\n\nBen left."})
    ingest_files(container, folder, graph=True)
    assert len(server.requests) == asked + 1


def test_a_chunk_that_cannot_be_read_makes_the_batch_say_so(connected, server, tmp_path):
    container = connected()
    server.chat = lambda _request: "no JSON"
    folder = write_files(tmp_path / "docs", {"a.md": "Ann lives in Rome."})
    batch = ingest_files(container, folder, graph=True)
    until_final(container)
    from services.documents.report import batch_progress

    batch = batch_progress(container.database, batch.batch_id, "default")
    assert (batch.state, batch.outcomes, batch.failures) == (JobState.DONE, {"stored": 1}, 1)


def test_what_the_local_extractor_read_of_documents_is_replaced_as_well(local, connected, tmp_path):
    container = local()
    folder = write_files(tmp_path / "docs", {"a.txt": "We met Ana in Porto."})
    ingest_files(container, folder, graph=True)
    assert facts(container) == [("Ana", CO_OCCURRENCE, "Porto")]
    container.close()
    better = connected()
    better.graph_extraction.submit_backfill("default", replace_local=True)
    work(better)
    assert facts(better) == [("Ann", "lives_in", "Rome")]


# ---- settings --------------------------------------------------------------------------------------------------


def test_every_setting_of_extraction_matters(connected, server):
    """Graph bug 1: what is parsed is used."""
    many = reply(*[("Ann", f"knows{at}", f"Name{at}") for at in range(9)])
    server.chat = lambda _request: many
    container = connected(
        memory__graph__extract_model="other",
        memory__graph__max_entities_per_message=5,
        memory__graph__max_edges_per_message=3,
        memory__graph__forbidden_text="NAME2, x",
        memory__graph__extraction_timeout_secs=7,
    )
    message = container.memory.remember("user", "Ann knows many. password=hunter2hunter2")
    work(container)
    assert server.requests[0].body["model"] == "other"
    assert readers(container) == ["llm:openai/other"]
    assert facts(container) == [("Ann", f"knows{at}", f"Name{at}") for at in (0, 1, 3)]
    assert message == 1


def test_redaction_can_be_switched_off(connected, server):
    container = connected(memory__redact_credentials=False)
    container.memory.remember("user", "Ann says password=hunter2hunter2")
    work(container)
    assert "hunter2hunter2" in prompts(server)[0]


def test_an_extraction_takes_no_longer_than_it_may(connected, server):
    container = connected(real_time=True, memory__graph__extraction_timeout_secs=1, jobs__max_attempts=1)
    server.replies.extend([Reply(delay=1.5)])
    container.memory.remember("user", "Ann lives in Rome.")
    work(container)
    (dead,) = jobs(container)
    assert (dead.state, dead.error_type) == (JobState.DEAD, "ModelTimeout")
    assert readers(container) == [None]


@pytest.mark.parametrize(
    ("typed", "relations"), [(False, {CO_OCCURRENCE}), (True, {CO_OCCURRENCE, "works_at"})]
)
def test_typed_relations_without_a_model_are_an_opt_in(local, typed, relations):
    container = local(memory__graph__typed_relations=typed)
    container.memory.remember("user", "As you know Ana works at Acme.")
    work(container)
    assert {relation for _, relation, _ in facts(container)} == relations


# ---- previews --------------------------------------------------------------------------------------------------


def test_a_preview_stores_nothing(connected, server):
    container = connected()
    found = container.graph_extraction.preview("Ann lives in Rome.", namespace="default", said_at=0)
    assert [entity.name for entity in found.entities] == ["Ann", "Rome"]
    assert facts(container) == []
    assert rows(container, "SELECT count(*) FROM model_replies") == [(0,)]
    assert counters(container, "extraction_count") == [0]


@pytest.mark.parametrize("with_model", [True, False])
def test_a_preview_of_a_text_with_half_a_character_is_one_of_the_rest(connected, local, with_model):
    """What a terminal gives in another encoding has halves of pairs in it, which no model and no table takes."""
    container = connected() if with_model else local()
    found = container.graph_extraction.preview(
        "We met Ann in Rome \udcff.", namespace="default", said_at=0, speaker="Zo\udce9"
    )
    assert {"Ann", "Rome"} <= {entity.name for entity in found.entities}


def test_known_names_are_found_again_by_the_local_extractor(local):
    container = local()
    container.memory.remember("user", "I use \u300a\u4e09\u4f53\u300b a lot.")
    work(container)
    found = container.graph_extraction.preview(
        "\u6211\u559c\u6b22\u4e09\u4f53", namespace="default", said_at=0
    )
    assert [entity.name for entity in found.entities] == ["\u4e09\u4f53"]


def test_the_kinds_of_jobs_are_those_that_workers_know():
    assert (EXTRACT_GRAPH.name, BACKFILL_GRAPH.name) == ("memory.extract_graph", "graph.backfill")
