"""Bytes to text without silent damage: which encoding, and what to do when nobody can tell.

Detection is chardet's; what is added is doubt. Its confidence is low on short texts and it counts English lines
as evidence for Latin encodings, so only lines with non-ASCII bytes are asked about, candidates are compared by
how many impossible words they make, and a close race between different texts is a refusal, not a guess.
"""

from __future__ import annotations

import codecs
import re
import unicodedata
from dataclasses import dataclass
from itertools import islice

from services import errors

# Longer marks first: UTF-32-LE begins with the mark of UTF-16-LE.
_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)

_MAGIC = (
    (b"\x89PNG\r\n", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"GIF8", "a GIF image"),
    (b"\x7fELF", "an ELF program"),
    (b"MZ\x90\x00", "a Windows program"),
    (b"%PDF-", "a PDF: name it .pdf"),
    (b"PK\x03\x04", "a zip archive or office file"),
    (b"\x1f\x8b\x08", "a gzip archive"),
    (b"BZh", "a bzip2 archive"),
    (b"\xfd7zXZ\x00", "an xz archive"),
    (b"7z\xbc\xaf\x27\x1c", "a 7-Zip archive"),
    (b"Rar!\x1a\x07", "a RAR archive"),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "an old office file (OLE2)"),
    (b"SQLite format 3\x00", "a SQLite database"),
)

_PROBE_BYTES = 65_536
# More control characters than this share of a text means that it is none.
_MAX_CONTROL_SHARE = 0.25
# chardet answers this or more where a mark, a declaration or the byte structure decides.
_CERTAIN = 0.95
# A rival that makes a different text and scores more than this share of the winner leaves the matter open.
# Set on 105 real files and 200 short texts: higher lets wrong text through, lower refuses right ones.
_CLOSE_RACE = 0.97
# Bytes of a legacy encoding hardly ever form a UTF-8 sequence: this many that do for each that does not
# mean UTF-8 with some damage.
_WHOLE_PER_DAMAGED = 10
# Code pages of old Macs, DOS and single regions are rare in files of today: they need better evidence.
_COMMON = re.compile(
    r"(?i)(utf|windows|cp125|ascii|shift|sjis|cp932|euc|gb|big5|koi8-r|cp949|tis|cp874|johab"
    r"|iso-?8859-(?:[1256789]|1[135])$)"
)
# With fewer non-ASCII bytes than this, Western European is assumed where it makes sense, and said.
_SCANTY = 8
_MAINFRAME = ["cp1140", "cp424", "cp500", "cp875", "cp1026", "cp273"]

# In any Chinese or Japanese text of some length there is one of these; mojibake is all rare characters.
_IDEOGRAPH = re.compile("[\u4e00-\u9fff]")
_COMMON_CHINESE_OR_KANA = frozenset("的一是不了人在有我他這这中大来來上个個国國日本年のはをにがたでと")
_ENOUGH_IDEOGRAPHS = 100
# Encodings that hold the detected one and a few characters more.
_SUPERSETS = {
    "shift_jis": "cp932",
    "gb2312": "gb18030",
    "euc-kr": "cp949",
    "big5": "big5hkscs",
    "iso-8859-1": "cp1252",
}
# Signs that may stand inside a word.
_JOINERS = frozenset("\u2019\u2018\u00b7\u2010\u2011\u00ad\u2013\u2014\u2026\u200c\u200d/")
_NON_ASCII = re.compile(r"[^\x00-\x7f]")
_CONTROL_BYTES = bytes(c for c in range(32) if c not in b"\t\n\r\f\v\x1b") + b"\x7f"
_ANSI_SEQUENCE = re.compile(r"\x1b\[[0-9;?]{0,32}[A-Za-z]")
_FORBIDDEN = re.compile("[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff]")
_NEWLINE = re.compile("\r\n?|[\x0b\x0c\x85]")


@dataclass(frozen=True, slots=True)
class _Guess:
    text: str
    encoding: str
    western: bool
    impossible: int
    score: float


