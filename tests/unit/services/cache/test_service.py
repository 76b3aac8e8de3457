"""The response cache: time to live, limits, sources, one caller at a time, questions that mean the same."""

import threading
import time

import pytest

from services import errors
from services.adapters.in_memory import HashEmbedder
from services.cache.models import CacheLimits, CacheRequest, SemanticMatch, Source, SourceKind
from services.cache.service import ResponseCache
from services.cache.store import Lease
from services.jobs.models import EVICT_RESPONSES, NewJob
from tests.builders import enqueue, in_processes, ingest, job, rows, work, write_files

YEAR = 31_536_000
SECOND = 1_000_000


def asked(text="hello", **fields):
    return CacheRequest("m", [{"role": "user", "content": text}], **fields)


@pytest.fixture
def cache(container):
    return container.response_cache


@pytest.fixture
def made(container):
    """A cache of the container's database with limits or a semantic match of its own."""

    def make(embedder=None, **options):
        return ResponseCache(
            container.database, container.clock, container.entropy, embedder=lambda: embedder, **options
        )

    return make


# ---- time to live ----------------------------------------------------------------------------------------------


def test_an_answer_is_found_until_its_time_is_over_and_not_at_it(cache, container):
    assert cache.put(asked(), "hi", ttl_seconds=10)
    found = cache.get(asked())
    assert (found.text, found.model, found.expires_at - found.created_at) == ("hi", "m", 10 * SECOND)
    container.clock.advance(9.999999)
    assert cache.get(asked()) is not None
    container.clock.advance(0.000001)
    assert cache.get(asked()) is None


def test_an_hour_is_the_default_and_the_settings_change_it(cache, build):
    cache.put(asked(), "hi")
    found = cache.get(asked())
    assert found.expires_at - found.created_at == 3_600 * SECOND
    other = build(llm__response_cache_ttl_secs=5).response_cache
    other.put(asked("other"), "hi")
    assert other.get(asked("other")).expires_at - other.get(asked("other")).created_at == 5 * SECOND


def test_nothing_lives_longer_than_a_year(cache):
    cache.put(asked(), "hi", ttl_seconds=1e300)
    found = cache.get(asked())
    assert found.expires_at - found.created_at == YEAR * SECOND


def test_a_time_to_live_of_zero_is_over_at_once(cache):
    assert cache.put(asked(), "hi", ttl_seconds=0)
    assert cache.get(asked()) is None


@pytest.mark.parametrize("seconds", [-1, float("nan")])
def test_a_time_to_live_that_is_none_is_refused_before_anybody_is_asked(cache, seconds):
    calls = []
    with pytest.raises(errors.InputError, match="time to live"):
        cache.put(asked(), "hi", ttl_seconds=seconds)
    with pytest.raises(errors.InputError, match="time to live"):
        cache.through(asked(), lambda: calls.append(1), ttl_seconds=seconds)
    assert calls == []


# ---- reading and writing ---------------------------------------------------------------------------------------


def test_the_second_answer_replaces_the_first_with_its_sources(cache, container):
    message = container.memory.remember("user", "it is noon")
    cache.put(asked(), "first", sources=[Source(SourceKind.MESSAGE, message)])
    cache.put(asked(), "second")
    container.memory.recall("noon")
    assert cache.invalidate_sources(Source(SourceKind.MESSAGE, message)) == 0
    assert cache.get(asked()).text == "second"


def test_namespaces_do_not_see_each_other(cache):
    cache.put(asked(), "mine")
    cache.put(asked(), "theirs", namespace="other")
    assert cache.get(asked()).text == "mine"
    assert cache.clear(namespace="other") == 1
    assert cache.get(asked(), namespace="other") is None
    assert cache.get(asked()).text == "mine"


def test_any_text_comes_back_as_it_was(cache):
    for text in ("a\x00b", "  padded\r\n", "𝄞 日本", '{"json": [1]}'):
        assert cache.put(asked(text), text)
        assert cache.get(asked(text)).text == text


@pytest.mark.parametrize("text", ["", " \n", "half \ud800 a pair", "x" * 11])
def test_what_is_blank_or_too_large_or_no_text_is_not_stored(made, text):
    cache = made(limits=CacheLimits(max_answer_bytes=10))
    assert not cache.put(asked(), text)
    assert cache.through(asked(), lambda: text) == text
    assert cache.get(asked()) is None


