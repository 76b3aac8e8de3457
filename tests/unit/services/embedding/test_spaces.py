import pytest

from services import errors
from services.adapters.in_memory import InMemoryVectorStore
from services.embedding.spaces import VectorSpaces
from services.embedding.store import CollectionState
from tests.builders import ScriptedEmbedder, in_processes

NAME = "notes"


@pytest.fixture
def spaces(container):
    return VectorSpaces(container.database, InMemoryVectorStore(), ScriptedEmbedder())


def under(spaces, embedder, other=lambda _identity: None):
    """The same collections seen by a process with another embedder."""
    return VectorSpaces(spaces._database, spaces.store, embedder, other)


def registered(spaces):
    with spaces._database.read() as unit:
        return unit.collections.all()


def test_the_first_write_creates_the_collection_and_later_ones_find_it(spaces):
    assert spaces.for_reading(NAME) is None
    space = spaces.for_writing(NAME)
    assert spaces.store.collection_exists(space.collection.physical)
    assert spaces.for_writing(NAME).collection == space.collection
    assert spaces.for_reading(NAME).collection == space.collection
    assert registered(spaces) == [space.collection]


def test_without_an_embedder_there_are_no_spaces(spaces):
    spaces.for_writing(NAME)
    without = under(spaces, None)
    assert without.for_writing(NAME) is None
    assert without.for_reading(NAME) is None
    with pytest.raises(errors.InputError, match="choose an embedder"):
        without.building(NAME)


@pytest.mark.parametrize(("model", "dimension"), [("other", 64), ("hash", 32)])
def test_another_model_or_dimension_is_refused_with_the_way_out(spaces, model, dimension):
    first = spaces.for_writing(NAME)
    changed = under(spaces, ScriptedEmbedder(model, dimension))
    for resolve in (changed.for_writing, changed.for_reading):
        with pytest.raises(errors.DimensionMismatch, match="run `zeph collections reembed notes`"):
            resolve(NAME)
    assert registered(spaces) == [first.collection]


def test_the_latest_tag_of_a_model_is_the_model(spaces):
    first = spaces.for_writing(NAME)
    assert under(spaces, ScriptedEmbedder("hash:latest")).for_writing(NAME).collection == first.collection


def test_queries_are_embedded_by_the_old_model_while_it_can_be_had(spaces):
    spaces.for_writing(NAME)
    old = spaces.embedder
    changed = under(
        spaces, ScriptedEmbedder("other"), lambda identity: old if identity == old.identity else None
    )
    assert changed.for_reading(NAME).embedder is old


def test_a_move_writes_to_the_new_collection_and_reads_the_old_one_until_it_switches(spaces):
    old = spaces.for_writing(NAME)
    changed = under(spaces, ScriptedEmbedder("other", 32), lambda _identity: spaces.embedder)
    new = changed.building(NAME)
    assert changed.building(NAME).collection == new.collection
    assert changed.for_writing(NAME).collection == new.collection
    assert changed.for_reading(NAME).collection == old.collection

    with spaces._database.write() as unit:
        unit.collections.activate(new.collection)
    assert changed.for_reading(NAME).collection.physical == new.collection.physical
    states = {it.physical: it.state for it in registered(spaces)}
    assert states == {old.collection.physical: "retired", new.collection.physical: "active"}


def test_a_move_to_yet_another_model_retires_the_unfinished_one(spaces):
    spaces.for_writing(NAME)
    abandoned = under(spaces, ScriptedEmbedder("other")).building(NAME)
    wanted = under(spaces, ScriptedEmbedder("third")).building(NAME)
    states = {it.physical: it.state for it in registered(spaces)}
    assert states[abandoned.collection.physical] is CollectionState.RETIRED
    assert states[wanted.collection.physical] is CollectionState.BUILDING


def test_names_have_collections_of_their_own(spaces):
    assert spaces.for_writing("a").collection.physical != spaces.for_writing("b").collection.physical


def test_processes_that_write_first_at_once_agree_on_one_collection(spaces):
    in_processes(4, lambda _number: spaces.for_writing(NAME))
    assert len(registered(spaces)) == 1
