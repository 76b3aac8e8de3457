import threading

import pytest

from services import errors
from services.documents.models import DocumentMetadata
from services.embedding.points import point_ids
from services.memory.models import Forgotten, MessageFilter, NewMessage, Origin, Role
from tests.builders import Bells, FallibleStore, ScriptedEmbedder, rows, work
from workers.local import run_pending


@pytest.fixture
def container(build):
    made = build()
    made.embedder = ScriptedEmbedder()
    return made


@pytest.fixture
def memory(container):
    return container.memory


def contents(messages):
    return [message.content for message in messages]


def embedded(container):
    return [row[0] for row in rows(container, "SELECT message_id FROM message_embeddings ORDER BY 1")]


def found(container, query, namespace="default"):
    with container.database.read() as unit:
        return set(unit.messages.search(namespace, query, limit=10, where=MessageFilter(agent_visible=None)))


# ---- remember --------------------------------------------------------------------------------------------------


def test_the_first_message_opens_the_first_conversation_and_ids_grow(memory, container):
    ids = [memory.remember("user", f"text {number}") for number in range(5)]
    assert ids == sorted(set(ids))
    assert rows(container, "SELECT id, key FROM conversations") == [(1, None)]


def test_a_message_and_its_job_are_accepted_together_or_not_at_all(memory, container, monkeypatch):
    memory.remember("user", "kept")

    def fail(*_arguments):
        raise errors.StorageBusy("the disk is full")

    monkeypatch.setattr("services.adapters.job_rows.SqlJobRows.enqueue", fail)
    with pytest.raises(errors.StorageBusy):
        memory.remember("user", "lost")
    assert contents(memory.history()) == ["kept"]
    kinds = [("memory.embed_messages",), ("memory.detect_correction",)]
    assert rows(container, "SELECT kind FROM jobs ORDER BY id") == kinds


def test_remembering_works_while_broker_embedder_and_vector_store_are_down(build):
    bells = Bells()
    bells.away = True
    container = build(publisher=bells)
    container.embedder = ScriptedEmbedder()
    container.embedder.error = errors.ModelUnavailable("down")
    container.vectors = FallibleStore()
    container.vectors.down = True
    message = container.memory.remember("user", "the harbour closes at nine")
    assert found(container, "harbour") == {message}
    work(container)
    assert embedded(container) == []
    container.vectors.down, container.embedder.error = False, None
    container.clock.advance(3)
    work(container)
    assert embedded(container) == [message]


def test_a_full_ledger_delays_vectors_and_loses_no_message(build):
    container = build(jobs__max_live_jobs=1)
    first = container.memory.remember("user", "one")
    with container.sqlite.write() as connection:
        # Another block's message: its job would be a second one.
        connection.exec_driver_sql("UPDATE sqlite_sequence SET seq = 1000 WHERE name = 'messages'")
    second = container.memory.remember("user", "two")
    assert second > 1_000
    assert rows(container, "SELECT count(*) FROM jobs") == [(1,)]
    work(container)
    assert container.message_vectors.embed_missing() == (1, 1)
    work(container)
    assert embedded(container) == [first, second]


def test_remembering_does_not_wait_for_the_embedder(memory, container):
    container.embedder.before_embed = lambda: pytest.fail("called in the foreground")
    memory.remember("user", "hello")


def test_a_namespace_sees_only_its_own(memory, container):
    alice = memory.remember("user", "alice likes plums", namespace="alice")
    memory.remember("user", "bob likes plums", namespace="bob")
    assert contents(memory.history(namespace="alice")) == ["alice likes plums"]
    assert found(container, "plums", "alice") == {alice}
    assert memory.history() == []
    with pytest.raises(errors.NotFound):
        memory.remember("user", "into bob's", conversation=2, namespace="alice")


def test_the_configured_namespace_is_the_default(build):
    container = build(namespace="alice")
    container.memory.remember("user", "hello")
    assert rows(container, "SELECT namespace FROM messages") == [("alice",)]