def test_invalidating_and_clearing_remove_and_count(cache):
    for text in "abc":
        cache.put(asked(text), text)
    assert cache.invalidate(asked("a"))
    assert not cache.invalidate(asked("a"))
    assert cache.clear() == 2
    assert cache.stats().entries == 0


@pytest.mark.parametrize(
    "limits",
    [
        {"max_entries": 0},
        {"max_bytes": 0},
        {"lease_seconds": 0},
        {"lease_seconds": float("nan")},
        {"ttl_seconds": -1},
    ],
)
def test_limits_that_make_no_sense_are_refused(limits):
    with pytest.raises(errors.InputError):
        CacheLimits(**limits)


# ---- size ------------------------------------------------------------------------------------------------------


def test_the_oldest_go_when_there_are_too_many(made, container):
    cache = made(limits=CacheLimits(max_entries=3))
    for text in "abcde":
        cache.put(asked(text), text)
        container.clock.advance(1)
    assert [cache.get(asked(text)) is not None for text in "abcde"] == [False, False, True, True, True]


def test_the_oldest_go_when_they_are_too_large_together(made, container):
    cache = made(limits=CacheLimits(max_entries=90, max_bytes=25))
    for text in "abcd":
        cache.put(asked(text), text * 10)
        container.clock.advance(1)
    assert [cache.get(asked(text)) is not None for text in "abcd"] == [False, False, True, True]
    assert cache.stats().size_bytes == 20


def test_the_sizes_are_those_of_the_settings(build):
    cache = build(llm__response_cache_max_answer_bytes=1_024).response_cache
    assert not cache.put(asked(), "x" * 1_025)
    few = build(llm__response_cache_max_entries=2)
    for text in "abc":
        few.response_cache.put(asked(text), text)
        few.clock.advance(1)
    assert [few.response_cache.get(asked(text)) is not None for text in "abc"] == [False, True, True]


def test_eviction_removes_what_has_expired_and_keeps_the_rest(cache, container):
    cache.put(asked("old"), "old", ttl_seconds=10)
    cache.put(asked("due"), "due", ttl_seconds=20, namespace="other")
    cache.put(asked("new"), "new", ttl_seconds=21)
    container.clock.advance(20)
    assert (cache.stats().entries, cache.stats().valid) == (2, 1)
    (job_id,) = enqueue(container, NewJob(EVICT_RESPONSES))
    work(container)
    assert job(container, job_id).outcome == {"expired": 2, "trimmed": 0}
    assert rows(container, "SELECT response FROM response_cache") == [("new",)]


def test_eviction_works_off_more_than_one_unit_holds_b27(container, monkeypatch):
    monkeypatch.setattr("services.cache.service._EXPIRED_PER_UNIT", 2)
    for number in range(5):
        container.response_cache.put(asked(str(number)), "x", ttl_seconds=0)
    (job_id,) = enqueue(container, NewJob(EVICT_RESPONSES))
    work(container)
    assert job(container, job_id).outcome == {"expired": 5, "trimmed": 0}


def test_the_container_evicts_by_the_configured_interval(build):
    container = build(memory__response_cache_cleanup_interval_secs=77)
    assert {entry.kind: entry.every_seconds for entry in container.periodic}[EVICT_RESPONSES] == 77


def test_expired_answers_are_found_by_an_index_b27(container):
    plan = rows(container, "EXPLAIN QUERY PLAN SELECT 1 FROM response_cache WHERE expires_at <= 1")
    assert "ix_response_cache_expires_at" in plan[0][3]


# ---- counting --------------------------------------------------------------------------------------------------


def test_hits_are_counted_and_reading_writes_nothing(cache, container):
    cache.put(asked(), "hi")
    for _ in range(3):
        cache.get(asked())
    assert rows(container, "SELECT hits FROM response_cache") == [(0,)]
    stats = cache.stats()
    assert (stats.entries, stats.valid, stats.size_bytes, stats.hits) == (1, 1, 2, 3)


def test_hits_are_stored_when_the_container_closes(build):
    container = build()
    container.response_cache.put(asked(), "hi")
    container.response_cache.get(asked())
    container.close()
    assert rows(build(), "SELECT hits FROM response_cache") == [(1,)]


