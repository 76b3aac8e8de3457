import pytest

TIME = 1_935_000_000_000_000


@pytest.fixture
def stored(opened):
    for number, text in enumerate(("green tea", "black tea [bold]", "coffee")):
        opened.memory.remember(
            "user" if number else "assistant",
            text,
            conversation=f"c{number}",
            speaker="Ann",
            created_at=TIME + number,
        )


def contents(result):
    return [hit["content"] for hit in result.json["hits"]]


def test_messages_are_printed_best_first_with_time_speaker_place_and_score(zeph, stored):
    lines = zeph("recall", "black tea").out.splitlines()
    assert lines[0].startswith("1. 2031-04-26 20:00:00 user (Ann), message 2, conversation 2  [")
    assert lines[1] == "   black tea [bold]"


def test_filters_narrow_the_answer(zeph, stored):
    assert sorted(contents(zeph("recall", "tea", "--json"))) == ["black tea [bold]", "green tea"]
    assert contents(zeph("recall", "tea", "--role", "user", "--json")) == ["black tea [bold]"]
    assert contents(zeph("recall", "tea", "--conversation", "c0", "--json")) == ["green tea"]
    assert contents(zeph("recall", "tea", "--limit", "1", "--role", "assistant", "--json")) == ["green tea"]
    assert contents(zeph("recall", "tea", "--before", "2031-04-26", "--json")) == []
    assert contents(zeph("recall", "tea", "--as-of", "2031-04-26T19:59", "--json")) == []
    assert len(contents(zeph("recall", "tea", "--since", "2031-04-26T22:00+02:00", "--json"))) == 2
    assert contents(zeph("recall", "tea", "--namespace", "other", "--json")) == []


def test_time_01_a_time_without_a_zone_is_utc(zeph, stored):
    assert len(contents(zeph("recall", "tea", "--since", "2031-04-26T20:00:00", "--json"))) == 2
    assert contents(zeph("recall", "tea", "--since", "2031-04-26T20:00:01", "--json")) == []


def test_explain_shows_the_route_and_what_each_leg_said(zeph, stored):
    out = zeph("recall", "what about tea yesterday", "--explain").out
    assert out.startswith("route episodic, searched for: what about tea\n")
    assert "keyword " in out


def test_json_names_the_legs_of_each_hit(zeph, stored):
    found = zeph("recall", "black tea", "--json").json
    assert (found["route"], found["degraded"]) == ("keyword", [])
    assert found["hits"][0]["legs"]["keyword"]["rank"] == 1


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--since", "soon"], "--since is 'soon'"),
        (["--role", "ghost"], "role is 'ghost'"),
        (["--conversation", "nothing"], "has no conversation nothing"),
        (["--mode", "psychic"], "recall mode is 'psychic'"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_the_reason(zeph, stored, options, reason):
    result = zeph("recall", "tea", *options)
    assert result.code == 2
    assert reason in result.err


def test_nothing_found_is_said_and_is_no_failure(zeph, stored):
    result = zeph("recall", "zebra")
    assert (result.code, result.out) == (0, "")
    assert "nothing found" in result.err


def test_what_is_printed_counts_as_accessed(zeph, opened, stored):
    zeph("recall", "coffee")
    zeph("recall", "coffee", "--json")
    with opened.database.read() as unit:
        found = unit.messages.get("default", [1, 2, 3])
    assert [message.access_count for message in found.values()] == [0, 0, 2]


def test_a_search_by_meaning_alone_says_that_there_are_no_vectors(zeph, opened, monkeypatch):
    assert zeph("remember", "the pump leaks").code == 0
    monkeypatch.setenv("ZEPH_EMBEDDING__PROVIDER", "none")
    assert "embedding.provider is none" in zeph("recall", "pump", "--mode", "vector").err
    assert "degraded" not in zeph("recall", "pump").err
