"""Bytes to text: right, or refused."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services import errors
from services.adapters.parsing.decoding import clean, decode

SAMPLES = {
    "german": "Die Bäckerei öffnet früh; süße Brötchen gibt es für alle Gäste.",
    "polish": "Żółw idzie powoli, lecz mądrze; źle się śpi na gęsiej łące.",
    "russian": "Ёжик пошёл в лес за грибами и встретил там лисицу.",
    "greek": "Ο ήλιος ανατέλλει πάνω από τη θάλασσα κάθε πρωί.",
    "japanese": "明日の朝、駅の前で友達と会う約束をしました。",
    "chinese": "明天早上我们在车站前面见面，然后一起去公园。",
    "korean": "내일 아침에 역 앞에서 친구를 만나기로 했습니다.",
}


def reason_of(data: bytes) -> str:
    with pytest.raises(errors.DocumentError, match=r"x\.txt") as caught:
        decode(data, "x.txt")
    return caught.value.reason


@pytest.mark.parametrize(
    ("language", "encoding"),
    [
        ("german", "cp1252"),
        ("german", "iso-8859-1"),
        ("polish", "cp1250"),
        ("polish", "iso-8859-2"),
        ("russian", "cp1251"),
        ("russian", "koi8-r"),
        ("greek", "cp1253"),
        ("japanese", "cp932"),
        ("japanese", "euc-jp"),
        ("japanese", "iso2022_jp"),
        ("chinese", "gb18030"),
        ("korean", "euc-kr"),
        *[(language, "utf-8") for language in SAMPLES],
    ],
)
@pytest.mark.parametrize("before", ["", "Plain English words come first, whole lines of them.\n" * 20])
def test_a_legacy_encoding_is_recognised(language: str, encoding: str, before: str) -> None:
    text = before + SAMPLES[language] + "\n"
    assert decode(text.encode(encoding), "x.txt") == (text, ())


@pytest.mark.parametrize(
    "encoding", ["utf-8-sig", "utf-16", "utf-32", "utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"]
)
def test_read_03_every_unicode_encoding_gives_the_text_of_its_utf8_twin(encoding: str) -> None:
    text = "Several plain lines of words, as a twin file would hold them.\n" * 10
    assert decode(text.encode(encoding), "x.txt") == (text, ())


@pytest.mark.parametrize(
    "text",
    [
        "[2026-08-19] München report\n",
        '{ "city": "München" }\n',
        "[main]\nname = Müller\ncity=Köln\n",
        "café",
        "© 2020",
    ],
)
def test_read_01_few_umlauts_are_read_right_and_the_guess_is_told(text: str) -> None:
    content, warnings = decode(text.encode("cp1252"), "x.txt")
    assert content == text
    assert "Windows-1252" in warnings[0]


def test_chinese_without_a_single_common_character_is_refused() -> None:
    rare = "".join(chr(code) for code in range(0x8800, 0x8900))
    with pytest.raises(errors.DocumentError, match="without a single common character"):
        decode(rare.encode("gb18030"), "x.txt")


@pytest.mark.parametrize("encoding", ["cp1251", "koi8-r"])
def test_a_word_that_may_be_anything_is_refused_with_the_way_out(encoding: str) -> None:
    with pytest.raises(errors.DocumentError, match="save the file as UTF-8") as caught:
        decode("да".encode(encoding), "x.txt")
    assert caught.value.reason == "uncertain_encoding"


def test_little_damage_in_utf8_is_shown() -> None:
    content, warnings = decode("Grüße für alle\n".encode() * 20 + b"\xff\n", "x.txt")
    assert content.endswith("alle\n\ufffd\n")
    assert warnings == ("1 damaged places of UTF-8 replaced by U+FFFD",)


@pytest.mark.parametrize(
    "data",
    [
        b"\x89PNG\r\n\x1a\n" + bytes(range(256)),
        b"\x7fELF" + bytes(200),
        b"PK\x03\x04 rest",
        b"%PDF-1.7 rest",
        b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1 old office",
        bytes(range(256)) * 4,
        b"\x01\x02\x03\x00" * 50,
    ],
)
def test_binary_contents_are_refused(data: bytes) -> None:
    assert reason_of(data) == "binary"


@pytest.mark.parametrize("data", [b"\xff\xfea", b"\xfe\xff\xd8\x00\x00a", b"\xef\xbb\xbf\xff"])
def test_a_mark_that_lies_is_refused(data: bytes) -> None:
    assert reason_of(data) == "uncertain_encoding"


def test_nul_in_text_becomes_visible() -> None:
    content, warnings = decode(b"before\x00after\n" * 20, "x.txt")
    assert content == "before\ufffdafter\n" * 20
    assert warnings == ("20 control characters replaced by U+FFFD",)


def test_terminal_colours_go() -> None:
    assert decode(b"\x1b[1;31mred\x1b[0m text\n", "x.txt") == (
        "red text\n",
        ("2 terminal colour codes removed",),
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a\r\nb\rc\n", "a\nb\nc\n"),
        ("a\x0cb\x0bc", "a\nb\nc"),
        ("a\x08\x7f\ud800b", "a\ufffd\ufffd\ufffdb"),
        (" \r\n\t\xa0", ""),
        ("e\u0301 \u2028", "e\u0301 \u2028"),
        ("next\x85line, high \x80\x9f controls", "next\nline, high \ufffd\ufffd controls"),
        ("", ""),
    ],
)
def test_stored_text_has_one_newline_and_no_control_characters(text: str, expected: str) -> None:
    assert clean(text)[0] == expected


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=300))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    # Any other error fails the test.
    with contextlib.suppress(errors.DocumentError):
        content, _ = decode(data, "x.txt")
        content.encode("utf-8")
        assert not any(ord(char) < 32 and char not in "\t\n" for char in content)


@settings(max_examples=50)
@given(st.text(st.characters(exclude_categories=("Cs", "Cc"), exclude_characters="\ufeff")))
def test_utf8_is_always_read_as_it_is(text: str) -> None:
    if not text.isspace() and not text.startswith(("%PDF-", "GIF8", "BZh")):
        assert decode(text.encode(), "x.txt") == (text, ())