# ---- sources ---------------------------------------------------------------------------------------------------


@pytest.fixture
def answered(cache):
    """Store an answer made of a row; whether it is still there."""

    def answer(kind, row_id):
        assert cache.put(asked(f"{kind}:{row_id}"), "hi", sources=[Source(kind, row_id)])
        return lambda: cache.get(asked(f"{kind}:{row_id}")) is not None

    return answer


def test_an_answer_dies_with_the_message_it_was_made_of(container, answered):
    kept, gone = (container.memory.remember("user", text) for text in ("keep this", "drop this"))
    still = answered(SourceKind.MESSAGE, kept)
    there = answered(SourceKind.MESSAGE, gone)
    with container.database.write() as unit:
        unit.messages.soft_delete("default", [gone])
    assert (still(), there()) == (True, False)


def test_counting_an_access_changes_no_message(container, answered):
    message = container.memory.remember("user", "the winch is broken")
    there = answered(SourceKind.MESSAGE, message)
    with container.database.write() as unit:
        unit.messages.touch({message: 1}, now=1)
    assert there()


def test_an_answer_dies_when_its_message_is_compacted_or_put_right(container, answered):
    first = container.memory.remember("user", "the winch is broken")
    there = answered(SourceKind.MESSAGE, first)
    container.memory.replace_conversation(1, first=first, last=first, summary="about a winch")
    assert not there()
    second = container.memory.remember("assistant", "the winch is green")
    there = answered(SourceKind.MESSAGE, second)
    container.corrections.add("it is blue", target=second)
    assert not there()


def test_an_answer_dies_with_its_correction(container, answered):
    correction = container.corrections.add("use pnpm")
    there = answered(SourceKind.CORRECTION, correction.id)
    container.corrections.undo(correction.id)
    assert not there()


def test_an_answer_dies_with_its_fact_or_summary(container, answered):
    edge = container.graph.add_fact("default", "Hanne", "repaired", "winch")
    there = answered(SourceKind.EDGE, edge.id)
    container.graph.forget_edge("default", edge.id)
    assert not there()
    message = container.memory.remember("user", "the winch is broken")
    with container.database.write() as unit:
        summary = unit.summaries.add("default", 1, "a winch", first=message, last=message, token_estimate=1)
    there = answered(SourceKind.SUMMARY, summary)
    container.memory.forget(messages=[message])
    assert not there()


def test_an_answer_dies_when_its_document_changes_and_only_then(container, answered, tmp_path):
    folder = write_files(tmp_path / "docs", {"a.md": "# A\n\nOne.\n", "b.md": "# B\n\nTwo.\n"})
    ingest(container, folder)
    chunks = dict(rows(container, "SELECT text, id FROM chunks"))
    (one,) = (chunk for text, chunk in chunks.items() if "One" in text)
    documents = dict(rows(container, "SELECT source, id FROM documents"))
    of_a, of_b = (document for _, document in sorted(documents.items()))
    alive = [
        answered(SourceKind.CHUNK, one),
        answered(SourceKind.DOCUMENT, of_a),
        answered(SourceKind.DOCUMENT, of_b),
    ]
    ingest(container, folder)
    assert [there() for there in alive] == [True, True, True]
    write_files(folder, {"a.md": "# A\n\nOther.\n"})
    ingest(container, folder)
    assert [there() for there in alive] == [False, False, True]


@pytest.mark.parametrize(
    "source", [Source(SourceKind.MESSAGE, 99), Source(SourceKind.CHUNK, 1), Source(SourceKind.EDGE, 1)]
)
def test_an_answer_made_of_a_row_that_is_not_there_is_not_stored(cache, source):
    assert not cache.put(asked(), "hi", sources=[source])
    assert cache.get(asked()) is None


def test_a_row_of_another_namespace_is_no_source(cache, container):
    message = container.memory.remember("user", "theirs", namespace="other")
    assert not cache.put(asked(), "hi", sources=[Source(SourceKind.MESSAGE, message)])


