import pytest

from services import errors
from services.adapters.in_memory import InMemoryVectorStore
from services.embedding.store import CollectionState
from services.jobs.models import EMBED_MISSING, RECONCILE, REMOVE_VECTORS, Queue
from services.memory.models import NewMessage, Role
from services.memory.vectors import COLLECTION
from services.ports import Condition, Filter
from tests.builders import PickyEmbedder, ScriptedEmbedder, claim, enqueue, job, new_job, rows, work


@pytest.fixture
def container(build):
    made = build()
    made.embedder = ScriptedEmbedder()
    return made


OF_VECTORS = "kind = 'memory.embed_messages'"


def remember(container, *texts, **fields):
    return [container.memory.remember("user", text, **fields) for text in texts]


def physical(container):
    with container.database.read() as unit:
        return unit.collections.find(COLLECTION, CollectionState.ACTIVE).physical


def embedded(container):
    return [row[0] for row in rows(container, "SELECT message_id FROM message_embeddings ORDER BY 1")]


def last_outcome(container, kind="memory.embed_messages"):
    (job_id,) = rows(container, f"SELECT max(id) FROM jobs WHERE kind = '{kind}'")[0]
    return job(container, job_id)


# ---- embedding -------------------------------------------------------------------------------------------------


def test_a_point_carries_what_searches_filter_by(container):
    (message,) = remember(container, "hello", created_at=1_700_000_000_000_000)
    work(container)
    ((_, payload),) = container.vectors.scroll(physical(container), "default")
    assert payload == {
        "message_id": message,
        "conversation_id": 1,
        "role": "user",
        "created_at": 1_700_000_000_000_000,
        "agent_visible": 1,
    }


def test_filters_apply_inside_the_vector_search(container):
    for conversation, when in (("a", 10), ("b", 20), ("b", 30)):
        remember(container, "the harbour closes", conversation=conversation, created_at=when)
    work(container)
    space = container.spaces.for_reading(COLLECTION)
    where = Filter((Condition("conversation_id", (2,)), Condition("created_at", at_least=25)))
    hits = container.spaces.search(space, "default", "harbour", limit=5, where=where)
    assert [hit.payload["message_id"] for hit in hits] == [3]


def test_b10_the_tail_of_a_long_message_is_found_by_a_window_of_its_own(container):
    (long,) = remember(container, " ".join([*(f"filler{n % 7}" for n in range(600)), "swordfish password"]))
    remember(container, "something else")
    work(container)
    windows = rows(container, f"SELECT windows FROM message_embeddings WHERE message_id = {long}")
    assert windows == [(4,)]
    space = container.spaces.for_reading(COLLECTION)
    best = container.spaces.search(space, "default", "swordfish password", limit=1)[0]
    assert best.payload["message_id"] == long


def test_messages_that_come_in_while_their_block_is_embedded_are_done_by_the_same_job(container):
    remember(container, "first")

    def more():
        container.embedder.before_embed = lambda: None
        remember(container, "second")

    container.embedder.before_embed = more
    work(container)
    assert embedded(container) == [1, 2]
    assert rows(container, f"SELECT count(*) FROM jobs WHERE {OF_VECTORS}") == [(1,)]


def test_an_interrupted_job_goes_on_where_it_was(container):
    container.memory.remember_many("a", [NewMessage(Role.USER, f"note {number}") for number in range(80)])
    calls = []

    def fail_once():
        calls.append(1)
        if len(calls) == 2:
            raise errors.ModelUnavailable("gone")

    container.embedder.before_embed = fail_once
    work(container)
    assert len(embedded(container)) == 32
    container.clock.advance(3)
    work(container)
    assert len(embedded(container)) == len(container.embedder.texts) == 80


def test_a_message_that_is_forgotten_while_it_is_embedded_leaves_no_vector(container):
    (message,) = remember(container, "secret")

    def forget():
        container.embedder.before_embed = lambda: None
        container.memory.forget(messages=[message])

    container.embedder.before_embed = forget
    work(container)
    assert container.vectors.count(physical(container)) == 0
    assert rows(container, "SELECT count(*) FROM vector_tombstones") == [(0,)]


def test_b13_a_text_that_the_model_refuses_is_passed_counted_and_not_tried_again(container):
    container.embedder = PickyEmbedder()
    remember(container, *(f"note {number}" for number in range(20)), "poison", "last")
    work(container)
    assert len(embedded(container)) == 22
    assert last_outcome(container).outcome == {
        "vectors": 21,
        "rejected": 1,
        "reason": "400: the input is invalid",
    }
    assert container.vectors.count(physical(container)) == 21
    assert container.message_vectors.waiting() == 0


def test_b13_a_model_that_refuses_everything_is_not_the_fault_of_the_messages(container):
    container.embedder = PickyEmbedder()
    container.embedder.refused = ""
    remember(container, "one", "two")
    work(container)
    assert embedded(container) == []
    dead = last_outcome(container)
    assert (dead.state, dead.error_message) == ("dead", "400: the input is invalid")
    container.embedder.refused = "nothing"
    assert container.message_vectors.embed_missing() == (2, 1)
    work(container)
    assert embedded(container) == [1, 2]


