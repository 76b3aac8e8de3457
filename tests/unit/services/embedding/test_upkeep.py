import pytest

from services import errors
from services.adapters.in_memory import InMemoryVectorStore
from services.documents.models import DocumentMetadata
from services.embedding.store import CollectionState
from services.jobs.models import EMBED_DOCUMENT, RECONCILE, REMOVE_VECTORS, Queue
from tests.builders import (
    FallibleStore,
    ScriptedEmbedder,
    claim,
    enqueue,
    found_texts,
    job,
    new_job,
    rows,
    work,
)

NAME = "zeph_documents"


@pytest.fixture
def container(build):
    made = build()
    made.embedder = ScriptedEmbedder()
    return made


def store(container, *texts, namespace="default"):
    for text in texts:
        container.ingestion.add_text(text, DocumentMetadata(text, "text/plain"), namespace=namespace)
    work(container)


def active(container):
    with container.database.read() as unit:
        return unit.collections.find(NAME, CollectionState.ACTIVE)


def reconcile(container):
    """Run one reconciliation and the repairs it asks for; what it found."""
    (job_id,) = enqueue(container, new_job(RECONCILE))
    work(container)
    return job(container, job_id).outcome


def change_model(container, model="other", dimension=32):
    """As a restart with other settings would; the old model can still be had for queries."""
    old = container.spaces.embedder
    container.spaces.embedder = ScriptedEmbedder(model, dimension)
    container.spaces._other = lambda identity: old if identity == old.identity else None
    return container.spaces.embedder


# ---- another model ---------------------------------------------------------------------------------------------


def test_reembedding_fills_a_new_collection_while_the_old_one_answers_and_then_switches(container):
    store(container, "alpha", "beta", "gamma")
    old = active(container)
    new_model = change_model(container)
    job_id = container.upkeep.submit_reembed(NAME)
    during = []
    new_model.before_embed = lambda: during.append(
        (active(container).physical, found_texts(container, "alpha", mode="vector")[0])
    )
    work(container, [Queue.MAINTENANCE])
    new_model.before_embed = lambda: None

    assert set(during) == {(old.physical, "alpha")}
    now = active(container)
    assert now.identity == new_model.identity
    assert job(container, job_id).outcome == {"vectors": 3, "collection": now.physical}
    assert container.vectors.count(now.physical) == 3
    assert not container.vectors.collection_exists(old.physical), "the old one is dropped afterwards"
    with container.database.read() as unit:
        assert unit.collections.all() == [now]
    assert rows(container, "SELECT DISTINCT collection FROM chunk_embeddings") == [(now.physical,)]
    assert found_texts(container, "beta", mode="vector")[0] == "beta"


def test_reembedding_that_is_interrupted_goes_on_where_it_was(container):
    store(container, "alpha", "beta", "gamma")
    new_model = change_model(container)
    job_id = container.upkeep.submit_reembed(NAME)
    calls = []

    def fail_once():
        calls.append(1)
        if len(calls) == 2:
            raise errors.ModelUnavailable("gone")

    new_model.before_embed = fail_once
    work(container)
    assert active(container).identity != new_model.identity
    container.clock.advance(3)
    work(container)
    assert job(container, job_id).state == "done"
    assert len(new_model.texts) == 3
    assert container.vectors.count(active(container).physical) == 3


def test_what_is_stored_during_a_move_has_vectors_after_it(container):
    store(container, "alpha")
    new_model = change_model(container)
    container.upkeep.submit_reembed(NAME)

    def add():
        new_model.before_embed = lambda: None
        container.ingestion.add_text("late", DocumentMetadata("late", "text/plain"))

    new_model.before_embed = add
    work(container)
    assert container.vectors.count(active(container).physical) == 2
    assert found_texts(container, "late", mode="vector")[0] == "late"


def test_a_move_ends_where_agents_never_stop_writing(container):
    store(container, "alpha", "beta")
    new_model = change_model(container)
    job_id = container.upkeep.submit_reembed(NAME)
    added = []

    def add():
        if len(added) < 30:
            added.append(f"late {len(added)}")
            container.ingestion.add_text(added[-1], DocumentMetadata(added[-1], "text/plain"))

    new_model.before_embed = add
    work(container, [Queue.MAINTENANCE])
    assert job(container, job_id).state == "done"
    assert active(container).identity == new_model.identity
    assert len(added) < 30
    work(container)
    assert container.vectors.count(active(container).physical) == 2 + len(added)


def test_a_collection_can_be_rebuilt_with_the_same_model_as_often_as_you_like(container):
    store(container, "alpha", "beta")
    for _ in range(3):
        before = active(container)
        container.upkeep.submit_reembed(NAME)
        work(container)
        assert active(container).physical != before.physical
        assert container.vectors.count(active(container).physical) == 2
    with container.database.read() as unit:
        assert len(unit.collections.all()) == 1


def test_only_a_collection_that_exists_can_be_moved_and_only_to_an_embedder(container, build, tmp_path):
    with pytest.raises(errors.NotFound, match="no collection is called nothing"):
        container.upkeep.submit_reembed("nothing")
    without = build(tmp_path / "other", embedding__provider="none")
    with pytest.raises(errors.InputError, match="choose an embedder"):
        without.upkeep.submit_reembed(NAME)