def decode(data: bytes, name: str) -> tuple[str, tuple[str, ...]]:
    """The text of `data` without its byte-order mark, fit to be stored, and what was changed on the way.

    Raises DocumentError: `binary` when it is no text, `uncertain_encoding` when several readings are as likely.
    """
    text, damage = _decoded(data, name)
    text, changes = clean(text)
    return text, damage + changes


def _decoded(data: bytes, name: str) -> tuple[str, tuple[str, ...]]:
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return _strictly(data[len(mark) :], encoding, name), ()
    _refuse_binary(data, name)
    if b"\x1b" not in data and b"\x00" not in data:
        # Bytes with ESC or NUL can be valid UTF-8 and still be ISO-2022 or UTF-16.
        try:
            return data.decode("utf-8"), ()
        except UnicodeDecodeError:
            text = data.decode("utf-8", "replace")
            damaged = text.count("\ufffd")
            whole = len(text) - len(text.encode("ascii", "ignore")) - damaged
            if whole >= _WHOLE_PER_DAMAGED * damaged:
                return text, (f"{damaged} damaged places of UTF-8 replaced by U+FFFD",)
    text, guess = _detected(data, name)
    probe = text[:_PROBE_BYTES]
    if len(_IDEOGRAPH.findall(probe)) >= _ENOUGH_IDEOGRAPHS and _COMMON_CHINESE_OR_KANA.isdisjoint(probe):
        raise _uncertain(name, "it reads as Chinese without a single common character")
    return text, guess


def clean(text: str) -> tuple[str, tuple[str, ...]]:
    r"""Text that may be stored, and what was changed: newlines are `\n`, control characters are visible.

    Form feed, vertical tab and next line become newlines; terminal colour codes go; every other control character and every
    lone surrogate becomes U+FFFD. Nothing is normalised otherwise.
    """
    text = _NEWLINE.sub("\n", text)
    warnings = []
    if "\x1b" in text:
        text, colours = _ANSI_SEQUENCE.subn("", text)
        if colours:
            warnings.append(f"{colours} terminal colour codes removed")
    text, replaced = _FORBIDDEN.subn("\ufffd", text)
    if replaced:
        warnings.append(f"{replaced} control characters replaced by U+FFFD")
    return ("" if text.isspace() else text), tuple(warnings)


def _strictly(data: bytes, encoding: str, name: str) -> str:
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        raise _uncertain(
            name, f"its byte-order mark says {encoding}, but byte {error.start} is not valid there"
        ) from None


def _refuse_binary(data: bytes, name: str) -> None:
    for magic, kind in _MAGIC:
        if data.startswith(magic):
            raise errors.DocumentError(f"{name} is not text: it looks like {kind}", reason="binary")


def _refuse_control_characters(data: bytes, name: str) -> None:
    probe = data[:_PROBE_BYTES]
    controls = len(probe) - len(probe.translate(None, _CONTROL_BYTES))
    if controls > _MAX_CONTROL_SHARE * len(probe):
        raise errors.DocumentError(
            f"{name} is not text: {controls} of its first {len(probe)} bytes are control characters",
            reason="binary",
        )


def _detected(data: bytes, name: str) -> tuple[str, tuple[str, ...]]:
    import chardet

    answer = chardet.detect(data)
    encoding = answer["encoding"]
    if encoding and answer["confidence"] >= _CERTAIN:
        return _strictly_or_uncertain(data, encoding, name), ()
    _refuse_control_characters(data, name)
    if b"\x00" in data or b"\x1b" in data:
        try:
            return data.decode("utf-8"), ()
        except UnicodeDecodeError:
            raise errors.DocumentError(
                f"{name} is not text: it holds control characters and no known encoding fits", reason="binary"
            ) from None
    lines = (line for line in re.split(rb"[\r\n]+", data) if not line.isascii())
    evidence = b"\n".join(lines)[:_PROBE_BYTES]
    guesses = _guesses(evidence)
    while guesses:
        guess, warnings = _most_likely(guesses, evidence, name)
        try:
            return data.decode(guess.encoding), warnings
        except UnicodeDecodeError:
            guesses.remove(guess)
    raise _uncertain(name, "no known encoding fits")


