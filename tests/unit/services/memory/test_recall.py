import dataclasses
import threading

import pytest
import sqlalchemy as sa

from services import errors
from services.memory.models import LATEST, MessageFilter, Role
from services.memory.recall import MAX_LIMIT, SemanticConfig
from services.memory.router import MemoryRoute
from services.memory.vectors import COLLECTION
from services.ports import Point
from services.settings import SemanticSettings
from tests.builders import FallibleStore, ScriptedEmbedder, work

HOUR = 3_600 * 1_000_000
DAY = 24 * HOUR
START = 1_935_000_000_000_000


@pytest.fixture
def container(build):
    made = build(memory__autosave_assistant=True, memory__autosave_min_length=0)
    made.embedder = ScriptedEmbedder()
    return made


def remember(container, *texts, role="user", at=START, conversation="a", **fields):
    return [
        container.memory.remember(
            role, text, conversation=conversation, created_at=at + number * 2 * HOUR, **fields
        )
        for number, text in enumerate(texts)
    ]


def answer(container, query, *, namespace="default", **options):
    return container.recall.recall(query, namespace=namespace, **options)


def ids(container, query, **options):
    return [hit.message.id for hit in answer(container, query, **options).hits]


# ---- what comes ------------------------------------------------------------------------------------------------


def test_scores_never_increase_and_the_limit_holds(container):
    remember(container, *(f"tea party number {number} tea" for number in range(30)), "coffee")
    work(container)
    hits = answer(container, "tea party", limit=7, mode="hybrid").hits
    assert len(hits) == 7
    scores = [hit.score for hit in hits]
    assert scores == sorted(scores, reverse=True)


def test_nothing_that_matches_gives_nothing(container):
    remember(container, "tea")
    assert (
        ids(container, "zebra", mode="keyword") == ids(container, "", limit=3) == ids(container, "?!") == []
    )


def test_b_16_limits_are_clamped(container):
    remember(container, "tea", "tea time")
    assert len(ids(container, "tea", limit=0)) == len(ids(container, "tea", limit=-5)) == 1
    assert len(ids(container, "tea", limit=10**12)) == 2
    assert MAX_LIMIT == 1_000


def test_a_vector_store_that_is_away_is_asked_once_and_by_words_alone_never_f14(container):
    class Counting(FallibleStore):
        asked = 0

        def _answer(self):
            self.asked += 1
            super()._answer()

        def fetch(self, *arguments):
            self._answer()
            return super().fetch(*arguments)

    container.vectors = store = Counting()
    remember(container, "tea in the garden", "tea at noon")
    work(container)
    store.down, store.asked = True, 0
    assert len(ids(container, "tea", mode="keyword")) == 2
    assert store.asked == 0
    found = answer(container, "what did we say about tea yesterday")
    assert (len(found.hits), found.degraded, store.asked) == (2, ("vector",), 1)


def test_an_unknown_mode_is_refused_with_those_there_are(container):
    with pytest.raises(errors.InputError, match="hybrid, keyword, vector"):
        answer(container, "tea", mode="psychic")


def test_b_03_a_natural_question_finds_what_shares_one_word(container):
    (tea,) = remember(container, "We serve green tea at noon")
    assert ids(container, "what kind of tea would my grandmother have liked best", mode="keyword") == [tea]


@pytest.mark.parametrize(
    "query", ["tea, cake", "tea-cake", "tea*", "^tea", "content:tea", '"tea', "(tea", "tea AND", "NOT tea"]
)
def test_b_01_and_b_02_punctuation_and_operators_are_text(container, query):
    (tea,) = remember(container, "tea and cake")
    assert ids(container, query) == [tea]


def test_b_04_words_inside_unspaced_scripts_are_found(container):
    (message,) = remember(container, "用户服务器部署在腾讯云国内节点")
    assert ids(container, "腾讯云") == [message]


def test_who_said_it_and_on_which_day_can_be_asked_for(container):
    first, _ = (
        remember(container, "lovely weather", speaker="Ann"),
        remember(container, "lovely weather", speaker="Bob"),
    )
    assert ids(container, "Ann weather", limit=1, mode="keyword") == first
    day = remember(container, "plain words", at=START + 40 * DAY)
    assert ids(container, "what happened on 6 June 2031", limit=1) == day


def test_a_short_answer_is_found_by_what_it_answers(container):
    question, reply, far = (
        container.memory.remember("user", text, conversation="a", created_at=START + after)
        for text, after in (("Which colour is the boathouse?", 0), ("Green.", 1_000_000), ("Fine.", DAY))
    )
    assert ids(container, "boathouse", mode="keyword") == [question, reply]
    assert far not in ids(container, "boathouse green", mode="keyword")


