"""How text that others wrote goes into a prompt: without secrets, escaped, between delimiters. Pure."""

from __future__ import annotations

import re

_LINE_ENDS = re.compile("\r\n|[\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
_CONTROL = re.compile("[\x00-\x08\x0e-\x1b\x1f\x7f-\x9f]")
_ESCAPES = (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"))

_SECRET = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)"
    r"|\b(?:sk|pk|rk)[-_][A-Za-z0-9_-]{16,}"
    r"|\b(?:gh[pousr]|github_pat|glpat|xox[abposr])[-_][A-Za-z0-9_-]{10,}"
    r"|\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"
    r"|\bAIza[A-Za-z0-9_-]{30,}"
    r"|\beyJ[A-Za-z0-9_-]{8,2000}\.[A-Za-z0-9_-]{8,4000}\.[A-Za-z0-9_-]*",
    re.DOTALL,
)
_NAMED_SECRET = re.compile(
    r"""(?i)((?:password|passwd|secret|api[_-]?key|access[_-]?token|auth[_-]?token)["']?\s*[:=]\s*["']?)"""
    r"""[^\s"'<>,;]{4,}"""
    r"""|(\bauthorization:\s*(?:bearer|basic)\s+)\S+"""
    r"""|(\b[a-z][a-z0-9+.-]{0,20}://[^\s/:@]{0,100}:)[^\s/@]{1,200}(?=@)"""
)


def delimited(name: str, text: str, **attributes: str) -> str:
    """The text, escaped already, between tags that it cannot close."""
    given = "".join(f' {key}="{escaped(value)}"' for key, value in attributes.items())
    return f"<{name}{given}>\n{text}\n</{name}>"


def escaped(text: str) -> str:
    """The text with nothing in it that could be a tag, and without control characters."""
    text = _CONTROL.sub("", text)
    for char, escape in _ESCAPES:
        text = text.replace(char, escape)
    return text


def unescaped(text: str) -> str:
    """The opposite, for replies that repeat what they read."""
    for char, escape in reversed(_ESCAPES):
        text = text.replace(escape, char)
    return text


def one_entry(text: str) -> str:
    """The text as one entry of a list of lines: its further lines are indented, so that none can pass for an entry."""
    return escaped(_LINE_ENDS.sub("\n    ", text.strip()))


def redacted(text: str) -> str:
    """The text with keys, tokens and passwords replaced by `[redacted]`, as far as their form tells."""
    text = _SECRET.sub("[redacted]", text)
    return _NAMED_SECRET.sub(lambda found: next(filter(None, found.groups())) + "[redacted]", text)
