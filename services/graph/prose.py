"""Which part of a text states facts: prose, not the code, logs, settings and quotations from memory in it. Pure."""

from __future__ import annotations

import re

_FENCE = re.compile(
    r"^[ \t]*(`{3,}+|~{3,}+)[^\n]*+\n.*?(?:^[ \t]*\1[`~]*[ \t]*$|\Z)", re.MULTILINE | re.DOTALL
)
_INDENTED = re.compile(r"(?:\A|\n[ \t]*\n)((?:(?: {4}|\t)[^\n]*(?:\n|\Z))+)")
# Lines that people paste and do not write.
_PASTED = re.compile(
    r"""^[ \t]*(?:
        [\[{}\])]+[,;]?[ \t]*$                                         # brackets alone
      | [{\[][ \t]*["'{\[\d-]                                          # JSON
      | ["'][^"'\n]{1,80}["'][ \t]*:[ \t]*\S                           # a key of JSON
      | [A-Za-z_][\w.\-]{0,60}[ \t]*=[ \t]*(?:\S{1,200}|["'\[{(\w][^\n]*["'\]})])[ \t]*$   # key = value
      | \[[\w.\-]{1,60}\][ \t]*$                                       # a section of an INI or TOML file
      | [\w.\-]{1,60}:[ \t]*(?:["'\d\[{]|true\b|false\b|null\b)        # YAML
      | \d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d                              # a log
      | \[?(?:TRACE|DEBUG|INFO|WARN|WARNING|ERROR|FATAL)\b[\]:| ]
      | (?:\$|>>>|\#!|\+\+\+|---|@@|diff[ ]--git)[ ]?\S                # shells, diffs
      | Traceback[ ]\(most[ ]recent | File[ ]"[^"\n]+",[ ]line[ ]\d | at[ ][\w.$<>]+\(
      | (?:import|from)[ ][\w.]+(?:[ ]import\b|[ ]*;|[ \t]*$)
      | (?:def|class|async|if|elif|for|while|with)\b[^\n]*\):[ \t]*$
      | (?:class|fn|func|function|const|let|var|public|private|static)[ ][^\n]*[{;(=][ \t]*$
      | [^\n]{0,300}(?:[\w)]\ ?\{|[)\]}"'];)[ \t]*$                   # a statement of a program
      | \#include\b | </?[A-Za-z][^>\n]*>[ \t]*$
      | \|[^\n]*\|[ \t]*$                                              # a table
    )[^\n]*$""",
    re.MULTILINE | re.VERBOSE,
)
# What `build_context` quotes from memory: inside, no bracket of a tag is left as it is, so the first end is the end.
_QUOTED = re.compile(r"<memory>\n.*?(?:^</memory>|\Z)", re.MULTILINE | re.DOTALL)
_URL = re.compile(r"\b(?:[a-z][a-z0-9+.-]{1,20}://|www\.)[^\s<>\"'）】」]+", re.IGNORECASE)


def prose(text: str) -> str:
    """The text without what memory told, code, pasted lines and addresses; perhaps nothing is left."""
    text = _QUOTED.sub("\n", text.replace("\r\n", "\n").replace("\r", "\n"))
    text = _FENCE.sub("\n", text)
    text = _INDENTED.sub("\n\n", text.lstrip("\n"))
    text = _PASTED.sub("", text)
    return _URL.sub(" ", text).strip()


def within(text: str, max_bytes: int) -> str:
    """The text cut to so many bytes of UTF-8, between two characters, and between two words where that loses little."""
    raw = text.encode()
    if len(raw) <= max_bytes:
        return text
    kept = raw[:max_bytes].decode(errors="ignore")
    word = max(kept.rfind(" "), kept.rfind("\n"))
    return kept[:word] if word > len(kept) // 2 else kept
