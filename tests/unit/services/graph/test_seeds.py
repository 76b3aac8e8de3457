"""Finding names in questions."""

import pytest

from services.graph.seeds import (
    ALIAS,
    EXACT,
    PREFIX,
    SUMMARY,
    WORD,
    longest,
    prefixes,
    ranked,
    rest_of,
    spans,
)


def named(question, *names):
    """The known names that the question holds, in order."""
    return [span.name for span in longest(spans(question), dict.fromkeys(names))]


@pytest.mark.parametrize(
    ("question", "name"),
    [
        ("Alice", "alice"),
        ("What does Alice do?", "alice"),
        ("What is Alice's job?", "alice"),
        ("What is Alice\u2019s job?", "alice"),
        ("tell me about 'Alice', please", "alice"),
        ("(alice)", "alice"),
        ("is C++ hard?", "c++"),
        ("is C# hard?", "c#"),
        ("who uses .NET?", ".net"),
        ("who uses .NET.", ".net"),
        ("does he like Node.js?", "node.js"),
        ("the rust-lang people", "rust-lang"),
        ("news of the New  York Times today", "new york times"),
        ("where is \u00c9cole Normale", "\u00e9cole normale"),
        ("where is E\u0301cole Normale", "\u00e9cole normale"),
        ("what did ALICE \uff21\uff22 say", "alice ab"),
        ("О чём говорил Иван Петров?", "иван петров"),
    ],
)
def test_a_name_is_found_wherever_it_stands(question, name):
    assert named(question, name) == [name]


def test_names_are_found_inside_text_without_blanks():
    assert named("北京大学在哪里？", "北京大学", "北京", "大学") == ["北京大学"]
    assert named("張偉は東京大学で働いていますか", "張偉", "東京大学") == ["張偉", "東京大学"]


def test_the_longest_name_wins():
    assert named("the New York Times of New York", "new york", "new york times", "york") == [
        "new york times",
        "new york",
    ]


def test_words_of_grammar_are_no_names_unless_they_are_written_as_such():
    assert named("what will it be", "will", "it", "what will it be") == ["what will it be"]
    assert named("what will it be", "will", "it") == []
    assert named("did Will see it", "will", "it") == ["will"]
    assert named("will", "will") == ["will"]


def test_two_names_are_both_found():
    assert named("How is Alice Smith related to Bob?", "alice smith", "alice", "bob") == [
        "alice smith",
        "bob",
    ]


def test_a_long_text_is_read_up_to_its_sixty_fourth_word():
    text = "word " * 63 + "Alice Bob"
    assert named(text, "alice", "bob") == ["alice"]


def test_what_is_left_are_the_words_that_tell_something():
    question = "What does Alice think about the database of Bob?"
    found = longest(spans(question), {"alice": 1, "bob": 1})
    assert rest_of(question, found) == "think database"
    assert prefixes("the database, of go Go \u738b databases database") == ["database", "databases"]


def test_tiers_never_cross_and_each_entity_is_there_once():
    found = ranked({EXACT: [9], WORD: [5, 9, 6], PREFIX: [5, 7], ALIAS: [8, 7], SUMMARY: [3, 8]})
    scores = [(seed.entity_id, seed.tier, round(seed.score, 3)) for seed in found]
    assert scores == [
        (9, EXACT, 1.0),
        (5, WORD, 0.95),
        (6, WORD, 0.8),
        (7, PREFIX, 0.6),
        (8, ALIAS, 0.5),
        (3, SUMMARY, 0.3),
    ]
    assert [seed.entity_id for seed in ranked({SUMMARY: list(range(30))}, limit=4)] == [0, 1, 2, 3]
