"""The picture: one file, nothing from outside, nothing that runs but our own."""

import re
from html.parser import HTMLParser

import pytest

from services.graph.drawing import HEIGHT, WIDTH, draw, layout
from services.graph.models import CO_OCCURRENCE, Edge, Entity, EntityType, FactRecord

EVIL = "<script>alert(1)</script>\"'&"


def entity(number, name, kind=EntityType.PERSON, summary=None):
    return Entity(number, "default", name, name.casefold(), kind, summary, 1, 1)


def fact(number, source, target, relation="knows", text="A fact."):
    edge = Edge(number, "default", source.id, target.id, relation, text, 0.8, 1, None, 1, None, None)
    return FactRecord(edge, source.name, target.name)


ADA, BEN, EVE = entity(1, "Ada"), entity(2, "Ben", EntityType.TOOL), entity(3, EVIL, summary=EVIL)
FACTS = [
    fact(1, ADA, BEN),
    fact(2, BEN, ADA, "likes"),
    fact(3, ADA, EVE, CO_OCCURRENCE, EVIL),
    fact(4, BEN, EVE, EVIL, EVIL),
]


class Tags(HTMLParser):
    """Collects tags and the texts of titles; complains of what is not closed."""

    def __init__(self, html):
        super().__init__()
        self.tags, self.open, self.titles = [], [], []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] == "title":
            self.titles.append(data)


@pytest.fixture
def html():
    return draw([ADA, BEN, EVE], FACTS, focus=1)


def test_every_entity_and_every_fact_is_drawn_and_told_when_pointed_at(html):
    found = Tags(html)
    assert found.open == []
    classes = [attributes.get("class", "") for _, attributes in found.tags]
    assert (classes.count("node"), classes.count("node focus")) == (2, 1)
    assert (classes.count("edge"), classes.count("edge seen")) == (3, 1)
    assert any(title.startswith("Ada \u2192 knows \u2192 Ben\nA fact.\nstated") for title in found.titles)
    assert any("seen together, not stated" in title for title in found.titles)


def test_stored_text_never_becomes_markup(html):
    """Graph bug 45."""
    found = Tags(html)
    assert [tag for tag, _ in found.tags].count("script") == 1
    assert "alert(1)</script>" not in html
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in html


def test_nothing_is_loaded_from_anywhere(html):
    addresses = set(re.findall(r"https?://[^\s\"']+", html))
    assert addresses == set()
    assert not re.search(r"\b(src|href|import)\s*[=(]|url\((?!#)", html)
    policy = next(attributes for tag, attributes in Tags(html).tags if "http-equiv" in attributes)
    assert policy["content"].startswith("default-src 'none'")


def test_the_same_graph_gives_the_same_picture(html):
    assert draw([ADA, BEN, EVE], FACTS, focus=1) == html


def test_a_picture_of_a_part_says_so():
    assert "Only a part" in draw([ADA], [], focus=1, truncated=True)
    assert "Only a part" not in draw([ADA], [], focus=1)


def test_relation_names_are_hidden_where_there_are_many():
    many = [fact(number, ADA, BEN, f"r{number}") for number in range(41)]
    assert 'class="quiet"' in draw([ADA, BEN], many, focus=1)
    assert 'class="quiet"' not in draw([ADA, BEN], many[:40], focus=1)


def test_facts_between_the_same_two_do_not_lie_on_one_another(html):
    ways = re.findall(r'class="line" d="(M[^"]+)"', html)
    assert len(set(ways)) == len(ways) == 4


def test_everything_stands_inside_the_picture():
    places = layout(list(range(40)), [(number, (number * 7) % 40) for number in range(40)])
    assert len(places) == 40
    assert all(0 < x < WIDTH and 0 < y < HEIGHT for x, y in places.values())
    assert layout([5], []) == {5: (WIDTH / 2, HEIGHT / 2)}