def test_a_message_that_goes_leaves_its_neighbours_index_too(container):
    question, reply = remember(container, "secret boathouse"), remember(container, "Green.")
    container.memory.forget(messages=question)
    assert ids(container, "boathouse") == []
    assert ids(container, "green") == reply


# ---- filters ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["keyword", "vector", "hybrid"])
@pytest.mark.parametrize(
    "where",
    [
        MessageFilter(roles=(Role.USER,)),
        MessageFilter(before=START + DAY),
        MessageFilter(since=START, before=START + DAY),
        MessageFilter(user_visible=True),
    ],
)
def test_b_34_both_legs_filter_before_they_truncate(container, mode, where):
    wanted = remember(container, "tea")
    remember(container, *(["tea tea tea"] * 300), role="assistant", at=START + DAY, user_visible=False)
    work(container)
    assert ids(container, "tea", mode=mode, where=where, limit=1) == wanted


@pytest.mark.parametrize("mode", ["keyword", "vector", "hybrid"])
def test_rank_01_conversations_and_namespaces_never_leak(container, mode):
    mine = remember(container, "tea")
    remember(container, "tea tea", conversation="b")
    remember(container, "tea tea", namespace="other")
    work(container)
    conversation = container.memory.conversations()[0].id
    assert ids(container, "tea", mode=mode, where=MessageFilter(conversation)) == mine
    assert len(ids(container, "tea", mode=mode)) == 2


@pytest.mark.parametrize("mode", ["keyword", "vector", "hybrid"])
def test_b_34_hidden_and_deleted_messages_never_come_and_take_no_place(container, mode):
    hidden = remember(container, *(f"tea tea {number}" for number in range(5)))
    kept = remember(container, "tea with cake", "tea with milk")
    work(container)
    container.memory.replace_conversation("a", first=hidden[0], last=hidden[3], summary="They drank.")
    with container.database.write() as unit:
        unit.messages.soft_delete("default", hidden[4:])
    found = ids(container, "tea", mode=mode, limit=2)
    assert sorted(found) == kept


def test_vectors_whose_rows_are_gone_make_room_for_those_further_down(container):
    gone = remember(container, *(f"tea {number}" for number in range(250)))
    (kept,) = remember(container, "a pot of tea for two and a plate of warm scones")
    work(container)
    with container.sqlite.write() as connection:
        # Behind the back of everything that would remove their vectors.
        connection.exec_driver_sql("UPDATE messages SET deleted_at = 1 WHERE id <= ?", (gone[-1],))
    assert ids(container, "tea", mode="vector", limit=1) == [kept]


def test_a_vector_that_names_no_message_is_passed_over(container):
    tea = remember(container, "a pot of tea")
    work(container)
    space = container.spaces.for_reading(COLLECTION)
    here = space.embedder.embed(["a pot of tea"], kind="document")[0]
    container.spaces.write(space, "default", [Point("00000000-0000-4000-8000-000000000001", here, {})])
    assert ids(container, "a pot of tea", mode="vector") == tea


# ---- legs and what is down -------------------------------------------------------------------------------------


def test_without_an_embedder_words_answer_and_nothing_is_degraded(build):
    container = build(embedding__provider="none")
    tea = remember(container, "tea")
    found = answer(container, "what about some tea today")
    assert ([hit.message.id for hit in found.hits], found.degraded) == (tea, ())
    assert answer(container, "tea", mode="vector").hits == ()


def test_b_31_a_vector_store_that_is_down_leaves_the_words_and_is_named(container):
    container.vectors = FallibleStore()
    tea = remember(container, "tea")
    work(container)
    container.vectors.down = True
    found = answer(container, "who would like some tea")
    assert ([hit.message.id for hit in found.hits], found.degraded) == (tea, ("vector",))
    assert "does not answer" in found.reasons[0]


def test_an_embedder_that_is_down_leaves_the_words_and_is_named(container):
    tea = remember(container, "tea")
    work(container)
    container.embedder.error = errors.ModelUnavailable("the model sleeps")
    found = answer(container, "who would like some tea")
    assert ([hit.message.id for hit in found.hits], found.degraded) == (tea, ("vector",))


def test_a_keyword_query_calls_no_model_unless_words_find_nothing(container):
    remember(container, "teapots")
    work(container)
    calls = []
    container.embedder.before_embed = lambda: calls.append(1)
    assert answer(container, "teapots").routing.route is MemoryRoute.KEYWORD
    assert calls == []
    assert ids(container, "teapotz")
    assert calls == [1]