def test_new_documents_are_not_lost_while_the_model_does_not_fit(container):
    store(container, "alpha")
    new_model = change_model(container)
    store(container, "beta")
    (dead,) = rows(container, "SELECT error_message FROM jobs WHERE state = 'dead'")
    assert f"run `zeph collections reembed {NAME}`" in dead[0]
    assert found_texts(container, "beta", mode="keyword") == ["beta"]
    for _ in range(3):
        reconcile(container)
    assert rows(container, "SELECT count(*) FROM jobs WHERE state = 'dead'") == [(1,)], (
        "no flood of dead jobs"
    )

    container.upkeep.submit_reembed(NAME)
    work(container)
    assert active(container).identity == new_model.identity
    assert container.vectors.count(active(container).physical) == 2


# ---- drift -----------------------------------------------------------------------------------------------------


def test_rows_and_vectors_in_step_need_no_repair(container):
    store(container, "alpha", "beta")
    container.embedder.texts.clear()
    assert reconcile(container) == {"missing": 0, "orphans": 0}
    assert container.embedder.texts == []


def test_a_vector_that_got_lost_is_made_again(container):
    store(container, "alpha", "beta")
    physical = active(container).physical
    point = container.vectors.scroll(physical, "default")[0][0]
    container.vectors.delete(physical, "default", [point])
    container.embedder.texts.clear()
    assert reconcile(container)["missing"] >= 1
    assert container.vectors.count(physical) == 2
    assert len(container.embedder.texts) == 1
    assert reconcile(container) == {"missing": 0, "orphans": 0}


def test_rows_unmarked_by_a_worker_that_was_stopped_before_others_mended_them_get_their_vectors(container):
    store(container, "alpha", "beta")
    physical = active(container).physical
    point = container.vectors.scroll(physical, "default")[0][0]
    container.vectors.delete(physical, "default", [point])
    (stale,) = container.upkeep.drift()
    reconcile(container)
    container.upkeep.mend(stale)
    work(container)
    assert list(container.upkeep.unqueued()) == []
    assert container.vectors.count(physical) == 2


def test_a_vector_without_a_row_is_removed(container):
    store(container, "alpha", "beta")
    physical = active(container).physical
    with container.sqlite.write() as connection:
        # Past every tombstone, as a restored backup would leave it.
        connection.exec_driver_sql("DELETE FROM chunks WHERE text = 'alpha'")
    assert reconcile(container) == {"missing": 0, "orphans": 1}
    assert container.vectors.count(physical) == 1
    assert reconcile(container) == {"missing": 0, "orphans": 0}


def test_a_vector_without_a_row_is_removed_even_when_its_namespace_has_no_document_left(container):
    store(container, "alpha", namespace="gone")
    store(container, "beta")
    physical = active(container).physical
    with container.sqlite.write() as connection:
        connection.exec_driver_sql("DELETE FROM documents WHERE namespace = 'gone'")
    assert reconcile(container)["orphans"] == 1
    assert container.vectors.count(physical, "gone") == 0


def test_every_namespace_is_looked_at(container):
    store(container, "alpha", namespace="one")
    store(container, "beta", namespace="two")
    physical = active(container).physical
    for namespace in ("one", "two"):
        points = [point for point, _ in container.vectors.scroll(physical, namespace)]
        container.vectors.delete(physical, namespace, points)
    reconcile(container)
    assert [container.vectors.count(physical, namespace) for namespace in ("one", "two")] == [1, 1]


def test_a_chunk_that_is_being_embedded_is_left_to_its_job(container):
    container.ingestion.add_text("alpha", DocumentMetadata("alpha", "text/plain"))
    (embed,) = rows(container, "SELECT id FROM jobs")[0]
    run = claim(container, embed)
    seen = []
    container.embedder.before_embed = lambda: seen.append(reconcile(container))
    container.ingestion.embed_document(run)
    assert seen[0]["orphans"] == 0
    assert container.vectors.count(active(container).physical) == 1


# ---- removal ---------------------------------------------------------------------------------------------------


def test_tombstones_stay_until_the_store_has_removed_the_vectors(container):
    class Stubborn(InMemoryVectorStore):
        down = True

        def delete(self, *arguments):
            if self.down:
                raise errors.VectorStoreUnavailable("down")
            super().delete(*arguments)

    container.vectors = Stubborn()
    store(container, "alpha", "beta")
    container.ingestion.remove(["alpha"])
    work(container)
    assert rows(container, "SELECT count(*) FROM vector_tombstones") == [(1,)]
    container.vectors.down = False
    container.clock.advance(3)
    work(container)
    assert rows(container, "SELECT count(*) FROM vector_tombstones") == [(0,)]
    assert container.vectors.count(active(container).physical) == 1


def test_what_is_deleted_while_the_removal_runs_is_removed_by_it_too(container):
    container.vectors = FallibleStore()
    store(container, "alpha", "beta", "gamma")
    delete = container.vectors.delete

    def delete_more(*arguments):
        container.vectors.delete = delete
        container.ingestion.remove(["beta"])
        delete(*arguments)

    container.vectors.delete = delete_more
    container.ingestion.remove(["alpha"])
    work(container)
    assert container.vectors.count(active(container).physical) == 1
    assert rows(container, f"SELECT count(*) FROM jobs WHERE kind = '{REMOVE_VECTORS.name}'") == [(1,)]
    assert rows(container, f"SELECT count(*) FROM jobs WHERE kind = '{EMBED_DOCUMENT.name}'") == [(3,)]