def test_a_conversation_is_named_by_id_by_key_or_by_being_the_latest(memory):
    memory.remember("user", "first", conversation="trip")
    memory.remember("user", "second", conversation="work")
    memory.remember("user", "third")
    memory.remember("user", "fourth", conversation="trip")
    memory.remember("user", "fifth", conversation=1)
    assert contents(memory.history("trip")) == contents(memory.history(1)) == ["first", "fourth", "fifth"]
    assert contents(memory.history()) == ["second", "third"]
    assert [(it.id, it.key, it.messages) for it in memory.conversations()] == [(1, "trip", 3), (2, "work", 2)]


def test_b40_no_message_is_put_under_a_parent_that_does_not_exist(memory, container):
    for conversation in (0, 7):
        with pytest.raises(errors.NotFound, match=f"no conversation {conversation}"):
            memory.remember("user", "hello", conversation=conversation)
    with pytest.raises(errors.InputError, match="key of a conversation is empty"):
        memory.remember("user", "hello", conversation="")
    assert rows(container, "SELECT count(*) FROM messages") == [(0,)]
    assert rows(container, "SELECT count(*) FROM conversations") == [(0,)]


def test_an_unknown_role_is_refused_when_it_is_written(memory):
    with pytest.raises(errors.InputError, match="role is 'robot': use one of system, user, assistant"):
        memory.remember("robot", "hello")


@pytest.mark.parametrize("moment", [-62_135_596_800_000_001, 253_402_300_800_000_000, 2**70, 1.5, True])
def test_a_time_outside_the_calendar_is_refused(memory, moment):
    with pytest.raises(errors.InputError, match="in the years 1 to 9999"):
        memory.remember("user", "hello", created_at=moment)


def test_text_that_cannot_be_stored_is_repaired_and_nothing_else_of_it_is_lost(memory):
    memory.remember("user", "cut \ud83d, joined \ud83d\ude00, nul \x00.", speaker="A\x00nn")
    (message,) = memory.history()
    assert (message.content, message.speaker) == ("cut \ufffd, joined \U0001f600, nul .", "Ann")


def nested(depth):
    """Parts in which lists and objects lie that deep in one another."""
    inner = []
    for _ in range(depth - 3):
        inner = [inner]
    return [{"kind": "x", "value": inner}]


@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        ([{"score": float("nan")}], "the number nan, which JSON cannot tell"),
        ([{"score": [1.0, float("-inf")]}], "the number -inf, which JSON cannot tell"),
        (nested(65), "nested too deep"),
        (nested(100_000), "nested too deep"),
        ([{"when": {1, 2}}], "a set that JSON cannot tell"),
        ([{1: "one"}], "a dict that JSON cannot tell"),
        (["text"], "a list of objects"),
    ],
    ids=["nan", "infinite", "deep", "very deep", "set", "key", "no object"],
)
def test_parts_that_could_not_be_read_again_are_refused_when_they_are_written(memory, parts, reason):
    with pytest.raises(errors.InputError, match=reason):
        memory.remember("user", "hello", parts=parts)
    assert memory.history() == []


def test_parts_of_any_allowed_depth_are_read_back_with_lone_surrogates_replaced(memory):
    odd = {"kind": "x", "cut \ud83d": "lone \udc00, joined \ud83d\ude00", "numbers": (1, 2.5, None, True)}
    memory.remember("user", "hello", parts=[odd, *nested(64)])
    (message,) = memory.history()
    whole = {"kind": "x", "cut \ufffd": "lone \ufffd, joined \U0001f600", "numbers": [1, 2.5, None, True]}
    assert list(message.parts) == [whole, *nested(64)]