def test_words_are_searched_while_the_query_is_embedded(container):
    tea = remember(container, "tea")
    work(container)
    meeting = threading.Barrier(2, timeout=30)
    container.embedder.before_embed = meeting.wait
    searches = []

    def meet(_connection, _cursor, statement, *_rest):
        if "messages_fts MATCH" in statement:
            searches.append(statement)
            if len(searches) == 1:
                meeting.wait()

    engine = container.sqlite._engine("reading")
    sa.event.listen(engine, "before_cursor_execute", meet)
    found = answer(container, "who would like some tea")
    sa.event.remove(engine, "before_cursor_execute", meet)
    assert ([hit.message.id for hit in found.hits], set(found.hits[0].legs)) == (tea, {"keyword", "vector"})


def test_search_by_meaning_can_be_switched_off(build):
    container = build(memory__semantic__enabled=False)
    container.embedder = ScriptedEmbedder()
    remember(container, "teapots")
    work(container)
    assert answer(container, "what about these teapotz").hits == ()
    assert set(answer(container, "what about teapots").hits[0].legs) == {"keyword"}


def test_each_hit_tells_the_score_and_rank_of_every_leg(container):
    remember(container, "green tea", "black coffee")
    work(container)
    best = answer(container, "what about green tea").hits[0]
    assert best.legs["keyword"][1] == best.legs["vector"][1] == 1
    assert -1 <= best.legs["vector"][0] <= 1


def test_a_floor_keeps_weak_vectors_out(build):
    container = build(memory__semantic__similarity_floor=0.99)
    container.embedder = ScriptedEmbedder()
    exact, _ = remember(container, "green tea", "something else entirely")
    work(container)
    assert ids(container, "green tea", mode="vector") == [exact]


def test_the_graph_route_answers_as_hybrid(container):
    remember(container, "Ann relates to Bob")
    work(container)
    found = answer(container, "relationship of Ann and Bob")
    assert found.routing.route is MemoryRoute.GRAPH
    assert set(found.hits[0].legs) == {"keyword", "vector"}


def test_a_day_of_the_last_year_can_be_asked_for(container):
    (found,) = remember(container, "the end", at=LATEST)
    assert ids(container, "what about 9999-12-31", now=START, mode="keyword") == [found]


# More than become terms of a search.
MANY_WORDS = " ".join(f"w{one}{other}" for one in "abcdefgh" for other in "abcdefghi")


# ---- exact identifiers -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "exact", "similar"),
    [
        (
            "what is the status of the ticket ABC-123",
            "see ABC-123",
            "the status of the ticket ABC-1234 is open",
        ),
        ("which bug does v1.2 have", "not in v1.2", "which bug does v1.2.9 have"),
        ("who changed src/app/main.py last", "src/app/main.py is old", "who changed src/app/main.pyi last"),
        ('where did we say "red lorry" about lorries', "a red lorry", "we say lorries red, lorry about"),
        (
            "what is due on 2031-06-06 for the board",
            "moved to 6 June 2031",
            "what is due on 2031-06-05 for the board",
        ),
        ('what did I say about the song "Yesterday"', "Yesterday is sad", "what did I say about the song"),
        ("open notes/today.md for me", "notes/today.md", "open notes/todays.md for me"),
        ("which tests has services/memory now", "services/memory", "which tests has services/graph now"),
        ("what breaks in main.py:42 then", "main.py:42", "what breaks in main.py:421 then"),
        (
            "where is the „kalter Fluss“ of that map",
            "kalter Fluss",
            "where is the Fluss, kalter, of that map",
        ),
        (f"{MANY_WORDS} PR-118", "PR-118", f"{MANY_WORDS} PR-181"),
    ],
)
def test_holders_of_what_the_query_names_come_first(container, query, exact, similar):
    wanted = remember(container, exact)
    remember(container, *([similar] * 5), at=START + DAY)
    work(container)
    found = answer(container, query, limit=3)
    assert found.hits[0].message.id == wanted[0]
    assert found.hits[0].legs["exact"][0] == 1
    assert "exact" not in found.hits[1].legs


def test_who_holds_more_identifiers_comes_before_who_holds_one(container):
    one, both = remember(container, "A-1 A-1 A-1", "A-1 or B-2 whatever else is in this long text")
    assert ids(container, "A-1 and B-2") == [both, one]


# ---- time ------------------------------------------------------------------------------------------------------


def test_b_05_yesterday_puts_what_was_said_then_first_and_is_no_search_word(container):
    old, yesterday, literal = (
        container.memory.remember("user", text, conversation="a", created_at=at)
        for text, at in (("tea tea", START), ("tea", START + 9 * DAY), ("yesterday", START + 10 * DAY))
    )
    found = answer(container, "what about tea yesterday", now=START + 10 * DAY, mode=None)
    assert [hit.message.id for hit in found.hits] == [yesterday, old]
    assert "period" in found.hits[0].legs
    assert literal not in [hit.message.id for hit in found.hits]


