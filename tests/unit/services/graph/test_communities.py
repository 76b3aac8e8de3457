"""Communities in the database: kept in step, described, assigned."""

import json
import threading

import pytest

from services import errors
from services.graph.communities import Communities, CommunityLimits, assign_new
from services.graph.models import EntityType
from services.jobs.models import GRAPH_REFRESH, NewJob
from services.ports import ChatReply
from tests.builders import enqueue, job, rows, work
from tests.fake_openai import FakeOpenAi

NS = "default"
_GROUPS = {"a": ("Ada", "Alan", "Amy"), "b": ("Bea", "Ben", "Bob")}


class ScriptedModel:
    """Answers with a number, or fails when told to."""

    identity = "fake/model"

    def __init__(self):
        self.requests = []
        self.fails = False

    def complete(self, request):
        self.requests.append(request)
        if self.fails:
            raise errors.ModelUnavailable("the model does not answer")
        return ChatReply(f"Summary number {len(self.requests)}.")


def know(container, *pairs, namespace=NS):
    """Facts between people, by name."""
    for source, target in pairs:
        container.graph.add_fact(
            namespace, source, "knows", target, source_type=EntityType.PERSON, target_type=EntityType.PERSON
        )


def groups(container, *names):
    for name in names:
        one, two, three = _GROUPS[name]
        know(container, (one, two), (two, three), (three, one))


def communities(container, model=None, **limits):
    return Communities(container.database, model, container.clock, CommunityLimits(**limits))


def listed(container, namespace=NS):
    """Names of the members of each community."""
    with container.database.read() as unit:
        entities = {
            one: entity.name for one, entity in unit.graph.get(namespace, list(range(1, 100))).items()
        }
        return [{entities[one] for one in found.entity_ids} for found in unit.communities.listed(namespace)]


def entity(container, name):
    found = container.graph.entity(NS, name)
    assert found is not None
    return found


def test_groups_become_communities_with_a_local_summary(container):
    groups(container, "a", "b")
    done = communities(container).refresh(NS)
    assert (done.communities, done.changed, done.described, done.failed) == (2, 2, 2, 0)
    assert listed(container) == [set(_GROUPS["a"]), set(_GROUPS["b"])]
    first = communities(container).listed(namespace=NS)[0]
    assert first.name == "Ada, Alan, Amy"
    assert first.summary.startswith("Ada, Alan, Amy. ")
    assert communities(container).refresh("other").communities == 0


def test_an_unchanged_graph_costs_no_model_call(container):
    groups(container, "a", "b")
    model = ScriptedModel()
    assert communities(container, model).refresh(NS).described == 2
    before = communities(container).listed(namespace=NS)
    assert communities(container, model).refresh(NS) == communities(container, model).refresh(NS)
    assert len(model.requests) == 2
    assert communities(container).listed(namespace=NS) == before


def test_only_what_changed_is_described_anew_and_keeps_its_id(container):
    """Graph bug 11: a community is not known by its name or its place."""
    groups(container, "a", "b")
    model = ScriptedModel()
    communities(container, model).refresh(NS)
    first, second = communities(container).listed(namespace=NS)
    for one in (first, second):
        assert {communities(container).of_entity(NS, each) for each in one.entity_ids} == {one}
    assert communities(container).of_entity("other", first.entity_ids[0]) is None
    know(container, ("Bob", "Bert"), ("Bert", "Bea"), ("Aaron", "Zed"))
    done = communities(container, model).refresh(NS)
    assert (done.communities, done.changed, done.removed) == (3, 2, 0)
    kept = {one.id: one for one in communities(container).listed(namespace=NS)}
    assert kept[first.id] == first
    assert kept[second.id].summary != second.summary
    assert len(kept[second.id].entity_ids) == 4
    assert len(model.requests) == 4


def test_two_communities_may_have_one_name(container):
    """Graph bug 11."""
    for kind in (EntityType.LANGUAGE, EntityType.TOOL):
        container.graph.add_fact(
            NS, "Python", "uses", f"{kind} thing", source_type=kind, target_type=EntityType.CONCEPT
        )
    with container.database.write() as unit:
        one, two = (unit.communities.add(NS, "same", "") for _ in range(2))
    assert one != two


def test_a_failed_summary_keeps_the_old_text_and_is_tried_again(container):
    """Graph bug 9: the predecessor stored an empty text with its fingerprint, for good."""
    groups(container, "a")
    model = ScriptedModel()
    communities(container, model).refresh(NS)
    know(container, ("Ada", "Axel"), ("Axel", "Amy"))
    model.fails = True
    assert communities(container, model).refresh(NS).failed == 1
    (stale,) = communities(container).listed(namespace=NS)
    assert (stale.summary, stale.fingerprint, len(stale.entity_ids)) == ("Summary number 1.", "", 4)
    model.fails = False
    assert communities(container, model).refresh(NS).described == 1
    (fresh,) = communities(container).listed(namespace=NS)
    assert (fresh.id, fresh.summary) == (stale.id, "Summary number 3.")
    assert fresh.fingerprint


