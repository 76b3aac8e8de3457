"""What the local extractor takes for a name, and the little that it says of two names."""

from __future__ import annotations

import time
from datetime import UTC, datetime

import pytest

from services.graph.local_extraction import KnownName, candidate_names, extract
from services.graph.models import CO_OCCURRENCE, LOCAL_EXTRACTOR, EntityType
from services.graph.names import canonical
from services.graph.texts import Reading

SAID = int(datetime(2024, 5, 15, tzinfo=UTC).timestamp()) * 1_000_000


def read(text, *, speaker=None, context=(), known=(), typed=False):
    stored = {canonical(name): KnownName(name, kind) for name, kind in dict(known).items()}
    reading = Reading(text, SAID, speaker, tuple(context))
    return extract(reading, known=stored, typed_relations=typed)


def names(text, **options):
    return [entity.name for entity in read(text, **options).entities]


def types(text, **options):
    return {entity.name: entity.type for entity in read(text, **options).entities}


def triples(found):
    return [(edge.source, edge.relation, edge.target) for edge in found.edges]


# ---- names -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("We met Ana Pereira in Porto.", ["Ana Pereira", "Porto"]),
        (
            "She studied at the University of Vienna and at King's College.",
            ["University of Vienna", "King's College"],
        ),
        ("I saw the Mayor of London talk to Dr. Jane Smith.", ["London", "Jane Smith"]),
        ("They play music by Ludwig van Beethoven.", ["Ludwig van Beethoven"]),
        ("It ran in St. Louis and in the U.S. last year.", ["St. Louis", "U.S."]),
        ("We moved it to PostgreSQL, with Node.js and a bit of C++.", ["PostgreSQL", "Node.js", "C++"]),
        ("The model is called GPT-4, not H2O.", ["GPT-4", "H2O"]),
        ("Use `better-sqlite3` for that.", ["better-sqlite3"]),
        ("It stands in README.md and pyproject.toml.", ["README.md", "pyproject.toml"]),
        ("My brother's dog is called Bello.", ["Bello"]),
        ("the UK-based office moved", ["UK"]),
        ("We read books about World War II.", ["World War II"]),
    ],
)
def test_a_name_is_known_by_how_it_is_written(text, expected):
    assert names(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hello there, how are you?",
        "Wow, that's great! Thanks. Sounds good.",
        "I'm sure I'd like it. I\u2019ll see.",
        "Yesterday we talked. On Monday in March it rained.",
        "Totally agree! Relaxing is key. Painting's a fun way to relax.",
        "THIS IS NOT OK AND I WILL NOT STOP",
        "How To Build A Better Garden Shed",
        "Ask the Director of it in Week 3, or see Step 2.",
        "btw LOL OMG ok FYI",
        "run `make_all()` and `some_variable` in src/main/app and /etc/hosts",
        "a b c D e F",
        "Ich habe den Hund im Garten gesehen und die Katze auch.",
        "123 456 7890",
        "\u041f\u0440\u0438\u0432\u0435\u0442, \u043a\u0430\u043a \u0434\u0435\u043b\u0430?",
        "\u4f60\u597d\uff0c\u4eca\u5929\u5929\u6c14\u5f88\u597d\u3002",
        "\u0645\u0631\u062d\u0628\u0627 \u0643\u064a\u0641 \u062d\u0627\u0644\u0643",
    ],
)
def test_a_capital_alone_makes_no_name(text):
    """Graph bug 17: better nothing than a graph of noise."""
    assert read(text).entities == ()


def test_the_first_word_of_a_sentence_is_a_name_when_it_is_written_so_elsewhere():
    assert names("Caroline went home.") == []
    assert names("Caroline went home. We like Caroline.") == ["Caroline"]
    assert names("Caroline went home.", context=["I know Caroline."]) == ["Caroline"]
    assert names("Caroline went home.", known={"Caroline": EntityType.PERSON}) == ["Caroline"]
    assert names("Caroline Abbot went home.") == ["Caroline Abbot"]
    assert names("NASA called.") == ["NASA"]


def test_what_something_is_is_said_only_where_it_is_written():
    assert types("I asked Dr. Jane Smith of Acme Corp about Python, main.py and app.yaml in Porto.") == {
        "Jane Smith": EntityType.PERSON,
        "Acme Corp": EntityType.ORGANIZATION,
        "Python": EntityType.LANGUAGE,
        "main.py": EntityType.FILE,
        "app.yaml": EntityType.CONFIG,
        "Porto": EntityType.CONCEPT,
    }


def test_german_nouns_are_no_names_but_two_in_a_row_are():
    text = "Gestern hat die Frau in der Deutschen Bank mit Angela Merkel \u00fcber den Haushalt gesprochen."
    assert names(text) == ["Deutschen Bank", "Angela Merkel"]


def test_other_alphabets_have_names_too():
    text = "\u0412\u0447\u0435\u0440\u0430 \u043c\u044b \u0432\u0438\u0434\u0435\u043b\u0438 \u0418\u0432\u0430\u043d\u0430 \u0432 \u041c\u043e\u0441\u043a\u0432\u0435."
    assert names(text) == ["\u0418\u0432\u0430\u043d\u0430", "\u041c\u043e\u0441\u043a\u0432\u0435"]


def test_where_there_are_no_capitals_titles_latin_words_and_known_names_remain():
    text = "\u6211\u5728Google\u5de5\u4f5c\uff0c\u6700\u8fd1\u8bfb\u4e86\u300a\u4e09\u4f53\u300b\uff0c\u4f5c\u8005\u662f\u5218\u6148\u6b23\u3002"
    assert names(text) == ["Google", "\u4e09\u4f53"]
    known = {"\u5218\u6148\u6b23": EntityType.PERSON}
    assert names(text, known=known) == ["Google", "\u4e09\u4f53", "\u5218\u6148\u6b23"]