@pytest.mark.parametrize("change", ["deleted", "compacted", "put right"])
def test_an_answer_is_not_stored_when_its_message_changed_while_it_was_made(cache, container, change):
    message = container.memory.remember("user", "it is noon")

    def call():
        container.clock.advance(1)
        if change == "deleted":
            with container.database.write() as unit:
                unit.messages.soft_delete("default", [message])
        elif change == "compacted":
            container.memory.replace_conversation(1, first=message, last=message, summary="about time")
        else:
            container.corrections.add("it is midnight", target=message)
        return "noon"

    assert cache.through(asked(), call, sources=[Source(SourceKind.MESSAGE, message)]) == "noon"
    assert cache.get(asked()) is None


def test_the_receipt_of_forgetting_counts_the_answers_that_were_made_of_it(cache, container):
    message = container.memory.remember("user", "it is noon")
    cache.through(asked(), lambda: "noon", sources=[Source(SourceKind.MESSAGE, message)])
    assert cache.get(asked()) is not None
    assert container.memory.forget(messages=[message]).cached_responses == 1


def test_an_answer_is_not_stored_when_somebody_called_its_sources_stale_while_it_was_made(cache, container):
    source = Source(SourceKind.MESSAGE, container.memory.remember("user", "it is noon"))

    def call():
        cache.invalidate_sources(source)
        return "noon"

    assert cache.through(asked(), call, sources=[source]) == "noon"
    assert cache.get(asked()) is None


def test_an_answer_is_not_stored_when_what_it_is_made_of_was_put_right_again_meanwhile(cache, container):
    message = container.memory.remember("assistant", "it is noon")
    found = container.corrections.add("it is midnight", target=message)
    container.corrections.undo(found.id)
    container.clock.advance(1)

    def call():
        container.clock.advance(1)
        container.corrections.redo(found.id)
        return "noon"

    assert cache.through(asked(), call, sources=[Source(SourceKind.MESSAGE, message)]) == "noon"
    assert cache.get(asked()) is None


def test_an_answer_is_not_stored_when_its_document_changed_while_it_was_made(cache, container, tmp_path):
    folder = write_files(tmp_path / "docs", {"a.md": "# A\n\nOne.\n"})
    ingest(container, folder)
    ((document,),) = rows(container, "SELECT id FROM documents")

    def call():
        container.clock.advance(1)
        ingest(container, write_files(folder, {"a.md": "# A\n\nOther.\n"}))
        return "one"

    cache.through(asked(), call, sources=[Source(SourceKind.DOCUMENT, document)])
    assert cache.get(asked()) is None


@pytest.mark.parametrize("action", ["forget", "clear", "invalidate"])
def test_what_is_forgotten_does_not_come_back_by_an_answer_under_way(cache, container, action):
    message = container.memory.remember("user", "my secret")
    acts = {
        "forget": lambda: container.memory.forget(messages=[message]),
        "clear": cache.clear,
        "invalidate": lambda: cache.invalidate(asked()),
    }

    def call():
        acts[action]()
        return "your secret"

    assert cache.through(asked(), call) == "your secret"
    assert cache.get(asked()) is None


def test_a_source_reads_back_from_its_citation():
    assert Source.parse("message:12") == Source(SourceKind.MESSAGE, 12)
    assert str(Source(SourceKind.CHUNK, 7)) == "chunk:7"
    for wrong in ("message", "message:", "message:-1", "page:1", "message:1x", ":", "message:" + "9" * 19):
        with pytest.raises(errors.InputError, match="message:12"):
            Source.parse(wrong)


# ---- one caller at a time --------------------------------------------------------------------------------------


def test_through_asks_once_and_answers_from_then_on(cache):
    calls = []

    def call():
        calls.append(1)
        return "hi"

    assert [cache.through(asked(), call) for _ in range(3)] == ["hi"] * 3
    assert len(calls) == 1
    assert cache.stats().hits == 2


def test_errors_are_raised_and_never_stored(cache):
    def fail():
        raise errors.ModelUnavailable("away")

    for _ in range(2):
        with pytest.raises(errors.ModelUnavailable, match="away"):
            cache.through(asked(), fail)
    assert cache.through(asked(), lambda: "back") == "back"


def test_an_answer_that_is_not_to_be_kept_is_given_and_not_stored(cache, container):
    assert cache.through(asked(), lambda: "cut o", keep=lambda text: text != "cut o") == "cut o"
    assert cache.through(asked(), lambda: "whole", keep=lambda text: text != "cut o") == "whole"
    assert rows(container, "SELECT * FROM response_leases") == []