def test_what_a_model_could_not_describe_at_first_has_a_local_text(container):
    groups(container, "a")
    model = ScriptedModel()
    model.fails = True
    assert communities(container, model).refresh(NS).failed == 1
    (found,) = communities(container).listed(namespace=NS)
    assert found.summary.startswith("Ada, Alan, Amy. ")
    assert found.fingerprint == ""


def test_a_model_that_is_away_is_not_asked_for_every_community(container):
    for number in range(9):
        know(container, (f"Left {number}", f"Right {number}"))
    model = ScriptedModel()
    model.fails = True
    done = communities(container, model, concurrency=1).refresh(NS)
    assert (done.communities, done.failed, len(model.requests)) == (9, 9, 3)
    model.fails = False
    assert communities(container, model).refresh(NS).described == 9


def test_a_model_takes_over_from_local_texts(container):
    groups(container, "a", "b")
    communities(container).refresh(NS)
    model = ScriptedModel()
    done = communities(container, model).refresh(NS)
    assert (done.changed, done.described) == (0, 2)
    assert {one.summary for one in communities(container).listed(namespace=NS)} == {
        "Summary number 1.",
        "Summary number 2.",
    }
    # And its texts stay when it is gone.
    assert communities(container).refresh(NS).described == 0


def test_a_prompt_of_no_size_asks_no_model(container):
    groups(container, "a")
    model = ScriptedModel()
    assert communities(container, model, prompt_bytes=0).refresh(NS).described == 1
    assert model.requests == []


def test_dissolved_communities_go_whatever_their_fingerprint(container):
    """Graph bug 10: rows without a fingerprint were never seen as dissolved."""
    groups(container, "a", "b")
    communities(container).refresh(NS)
    with container.database.write() as unit:
        first, _ = unit.communities.listed(NS)
        unit.communities.mark_changed(first.id)
    for name in _GROUPS["a"]:
        for record in container.graph.facts(NS, name):
            container.graph.forget_edge(NS, record.edge.id)
    assert communities(container).refresh(NS).removed == 1
    assert listed(container) == [set(_GROUPS["b"])]
    for name in _GROUPS["b"]:
        for record in container.graph.facts(NS, name):
            container.graph.forget_edge(NS, record.edge.id)
    assert communities(container).refresh(NS).removed == 1
    assert listed(container) == []


def test_edges_are_read_in_pages_and_their_size_changes_nothing(container):
    """Graph bug 15."""
    groups(container, "a", "b")
    know(container, ("Amy", "Bea"))
    communities(container, page=1).refresh(NS)
    by_one = listed(container)
    assert communities(container, page=1_000).refresh(NS).changed == 0
    assert listed(container) == by_one


def test_a_chunk_size_of_zero_never_means_all(build):
    """Graph bug 15."""
    container = build(memory__graph__lpa_edge_chunk_size=0)
    assert container.communities._limits.page == 10_000
    assert build(memory__graph__lpa_edge_chunk_size=7).communities._limits.page == 7


def test_a_new_entity_joins_the_community_of_most_of_its_neighbours(container):
    groups(container, "a", "b")
    communities(container).refresh(NS)
    know(container, ("Nora", "Ada"), ("Nora", "Bea"), ("Ben", "Nora"), ("Lone", "Wolf"))
    new = [entity(container, name).id for name in ("Nora", "Lone")]
    with container.database.write() as unit:
        assert assign_new(unit, NS, new) == 1
        # A repeat changes nothing.
        assert assign_new(unit, NS, new) == 0
    assert listed(container) == [set(_GROUPS["a"]), {*_GROUPS["b"], "Nora"}]
    first, second = sorted(communities(container).listed(namespace=NS), key=lambda one: one.id)
    assert (bool(first.fingerprint), second.fingerprint) == (True, "")
    model = ScriptedModel()
    communities(container, model).refresh(NS)
    assert listed(container)[1] == {*_GROUPS["b"], "Nora"}


def test_a_tie_between_communities_falls_to_the_smaller_id(container):
    groups(container, "a", "b")
    communities(container).refresh(NS)
    know(container, ("Nora", "Bea"), ("Nora", "Ada"))
    with container.database.write() as unit:
        assert assign_new(unit, NS, [entity(container, "Nora").id]) == 1
    assert listed(container)[0] == {*_GROUPS["a"], "Nora"}


def test_an_entity_is_in_one_community_only(container):
    """Graph bug 10."""
    groups(container, "a", "b")
    communities(container).refresh(NS)
    ada = entity(container, "Ada").id
    with container.database.write() as unit:
        _, second = unit.communities.listed(NS)
        unit.communities.set_members(second.id, [*second.entity_ids, ada])
    assert listed(container) == [{"Alan", "Amy"}, {*_GROUPS["b"], "Ada"}]
    communities(container).refresh(NS)
    assert listed(container) == [set(_GROUPS["a"]), set(_GROUPS["b"])]


