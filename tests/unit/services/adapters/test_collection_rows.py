import pytest

from services.embedding.store import CollectionState
from services.ports import EmbedderIdentity

ONE = EmbedderIdentity("local", "model", 8)
TWO = EmbedderIdentity("openai", "org/model.v2", 8)
ACTIVE, BUILDING, RETIRED = CollectionState.ACTIVE, CollectionState.BUILDING, CollectionState.RETIRED


@pytest.fixture
def unit(container):
    with container.database.write() as opened:
        yield opened


def test_creating_what_exists_returns_it(unit):
    created = unit.collections.create("notes", ONE, ACTIVE)
    assert unit.collections.create("notes", ONE, ACTIVE) == created
    assert unit.collections.find("notes", ACTIVE) == created
    assert unit.collections.find("notes", BUILDING) is None
    assert unit.collections.find("other", ACTIVE) is None


def test_physical_names_suit_every_store_and_say_what_is_inside(unit):
    assert unit.collections.create("notes", TWO, ACTIVE).physical == "notes__openai-org-model-v2-8__1"


def test_models_whose_names_look_alike_get_collections_of_their_own(unit):
    alike = EmbedderIdentity("openai", "org.model.v2", 8)
    first = unit.collections.create("notes", TWO, ACTIVE)
    second = unit.collections.create("notes", alike, BUILDING)
    assert first.physical != second.physical


def test_a_dropped_name_never_comes_back(unit):
    seen = {unit.collections.create("notes", ONE, ACTIVE).physical}
    for identity in (ONE, TWO, ONE, TWO, TWO):
        old = unit.collections.find("notes", ACTIVE)
        new = unit.collections.create("notes", identity, BUILDING)
        assert new.physical not in seen
        seen.add(new.physical)
        unit.collections.activate(new)
        unit.collections.forget(old)


def test_activating_one_retires_the_other(unit):
    old = unit.collections.create("notes", ONE, ACTIVE)
    new = unit.collections.create("notes", TWO, BUILDING)
    other = unit.collections.create("other", ONE, ACTIVE)
    unit.collections.activate(new)
    assert {it.physical: it.state for it in unit.collections.all()} == {
        old.physical: RETIRED,
        new.physical: ACTIVE,
        other.physical: ACTIVE,
    }


def test_a_tombstone_is_set_once_and_taken_away_by_id(unit):
    unit.collections.bury([("a", "c", "p1"), ("a", "c", "p2"), ("a", "c", "p1")])
    unit.collections.bury([("a", "c", "p1"), ("b", "c", "p1")])
    found = unit.collections.tombstones(limit=10)
    assert [(it.namespace, it.point_id) for it in found] == [("a", "p1"), ("a", "p2"), ("b", "p1")]
    unit.collections.exhume([found[0].id, found[2].id])
    assert unit.collections.tombstones(limit=10) == [found[1]]
    unit.collections.exhume([])
    unit.collections.bury([])


def test_a_forgotten_collection_takes_its_tombstones_along(unit):
    collection = unit.collections.create("notes", ONE, ACTIVE)
    unit.collections.bury([("a", collection.physical, "p1"), ("a", "kept", "p2")])
    unit.collections.forget(collection)
    assert unit.collections.all() == []
    assert [it.collection for it in unit.collections.tombstones(limit=10)] == ["kept"]