def test_ten_threads_with_one_question_make_one_call(build):
    cache = build(real_time=True).response_cache
    calls, answers = [], []

    def call():
        calls.append(1)
        time.sleep(0.2)
        return "hi"

    threads = [
        threading.Thread(target=lambda: answers.append(cache.through(asked(), call))) for _ in range(10)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(calls), answers) == (1, ["hi"] * 10)


def test_four_processes_with_one_question_make_one_call(build, tmp_path):
    container = build(real_time=True)
    container.response_cache.get(asked())

    def ask(number):
        def call():
            time.sleep(0.3)
            (tmp_path / f"called-{number}").touch()
            return "hi"

        assert container.response_cache.through(asked(), call) == "hi"

    in_processes(4, ask)
    assert len(list(tmp_path.glob("called-*"))) == 1


def held(container, cache, seconds=60):
    """A lease of a caller that is no more."""
    key = cache._asked(asked(), None).key
    with container.database.write() as unit:
        lease = Lease("of the dead", container.clock.now() + seconds * SECOND)
        assert unit.cache.take_lease("default", key, lease, now=container.clock.now())


def test_a_caller_that_died_holds_up_others_no_longer_than_its_lease(cache, container):
    held(container, cache, seconds=5)
    began = container.clock.now()
    assert cache.through(asked(), lambda: "hi") == "hi"
    waited = (container.clock.now() - began) / SECOND
    assert 5 <= waited <= 5.2
    assert cache.get(asked()).text == "hi"


def test_a_lease_of_before_the_clock_was_set_back_holds_up_nobody(cache, container):
    held(container, cache, seconds=5)
    container.clock.advance(-7_200)
    began = container.clock.now()
    assert cache.through(asked(), lambda: "hi") == "hi"
    assert container.clock.now() == began
    assert cache.get(asked()).text == "hi"


def test_a_lease_that_is_renewed_for_ever_holds_up_nobody_for_ever(cache, container, made):
    cache = made(limits=CacheLimits(lease_seconds=2))
    held(container, cache, seconds=10_000)
    began = container.clock.now()
    assert cache.through(asked(), lambda: "hi") == "hi"
    assert (container.clock.now() - began) / SECOND <= 4.2


def test_whoever_waits_for_a_caller_that_fails_asks_next(build):
    cache = build(real_time=True).response_cache
    inside, outcomes = threading.Event(), []

    def fail():
        inside.set()
        time.sleep(0.1)
        raise errors.ModelUnavailable("away")

    def first():
        with pytest.raises(errors.ModelUnavailable):
            cache.through(asked(), fail)
        outcomes.append("failed")

    thread = threading.Thread(target=first)
    thread.start()
    inside.wait()
    assert cache.through(asked(), lambda: "hi") == "hi"
    thread.join()
    assert outcomes == ["failed"]
    assert cache.get(asked()).text == "hi"


def test_a_caller_that_lost_its_lease_stores_nothing(cache, container, made):
    slow, quick = made(limits=CacheLimits(lease_seconds=1)), cache

    def call():
        container.clock.advance(2)
        assert quick.through(asked(), lambda: "new") == "new"
        return "old"

    assert slow.through(asked(), call) == "old"
    assert cache.get(asked()).text == "new"


def test_a_database_that_is_busy_costs_the_saving_and_not_the_answer(cache, monkeypatch):
    def busy(*_args, **_options):
        raise errors.StorageBusy("locked")

    monkeypatch.setattr(cache._database, "read", busy)
    assert cache.through(asked(), lambda: "hi") == "hi"
    monkeypatch.undo()
    monkeypatch.setattr(cache._database, "write", busy)
    assert cache.through(asked(), lambda: "hi") == "hi"


def test_eviction_removes_leases_of_the_dead(cache, container):
    held(container, cache, seconds=5)
    container.clock.advance(5)
    enqueue(container, NewJob(EVICT_RESPONSES))
    work(container)
    assert rows(container, "SELECT * FROM response_leases") == []


# ---- questions that mean the same ------------------------------------------------------------------------------

QUESTION, ALIKE = "how long do the batteries of the dome last", "how long do batteries of the dome last"


