"""How long a text is for a language model, counted offline."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal, TypeAlias

Encoding: TypeAlias = Literal["cl100k_base", "o200k_base"]

_SURROGATE = re.compile("[\ud800-\udfff]")
# English prose has 4.1 to 4.2 ASCII characters per token; other scripts about one character.
_ASCII_PER_TOKEN = 4


class TokenCounter:
    """Counts tokens of one encoding; never raises, whatever the text.

    `exact` is False when the token tables are not installed: counts are then an estimate, ASCII characters / 4
    plus one for each other character. Names of special tokens such as `<|endoftext|>` count as ordinary text.
    """

    def __init__(self, encoding: Encoding = "cl100k_base") -> None:
        self.encoding = encoding
        self.exact = _tables_installed()

    def count(self, text: str) -> int:
        """Tokens in the text; 0 for the empty string."""
        return self.count_batch((text,))[0]

    def count_batch(self, texts: Sequence[str]) -> list[int]:
        """Tokens in each text, much faster than one call for each."""
        if not self.exact:
            return [_estimate(text) for text in texts]
        import toktok

        encoding: str = self.encoding
        try:
            # One thread: a pool started here would be dead in the children of a forking worker.
            return list(toktok.batch_count(texts, encoding, threads=1))
        except UnicodeEncodeError:
            sound = [_SURROGATE.sub("\ufffd", text) for text in texts]
            return list(toktok.batch_count(sound, encoding, threads=1))


def _tables_installed() -> bool:
    from importlib.util import find_spec

    return find_spec("toktok") is not None


def _estimate(text: str) -> int:
    ascii_length = len(text.encode("ascii", "ignore"))
    return -(-ascii_length // _ASCII_PER_TOKEN) + len(text) - ascii_length
