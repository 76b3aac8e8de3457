import pytest

from services.documents.models import Chunk, Document, DocumentMetadata
from services.documents.store import DocumentVersion
from services.embedding.store import CollectionState
from services.ports import EmbedderIdentity


@pytest.fixture
def unit(container):
    with container.database.write() as opened:
        yield opened


def version(*texts, source="a.txt", namespace="default", collection="docs", title="", headings=()):
    chunks = [
        Chunk(index, text, index * 10, index * 10 + len(text), 1, heading=tuple(headings))
        for index, text in enumerate(texts)
    ]
    return DocumentVersion(
        namespace=namespace,
        collection=collection,
        document=Document("", DocumentMetadata(source, "text/plain", title=title)),
        content_hash="hash of " + " ".join(texts),
        size_bytes=7,
        splitter="v1",
        chunks=chunks,
    )


def texts(unit, document_id, physical="nowhere"):
    return [chunk.text for chunk in unit.documents.unembedded(document_id, physical, limit=100)]


def test_storing_a_version_again_keeps_equal_chunks_and_replaces_the_rest(unit):
    first = unit.documents.store(version("a", "b", "c"))
    before = {it.text: it.id for it in unit.documents.unembedded(first.document_id, "nowhere", limit=9)}
    second = unit.documents.store(version("new", "b", "a"))
    after = {it.text: it.id for it in unit.documents.unembedded(first.document_id, "nowhere", limit=9)}
    assert (first.added, first.kept, first.removed) == (3, 0, 0)
    assert (second.document_id, second.added, second.kept, second.removed) == (first.document_id, 1, 2, 1)
    assert list(after) == ["new", "b", "a"], "in their new order"
    assert (after["a"], after["b"]) == (before["a"], before["b"])


def test_repeated_chunks_are_told_apart_by_their_number(unit):
    changes = unit.documents.store(version("same", "same", "same"))
    assert changes.added == 3
    changes = unit.documents.store(version("same", "same"))
    assert (changes.kept, changes.removed) == (2, 1)


def test_a_chunk_under_another_heading_or_title_is_another_chunk(unit):
    unit.documents.store(version("a", headings=["One"]))
    assert unit.documents.store(version("a", headings=["Two"])).added == 1
    assert unit.documents.store(version("a", headings=["Two"], title="T")).added == 1
    assert unit.documents.store(version("a", headings=["Two"], title="T")).kept == 1


def test_the_heading_path_is_embedded_and_searched_with_the_text(unit):
    changes = unit.documents.store(version("body", title="Manual", headings=["Pumps", "Valves"]))
    assert texts(unit, changes.document_id) == ["Manual > Pumps > Valves\nbody"]
    assert unit.documents.search("default", "docs", "valves", limit=5)


def test_documents_are_found_in_their_namespace_and_collection_only(unit):
    unit.documents.store(version("a"))
    unit.documents.store(version("a", namespace="other"))
    unit.documents.store(version("a", collection="second"))
    assert unit.documents.find("default", "docs", "a.txt").collection == "docs"
    assert unit.documents.find("default", "docs", "b.txt") is None
    assert unit.documents.find("nobody", "docs", "a.txt") is None
    assert [it.collection for it in unit.documents.page("default", None)] == ["docs", "second"]
    assert [it.collection for it in unit.documents.page("default", "second")] == ["second"]
    assert unit.documents.page("nobody", None) == []
    assert unit.documents.totals("other") == [("docs", 1, 1)]
    assert unit.documents.totals("nobody") == []
    assert unit.documents.namespaces() == ["default", "other"]
    (chunk_id,) = unit.documents.search("other", "docs", "a", limit=5)
    assert unit.documents.passages("default", [chunk_id]) == {}
    assert unit.documents.passages("other", [chunk_id])[chunk_id].text == "a"


def test_pages_follow_one_another_without_gap_or_repeat(unit):
    for number in range(7):
        unit.documents.store(version("x", source=f"{number}.txt"))
    seen, after = [], ""
    while page := unit.documents.page("default", "docs", after=after, limit=3):
        seen += [it.source for it in page]
        after = seen[-1]
    assert seen == [f"{number}.txt" for number in range(7)]


