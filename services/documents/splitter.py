"""Cutting a document into chunks that fit a token budget, at the best places its structure offers.

Text is first cut into atoms (sentences, lines, whole code blocks and tables; words and runs of characters only
where those do not fit), each with the strength of the boundary behind it. Atoms are then packed in order. Every
step looks at each atom a bounded number of times, so time grows linearly whatever the text.

Neighbouring chunks share whole trailing atoms of up to `chunk_overlap` tokens. They share nothing when the last
atom alone is longer than that, and never across a Markdown heading.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import accumulate

from services.documents.markdown import Heading, outline
from services.documents.models import Chunk, Document, SplitterConfig
from services.memory.tokens import TokenCounter

# Boundary strengths, weakest first. A chunk ends behind a heading only if nothing else is possible.
_HEADING, _WORD, _SENTENCE, _LINE, _PARAGRAPH = range(-1, 4)

# A line break takes the blank lines after it along, but not the next line's indentation.
_LINE_CUT = re.compile(r"\n(?:[^\S\n]*\n)*")
# A sentence ends before anything but a small letter ("e.g. this" goes on), or with a full-width stop. No two
# repetitions here match the same text, so that no input makes it slow.
_PROSE_CUT = re.compile(
    _LINE_CUT.pattern + r"""|[.!?…]["'”’)\]]{0,3}[^\S\n]++(?![a-z\n])|[。！？｡][」』）”’]{0,3}"""
)
_WORD_CUT = re.compile(r"\s+")
# What is tried in turn on a piece that does not fit; runs of characters come last.
_FINER = (_LINE_CUT, _WORD_CUT)
_LINES_NEXT, _WORDS_NEXT = 0, 1

# A character has at most four UTF-8 bytes, and a token at least one.
_MAX_TOKENS_PER_CHAR = 4
# Pieces shorter than this many characters for each token of chunk_size are not worth an atom of their own:
# 64 characters or about 16 tokens at 512.
_MIN_CHARS_PER_TOKEN = 1 / 8


@dataclass(frozen=True, slots=True)
class _Piece:
    """`content[start:end]`, the strength of the boundary behind it, and how to cut it further."""

    start: int
    end: int
    boundary: int
    finer: int
    tokens: int = 0


