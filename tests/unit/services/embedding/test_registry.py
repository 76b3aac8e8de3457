from dataclasses import dataclass, field, replace

import pytest

from services import errors
from services.adapters.in_memory import HashEmbedder, InMemoryVectorStore
from services.embedding.registry import EmbeddingRegistry, SyncCounts
from services.ids import content_hash, point_id
from services.ports import EmbedderIdentity, Point


@dataclass(frozen=True)
class Skill:
    key: str
    text: str
    extra: dict = field(default_factory=dict)

    def content_hash(self):
        return content_hash(self.text)

    def embed_text(self):
        return self.text

    def payload(self):
        return {"text": self.text, **self.extra}


class Picky(HashEmbedder):
    """Refuses texts with one word in them, and says under which name it runs."""

    def __init__(self, model="hash", refused="poison", dimension=64):
        super().__init__(dimension)
        self._identity = EmbedderIdentity("fake", model, dimension)
        self.refused = refused
        self.embedded = []
        self.down = False

    def embed(self, texts, *, kind):
        if self.down:
            raise errors.ModelUnavailable("down")
        if any(self.refused in text for text in texts):
            raise errors.ModelRejected("too bad")
        self.embedded += texts
        return super().embed(texts, kind=kind)


SKILLS = [Skill("bread", "bake a loaf of bread"), Skill("rust", "explain the borrow checker of rust")]


@pytest.fixture
def store():
    return InMemoryVectorStore()


def registry(store, embedder=None, namespace="default"):
    return EmbeddingRegistry(store, embedder or Picky(), "skills", namespace)


def test_new_items_are_added_and_found(store):
    skills = registry(store)
    assert skills.sync(SKILLS) == SyncCounts(added=2)
    hit = skills.search("who explains the borrow checker", limit=1)[0]
    assert hit.id == point_id("default", "skills", "rust")
    assert hit.payload == {
        "text": "explain the borrow checker of rust",
        "key": "rust",
        "content_hash": SKILLS[1].content_hash(),
        "embedding_model": "fake/hash/64",
    }


def test_what_did_not_change_is_not_embedded_again(store):
    registry(store).sync(SKILLS)
    again = Picky()
    assert registry(store, again).sync(SKILLS) == SyncCounts(unchanged=2)
    assert again.embedded == []


def test_changed_items_are_updated_and_missing_ones_removed(store):
    registry(store).sync(SKILLS)
    changed = replace(SKILLS[0], text="bake a cake")
    assert registry(store).sync([changed, Skill("new", "fresh")]) == SyncCounts(added=1, updated=1, removed=1)
    assert store.count("skills") == 2
    assert registry(store).search("cake", limit=1)[0].payload["key"] == "bread"


def test_nothing_to_hold_empties_the_collection(store):
    registry(store).sync(SKILLS)
    assert registry(store).sync([]) == SyncCounts(removed=2)


def test_a_failed_item_is_counted_and_the_others_are_stored(store):
    items = [*SKILLS, Skill("bad", "poison"), Skill("blank", " "), Skill("odd", "odd", {"list": [1]})]
    assert registry(store).sync(items) == SyncCounts(added=2, failed=3)
    assert store.count("skills") == 2


def test_a_failed_update_keeps_the_old_vector_and_is_tried_again_next_time(store):
    registry(store).sync(SKILLS)
    poisoned = [replace(SKILLS[0], text="poison"), SKILLS[1]]
    assert registry(store).sync(poisoned) == SyncCounts(unchanged=1, failed=1)
    assert store.count("skills") == 2
    assert registry(store, Picky(refused="nothing")).sync(poisoned) == SyncCounts(updated=1, unchanged=1)


def test_a_model_that_is_down_is_an_error_and_removes_nothing(store):
    registry(store).sync(SKILLS)
    down = Picky()
    down.down = True
    with pytest.raises(errors.ModelUnavailable):
        registry(store, down).sync([Skill("new", "fresh")])
    assert store.count("skills") == 2


def test_latest_is_the_same_model_and_another_name_is_not(store):
    registry(store, Picky("m")).sync(SKILLS)
    assert registry(store, Picky("m:latest")).sync(SKILLS) == SyncCounts(unchanged=2)
    assert registry(store, Picky("n")).sync(SKILLS) == SyncCounts(updated=2)


def test_a_point_without_model_or_hash_is_stale(store):
    registry(store).sync(SKILLS)
    key = point_id("default", "skills", "rust")
    vector = HashEmbedder().embed(["x"], kind="document")[0]
    store.upsert(
        "skills", "default", [Point(key, vector, {"key": "rust", "content_hash": SKILLS[1].content_hash()})]
    )
    assert registry(store).sync(SKILLS) == SyncCounts(updated=1, unchanged=1)


def test_another_dimension_is_refused_with_both_named_and_nothing_is_lost(store):
    registry(store).sync(SKILLS)
    other = registry(store, Picky("big", dimension=32))
    with pytest.raises(
        errors.DimensionMismatch, match=r"fake/big/32.*'skills'.* 64.* 32.*collection of its own"
    ):
        other.sync(SKILLS)
    with pytest.raises(errors.DimensionMismatch):
        other.search("bread")
    assert store.count("skills") == 2


def test_namespaces_keep_their_own_items(store):
    registry(store, namespace="a").sync(SKILLS)
    assert registry(store, namespace="b").sync(SKILLS[:1]) == SyncCounts(added=1)
    assert registry(store, namespace="b").sync([]) == SyncCounts(removed=1)
    assert store.count("skills", "a") == 2


def test_of_equal_keys_the_last_counts(store):
    assert registry(store).sync([Skill("k", "old words"), Skill("k", "new words")]) == SyncCounts(added=1)
    assert registry(store).search("words")[0].payload["text"] == "new words"


def test_many_items_go_in_batches(store):
    many = [Skill(f"k{i}", f"word{i} " * 3) for i in range(1_050)]
    assert registry(store).sync(many) == SyncCounts(added=1_050)
    assert registry(store).sync(many) == SyncCounts(unchanged=1_050)


def test_the_end_of_a_long_text_is_searchable(store):
    registry(store).sync([*SKILLS, Skill("long", "filler " * 400 + "zebra " * 150)])
    assert registry(store).search("zebra", limit=1)[0].payload["key"] == "long"


def test_searching_for_nothing_or_too_early_finds_nothing(store):
    assert registry(store).search(" ") == []
    assert registry(store).search("bread") == []