def test_namespaces_that_share_a_block_have_jobs_and_points_of_their_own(container):
    remember(container, "alice's", namespace="alice")
    remember(container, "bob's", namespace="bob")
    work(container)
    counts = [container.vectors.count(physical(container), name) for name in ("alice", "bob")]
    assert counts == [1, 1]
    assert rows(container, f"SELECT namespace FROM jobs WHERE {OF_VECTORS} ORDER BY 1") == [
        ("alice",),
        ("bob",),
    ]


# ---- backfill --------------------------------------------------------------------------------------------------


def test_b12_backfill_is_scheduled(container):
    assert EMBED_MISSING in [entry.kind for entry in container.periodic]


def test_b12_backfill_embeds_what_was_missed_and_counts_it_truly(container):
    remember(container, "one", "two")
    with container.sqlite.write() as connection:
        connection.exec_driver_sql("DELETE FROM jobs")
    (backfill,) = enqueue(container, new_job(EMBED_MISSING))
    work(container)
    assert job(container, backfill).outcome == {"waiting": 2, "jobs": 1}
    assert embedded(container) == [1, 2]
    (again,) = enqueue(container, new_job(EMBED_MISSING))
    work(container)
    assert job(container, again).outcome == {"waiting": 0, "jobs": 0}


def test_backfill_for_another_model_enqueues_no_jobs_that_could_only_die(container):
    remember(container, "one")
    work(container)
    container.spaces.embedder = ScriptedEmbedder("other", 32)
    remember(container, "two")
    work(container)
    assert "run `zeph collections reembed zeph_conversations`" in last_outcome(container).error_message
    assert container.message_vectors.embed_missing() == (1, 0)


# ---- upkeep ----------------------------------------------------------------------------------------------------


def reconcile(container):
    (job_id,) = enqueue(container, new_job(RECONCILE))
    work(container)
    return job(container, job_id).outcome


def test_messages_move_to_another_model_while_the_old_one_answers(container):
    remember(container, "one", "two")
    remember(container, "three", namespace="alice")
    container.memory.remember("assistant", "an answer that was never to have a vector")
    work(container)
    old = physical(container)
    new_model = container.spaces.embedder = ScriptedEmbedder("other", 32)
    during = []
    new_model.before_embed = lambda: during.append(physical(container))
    move = container.upkeep.submit_reembed(COLLECTION)
    work(container, [Queue.MAINTENANCE])
    assert set(during) == {old}
    assert physical(container) != old
    assert job(container, move).outcome == {"vectors": 3, "collection": physical(container)}
    assert not container.vectors.collection_exists(old)
    assert rows(container, "SELECT DISTINCT collection FROM message_embeddings") == [(physical(container),)]


def test_a_lost_vector_of_a_message_is_made_again_and_one_without_a_row_removed(container):
    remember(container, "one", "two", "three")
    work(container)
    point = next(
        found
        for found, payload in container.vectors.scroll(physical(container), "default")
        if payload["message_id"] == 1
    )
    container.vectors.delete(physical(container), "default", [point])
    with container.sqlite.write() as connection:
        # Past every tombstone, as a restored backup would leave it.
        connection.exec_driver_sql("DELETE FROM messages WHERE id = 2")
    assert reconcile(container)["orphans"] == 1
    assert sorted(
        payload["message_id"] for _, payload in container.vectors.scroll(physical(container), "default")
    ) == [1, 3]
    assert reconcile(container) == {"missing": 0, "orphans": 0}


def test_a_message_that_is_being_embedded_is_left_to_its_job(container):
    remember(container, "one")
    ((embed,),) = rows(container, f"SELECT id FROM jobs WHERE {OF_VECTORS}")
    seen = []
    container.embedder.before_embed = lambda: seen.append(reconcile(container))
    container.message_vectors.embed_block(claim(container, embed))
    assert seen[0]["orphans"] == 0
    assert container.vectors.count(physical(container)) == 1


def test_b14_vectors_of_soft_deleted_messages_are_removed_before_their_tombstones(container):
    class Stubborn(InMemoryVectorStore):
        down = True

        def delete(self, *arguments):
            if self.down:
                raise errors.VectorStoreUnavailable("down")
            super().delete(*arguments)

    container.vectors = Stubborn()
    (message,) = remember(container, "evicted")
    work(container)
    with container.database.write() as unit:
        assert unit.messages.soft_delete("default", [message]) == 1
        unit.jobs.enqueue([new_job(REMOVE_VECTORS)])
    work(container)
    assert rows(container, "SELECT count(*) FROM vector_tombstones") == [(1,)]
    container.vectors.down = False
    container.clock.advance(3)
    work(container)
    assert rows(container, "SELECT count(*) FROM vector_tombstones") == [(0,)]
    assert container.vectors.count(physical(container)) == 0
