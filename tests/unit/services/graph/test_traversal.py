"""The walk and the shortest path, on graphs in memory."""

import pytest

from services.graph.traversal import Link, shortest_path, walk


class Graph:
    """Links by pairs; the surest first, as the database gives them."""

    def __init__(self, *pairs, confidence=0.8):
        self.links = [
            Link(number, pair[0], pair[1], "knows", pair[2] if len(pair) > 2 else confidence, number)
            for number, pair in enumerate(pairs, start=1)
        ]
        self.calls = 0

    def __call__(self, ids, each):
        self.calls += 1
        ordered = sorted(self.links, key=lambda link: (-link.confidence, -link.edge_id))
        found = {}
        for end in ("source_id", "target_id"):
            for entity in ids:
                mine = [link for link in ordered if getattr(link, end) == entity]
                found |= {link.edge_id: link for link in mine[:each]}
        return sorted(found.values(), key=lambda link: (-link.confidence, -link.edge_id))


def depths(found):
    return {entity: reached.depth for entity, reached in found.reached.items()}


def test_a_chain_of_three_is_walked_in_two_steps():
    found = walk({1: 1.0}, Graph((1, 2), (2, 3)), max_hops=2)
    assert (depths(found), set(found.links)) == ({1: 0, 2: 1, 3: 2}, {1, 2})
    assert not found.truncated


def test_a_circle_has_each_entity_once():
    found = walk({1: 1.0}, Graph((1, 2), (2, 1)), max_hops=3)
    assert (depths(found), set(found.links)) == ({1: 0, 2: 1}, {1, 2})


def test_a_diamond_has_four_entities_and_four_facts():
    found = walk({1: 1.0}, Graph((1, 2), (1, 3), (2, 4), (3, 4)), max_hops=2)
    assert (depths(found), set(found.links)) == ({1: 0, 2: 1, 3: 1, 4: 2}, {1, 2, 3, 4})


def test_facts_are_followed_against_their_direction():
    """Graph bug 40: the distance is that of the nearer end, whichever way a fact points."""
    found = walk({3: 1.0}, Graph((1, 2), (2, 3)), max_hops=2)
    assert depths(found) == {3: 0, 2: 1, 1: 2}


def test_an_isolated_start_is_all_there_is_and_no_step_is_no_fact():
    assert depths(walk({7: 1.0}, Graph((1, 2)), max_hops=2)) == {7: 0}
    none = walk({1: 1.0}, Graph((1, 2)), max_hops=0)
    assert (depths(none), none.links) == ({1: 0}, {})


def test_facts_between_the_outermost_entities_belong_to_the_walk():
    found = walk({1: 1.0}, Graph((1, 2), (1, 3), (2, 4), (3, 5), (4, 5), (5, 6)), max_hops=2)
    assert set(found.links) == {1, 2, 3, 4, 5}
    assert 6 not in found.reached


def test_many_starts_are_one_walk():
    graph = Graph(*((number, number + 1) for number in range(1, 40)))
    found = walk({1: 1.0, 20: 0.5, 38: 0.9}, graph, max_hops=2)
    # One call for each step, and one for what lies between the outermost.
    assert graph.calls == 3
    assert found.reached[21].depth == 1
    assert found.reached[21].match == 0.5
    assert found.reached[3].match == 1.0


def test_the_better_match_counts_where_two_starts_are_equally_near():
    found = walk({1: 0.3, 3: 1.0}, Graph((1, 2), (2, 3)), max_hops=1)
    assert found.reached[2].match == 1.0


def test_a_budget_keeps_the_start_and_the_surest_and_says_so():
    """Graph bug 43: the predecessor cut unordered ids, so that even the start could vanish."""
    hub = Graph(*((50, number, number / 100) for number in range(1, 40)))
    found = walk({50: 1.0}, hub, max_hops=1, max_nodes=5)
    assert (set(found.reached), found.truncated) == ({50, 39, 38, 37, 36}, True)
    assert {link.target_id for link in found.links.values()} == {39, 38, 37, 36}
    few = walk({50: 1.0}, hub, max_hops=1, max_links=20)
    assert few.truncated
    assert {link.target_id for link in few.links.values()} == set(range(30, 40))
    whole = walk({50: 1.0}, hub, max_hops=1)
    assert (len(whole.links), whole.truncated) == (39, False)


def test_equally_sure_entities_are_cut_by_id():
    hub = Graph(*((50, number) for number in range(1, 40)))
    assert set(walk({50: 1.0}, hub, max_hops=1, max_nodes=4).reached) == {50, 1, 2, 3}


@pytest.mark.parametrize("direction", [1, -1])
def test_a_shortest_path_is_found_whichever_way_facts_point(direction):
    pairs = [(1, 2), (2, 3), (3, 4), (1, 5), (5, 4)]
    graph = Graph(*(pair[::direction] for pair in pairs))
    path = shortest_path(1, 4, graph, max_hops=8, max_nodes=100)
    assert [{link.source_id, link.target_id} for link in path] == [{1, 5}, {5, 4}]


def test_a_path_runs_from_its_start_to_its_goal():
    graph = Graph(*((number, number + 1) for number in range(1, 9)))
    path = shortest_path(1, 8, graph, max_hops=8, max_nodes=100)
    assert [link.source_id for link in path] == [1, 2, 3, 4, 5, 6, 7]
    back = shortest_path(8, 1, graph, max_hops=8, max_nodes=100)
    assert [link.target_id for link in back] == [8, 7, 6, 5, 4, 3, 2]


def test_no_path_is_none_and_the_path_to_oneself_is_empty():
    graph = Graph((1, 2), (3, 4))
    assert shortest_path(1, 4, graph, max_hops=8, max_nodes=100) is None
    assert shortest_path(1, 1, graph, max_hops=8, max_nodes=100) == []
    far = Graph(*((number, number + 1) for number in range(1, 9)))
    assert shortest_path(1, 9, far, max_hops=7, max_nodes=100) is None