def test_a_query_with_a_period_is_embedded_once(container):
    remember(container, "tea", at=START + 9 * DAY)
    work(container)
    calls = []
    container.embedder.before_embed = lambda: calls.append(1)
    found = answer(container, "what about tea yesterday", now=START + 10 * DAY)
    assert set(found.hits[0].legs) == {"keyword", "vector", "period"}
    assert calls == [1]


def test_time_03_the_last_hour_is_the_same_in_every_time_zone(container, monkeypatch):
    import time

    (tea,) = remember(container, "tea", at=container.clock.now())
    try:
        for zone in ("Asia/Shanghai", "America/Los_Angeles"):
            monkeypatch.setenv("TZ", zone)
            time.tzset()
            since = container.clock.now() - HOUR
            assert ids(container, "tea", where=MessageFilter(since=since)) == [tea]
            assert "period" in answer(container, "tea today").hits[0].legs
    finally:
        monkeypatch.delenv("TZ")
        time.tzset()


def test_decay_ranks_the_recent_first_by_the_messages_own_time(build):
    container = build(memory__semantic__temporal_decay_enabled=True, embedding__provider="none")
    old, new = remember(container, "tea tea", at=START - 900 * DAY) + remember(container, "tea and a cake")
    remember(container, "some tea among many other words that nobody asked for", at=START - 900 * DAY)
    assert ids(container, "tea", now=START)[:2] == [new, old]
    assert ids(container, "tea", now=START - 1_000 * DAY)[:2] == [old, new]


def test_as_of_reads_what_was_remembered_and_visible_then(container):
    first, second = remember(container, "tea for one", "tea for two")
    (later,) = remember(container, "tea for all", at=START + 2 * DAY)
    container.clock.advance((START + DAY - container.clock.now()) / 1_000_000)
    container.memory.replace_conversation("a", first=first, last=first, summary="tea summary")
    assert set(ids(container, "tea", as_of=START + HOUR)) == {first}
    assert set(ids(container, "tea", as_of=START + 3 * HOUR)) == {first, second}
    assert set(ids(container, "tea", where=MessageFilter(as_of=START + HOUR))) == {first}
    assert set(ids(container, "tea", where=MessageFilter(as_of=START + 3 * HOUR), as_of=START)) == {first}
    assert first not in ids(container, "tea")
    assert later in ids(container, "tea")


# ---- diversity -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", ["sqlite", "memory"])
def test_b_33_a_near_duplicate_gives_way_on_every_backend(build, backend):
    container = build(memory__vector_backend=backend)
    container.embedder = ScriptedEmbedder()
    first, double = remember(container, "green tea in the garden", "green tea in the garden")
    (other,) = remember(container, "green tea upstairs, in the garden room", at=START + DAY)
    remember(container, "a garden far away from here with nothing to drink in it", at=START + 9 * DAY)
    work(container)
    assert ids(container, "green tea in the garden", mode="hybrid", limit=2) == [first, other]
    assert sorted(ids(container, "green tea in the garden", mode="hybrid", limit=3)) == [first, double, other]


def test_diversity_can_be_switched_off(build):
    container = build(memory__semantic__mmr_enabled=False)
    container.embedder = ScriptedEmbedder()
    twice = remember(container, "green tea in the garden", "green tea in the garden")
    remember(container, "green tea upstairs, in the garden room", at=START + DAY)
    work(container)
    assert ids(container, "green tea in the garden", mode="hybrid", limit=2) == twice


# ---- settings --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("text", "worth"), [("tea", 1.4), ("tea " * 56, 1.55), ("tea " * 100, 1.7)])
def test_the_session_counts_more_among_long_messages(container, text, worth):
    remember(container, text)
    work(container)
    (hit,) = answer(container, "tea").hits
    assert hit.score == pytest.approx(worth, abs=0.01)


@pytest.mark.parametrize("text", ["tea", "tea " * 100])
def test_a_weight_that_is_set_holds_for_every_length(build, text):
    container = build(
        memory__semantic__session_weight=0.1,
        memory__semantic__keyword_weight=1.0,
        memory__semantic__vector_weight=0.0,
    )
    remember(container, text, text + " and " + text + " and milk", "the milk is sour")
    work(container)
    both, words = (answer(container, "tea milk", mode=mode).hits for mode in ("hybrid", "keyword"))
    assert words[0].score == pytest.approx(1.1)
    assert {(hit.message.id, hit.score) for hit in words} <= {(hit.message.id, hit.score) for hit in both}


def test_the_configuration_has_every_setting_with_the_same_default():
    assert dataclasses.asdict(SemanticConfig()) == SemanticSettings().model_dump()