@pytest.mark.parametrize("root", ["/data/docs", "/data/docs/"])
def test_only_what_lies_below_a_folder_counts_as_below_it(unit, root):
    inside = ["/data/docs/a.txt", "/data/docs/z/b.txt", "/data/docs/\U0001f600.txt", "/data/docs/.x"]
    outside = ["/data/docs", "/data/docs-old/c.txt", "/data/docs.txt", "/data/docs0.txt", "/data/doc/d.txt"]
    for source in inside + outside:
        unit.documents.store(version("x", source=source))
    assert set(unit.documents.sources_below("default", "docs", root)) == set(inside)
    assert len(unit.documents.sources_below("default", "docs", "/")) == len(inside + outside)
    assert unit.documents.sources_below("other", "docs", root) == {}


def test_wildcards_in_a_folder_s_name_are_letters(unit):
    for source in ("/a_b/x.txt", "/aXb/x.txt", "/a%/x.txt", "/abc/x.txt"):
        unit.documents.store(version("x", source=source))
    assert set(unit.documents.sources_below("default", "docs", "/a_b")) == {"/a_b/x.txt"}
    assert set(unit.documents.sources_below("default", "docs", "/a%")) == {"/a%/x.txt"}


def test_removal_cascades_and_leaves_a_tombstone_for_every_vector(unit):
    changes = unit.documents.store(version("a", "b"))
    first, second = unit.documents.unembedded(changes.document_id, "space", limit=9)
    unit.documents.mark_embedded("space", [(first.id, 3), (second.id, 1)])
    unit.documents.mark_embedded("second space", [(first.id, 2)])
    assert unit.documents.remove([changes.document_id]) == 2
    assert unit.documents.get(changes.document_id) is None
    assert unit.documents.existing([first.id, second.id]) == set()
    assert unit.documents.embedded_windows("default", "space", after=0, limit=9) == []
    graves = unit.collections.tombstones(limit=99)
    assert sorted(it.collection for it in graves) == ["second space"] * 2 + ["space"] * 4
    assert len({it.point_id for it in graves}) == 6


def test_many_ids_at_once_are_no_problem(unit):
    ids = list(range(1, 40_000))
    assert unit.documents.existing(ids) == set()
    assert unit.documents.passages("default", ids) == {}
    assert unit.documents.remove(ids) == 0


def test_marks_are_set_once_and_name_chunks_that_are_gone(unit):
    changes = unit.documents.store(version("a"))
    (chunk,) = unit.documents.unembedded(changes.document_id, "space", limit=9)
    assert unit.documents.mark_embedded("space", [(chunk.id, 1), (4711, 2)]) == {4711}
    assert unit.documents.mark_embedded("space", [(chunk.id, 1)]) == set()
    assert unit.documents.unembedded(changes.document_id, "space", limit=9) == []
    assert unit.documents.incomplete("docs", "space", limit=9) == []
    unit.documents.unmark_embedded("space", [chunk.id])
    assert unit.documents.incomplete("docs", "space", limit=9) == [("default", changes.document_id)]


def test_chunks_without_vectors_are_those_that_the_active_collection_lacks(unit):
    changes = unit.documents.store(version("a", "b"))
    assert unit.documents.chunks_without_vectors("default", "docs") == 0, "there is no collection yet"
    space = unit.collections.create("docs", EmbedderIdentity("fake", "hash", 8), CollectionState.ACTIVE)
    assert unit.documents.chunks_without_vectors("default", "docs") == 2
    chunk = unit.documents.unembedded(changes.document_id, space.physical, limit=1)[0]
    unit.documents.mark_embedded(space.physical, [(chunk.id, 1)])
    assert unit.documents.chunks_without_vectors("default", "docs") == 1
    assert unit.documents.chunks_without_vectors("other", "docs") == 0


def test_moving_a_chunk_leaves_the_index_in_step(container):
    from services.adapters import migrations

    with container.database.write() as unit:
        unit.documents.store(version("alpha", "beta", "腾讯云"))
        unit.documents.store(version("beta", "腾讯云", "gamma"))
        assert len(unit.documents.search("default", "docs", "beta", limit=5)) == 1
        assert unit.documents.search("default", "docs", "alpha", limit=5) == {}
    assert migrations.damage(container.sqlite) == []
