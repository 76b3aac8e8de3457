"""B11: keys of names, relations and facts are their own keys, and no two names of one key are stored."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from services.graph import names
from services.graph.models import Extraction, FoundEdge, FoundEntity
from tests.builders import assert_healthy, rows, work
from tests.fuzz.amounts import MARKS, fuzz
from tests.graph_builders import message

pytestmark = MARKS

TRICKS = st.sampled_from(
    # Letters that look like others, that turn into others, that nobody sees or that compose.
    [
        *"аеßẞİıſﬁΩKÅǆᾳΐﷺ㎏①½ᵃ가क़",
        *"\u200b\u200d\ufeff\u00ad\u202e\u2066\u0301\u0345\u0f73\ud800\U000e0041",
        *"<>&\"'`\\-_ \x00\n\t\u2028\u3000\u2010",
        "<b>",
        "&lt;",
        "\u1100\u1161",
        "\u03b1\u0345\u0301",
        "10" * 5_000,
    ]
)
NAMES = st.lists(TRICKS | st.text(max_size=4), max_size=8).map("".join)
MIXED = st.lists(
    st.sampled_from("Ann ann ANN аnn A\u200bnn Ann\u0301 ANN\u00c1 Straße STRASSE ﬁn fin".split()) | NAMES,
    min_size=2,
    max_size=4,
)


@fuzz(commit=500, nightly=20_000)
@given(NAMES)
def test_a_key_is_its_own_key_however_the_name_is_shown_b11(written):
    key = names.canonical(written)
    assert names.canonical(key) == key
    assert names.canonical(names.display(written)) == key or len(key.encode()) > names.MAX_NAME_BYTES - 20
    assert names.display(names.display(written)) == names.display(written)
    assert len(key.encode()) <= names.MAX_NAME_BYTES
    assert names.relation(names.relation(written)) == names.relation(written)
    assert names.fact_text(names.fact_text(written)) == names.fact_text(written)


def test_no_two_entities_of_one_key_are_stored_b11(container):
    @fuzz(commit=100, nightly=2_000)
    @given(MIXED)
    def check(written: Any) -> None:
        found = Extraction(
            "llm:test/m",
            tuple(FoundEntity(name) for name in written),
            tuple(FoundEdge(one, other, one, other) for one, other in pairwise(written)),
        )
        container.graph.store("default", found, message(container))

    check()
    keys = Counter(names.canonical(name) for (name,) in rows(container, "SELECT name FROM graph_entities"))
    assert keys.most_common(1)[0][1] == 1
    aliases = "SELECT count(*) FROM graph_entity_aliases GROUP BY namespace, alias_name HAVING count(*) > 1"
    assert rows(container, aliases) == []
    work(container)
    assert_healthy(container)