def test_what_somebody_says_in_brackets_is_no_title():
    assert names("\u5f7c\u306f\u300c\u3053\u3093\u306b\u3061\u306f\u300d\u3068\u8a00\u3063\u305f\u3002") == []
    assert names("\u4ed6\u8bf4\uff1a\u300c\u4f60\u597d\u300d") == []


def test_a_known_name_is_found_in_any_case_unless_it_is_a_word_as_well():
    known = {"Mark": EntityType.PERSON, "New York": EntityType.CONCEPT, "kubernetes": EntityType.TOOL}
    assert names("mark my words", known=known) == []
    assert names("a trip to new york with kubernetes", known=known) == ["New York", "kubernetes"]


def test_the_longer_of_two_overlapping_names_counts():
    known = {"New York": EntityType.CONCEPT}
    assert names("She reads the New York Times.", known=known) == ["New York Times"]


def test_what_is_looked_up_is_bounded_whatever_the_text():
    assert canonical("new york") in candidate_names("a trip to New York, again")
    assert len(candidate_names("\u5317\u4eac" * 5_000)) <= 2_000
    assert len(candidate_names(" ".join(f"word{at}" for at in range(5_000)))) <= 2_000


# ---- what stands together --------------------------------------------------------------------------------------


def test_names_in_one_sentence_are_mentioned_together_with_the_sentence_as_evidence():
    found = read("We met Ana in Porto. Then I flew to Rome.")
    assert triples(found) == [("Ana", CO_OCCURRENCE, "Porto")]
    (edge,) = found.edges
    assert (edge.fact, found.extractor) == ("We met Ana in Porto.", LOCAL_EXTRACTOR)
    assert edge.confidence < 0.5


def test_together_has_no_direction():
    one, other = read("We saw Zoe and Ana."), read("We saw Ana and Zoe.")
    assert triples(one) == triples(other) == [("Ana", CO_OCCURRENCE, "Zoe")]


def test_who_speaks_is_related_to_what_is_named():
    found = read("We met in Porto.", speaker="Ann")
    assert triples(found) == [("Ann", CO_OCCURRENCE, "Porto")]
    assert found.edges[0].fact == "Ann: We met in Porto."
    assert (found.entities[0].name, found.entities[0].type) == ("Ann", EntityType.PERSON)


@pytest.mark.parametrize("speaker", [None, "", "user", "Human", "assistant"])
def test_a_speaker_without_a_name_is_nobody(speaker):
    assert names("We met in Porto.", speaker=speaker) == ["Porto"]


def test_a_long_list_relates_neighbours_only():
    found = read("I saw Rome, Oslo, Bern, Riga, Kyiv, Cork, Lyon, Graz and Bath.")
    assert len(found.entities) == 9
    assert len(found.edges) == 8


# ---- typed relations, an opt-in --------------------------------------------------------------------------------

TYPED = [
    ("Yes, Ana Pereira works at Acme Corp.", "Ana Pereira", "works_at", "Acme Corp"),
    ("As you know Ana lives in Porto.", "Ana", "lives_in", "Porto"),
    ("I heard Ana founded Initech in Porto.", "Ana", "founded", "Initech"),
    ("I work for Acme.", "Ben", "works_at", "Acme"),
    ("So I've moved to Porto.", "Ben", "lives_in", "Porto"),
]


@pytest.mark.parametrize(("text", "source", "relation", "target"), TYPED)
def test_no_relation_is_invented_from_prose_unless_asked_for(text, source, relation, target):
    assert {edge.relation for edge in read(text, speaker="Ben").edges} == {CO_OCCURRENCE}
    assert (source, relation, target) in triples(read(text, speaker="Ben", typed=True))


@pytest.mark.parametrize(
    "text",
    [
        "We wonder if Ana works at Acme.",
        "Does Ana know that Ben works at Acme?",
        "As you know Ana no longer works at Acme.",
        "As you know Ana never lived in Porto.",
        "I would love it if Ana lives in Porto.",
        "As you know Ana works with Ben at Acme.",
    ],
)
def test_what_is_asked_denied_or_wished_is_no_relation(text):
    assert {edge.relation for edge in read(text, typed=True).edges} == {CO_OCCURRENCE}


def test_a_typed_relation_keeps_its_date():
    (edge,) = [
        edge
        for edge in read("As you know Ana works at Acme since 2021.", typed=True).edges
        if edge.relation == "works_at"
    ]
    assert edge.valid_from == int(datetime(2021, 1, 1, tzinfo=UTC).timestamp()) * 1_000_000


# ---- the whole -------------------------------------------------------------------------------------------------


def test_the_same_text_gives_the_same_answer():
    text = "We met Ana and Ben in Porto. Ana likes PostgreSQL and `better-sqlite3`. Ben saw Rome, Oslo, Bern and Riga."
    assert read(text, speaker="Zoe") == read(text, speaker="Zoe")


@pytest.mark.parametrize(
    "text",
    [
        "A" * 8_000,
        "A " * 4_000,
        "A. " * 2_600,
        "\u300a" * 4_000,
        "a'" * 4_000,
        "." * 8_000,
        "Ab-" * 2_600,
        "`" * 8_000,
    ],
)
def test_no_text_makes_it_slow(text):
    started = time.process_time()
    read(text)
    candidate_names(text)
    assert time.process_time() - started < 2
