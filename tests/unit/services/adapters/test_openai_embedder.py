import time

import numpy as np
import pytest

from services import errors
from services.adapters.openai_embedder import OpenAiEmbedder
from services.ports import EmbedderIdentity
from tests.fake_openai import FakeOpenAi, Reply, hashed

KEY = "sk-secret-of-the-test"


@pytest.fixture
def server():
    with FakeOpenAi() as running:
        yield running


@pytest.fixture
def connect(server):
    made = []

    def make(**options):
        options.setdefault("base_url", server.base_url)
        made.append(OpenAiEmbedder(options.pop("base_url"), KEY, "m:latest", **options))
        return made[-1]

    yield make
    for embedder in made:
        embedder.close()


def test_rows_come_back_in_the_order_of_the_texts_and_of_unit_length(server, connect):
    texts = [f"text {i}" for i in range(10)]
    rows = connect(batch_size=4).embed(texts, kind="document")
    expected = np.array([hashed(text) for text in texts])
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(rows, expected, atol=1e-6)
    assert rows.dtype == np.float32
    assert [len(each.body["input"]) for each in server.requests] == [4, 4, 2]


def test_a_request_names_model_format_and_key(server, connect):
    connect(dimensions=8, query_prefix="query: ").embed(["what"], kind="query")
    request = server.requests[0]
    assert request.path == "/v1/embeddings"
    assert request.headers["Authorization"] == f"Bearer {KEY}"
    assert request.body == {
        "model": "m:latest",
        "input": ["query: what"],
        "encoding_format": "float",
        "dimensions": 8,
    }


def test_the_identity_is_probed_once_and_only_when_needed(server, connect):
    embedder = connect()
    assert server.requests == []
    assert embedder.identity == EmbedderIdentity("openai", "m:latest", 8)
    assert embedder.identity.label == "openai/m/8"
    assert len(server.requests) == 1


def test_the_first_embedding_serves_as_the_probe(server, connect):
    embedder = connect()
    embedder.embed(["x"], kind="document")
    assert embedder.identity.dimension == 8
    assert len(server.requests) == 1


def test_a_server_that_ignores_dimensions_is_found_out(server, connect):
    with pytest.raises(errors.DimensionMismatch, match=r"8 numbers instead of 4.*embedding\.dimensions"):
        connect(dimensions=4).embed(["x"], kind="document")
    with pytest.raises(errors.DimensionMismatch):
        _ = connect(dimensions=4).identity


def test_a_vector_that_changes_its_length_is_refused(server, connect):
    embedder = connect()
    embedder.embed(["x"], kind="document")
    server.embed = lambda text: hashed(text, 9)
    with pytest.raises(errors.DimensionMismatch, match="9 numbers instead of 8"):
        embedder.embed(["y"], kind="document")


def test_blank_texts_are_never_sent(server, connect):
    with pytest.raises(errors.InputError, match="blank"):
        connect(document_prefix="passage: ").embed(["x", " \n"], kind="document")
    assert server.requests == []


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503])
def test_what_may_pass_is_unavailable_with_the_wish_of_the_server(server, connect, status):
    server.replies.append(Reply(status, {"error": {"message": "later"}}, {"Retry-After": "7"}))
    with pytest.raises(errors.ModelUnavailable, match=rf"status {status}: later") as caught:
        connect().embed(["x"], kind="document")
    assert caught.value.retry_after_seconds == 7
    assert len(server.requests) == 1


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422, 501])
def test_what_cannot_pass_is_rejected_with_the_words_of_the_server(server, connect, status):
    server.replies.append(Reply(status, {"error": {"message": f"bad key {KEY} " + "x" * 1_000}}))
    with pytest.raises(errors.ModelRejected, match=r"bad key \*\*\* xxx") as caught:
        connect().embed(["x"], kind="document")
    assert KEY not in str(caught.value)
    assert len(str(caught.value)) < 500


def test_no_server_is_unavailable_and_soon_known(connect):
    started = time.monotonic()
    with pytest.raises(errors.ModelUnavailable, match=r"127\.0\.0\.1:9"):
        connect(base_url="http://127.0.0.1:9/v1").embed(["x"], kind="document")
    assert time.monotonic() - started < 3


def test_a_slow_server_is_given_up(server, connect):
    server.replies.append(Reply(delay=5))
    started = time.monotonic()
    with pytest.raises(errors.ModelUnavailable):
        connect(timeout_seconds=0.1).embed(["x"], kind="document")
    assert time.monotonic() - started < 4


@pytest.mark.parametrize(
    "body",
    [
        "<html>login</html>",
        {},
        {"data": []},
        {"data": None},
        {"data": [{"index": 0, "embedding": "AAAA"}]},
        {"data": [{"index": 1, "embedding": [1.0]}]},
        {"data": [{"index": 0, "embedding": [1.0]}, {"index": 1, "embedding": [1.0]}]},
        {"data": [{"index": 0, "embedding": [0.0, 0.0]}]},
        '{"data": [{"index": 0, "embedding": [NaN, 1.0]}]}',
        '{"data": [{"index": 0, "embedding": [1e999, 1.0]}]}',
        [1, 2],
    ],
)
def test_a_reply_that_is_no_set_of_vectors_is_rejected(server, connect, body):
    server.replies.append(Reply(200, body))
    with pytest.raises(errors.ModelRejected):
        connect().embed(["x"], kind="document")


def test_a_reply_beyond_the_cap_is_rejected(server, connect, monkeypatch):
    monkeypatch.setattr("services.adapters.openai_embedder._MAX_RESPONSE_BYTES", 1_000)
    server.replies.append(Reply(200, b"x" * 100_000))
    with pytest.raises(errors.ModelRejected, match="batch_size"):
        connect().embed(["x"], kind="document")


def test_a_lone_surrogate_does_not_break_the_request(server, connect):
    connect().embed(["a\ud800b"], kind="document")
    assert server.requests[0].body["input"] == ["a?b"]


def test_windows_leave_room_for_the_prefix_and_cover_the_text(connect):
    text = "Some sentence that goes on for a while. " * 100
    pieces = connect(max_tokens=64, document_prefix="passage: ").windows(text)
    assert all(len(piece) <= 64 * 4 - len("passage: ") for piece in pieces)
    assert all(piece.endswith(".") for piece in pieces)
    assert connect().windows("  ") == []
    assert len(connect().windows("漢" * 1_000)) == 3


def test_no_texts_give_no_rows(connect):
    assert connect().embed([], kind="document").shape == (0, 8)