def test_b45_each_message_keeps_its_own_parts(memory):
    uses = [{"kind": "tool_use", "id": str(n), "name": "look", "input": {"page": n}} for n in range(3)]
    results = [{"kind": "tool_result", "tool_use_id": str(n), "content": f"\u00e9 {n}"} for n in range(3)]
    for use, result in zip(uses, results, strict=True):
        memory.remember("assistant", "", parts=[use])
        memory.remember("user", "", parts=[result])
    pairs = zip(uses, results, strict=True)
    assert [list(message.parts) for message in memory.history()] == [[it] for pair in pairs for it in pair]


def test_many_writers_at_once_meet_no_lock_b38(build):
    container = build(real_time=True)
    problems = []

    def speak(number):
        try:
            for turn in range(10):
                container.memory.remember("user", f"{number} says {turn}", conversation=f"talk {number}")
        except errors.MemoryError as error:
            problems.append(error)

    threads = [threading.Thread(target=speak, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
    assert rows(container, "SELECT count(*), count(DISTINCT conversation_id) FROM messages") == [(60, 6)]


def test_b39_no_connection_is_held_while_the_model_works(build):
    container = build(memory__sqlite_pool_size=1)
    container.embedder = ScriptedEmbedder()
    container.embedder.before_embed = lambda: container.memory.remember("assistant", "meanwhile")
    container.memory.remember("user", "hello")
    work(container)
    assert contents(container.memory.history()) == ["hello", "meanwhile"]


# ---- what gets vectors -----------------------------------------------------------------------------------------


def test_user_messages_always_get_vectors_and_assistant_messages_by_default_none(memory, container):
    user = memory.remember("user", "hi")
    memory.remember("assistant", "a long answer of the assistant")
    memory.remember("system", "you are helpful, and this is a long instruction")
    work(container)
    assert embedded(container) == [user]
    assert container.message_vectors.waiting() == 0, "and backfill agrees"


def test_assistant_messages_get_vectors_from_a_length_on_when_that_is_wanted(build):
    container = build(memory__autosave_assistant=True, memory__autosave_min_length=5)
    container.memory.remember("assistant", "four")
    long = container.memory.remember("assistant", "fiver")
    work(container)
    assert embedded(container) == [long]


def test_b48_tool_traffic_and_skipped_calls_get_no_vectors(memory, container):
    skipped = {"kind": "tool_result", "tool_use_id": "1", "content": "[skipped]", "is_error": True}
    memory.remember("user", "[skipped]", parts=[skipped])
    memory.remember("user", "output of a tool", origin=Origin.TOOL)
    said = memory.remember("user", "a question", parts=[{"kind": "text", "text": "a question"}])
    memory.remember("user", "   ")
    memory.remember("user", "hidden from the agent", agent_visible=False)
    work(container)
    assert embedded(container) == [said]


def test_without_an_embedder_no_vectors_are_asked_for_and_everything_is_found_by_words(build):
    container = build(embedding__provider="none")
    message = container.memory.remember("user", "the harbour closes")
    assert rows(container, "SELECT kind FROM jobs") == [("memory.detect_correction",)]
    assert found(container, "harbour") == {message}
    assert container.message_vectors.embed_missing() == (0, 0)


# ---- history ---------------------------------------------------------------------------------------------------


def test_history_is_the_newest_messages_oldest_first(memory):
    for number in range(1, 11):
        memory.remember("user", str(number))
    assert contents(memory.history(limit=3)) == ["8", "9", "10"]
    assert contents(memory.history(limit=0)) == ["10"]


def test_history_is_as_long_as_the_setting_says(build):
    container = build(memory__history_limit=2)
    for number in range(5):
        container.memory.remember("user", str(number))
    assert contents(container.memory.history()) == ["3", "4"]


def test_history_includes_hidden_messages_unless_it_is_filtered(memory):
    memory.remember("user", "both")
    memory.remember("user", "people", agent_visible=False)
    memory.remember("user", "agent", user_visible=False)
    assert contents(memory.history()) == ["both", "people", "agent"]
    assert contents(memory.history(agent_visible=True)) == ["both", "agent"]
    assert contents(memory.history(user_visible=True)) == ["both", "people"]
    assert contents(memory.history(agent_visible=False)) == ["people"]


def test_history_of_nothing_is_empty_and_of_an_unknown_conversation_an_error(memory):
    assert memory.history() == []
    for conversation in (1, "nothing"):
        with pytest.raises(errors.NotFound):
            memory.history(conversation)


def test_messages_of_one_moment_keep_their_order_b41(memory):
    for number in range(5):
        memory.remember("user", str(number), created_at=1_000_000)
    assert contents(memory.history()) == ["0", "1", "2", "3", "4"]


# ---- recall ----------------------------------------------------------------------------------------------------


def recalled(memory, *arguments, **options):
    return [hit.message.content for hit in memory.recall(*arguments, **options).hits]


def test_what_was_remembered_is_recalled_by_words_at_once_and_by_meaning_after_the_worker(memory, container):
    memory.remember("user", "My dog is called Rex")
    assert recalled(memory, "Rex") == ["My dog is called Rex"]
    assert recalled(memory, "dogs", mode="vector") == []
    work(container)
    assert recalled(memory, "dogs", mode="vector") == ["My dog is called Rex"]


def test_recall_is_narrowed_to_a_conversation_and_a_namespace(memory, container):
    memory.remember("user", "plums in a", conversation="a")
    memory.remember("user", "plums in b", conversation="b")
    memory.remember("user", "alice's plums", namespace="alice")
    work(container)
    assert (
        recalled(memory, "plums", conversation="a")
        == recalled(memory, "plums", conversation=1)
        == ["plums in a"]
    )
    assert recalled(memory, "plums", namespace="alice") == ["alice's plums"]
    assert recalled(memory, "plums", where=MessageFilter(roles=(Role.SYSTEM,))) == []
    with pytest.raises(errors.NotFound):
        memory.recall("plums", conversation="c")


def test_recall_can_be_asked_as_if_at_another_time(memory):
    noon = 1_935_000_000_000_000
    memory.remember("user", "plums", created_at=noon)
    memory.remember("user", "plums, plums", created_at=noon - 9 * 86_400_000_000)
    answer = memory.recall("what about plums yesterday", now=noon + 86_400_000_000)
    assert [hit.message.content for hit in answer.hits] == ["plums", "plums, plums"]
    assert ["period" in hit.legs for hit in answer.hits] == [True, False]


def test_b43_what_is_recalled_is_counted_and_recall_itself_writes_nothing(memory, container):
    memory.remember("user", "plums")
    memory.remember("user", "pears")
    memory.recall("plums", limit=1)
    accesses = "SELECT access_count FROM messages ORDER BY id"
    assert rows(container, accesses) == [(0,), (0,)]
    memory.close()
    assert rows(container, accesses) == [(1,), (0,)]


def test_b31_recall_answers_by_words_while_the_vector_store_is_down_and_says_so(build):
    container = build()
    container.embedder, container.vectors = ScriptedEmbedder(), FallibleStore()
    container.memory.remember("user", "plums")
    work(container)
    container.vectors.down = True
    answer = container.memory.recall("plums", mode="hybrid")
    assert [hit.message.content for hit in answer.hits] == ["plums"]
    assert answer.degraded == ("vector",)


def test_deleted_hidden_and_forgotten_messages_are_not_recalled(memory, container):
    ids = [memory.remember("user", f"plums {number}") for number in range(4)]
    work(container)
    memory.replace_conversation(1, first=ids[0], last=ids[0], summary="fruit")
    memory.forget(messages=[ids[1]])
    with container.database.write() as unit:
        unit.messages.soft_delete("default", [ids[2]])
    # Before any vector is removed.
    for mode in ("vector", "keyword", "hybrid"):
        assert set(recalled(memory, "plums", mode=mode)) <= {"plums 3", "fruit"}, mode


# ---- compaction ------------------------------------------------------------------------------------------------


def test_compaction_hides_the_range_from_the_agent_and_shows_it_the_summary(memory):
    ids = [memory.remember("user", f"note {number}") for number in range(5)]
    new = memory.replace_conversation(1, first=ids[1], last=ids[3], summary="three notes")
    assert new > max(ids)
    assert contents(memory.history(agent_visible=True)) == ["note 0", "note 4", "three notes"]
    assert contents(memory.history(user_visible=True)) == [f"note {number}" for number in range(5)]
    hidden = memory.history(agent_visible=False)
    assert [message.compacted_at for message in hidden] == [memory.history()[-1].created_at] * 3


def test_compacted_messages_lose_their_vectors_and_the_summary_gets_one(memory, container):
    first, last = (memory.remember("user", f"the harbour closes at {hour}") for hour in ("nine", "ten"))
    work(container)
    physical = rows(container, "SELECT physical FROM embedding_collections")[0][0]
    new = memory.replace_conversation(1, first=first, last=last, summary="The harbour closes late.")
    assert embedded(container) == []
    work(container)
    assert embedded(container) == [new]
    (point,) = container.vectors.scroll(physical, "default")
    assert point[1]["message_id"] == new
    with container.database.read() as unit:
        assert set(unit.messages.search("default", "harbour", limit=10, where=MessageFilter())) == {new}


def test_a_message_that_is_compacted_while_it_is_embedded_leaves_no_vector(memory, container):
    message = memory.remember("user", "the harbour closes")

    def compact():
        container.embedder.before_embed = lambda: None
        memory.replace_conversation(1, first=message, last=message, summary="short")

    container.embedder.before_embed = compact
    work(container)
    assert embedded(container) == [message + 1]
    physical = rows(container, "SELECT physical FROM embedding_collections")[0][0]
    assert container.vectors.count(physical) == 1


def test_a_range_that_holds_nothing_visible_is_refused_and_nothing_changes(memory, container):
    message = memory.remember("user", "note", conversation="a")
    memory.remember("user", "other", conversation="b")
    with pytest.raises(errors.NotFound, match="no message from 1 to 1 that the agent sees"):
        memory.replace_conversation("b", first=message, last=message, summary="foreign")
    with pytest.raises(errors.NotFound):
        memory.replace_conversation("c", first=message, last=message, summary="unknown")
    with pytest.raises(errors.InputError, match="summary is empty"):
        memory.replace_conversation("a", first=message, last=message, summary=" ")
    assert rows(container, "SELECT count(*) FROM messages WHERE agent_visible = 1") == [(2,)]


# ---- many at once ----------------------------------------------------------------------------------------------


def test_thousands_are_remembered_in_order_with_a_job_for_each_block(memory, container):
    messages = [NewMessage(Role.USER, f"line {number}") for number in range(1_200)]
    ids = memory.remember_many("import", messages)
    assert (len(ids), ids) == (1_200, sorted(ids))
    assert contents(memory.history("import", limit=2)) == ["line 1198", "line 1199"]
    jobs = rows(container, "SELECT payload FROM jobs WHERE kind = 'memory.embed_messages'")
    assert len(jobs) == 3
    work(container)
    assert embedded(container) == ids


def test_messages_with_a_known_import_key_are_left_out(memory):
    messages = [NewMessage(Role.USER, f"line {number}", import_key=str(number)) for number in range(3)]
    assert len(memory.remember_many("import", messages)) == 3
    more = [
        *messages,
        NewMessage(Role.USER, "line 3", import_key="3"),
        messages[0],
        NewMessage(Role.USER, "free"),
    ]
    assert len(memory.remember_many("import", more)) == 2
    assert len(memory.remember_many("other", messages)) == 3, "a key counts within its conversation"


def test_remembering_no_message_opens_no_conversation(memory):
    assert memory.remember_many("empty", []) == []
    assert memory.conversations() == []


# ---- forgetting ------------------------------------------------------------------------------------------------


def vectors(container):
    found = rows(container, "SELECT physical FROM embedding_collections")
    return sum(container.vectors.count(physical) for (physical,) in found)


def test_a_forgotten_message_is_gone_from_rows_index_and_vectors(memory, container):
    secret = memory.remember("user", "the password is swordfish")
    kept = memory.remember("user", "the harbour closes")
    work(container)
    gone = memory.forget(messages=[secret])
    assert gone == Forgotten(messages=1, vectors=1)
    assert found(container, "swordfish") == set(), "not even as its neighbour's surroundings"
    assert contents(memory.history()) == ["the harbour closes"]
    work(container)
    assert (vectors(container), embedded(container)) == (1, [kept])
    assert rows(container, "SELECT count(*) FROM vector_tombstones") == [(0,)]
    assert memory.forget(messages=[secret]) == Forgotten()


def test_forgetting_takes_along_what_retells_the_message(memory, container):
    ids = [memory.remember("user", f"secret {number}") for number in range(3)]
    first = memory.replace_conversation(1, first=ids[0], last=ids[1], summary="retells 0 and 1")
    container.clock.advance(1)
    second = memory.replace_conversation(1, first=first, last=first, summary="retells the retelling")
    with container.sqlite.write() as connection:
        connection.exec_driver_sql(
            "INSERT INTO summaries (namespace, conversation_id, content, first_message_id, last_message_id, "
            f"token_estimate, scope, created_at) VALUES ('default', 1, 'secrets', {ids[0]}, {ids[1]}, 1, '1', 1)"
        )
        connection.exec_driver_sql(
            "INSERT INTO response_cache (namespace, cache_key, model, response, created_at, expires_at) "
            "VALUES ('default', 'k', 'm', 'secret 0', 1, 9), ('other', 'k', 'm', 'theirs', 1, 9)"
        )
        connection.exec_driver_sql(
            "INSERT INTO model_replies (namespace, key, model, reply, prompt_tokens, completion_tokens, created_at) "
            "VALUES ('default', 'k', 'm', 'secret 1', 1, 1, 1)"
        )
        connection.exec_driver_sql(
            "INSERT INTO zeph_corrections (namespace, scope, segmented, message_id, original_output, correction_text, "
            "kind, confidence, created_at) "
            f"VALUES ('default', '1', 'secret 1', {ids[1]}, 'x', 'secret 1', 'explicit_rejection', 1, 1)"
        )
    gone = memory.forget(messages=[ids[1]])
    assert (gone.messages, gone.summaries, gone.corrections, gone.cached_responses) == (3, 1, 1, 2)
    assert [row[0] for row in rows(container, "SELECT id FROM messages")] == [ids[0], ids[2]]
    assert second not in found(container, "retelling")
    assert rows(container, "SELECT namespace FROM response_cache") == [("other",)]


def test_vectors_of_summaries_and_facts_are_buried_with_what_they_retell(memory, container):
    message = memory.remember("user", "secret")
    with container.sqlite.write() as connection:
        for statement in (
            "INSERT INTO summaries (id, namespace, conversation_id, content, first_message_id, last_message_id, token_estimate, scope, created_at) VALUES (7, 'default', 1, 'x', 1, 1, 1, '1', 1)",
            "INSERT INTO key_facts (id, namespace, conversation_id, summary_id, fact, scope, content_hash, created_at) VALUES (8, 'default', 1, 7, 'secret', '1', 'h', 1)",
            "INSERT INTO summary_embeddings (summary_id, collection, windows, created_at) VALUES (7, 's', 1, 1)",
            "INSERT INTO key_fact_embeddings (key_fact_id, collection, windows, created_at) VALUES (8, 'f', 2, 1)",
        ):
            connection.exec_driver_sql(statement)
    gone = memory.forget(messages=[message])
    assert gone == Forgotten(messages=1, vectors=3, summaries=1, key_facts=1)
    assert rows(container, "SELECT collection, point_id FROM vector_tombstones ORDER BY id") == [
        *(("f", point) for point in point_ids("key_fact", "default", "f", 8, 2)),
        *(("s", point) for point in point_ids("summary", "default", "s", 7, 1)),
    ]


def test_a_forgotten_conversation_takes_its_sessions_along(memory, container):
    memory.remember("user", "hello", conversation="trip")
    memory.remember("user", "kept", conversation="work")
    with container.sqlite.write() as connection:
        connection.exec_driver_sql(
            "INSERT INTO acp_sessions (namespace, id, conversation_id, created_at, updated_at) "
            "VALUES ('default', 's', 1, 1, 1), ('default', 't', 2, 1, 1)"
        )
        connection.exec_driver_sql(
            "INSERT INTO acp_session_events (namespace, session_id, event_type, payload, created_at) "
            "VALUES ('default', 's', 'user', 'hello', 1)"
        )
    assert memory.forget(conversation="trip") == Forgotten(messages=1, conversations=1, sessions=1)
    assert rows(container, "SELECT id FROM acp_sessions") == [("t",)]
    assert rows(container, "SELECT count(*) FROM acp_session_events") == [(0,)]
    assert [it.key for it in memory.conversations()] == ["work"]


def test_forgetting_everything_leaves_nothing_of_the_namespace_and_all_of_others(memory, container):
    for namespace in ("alice", "bob"):
        memory.remember("user", "hello", namespace=namespace)
        container.ingestion.add_text("text", DocumentMetadata("a.txt", "text/plain"), namespace=namespace)
    work(container)
    gone = memory.forget(everything=True, namespace="alice")
    assert gone == Forgotten(messages=1, vectors=2, conversations=1, documents=1)
    work(container)
    assert vectors(container) == 2
    for table in ("conversations", "messages", "documents", "chunks"):
        assert rows(container, f"SELECT namespace FROM {table}") == [("bob",)]


def test_only_one_named_thing_is_forgotten_at_a_time(memory):
    memory.remember("user", "hello")
    for wrong in ({}, {"messages": [1], "conversation": 1}, {"conversation": 1, "everything": True}):
        with pytest.raises(errors.InputError, match="nothing is forgotten by guessing"):
            memory.forget(**wrong)
    with pytest.raises(errors.NotFound):
        memory.forget(conversation="nothing")
    assert contents(memory.history()) == ["hello"]


def test_another_namespaces_message_is_not_forgotten(memory, container):
    message = memory.remember("user", "alice's", namespace="alice")
    assert memory.forget(messages=[message], namespace="bob") == Forgotten()
    assert contents(memory.history(namespace="alice")) == ["alice's"]


# ---- stats -----------------------------------------------------------------------------------------------------


def test_stats_count_what_there_is(memory, container):
    assert memory.stats().messages == memory.stats().conversations == 0
    first = memory.remember("user", "one", created_at=5)
    memory.remember("user", "two", created_at=7)
    memory.remember("assistant", "three", created_at=9, agent_visible=False)
    work(container)
    memory.remember("user", "four", created_at=8)
    with container.database.write() as unit:
        unit.messages.soft_delete("default", [first])
    stats = memory.stats()
    assert (stats.conversations, stats.messages, stats.hidden, stats.deleted) == (1, 3, 1, 1)
    assert (stats.embedded, stats.waiting, stats.characters) == (1, 1, 12)
    assert (stats.oldest_at, stats.newest_at) == (7, 9)


def test_pending_work_is_done_by_the_embedded_worker(memory, container):
    memory.remember("user", "hello")
    run_pending(container)
    assert (memory.stats().embedded, memory.stats().waiting) == (1, 0)
