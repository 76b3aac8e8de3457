import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from services.documents.models import DocumentMetadata
from services.retrieval.query import (
    MAX_QUERY_LENGTH,
    MAX_TERMS,
    STOP_WORDS,
    match_expression,
    search_terms,
    segment,
)


@pytest.fixture
def container(build):
    return build(embedding__provider="none")


def store(container, *texts, collection="notes", namespace="default"):
    """Each text becomes a document; a search tells them apart by their source, `0`, `1` and so on."""
    for number, text in enumerate(texts):
        metadata = DocumentMetadata(str(number), "text/plain")
        container.ingestion.add_text(text, metadata, collection=collection, namespace=namespace)


def found(container, query, **where):
    """The sources of all hits, best first."""
    answer = container.documents.search(query, **{"collection": "notes", "mode": "keyword", **where})
    return [hit.passage.source for hit in answer.hits]


# ---- any text is a query ---------------------------------------------------------------------------------------


def test_a_contraction_is_found_without_an_error(container):
    store(container, "Please don't use agents for this.", "Bread needs yeast.")
    assert found(container, "don't use agents") == ["0"]
    assert found(container, "don't") == ["0"]
    assert found(container, "don’t use") == ["0"]


@pytest.mark.parametrize(
    "query",
    ["park.", "mins.", "?", '"', "*", "(", "AND", "NEAR(", ":", "^", "-", "'", "scope : x", "a NOT b", "{"],
)
def test_the_syntax_of_the_index_means_nothing_in_a_query(container, query):
    store(container, "The park closes in ten mins.", "A word and another.")
    found(container, query)
    assert found(container, f"{query} park") == ["0"]
    assert found(container, f"park {query}") == ["0"]


@pytest.mark.parametrize("query", ["park.", "mins.", "(park)", "*park*", "park:", '"ten" mins', "^mins"])
def test_marks_around_a_word_do_not_hide_it(container, query):
    store(container, "The park closes in ten mins.", "A word and another.")
    assert found(container, query) == ["0"]


@pytest.mark.parametrize("query", ["AND", "OR", "NOT", "NEAR"])
def test_an_operator_is_a_word_like_any_other(container, query):
    store(container, f"the manual of {query}", "something else")
    assert found(container, query) == ["0"]


_NASTY = st.sampled_from(
    ["\x00", "\ud800", "\udfff", '"', "'", "*", "(", ")", "{", "}", "^", ":", "-", "+", "AND", "OR", "NOT", "NEAR(",
     "NEAR(a b, 2)", "scope", "text :", " ", "\n", "\u200b", "\u0301", "漢", "ไ", "한", "\U0001f600", "\ufeff", "--", ";"]
)  # fmt: skip


@given(
    st.one_of(
        st.text(max_size=40), st.lists(_NASTY, max_size=12).map("".join), st.lists(_NASTY).map(" ".join)
    )
)
@settings(
    max_examples=2_000,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@pytest.mark.slow
def test_no_string_at_all_is_an_error(container, query):
    expression = match_expression(query, scope="1", columns="context text")
    if expression is None:
        return
    with container.sqlite.read() as connection:
        connection.exec_driver_sql(
            "SELECT rowid FROM chunks_fts WHERE chunks_fts MATCH ?", (expression,)
        ).fetchall()


def test_a_query_without_a_word_finds_nothing(container):
    store(container, "something")
    for query in ("", "   ", "?!", "\x00", "\ud800", "\U0001f600"):
        assert found(container, query) == []


# ---- scripts ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "queries"),
    [
        ("用户服务器部署在腾讯云国内节点", ["腾讯云", "服务器", "腾", "点", "部署在腾讯云"]),
        ("今日は成語しりとりをした", ["しりとり", "成語", "た"]),
        ("오늘 끝말잇기 게임을 했다", ["끝말잇기", "게임", "끝", "했다"]),
        ("最後のデータベースを移行する", ["データベース", "移行", "ﾃﾞｰﾀﾍﾞｰｽ"]),
        ("ฉันชอบกินข้าวผัดที่กรุงเทพ", ["ข้าวผัด", "กรุงเทพ", "กิน"]),
        ("मुझे हिन्दी में किताबें पढ़ना पसंद है", ["हिन्दी", "किताबें", "पढ़ना", "किताब", "ताबें", "पढ़", "न्दी"]),
        ("أحب قراءة الكتب في المكتبة", ["قراءة", "المكتبة", "مكتبة", "كتب", "تب", "مكتب"]),
        ("ذهبت إلى المدرسة والكتاب معي", ["كتاب", "مدرسة", "الكتاب"]),
        ("הלכתי לבית הספר עם הילדים", ["ספר", "בית", "ילדים"]),
        ("அவர் நூலகத்தில் படிக்கிறார்", ["நூலக", "படிக்கிறார்"]),
        (
            "Ein Größenvergleich an der Düsseldorfer Universität",
            ["größenvergleich", "Dusseldorfer", "universitat"],
        ),
        ("Она читает книги в библиотеке", ["книги", "БИБЛИОТЕКЕ"]),
        ("Η Αθήνα είναι πόλη", ["ΑΘΉΝΑ", "πόλη"]),
        ("the runners were running", ["run", "runner"]),
        (
            "calls memory::recall() in src/store_rows.py at v2.10.3",
            ["memory::recall", "store_rows", "v2.10.3"],
        ),
    ],
)
def test_every_script_is_found_by_word_part_or_character(container, text, queries):
    store(container, text, "completely unrelated words 別紙 무관 ไม่ใช่ अलग مختلف")
    for query in queries:
        assert "0" in found(container, query)[:1], query