def _most_likely(guesses: list[_Guess], evidence: bytes, name: str) -> tuple[_Guess, tuple[str, ...]]:
    best, *rivals = guesses
    odd_bytes = len(evidence) - len(evidence.decode("ascii", "ignore"))
    if odd_bytes < _SCANTY and len(best.text) == len(evidence):
        western = next((g for g in guesses if g.western and g.impossible <= best.impossible), None)
        if western is None:
            raise _uncertain(name, f"it may be {best.encoding}, judged by {odd_bytes} bytes only")
        return western, (f"read as Windows-1252 on the evidence of {odd_bytes} bytes",)
    for rival in rivals:
        if rival.impossible <= best.impossible and rival.score > _CLOSE_RACE * best.score:
            raise _uncertain(
                name, f"it may be {best.encoding} or {rival.encoding}, which give different texts"
            )
    return best, ()


def _strictly_or_uncertain(data: bytes, encoding: str, name: str) -> str:
    for codec in (encoding, _SUPERSETS.get(encoding.lower())):
        if codec:
            try:
                return data.decode(codec)
            except (UnicodeDecodeError, LookupError):
                continue
    raise _uncertain(name, f"it looks like {encoding}, but not all of it is valid there")


def _guesses(evidence: bytes) -> list[_Guess]:
    """Different readings of the evidence, likeliest first."""
    import chardet

    found: dict[str, _Guess] = {}
    for candidate in chardet.detect_all(evidence, ignore_threshold=True, exclude_encodings=_MAINFRAME):
        encoding = candidate["encoding"]
        if not encoding:
            continue
        try:
            # Incremental, because the evidence may end in the middle of a character.
            text = codecs.getincrementaldecoder(encoding)().decode(evidence)
        except (UnicodeDecodeError, LookupError):
            continue
        score = candidate["confidence"] * (1.0 if _COMMON.match(encoding) else 0.5)
        known = found.get(text)
        western = encoding.lower() in ("windows-1252", "iso-8859-1") or (known is not None and known.western)
        impossible = _impossible_places(text) if known is None else known.impossible
        if known is not None and known.score >= score:
            encoding, score = known.encoding, known.score
        found[text] = _Guess(text, encoding, western, impossible, score)
    return sorted(found.values(), key=lambda guess: (guess.impossible, -guess.score))


def _impossible_places(text: str) -> int:
    """How many non-ASCII characters stand where no writer puts them; the first 2,000 are looked at."""
    places = islice(_NON_ASCII.finditer(text), 2_000)
    return sum(
        _is_impossible(text[m.start() - 1 : m.start()], m[0], text[m.end() : m.end() + 1]) for m in places
    )


def _is_impossible(before: str, char: str, after: str) -> bool:
    category = unicodedata.category(char)
    if category in ("Cc", "Cn", "Co", "Cs"):
        return True
    if category[0] in "LM":
        if category == "Lu" and before.islower():
            return True
        return any(side.isascii() and side.isalpha() for side in (before, after)) and not _is_latin(char)
    if "\u2500" <= char <= "\u259f":
        return before.isalnum() or after.isalnum()
    if category == "No" and before.isalpha():
        return True
    return before.isalpha() and after.isalpha() and char not in _JOINERS and ord(char) < 0x3000


def _is_latin(char: str) -> bool:
    # Ideographs, kana and hangul stand next to Latin words without a blank; alphabets do not.
    return (
        "\u2e80" <= char <= "\ud7ff"
        or char >= "\uff00"
        or unicodedata.name(char, "").startswith(("LATIN", "COMBINING", "FEMININE", "MASCULINE", "MICRO"))
    )


def _uncertain(name: str, why: str) -> errors.DocumentError:
    return errors.DocumentError(
        f"{name}: the text encoding is uncertain: {why}; save the file as UTF-8 and try again",
        reason="uncertain_encoding",
    )
