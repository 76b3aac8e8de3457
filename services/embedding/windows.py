"""Cutting long text into windows that an embedding model reads whole."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence

# From the best place to cut to the worst; each match ends where the next window may begin.
_BREAKS = (
    re.compile(r"\n[ \t]*\n\s*"),
    re.compile(r"[.!?]['\")\]]*\s+|[。！？।؟]\s*"),
    re.compile(r"\n\s*"),
    re.compile(r"\s+"),
)
_ESTIMATED_TOKEN = re.compile(r"[\x00-\x7f]{1,4}|.", re.DOTALL)


def utf8(text: str) -> str:
    """The text with lone surrogates, which no model can read, replaced one for one."""
    return text.encode("utf-8", "replace").decode("utf-8")


def estimated_tokens(text: str) -> list[tuple[int, int]]:
    """Spans of about one token each: four ASCII characters, or one of any other kind."""
    return [match.span() for match in _ESTIMATED_TOKEN.finditer(text)]


def windows(text: str, tokens: Sequence[tuple[int, int]], *, size: int, overlap: int) -> list[str]:
    """Pieces of at most `size` tokens, each starting about `overlap` tokens before the last one ended.

    `tokens` are character spans in order. Cuts fall on paragraphs, sentences, lines or blanks in the second half of
    a window, and only in their absence between two tokens. No character that is not blank is left out.
    """
    pieces = [text[start:end].strip() for start, end in _spans(text, tokens, size, overlap)]
    return [piece for piece in pieces if piece]


def _spans(
    text: str, tokens: Sequence[tuple[int, int]], size: int, overlap: int
) -> Iterator[tuple[int, int]]:
    starts = [start for start, _ in tokens]
    ends = [end for _, end in tokens]
    here = 0
    while True:
        first = bisect_right(ends, here)
        if first + size >= len(tokens):
            yield here, len(text)
            return
        cut = max(_cut(text, starts[first + size // 2], starts[first + size]), here + 1)
        yield here, cut
        back = starts[max(bisect_left(starts, cut) - overlap, first + 1)]
        word = re.compile(r"(?<=\s)\S").search(text, back, cut)
        # Always forward, whatever the spans are.
        here = max(min(word.start() if word else back, cut), here + 1)


def _cut(text: str, low: int, high: int) -> int:
    """The best place in (low, high] to end a window."""
    for pattern in _BREAKS:
        places = [match.end() for match in pattern.finditer(text, low, high) if match.end() > low]
        if places:
            return places[-1]
    return high
