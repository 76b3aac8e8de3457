"""What may enter the graph, and that one bad item costs no other."""

from __future__ import annotations

import pytest

from services.graph.gate import MAX_FACT_BYTES, Limits, admitted, name_problem
from services.graph.models import EntityType, Extraction, FoundEdge, FoundEntity

ANN, ROME = FoundEntity("Ann", EntityType.PERSON), FoundEntity("Rome")
LIVES = FoundEdge("Ann", "Rome", "lives_in", "Ann lives in Rome.")


def admit(*entities, edges=(), known=(), **limits):
    return admitted(Extraction("llm:m", entities, tuple(edges)), Limits(**limits), known=known)


def names(extraction):
    return [entity.name for entity in extraction.entities]


def triples(extraction):
    return [(edge.source, edge.relation, edge.target) for edge in extraction.edges]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("ann@example.com", "name_is_private"),
        ("mail: ann.b@example.co.uk", "name_is_private"),
        ("+49 170 1234567", "name_is_private"),
        ("(555) 123-4567", "name_is_private"),
        ("0170 123 456 78", "name_is_private"),
        ("078-05-1120", "name_is_private"),
        ("4111 1111 1111 1111", "name_is_private"),
        ("DE89 3704 0044 0532 0130 00", "name_is_private"),
        ("6f0c9b0e-5c0d-5a53-9d6c-0f6f5a65e1aa", "name_is_private"),
        ("d41d8cd98f00b204e9800998ecf8427e", "name_is_private"),
        ("sk-abcdefghijklmnopqrstuvwx", "name_is_private"),
        ("AKIAIOSFODNN7EXAMPLE", "name_is_private"),
        ("password: hunter2-hunter2", "name_is_private"),
        ("https://example.com/a", "name_is_a_path"),
        ("/etc/hosts", "name_is_a_path"),
        ("./run.sh", "name_is_a_path"),
        ("C:\\Windows", "name_is_a_path"),
        ("src/", "name_is_a_path"),
        ("I", "name_is_no_name"),
        ("the user", "name_is_no_name"),
        ("She", "name_is_no_name"),
        ("go", "name_too_short"),
        ("cd", "name_too_short"),
        ("", "name_too_short"),
        ("???", "name_too_short"),
        ("x" * 257, "name_too_long"),
    ],
)
def test_what_is_no_name_or_nobodys_business_is_left_out_and_counted(name, reason):
    """Graph bugs 17 and 46."""
    assert name_problem(name, EntityType.CONCEPT) == reason
    found = admit(FoundEntity(name), ANN)
    assert names(found) == ["Ann"]
    assert found.dropped == ((reason, 1),)


@pytest.mark.parametrize(
    "name",
    [
        "git",
        "US",
        "WHO",
        "Ann",
        "\u674e\u660e",
        "C++",
        "GPT-4",
        "Boeing 747",
        "2002-2003",
        "1,234,567",
        "13 March 1963",
        "A/B testing",
        "AC/DC",
        "\u041c\u043e\u0441\u043a\u0432\u0430",
        "decade",
        "Apollo 11",
        "HTTP/2",
    ],
)
def test_ordinary_names_of_any_script_pass(name):
    assert name_problem(name, EntityType.CONCEPT) is None


def test_an_edge_stays_between_names_that_stay_however_they_are_written():
    """Graph bug 20."""
    found = admit(
        ANN, ROME, edges=[FoundEdge("ann", "ROME", "Lives in", "x"), FoundEdge("Ann", "Oslo", "left", "y")]
    )
    assert triples(found) == [("ann", "Lives in", "ROME")]
    assert dict(found.dropped) == {"unknown_endpoint": 1}


def test_an_edge_to_a_stored_name_stays_unless_that_name_was_refused_here():
    edges = [FoundEdge("Ann", "Oslo", "left", "x"), FoundEdge("Ann", "ann@example.com", "has", "y")]
    found = admit(ANN, FoundEntity("ann@example.com"), edges=edges, known={"oslo", "ann@example.com"})
    assert triples(found) == [("Ann", "left", "Oslo")]


@pytest.mark.parametrize("target", ["Ann", "ANN", " ann "])
def test_nothing_is_related_to_itself(target):
    """Graph bug 34, graph-11."""
    found = admit(ANN, edges=[FoundEdge("Ann", target, "knows", "x")])
    assert (found.edges, dict(found.dropped)) == ((), {"self_loop": 1})


def test_a_repeat_is_one_and_the_more_telling_of_both_counts():
    vague, named = (
        FoundEntity("java", EntityType.CONCEPT),
        FoundEntity("Java", EntityType.LANGUAGE, "runs on a JVM"),
    )
    found = admit(vague, named, edges=[])
    assert found.entities == (FoundEntity("java", EntityType.LANGUAGE, "runs on a JVM"),)
    two = admit(FoundEntity("Java", EntityType.LANGUAGE), FoundEntity("Java", EntityType.ORGANIZATION))
    assert len(two.entities) == 2


def test_repeated_edges_are_one_whatever_their_relation_is_written_like():
    edges = [LIVES, FoundEdge("Ann", "Rome", "Lives-In", "again"), FoundEdge("Rome", "Ann", "lives_in", "no")]
    found = admit(ANN, ROME, edges=edges)
    assert triples(found) == [("Ann", "lives_in", "Rome"), ("Rome", "lives_in", "Ann")]


def test_junk_and_repeats_in_front_push_no_good_item_out():
    junk = [FoundEntity("I"), FoundEntity("go"), FoundEntity("ann"), FoundEntity("a@b.cd")]
    found = admit(
        *junk, ANN, ROME, max_entities=2, edges=[FoundEdge("x", "y", "z", "")] * 9 + [LIVES], max_edges=1
    )
    assert names(found) == ["ann", "Rome"]
    assert triples(found) == [("Ann", "lives_in", "Rome")]


def test_the_first_so_many_are_kept_and_the_edges_of_the_others_go():
    many = [FoundEntity(f"Name {at}") for at in range(20)]
    edges = [FoundEdge("Name 0", f"Name {at}", "knows", "x") for at in range(1, 20)]
    found = admit(*many, edges=edges, max_entities=5, max_edges=3)
    assert (len(found.entities), len(found.edges)) == (5, 3)
    assert dict(found.dropped) == {"entities_over_limit": 15, "edges_over_limit": 1, "unknown_endpoint": 15}


def test_forbidden_text_is_left_out_wherever_it_stands():
    found = admit(
        FoundEntity("Project Zeus"),
        FoundEntity("Ann", summary="works on ZEUS"),
        ROME,
        FoundEntity("Ben"),
        edges=[
            FoundEdge("Ben", "Rome", "built", "Ben built Zeus in Rome."),
            FoundEdge("Ben", "Rome", "left", "x"),
        ],
        forbidden=("zeus", " "),
    )
    assert (names(found), triples(found)) == (["Rome", "Ben"], [("Ben", "left", "Rome")])
    assert dict(found.dropped)["forbidden_text"] == 3


def test_what_is_stored_is_clean_and_bounded():
    """Graph bug 45."""
    long = FoundEdge("Ann", "Rome", "lives_in", "\u202eA\x00" + "\u674e" * 2_000)
    found = admit(FoundEntity("A\x1bnn\u202e"), FoundEntity("Ro me\n"), edges=[long], known={"ann", "rome"})
    assert names(found) == ["Ann", "Ro me"]
    (edge,) = found.edges
    assert len(edge.fact.encode()) <= MAX_FACT_BYTES
    assert edge.fact.startswith("A\u674e")
