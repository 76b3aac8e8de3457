"""TextSplitter: nothing lost, nothing too long, cut where the structure allows."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services import errors
from services.documents.models import Chunk, Document, DocumentMetadata, Page, SplitterConfig
from services.documents.splitter import TextSplitter
from services.memory.tokens import TokenCounter

PLAIN, MARKDOWN = "text/plain", "text/markdown"
COUNTER = TokenCounter()


def split(
    content: str, content_type: str = PLAIN, size: int = 512, overlap: int = 0, *, aware: bool = True
) -> list[Chunk]:
    """The chunks, after checking what holds for every text."""
    document = Document(content, DocumentMetadata("test", content_type))
    chunks = TextSplitter(SplitterConfig(size, overlap, aware), COUNTER).split(document)
    covered = bytearray(len(content))
    for index, chunk in enumerate(chunks):
        assert chunk.index == index
        assert chunk.text == content[chunk.start : chunk.end]
        assert chunk.text.strip()
        assert chunk.tokens == COUNTER.count(chunk.text)
        assert chunk.tokens <= size or len(chunk.text) == 1
        covered[chunk.start : chunk.end] = b"\1" * (chunk.end - chunk.start)
    assert [chunk.start for chunk in chunks] == sorted({chunk.start for chunk in chunks})
    assert all(seen or char.isspace() for seen, char in zip(covered, content, strict=True))
    return chunks


def headings(chunks: list[Chunk]) -> list[tuple[str, ...]]:
    return [chunk.heading for chunk in chunks]


SENTENCES = " ".join(f"Sentence number {n} says a little about its own number." for n in range(200))


def test_empty_and_blank_texts_have_no_chunks() -> None:
    assert split("") == []
    assert split(" \n\t\n\xa0\n") == []
    assert split(" \n" * 10_000, MARKDOWN, size=5) == []


def test_a_short_text_is_one_identical_chunk() -> None:
    assert [chunk.text for chunk in split("Short text.")] == ["Short text."]


def test_chunks_end_at_sentences() -> None:
    chunks = split(SENTENCES, size=100)
    assert len(chunks) > 10
    assert all(chunk.text.endswith(".") and chunk.text.startswith("Sentence") for chunk in chunks)


def test_chunks_are_well_filled() -> None:
    chunks = split(SENTENCES, size=100)
    assert sum(chunk.tokens for chunk in chunks[:-1]) / len(chunks[:-1]) > 75


def test_a_paragraph_end_is_preferred_to_a_sentence_end() -> None:
    paragraph = "First things first. Then the second one. At last the third."
    chunks = split("\n\n".join([paragraph] * 20), size=40)
    assert all(chunk.text == f"{paragraph}\n\n{paragraph}" for chunk in chunks)


def test_full_width_stops_end_sentences() -> None:
    chunks = split("今天下雨了。我们留在家里。" * 40, size=60)
    assert all(chunk.text.endswith("。") for chunk in chunks)


def test_an_abbreviation_does_not_end_a_sentence() -> None:
    chunks = split("We need tools (e.g. hammers and saws) for it. " * 30, size=30)
    assert not any(chunk.text.endswith("e.g.") for chunk in chunks)


def test_neighbours_share_whole_sentences() -> None:
    chunks = split(SENTENCES, size=100, overlap=30)
    for left, right in itertools.pairwise(chunks):
        shared = right.text[: left.end - right.start]
        assert left.end > right.start
        assert shared.startswith("Sentence")
        assert shared.endswith(".")
        assert COUNTER.count(shared) <= 30


def test_split_03_neighbours_share_nothing_when_the_last_piece_is_longer_than_the_overlap() -> None:
    long_word = "incomprehensibilities " * 12
    chunks = split(f"{long_word}\n\nAnd then the end of it.", size=60, overlap=3)
    assert all(left.end <= right.start for left, right in itertools.pairwise(chunks))


def test_split_01_no_chunk_is_longer_than_the_limit_in_tokens() -> None:
    code = "def function(argument_one,argument_two):" + "value=value+argument_one*argument_two;" * 300
    assert len(split(code, size=90, overlap=20)) > 10


def test_split_05_many_short_lines_with_a_large_overlap_end() -> None:
    chunks = split("12345\n" * 2_000, size=100, overlap=60)
    assert all(left.end < right.end for left, right in itertools.pairwise(chunks))


def test_split_07_an_overlap_as_large_as_the_size_is_refused() -> None:
    with pytest.raises(errors.InputError, match="chunk_overlap is 2"):
        SplitterConfig(chunk_size=2, chunk_overlap=2)


def test_split_09_a_hash_line_in_a_fence_is_no_heading() -> None:
    content = "# headerA\nbodyA\n\n# headerB\nbody\n```\n# code comment\ncode\n```\n"
    chunks = split(content, MARKDOWN)
    assert headings(chunks) == [("headerA",), ("headerB",)]
    assert "```\n# code comment\ncode\n```" in chunks[1].text


def test_split_11_special_tokens_are_stored_as_they_are() -> None:
    content = "The token <|endoftext|> ends a text, <|im_start|> begins one. " * 60
    assert "".join(chunk.text + " " for chunk in split(content, size=50)).split() == content.split()


def test_the_heading_path_leads_from_the_top() -> None:
    content = "intro\n\n# A\n\na\n\n## B\n\nb\n\n### C ###\n\nc\n\nD\n---\n\nd\n\nE\n===\n\ne\n"
    assert headings(split(content, MARKDOWN)) == [(), ("A",), ("A", "B"), ("A", "B", "C"), ("A", "D"), ("E",)]


def test_a_heading_joins_the_text_below_it() -> None:
    words = "some words of prose, " * 30
    for chunk in split(f"# A\n\n{words}\n\n# B\n\n{words}\n", MARKDOWN, size=60):
        assert chunk.text not in ("# A", "# B")


def test_a_heading_without_text_joins_a_deeper_one() -> None:
    assert [chunk.text for chunk in split("# A\n\n## B\n\nb\n\n# C\n\n# D\n", MARKDOWN)] == [
        "# A\n\n## B\n\nb",
        "# C",
        "# D",
    ]


def test_hash_lines_in_code_comments_and_front_matter_are_no_headings() -> None:
    content = (
        "---\ntitle: x\n# not one\n---\n\n# A\n\n~~~sh\n# c1\n~~~\n\n````md\n```\n# c2\n```\n````\n\n"
        "    # c3\n\n<!--\n# c4\n-->\n\n#not-a-heading\n\n- item\n\n  ```\n  # c5\n  ```\n"
    )
    assert set(headings(split(content, MARKDOWN, size=8))) == {(), ("A",)}


def test_front_matter_is_no_heading_of_its_own() -> None:
    assert headings(split("---\ntitle: a\n---\n\n# Body\n\ntext\n", MARKDOWN)) == [(), ("Body",)]


def test_links_and_tags_are_left_out_of_heading_paths() -> None:
    assert headings(split('# See [the `docs`](x.md) <a id="y"></a>\n\ntext', MARKDOWN)) == [
        ("See the `docs`",)
    ]


def test_a_long_heading_is_cut() -> None:
    assert len(split("# " + "word " * 2_000 + "\n\ntext", MARKDOWN)[0].heading[0]) == 200


def test_a_fence_that_fits_is_never_cut() -> None:
    fence = "```python\n" + "\n\n".join(f"# step {n}\nvalue_{n} = {n}" for n in range(8)) + "\n```"
    content = "# A\n\n" + f"\n\n{'Words around it. ' * 12}\n\n{fence}" * 6
    chunks = split(content, MARKDOWN, size=150, overlap=20)
    start = content.find(fence)
    while start >= 0:
        assert any(chunk.start <= start and start + len(fence) <= chunk.end for chunk in chunks)
        start = content.find(fence, start + 1)


def test_a_fence_inside_a_list_is_never_cut() -> None:
    fence = "  ```\n" + "  echo one two three. Then four\n" * 6 + "  ```\n"
    content = f"- item\n\n{fence}\n- item\n\n{fence}\n" * 3
    assert all(chunk.text.count("```") % 2 == 0 for chunk in split(content, MARKDOWN, size=120))


def test_a_table_that_fits_is_never_cut() -> None:
    table = "| a | b |\n|---|---|\n" + "| one. Two | three |\n" * 8
    content = f"{'Words around it. ' * 10}\n\n{table}\n" * 4
    assert all("|---|" in chunk.text for chunk in split(content, MARKDOWN, size=130) if "| one" in chunk.text)


def test_a_fence_over_the_limit_is_cut_at_line_ends() -> None:
    content = "```\n" + "first(second, third); fourth\n" * 100 + "```\n"
    chunks = split(content, MARKDOWN, size=60)
    assert all(chunk.text.endswith(("fourth", "```")) for chunk in chunks)


def test_an_unclosed_fence_reaches_to_the_end() -> None:
    assert set(headings(split("# A\n\n```python\n# no\n" + "x = 1\n" * 300, MARKDOWN, size=100))) == {("A",)}


def test_chunks_share_nothing_across_headings() -> None:
    content = "".join(f"# H{n}\n\nShort text number {n}.\n\n" for n in range(20))
    chunks = split(content, MARKDOWN, size=50, overlap=40)
    assert len(chunks) == 20
    assert all(chunk.text.count("# H") == 1 for chunk in chunks)


def test_headings_count_in_markdown_only() -> None:
    assert headings(split("# A\n\ntext\n", PLAIN)) == [()]


def test_windows_ignore_the_structure() -> None:
    chunks = split(SENTENCES, size=50, overlap=10, aware=False)
    assert any(not chunk.text.endswith(".") for chunk in chunks)
    assert all(left.end > right.start for left, right in itertools.pairwise(chunks))


def test_a_chunk_knows_the_page_it_starts_on() -> None:
    pages = ["First page. " * 30, "", "Third page. " * 30]
    content = "\n\n".join(filter(None, pages))
    third = content.index("Third")
    document = Document(
        content,
        DocumentMetadata("test", "application/pdf"),
        (Page(1, 0, third - 2), Page(2, third - 2, third - 2), Page(3, third, len(content))),
    )
    chunks = TextSplitter(SplitterConfig(40, 0)).split(document)
    assert {chunk.page for chunk in chunks} == {1, 3}
    assert all((chunk.page == 3) == chunk.text.startswith("Third") for chunk in chunks)


def test_without_pages_a_chunk_has_none() -> None:
    assert split("text")[0].page is None


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.sampled_from(
            [
                "# h\n",
                "## h\n",
                "```\n",
                "a b. C",
                "\n",
                "\n\n",
                "    x",
                "| a |\n|---|\n",
                "- i\n",
                "。",
                "🧠",
                " " * 9,
                "<!--",
                "-->",
                "===\n",
                "\r\n",
                "\x00",
            ]
        )
    ).map("".join)
    | st.text(),
    st.sampled_from([PLAIN, MARKDOWN]),
    st.integers(4, 40),
    st.integers(0, 3),
    st.booleans(),
)
@pytest.mark.slow
def test_any_text_is_covered_in_order_within_the_limit(
    content: str, content_type: str, size: int, overlap: int, aware: bool
) -> None:
    split(content, content_type, size, overlap, aware=aware)


@pytest.mark.parametrize("size", [1, 2, 3])
def test_a_character_longer_than_the_limit_stays_whole(size: int) -> None:
    assert "".join(chunk.text for chunk in split("🧠🦀🧠", size=size)) == "🧠🦀🧠"


HOSTILE: dict[str, Callable[[int], str]] = {
    "one word": lambda n: "x" * n,
    "blanks": lambda n: "a" + " " * n + "b",
    "lines": lambda n: "a\n" * (n // 2),
    "stops": lambda n: ". " * (n // 2),
    "stops and quotes": lambda n: '."' * (n // 2),
    "indented blank lines": lambda n: ("\n" + " " * 100) * (n // 101),
    "combining marks": lambda n: ("e" + "\u0301" * 60) * (n // 61),
    "brackets": lambda n: "[" * n,
    "quotes": lambda n: (">" * 100 + " a\n") * (n // 103),
    "words of 1,999 characters": lambda n: ("a" * 1_999 + " ") * (n // 2_000),
}


@pytest.mark.parametrize("kind", HOSTILE)
@pytest.mark.parametrize("content_type", [PLAIN, MARKDOWN])
def test_time_grows_no_faster_than_the_text(kind: str, content_type: str) -> None:
    def seconds(length: int) -> float:
        document = Document(HOSTILE[kind](length), DocumentMetadata("test", content_type))
        splitter = TextSplitter(counter=COUNTER)
        started = time.process_time()
        splitter.split(document)
        return time.process_time() - started

    seconds(1_000)
    assert seconds(160_000) < 16 * max(seconds(20_000), 0.01)


@pytest.mark.slow
def test_twenty_thousand_headings_take_seconds() -> None:
    content = "".join(f"{'#' * (1 + n % 6)} h{n}\n\np{n}\n\n" for n in range(20_000))
    started = time.process_time()
    chunks = TextSplitter(counter=COUNTER).split(Document(content, DocumentMetadata("test", MARKDOWN)))
    assert len(chunks) == 20_000
    assert time.process_time() - started < 6


def test_structure_is_not_looked_for_in_huge_line_counts() -> None:
    content = "# a\n" * 100_001
    assert set(
        headings(TextSplitter(counter=COUNTER).split(Document(content, DocumentMetadata("t", MARKDOWN))))
    ) == {()}