@pytest.fixture
def semantic(made):
    return made(HashEmbedder(), semantic=SemanticMatch(0.9))


def test_a_question_that_means_the_same_is_answered_when_that_is_wanted(semantic, cache):
    semantic.put(asked(QUESTION), "18 minutes")
    found = semantic.get(asked(ALIKE))
    assert found.text == "18 minutes"
    assert 0.9 <= found.similarity < 1
    assert semantic.through(asked(ALIKE), lambda: "asked anew") == "18 minutes"
    assert semantic.get(asked("who painted the kitchen")) is None
    # Off by default.
    assert cache.get(asked(ALIKE)) is None


def test_the_settings_turn_it_on(build):
    cache = build(llm__semantic_cache_enabled=True, llm__semantic_cache_threshold=0.9).response_cache
    cache.put(asked(QUESTION), "18 minutes")
    assert cache.get(asked(ALIKE)).text == "18 minutes"


@pytest.mark.parametrize("changed", [{"threshold": 1.0}, {"max_candidates": 1}])
def test_how_alike_and_how_many_are_compared_are_settings(build, changed):
    settings = {"enabled": True, "threshold": 0.9, "max_candidates": 10, **changed}
    cache = build(**{f"llm__semantic_cache_{key}": value for key, value in settings.items()}).response_cache
    for text in (QUESTION, "something else altogether"):
        cache.put(asked(text), text)
    assert cache.get(asked(ALIKE)) is None
    assert cache.get(asked(QUESTION)).text == QUESTION


def test_a_similar_question_is_not_answered_in_another_setting(semantic):
    semantic.put(asked(QUESTION, sampling={"seed": 1}), "18 minutes")
    assert semantic.get(asked(ALIKE)) is None
    assert semantic.get(asked(ALIKE, sampling={"seed": 1}), namespace="other") is None


def test_expired_answers_and_those_of_tools_answer_no_similar_question_b27(semantic, container):
    semantic.put(asked(QUESTION, tools=[{"type": "function"}]), "18 minutes")
    assert semantic.get(asked(ALIKE, tools=[{"type": "function"}])) is None
    semantic.put(asked(QUESTION), "18 minutes", ttl_seconds=1)
    container.clock.advance(1)
    assert semantic.get(asked(ALIKE)) is None


def test_vectors_of_another_model_are_not_compared_and_exact_entries_stay(semantic, made):
    semantic.put(asked(QUESTION), "18 minutes")
    other = made(HashEmbedder(32), semantic=SemanticMatch(0.0))
    assert other.get(asked(ALIKE)) is None
    assert other.get(asked(QUESTION)).text == "18 minutes"


def test_a_damaged_vector_is_passed_over(semantic, container):
    semantic.put(asked(QUESTION), "18 minutes")
    with container.sqlite.write() as connection:
        connection.exec_driver_sql("UPDATE response_cache SET embedding = x'0102030405'")
    assert semantic.get(asked(ALIKE)) is None


def test_only_the_newest_candidates_are_compared_and_the_best_of_them_wins(made, container):
    cache = made(HashEmbedder(), semantic=SemanticMatch(0.0, max_candidates=2))
    for text, answer in (
        (QUESTION, "oldest"),
        ("how long do batteries last", "near"),
        ("the kitchen", "far"),
    ):
        cache.put(asked(text), answer)
        container.clock.advance(1)
    assert cache.get(asked(ALIKE)).text == "near"


def test_an_embedder_that_is_away_costs_the_similar_and_not_the_exact(container, made):
    class Away(HashEmbedder):
        def embed(self, texts, *, kind):
            raise errors.ModelUnavailable("away")

    cache = made(Away(), semantic=SemanticMatch())
    assert cache.put(asked(QUESTION), "18 minutes")
    assert cache.get(asked(QUESTION)).text == "18 minutes"
    assert cache.get(asked(ALIKE)) is None


@pytest.mark.parametrize("threshold", [float("nan"), -0.1, 1.1, float("inf")])
def test_a_threshold_that_is_none_is_refused_b27(threshold, build):
    with pytest.raises(errors.InputError, match="threshold"):
        SemanticMatch(threshold)
    with pytest.raises(errors.SettingsError):
        build(llm__semantic_cache_threshold=threshold)
