from datetime import UTC, datetime, timedelta

import pytest

from services.memory.models import EARLIEST, LATEST
from services.memory.router import HeuristicRouter, MemoryRoute

NOON = datetime(2031, 5, 8, 12, 30, tzinfo=UTC)
MIDNIGHT = NOON.replace(hour=0, minute=0)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)


def microseconds(moment):
    return int(moment.timestamp()) * 1_000_000


def route(query, now=NOON):
    return HeuristicRouter().route(query, now=microseconds(now))


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("zeph_memory::recall", MemoryRoute.KEYWORD),
        ("crates/memory/src/lib.rs", MemoryRoute.KEYWORD),
        ("memory_limit", MemoryRoute.KEYWORD),
        ("context compaction", MemoryRoute.KEYWORD),
        ("qdrant", MemoryRoute.KEYWORD),
        ("", MemoryRoute.KEYWORD),
        ("show me the memory_limit value", MemoryRoute.KEYWORD),
        ("what is the memory_limit setting", MemoryRoute.SEMANTIC),
        ("how does error_handling work", MemoryRoute.SEMANTIC),
        ("how does a/b testing work", MemoryRoute.SEMANTIC),
        ("why does compaction fail", MemoryRoute.SEMANTIC),
        ("explain context compression", MemoryRoute.SEMANTIC),
        ("WHAT", MemoryRoute.SEMANTIC),
        ("the agent should keep every message that the user ever wrote", MemoryRoute.SEMANTIC),
        ("context window token budget", MemoryRoute.HYBRID),
        ("values 1_000 and 2_000 differ", MemoryRoute.HYBRID),
        ("what? is this", MemoryRoute.KEYWORD),
        ("how is the parser related to the lexer", MemoryRoute.GRAPH),
        ("History Of a/b", MemoryRoute.GRAPH),
        ("what did Ann say yesterday about the history of Rome", MemoryRoute.EPISODIC),
    ],
)
def test_the_rules_choose_the_route(query, expected):
    assert route(query).route is expected


@pytest.mark.parametrize(
    "query",
    [
        "what is user's opinion on neovim",
        "show the relationship between Alice and Bob",
        "how is Rust related to this project",
        "how does this relates to the config",
        "what do I know about neovim",
        "WHAT IS THE CONNECTION BETWEEN a/b and c::d",
        "who thinks about it",
        "preference for tabs",
    ],
)
def test_a_question_of_relations_is_the_graphs_whatever_else_it_looks_like(query):
    assert route(query).route is MemoryRoute.GRAPH


def test_a_word_that_only_contains_relate_is_no_question_of_relations():
    assert route("translate this code to Python").route is MemoryRoute.HYBRID


@pytest.mark.parametrize("word", ["before", "after", "since", "during", "earlier", "recently", "Chicago"])
def test_b_05_words_that_order_events_and_parts_of_words_are_not_temporal(word):
    found = route(f"plans for {word} lunch")
    assert found.route is MemoryRoute.HYBRID
    assert (found.since, found.before) == (None, None)


@pytest.mark.parametrize(
    ("phrase", "since", "before"),
    [
        ("yesterday", MIDNIGHT - DAY, MIDNIGHT),
        ("last night", MIDNIGHT - 6 * HOUR, MIDNIGHT + 6 * HOUR),
        ("tonight", MIDNIGHT + 18 * HOUR, None),
        ("this morning", MIDNIGHT, MIDNIGHT + 12 * HOUR),
        ("today", MIDNIGHT, None),
        ("Earlier Today", MIDNIGHT, None),
        ("past week", NOON - 7 * DAY, None),
        ("last month", NOON - 30 * DAY, None),
        ("a few days ago", NOON - 3 * DAY, None),
        ("few hours ago", NOON - 6 * HOUR, None),
        ("ago", NOON - DAY, None),
        ("3 days ago", NOON - 4 * DAY, NOON - 2 * DAY),
        ("two weeks ago", NOON - 21 * DAY, NOON - 7 * DAY),
        ("when did", None, None),
        ("how long ago", None, None),
    ],
)
def test_a_temporal_phrase_names_a_period_and_is_not_searched_for(phrase, since, before):
    found = route(f"tea {phrase} party")
    assert (found.route, found.query) == (MemoryRoute.EPISODIC, "tea party")
    assert found.since == (microseconds(since) if since else None)
    # A counted period includes its last moment.
    assert found.before == (microseconds(before) + phrase[-3:].count("ago") if before else None)


@pytest.mark.parametrize(
    "query",
    [
        'the song "Yesterday"',
        "the „last week“ report",
        "open notes/today.md",
        "run yesterday.py",
        "what is in @today-only",
        "call clock::today",
        "the last week-long hike",
    ],
)
def test_b_05_time_in_a_quotation_or_in_a_name_is_searched_for_and_dates_nothing(query):
    found = route(query)
    assert (found.query, found.since, found.before) == (query, None, None)


@pytest.mark.parametrize(
    "query",
    [
        "yesterday: tea",
        "notes:yesterday tea",
        "yesterday/today tea",
        "tell 'em yesterday about the boys' tea",
        '24" tea yesterday or 27"',
        "tea (yesterday)",
        "tea...yesterday",
        "yesterday's tea",
        "Yesterday, tea",
    ],
)
def test_marks_beside_a_temporal_phrase_change_nothing(query):
    found = route(query)
    assert (found.since, found.before) == (microseconds(MIDNIGHT - DAY), microseconds(MIDNIGHT))
    assert "yesterday" not in found.query.lower()


@pytest.mark.parametrize("now", [EARLIEST, LATEST])
def test_a_period_at_the_end_of_the_calendar_is_no_error(now):
    for query in ("yesterday", "last month", "a few days ago", "9000 years ago"):
        assert HeuristicRouter().route(query, now=now).route is MemoryRoute.EPISODIC


def test_what_is_quoted_beside_a_temporal_phrase_stays():
    assert route('who sang "Yesterday"  yesterday').query == 'who sang "Yesterday"'


def test_b_05_every_temporal_phrase_goes_and_a_query_of_nothing_else_stays():
    assert route("yesterday soup  and today  bread").query == "soup and bread"
    assert route("yesterday").query == "yesterday"


def test_a_number_of_years_beyond_the_calendar_is_no_period_and_no_error():
    assert (route("9000 years ago ice").since, route("9000 years ago ice").before) == (None, None)


def test_confidence_falls_with_the_number_of_rules_that_match():
    assert route("context window token budget").confidence == 0
    assert route("qdrant").confidence == 1
    assert route("how is a related to b").confidence == 0.5
    # By path and by length: two rules, though of one mind.
    assert route("zeph_memory::recall").confidence == 0.5
