import pytest

from services.cache.models import CacheRequest, Source, SourceKind


@pytest.fixture
def stored(opened):
    """Two answers, one of them made of a message."""
    message = opened.memory.remember("user", "the winch is broken")
    cache = opened.response_cache
    for text, sources in (("a", ()), ("b", [Source(SourceKind.MESSAGE, message)])):
        request = CacheRequest("m", [{"role": "user", "content": text}])
        assert cache.put(request, "answer", sources=sources)
        cache.get(request)
    cache.close()


def test_stats_tell_what_is_stored_and_of_use(zeph, stored):
    found = zeph("cache", "stats", "--json").json
    assert (found["entries"], found["valid"], found["size_bytes"], found["hits"]) == (2, 2, 12, 2)
    assert "entries: 2\n" in zeph("cache", "stats").out
    assert "oldest at: -\n" in zeph("cache", "stats", "--namespace", "other").out


def test_answers_made_of_a_row_are_removed(zeph, stored):
    assert zeph("cache", "invalidate", "message:1").out == "removed 1 cached answer\n"
    assert zeph("cache", "invalidate", "message:1", "chunk:9", "--json").json == {"removed": 0}
    assert zeph("cache", "stats", "--json").json["entries"] == 1


def test_a_source_that_is_none_is_named_with_the_way_out(zeph, stored):
    result = zeph("cache", "invalidate", "message")
    assert (result.code, result.out) == (2, "")
    assert "such as message:12" in result.err


def test_clearing_removes_those_of_the_namespace(zeph, stored):
    assert zeph("cache", "clear", "--namespace", "other").out == "removed 0 cached answers\n"
    assert zeph("cache", "clear", "--json").json == {"removed": 2}
