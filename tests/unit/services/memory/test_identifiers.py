import time

import pytest

from services.memory import identifiers as module
from services.memory.identifiers import MAX_IDENTIFIERS, identifiers


def named(query):
    return [identifier.text for identifier in identifiers(query)]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("status of ABC-123, please", ["ABC-123"]),
        ("closed by #42?", ["#42"]),
        ("upgrade to v1.2.3 or 3.11", ["v1.2.3", "3.11"]),
        ("who wrote src/main/foo.py", ["src/main/foo.py"]),
        ("call zeph_memory::recall() now", ["zeph_memory::recall"]),
        ("the memory_limit setting", ["memory_limit"]),
        ('he said "red lorry" twice', ["red lorry"]),
        ("on 2031-05-08", ["2031-05-08"]),
        ("on 8 May, 2031 or May 9th", ["8 May, 2031", "May 9th"]),
        ("plans for GPT4 and iPhone", ["GPT4", "iPhone"]),
        ("mail ann@example.com", ["ann@example.com"]),
        ("commit 1a2b3c4d", ["1a2b3c4d"]),
        ("job 2f1b7c9e-0a1b-4c2d-8e3f-001122334455 failed", ["2f1b7c9e-0a1b-4c2d-8e3f-001122334455"]),
        (r"open C:\Users\bob\notes.txt", [r"C:\Users\bob\notes.txt"]),
        ("source $HOME/.bashrc or ~/.profile", ["$HOME/.bashrc", "~/.profile"]),
        ("install @scope/pkg", ["@scope/pkg"]),
        ("in services/memory or main.py:42", ["services/memory", "main.py:42"]),
        ("invoice 123456", ["123456"]),
        ("the „kalter Fluss“, the 'red lorry' and the 『夜』", ["kalter Fluss", "red lorry", "夜"]),
    ],
)
def test_what_is_named_exactly_is_recognised(query, expected):
    assert named(query) == expected


@pytest.mark.parametrize(
    "query",
    [
        "",
        "don't and/or won't",
        "at 7pm on the 3rd in the 90s",
        "24/7 for 5 people",
        "e.g. U.S.",
        "how does a/b testing work w/o him/her",
        "the dogs' and the cats' food, rock 'n' roll",
        "What did I tell 'em yesterday about the boys' trip?",
        'is the 24" screen from yesterday better than the 27" one',
        "a" + "_" * 400 + "b",
    ],
)
def test_ordinary_words_and_numbers_are_no_identifiers(query):
    assert named(query) == []


@pytest.mark.parametrize(
    ("query", "holding", "lacking"),
    [
        ("ABC-123", "fixed abc-123.", "fixed ABC-1234 and XABC-123"),
        ("v1.2", "we run v1.2, mostly", "we run v1.2.3"),
        ("1.2.3", "on 1.2.3", "on 11.2.3"),
        ('"red lorry"', "a Red  lorry", "red, lorry"),
        ("2031-05-08", "born May 8th, 2031", "born 8 May 2030"),
        ("May 8", "8 of May", "18 May"),
    ],
)
def test_a_holder_has_it_letter_for_letter(query, holding, lacking):
    (identifier,) = identifiers(query)
    assert identifier.held_by(holding)
    assert not identifier.held_by(lacking)


@pytest.mark.parametrize(
    "query",
    [
        "1.25.3-4b1f3c8d9e0a1b2c3d4e5f60718293a4b5c6d7e8@sha256",
        "1." + "1" * 290 + "!",
        "a" + "_" * 16_000 + "=x",
        "a/" * 8_000 + "=",
        "'" * 16_000,
        "„" * 16_000,
    ],
    ids=lambda query: query[:20],
)
def test_what_is_nearly_an_identifier_takes_no_time(query):
    began = time.process_time()
    identifiers(query)
    assert time.process_time() - began < 0.5


def test_a_month_that_does_not_exist_is_text():
    (identifier,) = identifiers("2031-15-01")
    assert identifier.held_by("dated 2031-15-01")
    assert not identifier.day


def test_repeats_count_once_and_the_number_is_bounded():
    assert named("A-1 a-1 A-1") == ["A-1"]
    assert len(identifiers(" ".join(f"T-{number}" for number in range(50)))) == MAX_IDENTIFIERS


def test_a_list_of_a_thousand_names_costs_no_more_than_the_eight_that_count(monkeypatch):
    made = []
    exact = module._exact
    monkeypatch.setattr(module, "_exact", lambda text: made.append(text) or exact(text))
    found = identifiers(" ".join(f"PR-{number}" for number in range(1_000)))
    assert [identifier.text for identifier in found] == made == [f"PR-{number}" for number in range(8)]


def test_a_word_without_end_is_looked_at_in_no_time():
    began = time.process_time()
    assert identifiers("mesince" * 12_000) == []
    assert time.process_time() - began < 1


@pytest.mark.parametrize("name", ["a_b", "_a_b", "1a_b", "a__b", "größe_a", "_1a_1", "snake_case_name"])
def test_a_snake_case_name_is_an_identifier(name):
    assert [identifier.text for identifier in identifiers(f"what is {name} for")] == [name]