def test_a_name_that_begins_with_such_a_word_is_found_as_a_whole(container):
    store(container, "the محمد user stands beside number 1, user محمد 1", "file محمد_user_1 is lost")
    assert found(container, "محمد_user_1")[0] == "1"


def test_a_long_question_in_such_a_script_is_searched_for_to_its_end():
    words = [f"{one}{other}كتاب" for one in "ابتثجحخ" for other in "دذرزسشص"][:45]
    assert [f'"{word}"' for word in words] == search_terms(" ".join(words))[:45]


@pytest.mark.parametrize(
    ("query", "absent"), [("東京大学", "奈良公園"), ("데이터베이스", "오늘의 날씨"), ("ฐานข้อมูล", "ไปตลาด")]
)
def test_an_unspaced_word_does_not_find_what_shares_nothing_with_it(container, query, absent):
    store(container, absent, query)
    assert found(container, query) == ["1"]


def test_the_text_with_more_of_the_words_comes_first(container):
    store(container, "the cat sat", "the cat chased the dog", "a dog barked", "trees")
    assert found(container, "cat dog")[0] == "1"
    assert set(found(container, "cat dog")) == {"0", "1", "2"}


# ---- what is searched ------------------------------------------------------------------------------------------


def test_namespaces_and_collections_are_kept_apart(container):
    store(container, "the secret of alice", namespace="alice")
    store(container, "the secret of bob", namespace="bob")
    store(container, "the secret of the archive", namespace="alice", collection="archive")

    def texts(**where):
        answer = container.documents.search("secret", mode="keyword", **where)
        return [hit.passage.text for hit in answer.hits]

    assert texts(collection="notes", namespace="alice") == ["the secret of alice"]
    assert texts(collection="notes", namespace="bob") == ["the secret of bob"]
    assert texts(collection="archive", namespace="alice") == ["the secret of the archive"]
    assert texts(collection="archive", namespace="bob") == []
    assert texts(collection="notes") == []


def test_the_scope_itself_cannot_be_searched_for(container):
    store(container, "alpha beta")
    with container.sqlite.read() as connection:
        scope = connection.exec_driver_sql("SELECT scope FROM chunks").scalar()
    assert found(container, scope) == []


# ---- terms -----------------------------------------------------------------------------------------------------


def test_stop_words_are_left_out_unless_there_is_nothing_else():
    assert search_terms("What is the dog doing in the park?") == ['"dog"', '"park"']
    assert search_terms("to be or not to be") == ['"to"', '"be"', '"or"', '"not"']
    assert "not" in STOP_WORDS


def test_terms_come_once_in_order_and_are_bounded():
    assert search_terms("dog cat dog Dog") == ['"dog"', '"cat"', '"Dog"']
    assert len(search_terms(" ".join(f"w{number}" for number in range(1_000)))) == MAX_TERMS
    assert search_terms(" " * MAX_QUERY_LENGTH + "late") == []


def test_an_identifier_is_a_phrase_and_its_words():
    assert search_terms("memory::recall") == ['"memory recall"', '"memory"', '"recall"']


@pytest.mark.parametrize(
    ("text", "queries"),
    [
        ("the \ufb01nance report is ready", ["\ufb01nance", "finance"]),
        ("the room is 20 m² large", ["m²", "m2"]),
        ("the ＡＢＣ meeting", ["ＡＢＣ", "ABC", "abc"]),
        ("½ cup of flour", ["½"]),
        ("chapter Ⅷ", ["Ⅷ", "VIII"]),
        ("Zeph™ was launched", ["Zeph™", "zephtm"]),
        ("ticket ＰＲ-１１８ is closed", ["PR-118", "ＰＲ-１１８"]),
    ],
)
def test_text_is_found_in_whatever_form_its_characters_were_written(container, text, queries):
    store(container, text, "completely unrelated words")
    for query in queries:
        assert found(container, query)[:1] == ["0"], query


@pytest.mark.parametrize(("query", "text"), [("كتاب", "كتب تاب"), ("मेमो", "मेरा मोर")])
def test_a_part_of_a_word_is_not_found_in_its_pieces(container, query, text):
    store(container, text)
    assert found(container, query) == []


def test_only_text_that_must_be_cut_or_spelt_otherwise_is_segmented():
    assert segment("plain words, Größe, x\u00a0y \u2026 z") is None
    assert "腾讯" in segment("部署在腾讯云").split()
    assert match_expression("?", scope="1", columns="text") is None


def test_a_very_long_word_is_found_whole(container):
    digest = "9f" * 64
    store(container, f"the digest is {digest}", "the digest is " + "9f" * 32)
    assert found(container, digest) == ["0"]
