import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from services.embedding.windows import estimated_tokens, utf8, windows


def cut(text, size=20, overlap=4):
    return windows(text, estimated_tokens(text), size=size, overlap=overlap)


def test_a_short_text_is_one_window():
    assert cut("  a few words ") == ["a few words"]


def test_blank_text_has_no_window():
    assert cut(" \n\t ") == []
    assert cut("") == []


def test_windows_end_at_sentences_and_paragraphs_where_there_are_any():
    text = "First sentence of some length here. Second sentence follows it there. " * 6
    assert all(piece.endswith(".") for piece in cut(text, overlap=0))
    paragraphs = (
        "one two three four five six seven. eight\n\nnine ten eleven twelve thirteen fourteen fifteen" * 3
    )
    assert cut(paragraphs, overlap=0)[0].endswith("eight")


def test_neighbouring_windows_share_whole_words():
    words = [f"word{i:03d}" for i in range(200)]
    pieces = cut(" ".join(words))
    for one, two in itertools.pairwise(pieces):
        assert set(one.split()) & set(two.split())
    assert all(word in words for piece in pieces for word in piece.split())


def test_text_without_blanks_is_cut_between_tokens_and_nothing_is_lost():
    text = "記憶は大切なものを残す" * 30
    pieces = cut(text, overlap=0)
    assert "".join(pieces) == text
    assert max(map(len, pieces)) <= 20


def test_lone_surrogates_are_replaced_one_for_one():
    assert utf8("a\ud800b") == "a?b"


TEXTS = st.text(alphabet=st.sampled_from("ab. \n。é漢"), max_size=400)


@settings(max_examples=200, deadline=None)
@given(text=TEXTS, size=st.integers(1, 30), overlap=st.integers(0, 40))
def test_every_window_is_a_piece_of_the_text_within_the_size(text, size, overlap):
    for piece in windows(text, estimated_tokens(text), size=size, overlap=overlap):
        assert piece
        assert piece in text
        # A cut inside a token of four characters touches one token on either side.
        assert len(estimated_tokens(piece)) <= size + 2


@settings(max_examples=200, deadline=None)
@given(text=TEXTS, size=st.integers(1, 30))
def test_without_overlap_the_windows_are_the_text(text, size):
    pieces = windows(text, estimated_tokens(text), size=size, overlap=0)
    assert "".join("".join(pieces).split()) == "".join(text.split())
