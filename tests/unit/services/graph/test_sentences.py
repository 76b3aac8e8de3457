"""Where sentences end."""

from __future__ import annotations

import pytest

from services.graph.sentences import sentences


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Ann went. Ben stayed! Why?", ["Ann went.", "Ben stayed!", "Why?"]),
        (
            "Dr. Smith met J. K. Rowling in St. Louis. Then he left.",
            ["Dr. Smith met J. K. Rowling in St. Louis.", "Then he left."],
        ),
        ("It was me and I. Then we left.", ["It was me and I.", "Then we left."]),
        ("See e.g. the note on p. two here. Good.", ["See e.g. the note on p. two here.", "Good."]),
        ("She said \u201cno.\u201d Then silence.", ["She said \u201cno.\u201d", "Then silence."]),
        ("one\ntwo\n\nthree", ["one", "two", "three"]),
        (
            "\u6211\u6765\u4e86\u3002\u4f60\u5462\uff1f\u597d",
            ["\u6211\u6765\u4e86\u3002", "\u4f60\u5462\uff1f", "\u597d"],
        ),
        ("Version 3.12 is out. Get it", ["Version 3.12 is out.", "Get it"]),
        ("", []),
        (" \n ", []),
    ],
)
def test_a_sentence_ends_where_people_end_it(text, expected):
    assert list(sentences(text)) == expected