class TextSplitter:
    """Splits documents by `config`; sizes are tokens as `counter` counts them (cl100k by default).

    Every chunk equals `content[start:end]`; chunks are in order and cover all text that is not blank. No chunk is
    longer than `chunk_size`, save a single character that is longer by itself (possible below 4 tokens only).
    """

    def __init__(self, config: SplitterConfig | None = None, counter: TokenCounter | None = None) -> None:
        self._config = config or SplitterConfig()
        self._counter = counter or TokenCounter()
        self._min_chars = int(self._config.chunk_size * _MIN_CHARS_PER_TOKEN)

    def split(self, document: Document) -> list[Chunk]:
        """The chunks of the document; none for blank text."""
        content = document.content
        page_starts = [page.start for page in document.pages]
        chunks: list[Chunk] = []
        for heading, pieces in self._sections(document):
            for start, end, tokens in self._packed(content, self._fitting(content, pieces)):
                page = None
                if page_starts:
                    page = document.pages[max(0, bisect_right(page_starts, start) - 1)].number
                chunks.append(Chunk(len(chunks), content[start:end], start, end, tokens, heading, page))
        return chunks

    def _sections(self, document: Document) -> Iterator[tuple[tuple[str, ...], list[_Piece]]]:
        content = document.content
        if not self._config.sentence_aware:
            yield (), list(_cut(content, 0, len(content), _WORD_CUT, self._min_chars))
        elif document.metadata.content_type == "text/markdown":
            yield from _markdown_sections(content, self._min_chars)
        else:
            yield (), list(_cut(content, 0, len(content), _PROSE_CUT, self._min_chars))

    def _fitting(self, content: str, pieces: list[_Piece]) -> list[_Piece]:
        """The pieces with their lengths; those that do not fit are cut further."""
        size = self._config.chunk_size
        lengths = self._counter.count_batch([_measured(content, piece) for piece in pieces])
        fitting: list[_Piece] = []
        for piece, tokens in zip(pieces, lengths, strict=True):
            if tokens <= size or piece.end - piece.start == 1:
                fitting.append(replace(piece, tokens=tokens))
            else:
                fitting += self._fitting(content, self._finer(content, piece))
        return fitting

    def _finer(self, content: str, piece: _Piece) -> list[_Piece]:
        if piece.finer < len(_FINER):
            parts = list(_cut(content, piece.start, piece.end, _FINER[piece.finer], self._min_chars))
        else:
            step = max(1, self._config.chunk_size // _MAX_TOKENS_PER_CHAR)
            parts = [
                _Piece(start, min(start + step, piece.end), _WORD, piece.finer)
                for start in range(piece.start, piece.end, step)
            ]
        parts = [replace(part, finer=piece.finer + 1) for part in parts]
        parts[-1] = replace(parts[-1], boundary=piece.boundary)
        return parts

    def _packed(self, content: str, atoms: list[_Piece]) -> Iterator[tuple[int, int, int]]:
        """(start, end, tokens) of each chunk of these atoms."""
        size, overlap = self._config.chunk_size, self._config.chunk_overlap
        sums = [0, *accumulate(atom.tokens for atom in atoms)]
        first = done = 0  # the chunk begins with atom `first`; atoms before `done` are in an earlier chunk
        while done < len(atoms):
            first = min(done, max(first, bisect_left(sums, sums[done + 1] - size)))
            if content[atoms[first].start : atoms[first].end].isspace():
                first += 1
                done = max(done, first)
                continue
            last = max(done + 1, bisect_right(sums, sums[first] + size) - 1)
            if last < len(atoms) and self._config.sentence_aware:
                middle = bisect_left(sums, sums[first] + size // 2)
                last = _strongest(atoms, max(done + 1, middle), last)
            start, end, tokens = self._trimmed(content, atoms[first].start, atoms[last - 1].end)
            # Lengths of atoms do not quite add up to the length of the whole.
            while tokens > size and last - first > 1:
                first, last = (first, last - 1) if last > done + 1 else (first + 1, last)
                start, end, tokens = self._trimmed(content, atoms[first].start, atoms[last - 1].end)
            yield start, end, tokens
            done = last
            first = max(first + 1, bisect_left(sums, sums[done] - overlap))

    def _trimmed(self, content: str, start: int, end: int) -> tuple[int, int, int]:
        """The span without outer blanks, and its length; blanks stay if that makes it fit."""
        text = content[start:end]
        # Indentation of the first line stays: it carries meaning in code and lists.
        blank = text[: len(text) - len(text.lstrip())]
        low, high = start + blank.rfind("\n") + 1, start + len(text.rstrip())
        tokens = self._counter.count(content[low:high])
        if tokens > self._config.chunk_size >= (untrimmed := self._counter.count(text)):
            return start, end, untrimmed
        return low, high, tokens


def _measured(content: str, piece: _Piece) -> str:
    # A single blank between words belongs to the next word's token.
    end = piece.end
    if end - piece.start > 2 and content[end - 1] == " " and not content[end - 2].isspace():
        end -= 1
    return content[piece.start : end]


def _strongest(atoms: list[_Piece], low: int, high: int) -> int:
    """The end in [low, high] with the strongest boundary behind it; the longest of equals."""
    if low >= high:
        return high
    return max(range(low, high + 1), key=lambda end: (atoms[end - 1].boundary, end))


def _cut(content: str, start: int, end: int, pattern: re.Pattern[str], min_chars: int) -> Iterator[_Piece]:
    """Cut behind each match, but leave no piece shorter than `min_chars` (a paragraph: a quarter of it)."""
    for match in pattern.finditer(content, start, end):
        boundary = _strength(match[0])
        if match.end() - start >= (min_chars // 4 if boundary == _PARAGRAPH else min_chars):
            yield _Piece(start, match.end(), boundary, _WORDS_NEXT)
            start = match.end()
    if start < end:
        yield _Piece(start, end, _PARAGRAPH, _WORDS_NEXT)


def _strength(separator: str) -> int:
    if separator[0] == "\n":
        return _PARAGRAPH if separator.count("\n") > 1 else _LINE
    return _WORD if separator.isspace() else _SENTENCE


def _markdown_sections(content: str, min_chars: int) -> Iterator[tuple[tuple[str, ...], list[_Piece]]]:
    """The text under each heading with the path to it; a heading without text joins a deeper one that follows."""
    found = outline(content)
    path: list[Heading] = []
    blocks = iter(found.blocks)
    block = next(blocks, None)
    pieces: list[_Piece] = []
    position = 0
    for heading in (*found.headings, None):
        limit = heading.start if heading else len(content)
        while block and block[0] < limit:
            pieces += _prose(content, position, block[0], min_chars)
            pieces.append(_Piece(*block, _PARAGRAPH, _LINES_NEXT))
            position = block[1]
            block = next(blocks, None)
        pieces += _prose(content, position, limit, min_chars)
        only_headings = bool(pieces) and all(piece.boundary == _HEADING for piece in pieces)
        if not (only_headings and heading and path and heading.level > path[-1].level):
            yield _names(path), pieces
            pieces = []
        if heading:
            path = [*(above for above in path if above.level < heading.level), heading]
            pieces.append(_Piece(heading.start, heading.end, _HEADING, _WORDS_NEXT))
            position = heading.end


def _prose(content: str, start: int, end: int, min_chars: int) -> Iterable[_Piece]:
    if not content[start:end].strip():
        return ()
    return _cut(content, start, end, _PROSE_CUT, min_chars)


def _names(path: list[Heading]) -> tuple[str, ...]:
    return tuple(heading.text for heading in path if heading.text)
