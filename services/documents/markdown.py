"""The structure of a Markdown text as line ranges: headings, and blocks that must not be cut."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from markdown_it import MarkdownIt

_FRONT_MATTER = re.compile(r"(?s)\A(---|\+\+\+)[ \t]*\n.*?^\1[ \t]*(?:\n|\Z)", re.MULTILINE)
_LINE = re.compile(r"\r\n?|\n")
_LINK = re.compile(r"!?\[([^\[\]]*)\]\([^()]*\)")
_TAG = re.compile(r"<[^<>]*>")
_WHOLE = frozenset({"fence", "code_block", "table_open"})
MAX_HEADING_CHARS = 200
# More lines than this are data rather than a document, and the parser needs up to 25 microseconds for each.
MAX_LINES = 100_000


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading of level 1 to 6 at [start, end)."""

    start: int
    end: int
    level: int
    text: str


@dataclass(frozen=True, slots=True)
class Outline:
    """Headings and whole blocks (code, tables, front matter), each in order and without overlap."""

    headings: tuple[Heading, ...]
    blocks: tuple[tuple[int, int], ...]


def outline(content: str) -> Outline:
    """The structure of a Markdown text; `#` lines inside code, comments and front matter are no headings.

    Nothing is looked for in texts of more than 100,000 lines. Heading texts are cut at 200 characters.
    """
    if content.count("\n") > MAX_LINES:
        return Outline((), ())
    front = _FRONT_MATTER.match(content)
    offset = front.end() if front else 0
    body = content[offset:]
    starts = [offset, *(offset + match.end() for match in _LINE.finditer(body)), len(content)]
    headings: list[Heading] = []
    blocks: list[tuple[int, int]] = [(0, offset)] if front else []
    tokens = _parser().parse(body)
    for token, following in pairwise([*tokens, *tokens[-1:]]):
        if token.map is None:
            continue
        start, end = starts[token.map[0]], starts[min(token.map[1], len(starts) - 1)]
        if token.type == "heading_open" and token.level == 0:
            headings.append(Heading(start, end, int(token.tag[1:]), _plain(following.content)))
        elif token.type in _WHOLE and start >= (blocks[-1][1] if blocks else 0):
            blocks.append((start, end))
    return Outline(tuple(headings), tuple(blocks))


def _plain(heading: str) -> str:
    text = _TAG.sub("", _LINK.sub(r"\1", heading[: 4 * MAX_HEADING_CHARS]))
    return " ".join(text.split())[:MAX_HEADING_CHARS]


@lru_cache(maxsize=1)
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark").enable("table")
    # Inline marks are of no interest here, and most of the time goes into them.
    parser.core.ruler.enableOnly(["normalize", "block"])
    return parser