def test_the_order_of_insertion_does_not_change_the_communities(build, tmp_path):
    pairs = [("Ada", "Alan"), ("Alan", "Amy"), ("Amy", "Ada"), ("Bea", "Ben"), ("Ben", "Bob"), ("Bob", "Bea")]
    pairs += [("Amy", "Bea"), ("Mo", "Ada"), ("Bob", "Mo")]
    found = []
    for number, order in enumerate((pairs, pairs[::-1], pairs[4:] + pairs[:4])):
        container = build(tmp_path / str(number))
        know(container, *order)
        communities(container).refresh(NS)
        found.append(sorted(map(sorted, listed(container))))
    assert found[0] == found[1] == found[2]
    assert len(found[0]) == 2


def test_stats_tell_the_age_and_the_drift(container):
    """Graph bug 16."""
    groups(container, "a")
    stats = communities(container).stats(namespace=NS)
    assert (stats.communities, stats.refreshed_at, stats.drift) == (0, None, 1.0)
    assert stats.unassigned == 3
    container.clock.advance(1)
    communities(container).refresh(NS)
    refreshed = container.clock.now()
    stats = communities(container).stats(namespace=NS)
    assert (stats.communities, stats.members, stats.unassigned) == (1, 3, 0)
    assert (stats.refreshed_at, stats.drift, stats.undescribed) == (refreshed, 0.0, 0)
    container.clock.advance(1)
    know(container, ("Ada", "Axel"))
    stats = communities(container).stats(namespace=NS)
    assert (stats.unassigned, stats.drift) == (1, 0.25)


def test_a_job_refreshes_what_has_changed_in_every_namespace(container):
    groups(container, "a")
    know(container, ("Xena", "Yves"), namespace="other")
    (first,) = enqueue(container, NewJob(GRAPH_REFRESH))
    work(container)
    assert job(container, first).outcome["namespaces"] == 2
    assert len(listed(container, "other")) == 1
    container.clock.advance(10)
    (again,) = enqueue(container, NewJob(GRAPH_REFRESH))
    work(container)
    assert job(container, again).outcome["namespaces"] == 0


def test_a_job_of_one_namespace_leaves_the_others_alone(container):
    groups(container, "a")
    know(container, ("Xena", "Yves"), namespace="other")
    enqueue(container, NewJob(GRAPH_REFRESH, {"namespace": "other"}, "other", dedupe_key="other"))
    work(container)
    assert (len(listed(container)), len(listed(container, "other"))) == (0, 1)


def test_a_detection_that_hangs_is_stopped_and_the_old_communities_stay(container):
    """Graph bug 12."""
    groups(container, "a")
    communities(container).refresh(NS)
    groups(container, "b")
    with pytest.raises(errors.PermanentError, match=r"memory\.graph\.max_entities"):
        communities(container).refresh(NS, checkpoint=lambda: container.clock.advance(301))
    assert listed(container) == [set(_GROUPS["a"])]


def test_the_kept_reply_goes_when_its_text_is_stored(container):
    groups(container, "a")
    communities(container, ScriptedModel()).refresh(NS)
    assert rows(container, "SELECT count(*) FROM model_replies") == [(0,)]


@pytest.fixture
def described(build):
    """Refresh four pairs with a model on loopback; what it was asked, by how many at once, and what was stored."""

    def run(**graph):
        together = threading.Barrier(graph.get("community_summary_concurrency", 1))
        with FakeOpenAi() as running:

            def answer(_request):
                together.wait(timeout=20)
                return "They know one another."

            running.chat = answer
            settings = {f"memory__graph__{key}": value for key, value in graph.items()}
            container = build(
                llm__provider="openai", llm__base_url=running.base_url, llm__model="m", **settings
            )
            know(container, *((f"Left {number}", f"Right {number}") for number in range(4)))
            container.communities.refresh(NS)
            asked = [
                "".join(one["content"] for one in request.body["messages"]) for request in running.requests
            ]
            return asked, [one.summary for one in container.communities.listed(namespace=NS)]

    return run


def test_as_many_communities_are_described_at_once_as_the_settings_say(described):
    """Graph bug 1: what is parsed is used. Four questions wait for one another, or nobody would answer."""
    asked, summaries = described(community_summary_concurrency=4)
    assert (len(asked), set(summaries)) == (4, {"They know one another."})


def test_the_size_of_the_question_for_a_summary_is_a_setting(described):
    """Graph bug 1: what is parsed is used."""
    asked, summaries = described(community_summary_max_prompt_bytes=0)
    assert asked == []
    assert all(summary.startswith("Left") for summary in summaries)


def test_communities_are_described_by_the_configured_model(build):
    """Graph bug 1: through the settings, not only in parts."""
    with FakeOpenAi() as running:
        running.chat = lambda _request: "They know one another."
        container = build(llm__provider="openai", llm__base_url=running.base_url, llm__model="m")
        groups(container, "a")
        enqueue(container, NewJob(GRAPH_REFRESH))
        work(container)
        (found,) = container.communities.listed(namespace=NS)
        assert found.summary == "They know one another."
        assert "Ada" in json.dumps(running.requests[-1].body)
