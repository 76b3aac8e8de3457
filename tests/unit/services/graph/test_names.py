"""Names, relations and facts in their one written form."""

from __future__ import annotations

import random

import pytest

from services.graph.models import EntityType
from services.graph.names import (
    acceptable,
    better_display,
    canonical,
    display,
    fact_text,
    joined_summary,
    may_merge,
    relation,
    same_fact,
)


@pytest.mark.parametrize(
    ("written", "key"),
    [
        ("  Rust ", "rust"),
        ("Ｒｕｓｔ", "rust"),
        ("New \u00a0  York", "new york"),
        ("ali\u200bce", "alice"),
        ("\ufeffAlice\u202e", "alice"),
        ("al\tic\ne", "alice"),
        ("\x00 alice", "alice"),
        ("Stra\u00dfe", "strasse"),
        ("Cafe\u0301", "caf\u00e9"),
        ("\u0130stanbul", "i\u0307stanbul"),
        ("Иванов", "иванов"),
        ("東京", "東京"),
        ("C++", "c++"),
        ("\u202e\u200b \n", ""),
    ],
)
def test_a_name_has_one_key_however_it_is_written(written, key):
    assert canonical(written) == key
    assert canonical(key) == key


def test_the_key_of_a_key_and_of_a_shown_name_is_that_key():
    """Whatever is written: letters with marks, control and compatibility characters, in any order."""
    dice = random.Random(1)
    ranges = ((0x20, 0x250), (0x300, 0x370), (0x370, 0x600), (0x1E00, 0x2100), (0xFF00, 0xFFF0))
    for _ in range(4_000):
        text = "".join(chr(dice.randrange(*dice.choice(ranges))) for _ in range(dice.randrange(1, 7)))
        key = canonical(text)
        assert canonical(key) == canonical(display(text)) == key, ascii(text)
        assert relation(relation(text)) == relation(text), ascii(text)


def test_a_shown_name_keeps_its_case_and_loses_what_nobody_sees():
    """Graph bug 45: stored strings break out of a prompt."""
    assert display("  Dave\u202e (Engineer)\x00\n\u200b ") == "Dave (Engineer)"


@pytest.mark.parametrize(
    ("cap", "shape"), [(512, canonical), (512, display), (256, relation), (2_048, fact_text)]
)
def test_caps_are_bytes_and_never_cut_a_character(cap, shape):
    assert shape("x" * 5_000) == "x" * cap
    assert shape("李" * 5_000) == "李" * (cap // 3)
    assert shape("é" * 5_000) == "é" * (cap // 2)


@pytest.mark.parametrize("written", ["Works at", "works-at", "works__at", " WORKS\u2014AT ", "_works at_"])
def test_a_relation_has_one_key_however_it_is_written(written):
    assert relation(written) == "works_at"


def test_a_fact_is_one_line_whose_words_stay_apart():
    assert fact_text(" Ann likes\nBob.\t\u200bNow \u202e") == "Ann likes Bob. Now"
    assert fact_text("a <|> b") == "a <|> b"


def test_facts_in_the_same_words_are_the_same():
    assert same_fact("Ann  likes Bob.", "ann likes bob")
    assert not same_fact("Ann has worked here for 5 years", "Ann has worked here for 6 years")


@pytest.mark.parametrize("name", ["go", "cd", "...", "", "\u200b"])
def test_a_short_lowercase_word_is_no_name(name):
    """Graph bug 17: a graph full of command words."""
    assert not acceptable(name, EntityType.CONCEPT)


@pytest.mark.parametrize("name", ["git", "Go", "UK", "李", "李明", "5g", "C#"])
def test_a_name_in_any_script_may_be_short_when_something_speaks_for_it(name):
    assert acceptable(name, EntityType.CONCEPT)
    assert acceptable("r", EntityType.LANGUAGE)


def test_a_name_is_shown_better_only_when_it_gains_capitals():
    assert better_display("rust", "Rust")
    assert not better_display("Rust", "RUST")
    assert not better_display("Rust", "rust")
    assert not better_display("rust-lang", "Rust")


def test_a_summary_says_each_sentence_once_however_often_it_is_told():
    """Graph bug 32: a replay appends the same description again and again."""
    once = joined_summary(["A language. It is fast.", "it is fast", "Made in 2010."])
    assert once == "A language. It is fast. Made in 2010."
    assert joined_summary([once, "A language."]) == once
    assert joined_summary(["", " \n"]) is None
    assert len((joined_summary([f"Sentence number {n}." for n in range(1_000)]) or "").encode()) <= 2_048


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("C", "C++"),
        ("C", "C#"),
        ("C++", "C#"),
        (".NET", "Net"),
        ("HTTP", "HTTPS"),
        ("fetchUser", "fetchUsers"),
        ("Java", "JavaScript"),
        ("TypeScript", "JavaScript"),
        ("Iran", "Tigran"),
        ("GPT-3", "GPT-4"),
        ("Python 2", "Python 3"),
        ("v1.2", "v12"),
        ("Windows X", "Windows XI"),
        ("iPhone 15", "iPhone 15 Pro"),
        ("k8s", "kubernetes"),
        ("Bank of America", "Bank of Africa"),
        ("Alice", "Alice Smith"),
        ("Jon", "John"),
        ("北京", "北京大学"),
        ("网易云音乐", "思源笔记"),
        ("src/main.py", "program"),
        ("user_id", "identifier"),
        ("deadbeef1234", "cafebabe1234"),
    ],
)
def test_graph_05_variants_of_a_name_are_never_merged_unasked(one, other):
    """Graph bug 27: near-equal strings merged. Cases graph-03 and graph-05."""
    assert not may_merge(one, other)
    assert not may_merge(other, one)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Node.js", "nodejs"),
        ("Rust", "rust-lang"),
        ("Rust", "Rust language"),
        ("Acme Inc.", "ACME"),
        ("São Paulo", "Sao Paulo"),
        ("Lean 4", "lean4"),
        ("IBM", "International Business Machines"),
        ("IBM", "Big Blue"),
        ("user_id", "user-id"),
        ("हिन्दी", "हिन्दी"),
    ],
)
def test_spellings_and_unlike_names_may_be_merged_by_what_they_mean(one, other):
    assert may_merge(one, other)
    assert may_merge(other, one)
