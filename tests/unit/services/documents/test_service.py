import os
from pathlib import Path

import pytest

from services import errors
from services.documents import service
from services.documents.models import DocumentMetadata, SplitterConfig
from services.documents.service import IngestRequest
from services.jobs.models import EMBED_DOCUMENT, INGEST_FILE, REMOVE_VECTORS, Queue
from tests.builders import (
    FallibleStore,
    PlainParser,
    ScriptedEmbedder,
    claim,
    found_texts,
    ingest,
    job,
    outcomes,
    rows,
    submit,
    work,
    write_files,
)
from workers.job import Runner

SMALL = SplitterConfig(chunk_size=24, chunk_overlap=0)


def sections(*names):
    """A Markdown text with one chunk per section when cut small."""
    return "\n\n".join(f"# {name}\n\nAll that is to be said about {name} is said here." for name in names)


@pytest.fixture
def container(build):
    """Files are read in this process and embeddings counted, both in the open."""
    made = build()
    made.parser = PlainParser()
    made.embedder = ScriptedEmbedder()
    return made


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "docs"


def chunk_texts(container):
    return [text for (text,) in rows(container, "SELECT text FROM chunks ORDER BY document_id, position")]


def vector_count(container):
    return sum(container.vectors.count(item.physical) for item in collections(container))


def collections(container):
    with container.database.read() as unit:
        return unit.collections.all()


def sources(container, **where):
    with container.database.read() as unit:
        return {Path(it.source).name for it in unit.documents.page(where.get("namespace", "default"), None)}


def consistent(container):
    """Rows, index, marks and vectors tell the same story, and nothing is left to be buried."""
    marks = rows(container, "SELECT coalesce(sum(windows), 0) FROM chunk_embeddings")[0][0]
    chunks = rows(container, "SELECT count(*) FROM chunks")[0][0]
    assert vector_count(container) == marks
    assert rows(container, "SELECT count(DISTINCT chunk_id) FROM chunk_embeddings") == [(chunks,)]
    assert rows(container, "SELECT count(*) FROM vector_tombstones") == [(0,)]
    from services.adapters import migrations

    assert migrations.damage(container.sqlite) == []


# ---- a batch ---------------------------------------------------------------------------------------------------


def test_a_folder_becomes_searchable_by_words_and_by_meaning(container, folder):
    write_files(folder, {"a.md": sections("whales", "ships"), "deep/er/b.txt": "The harbour closes at noon."})
    batch = ingest(container, folder, splitter=SMALL)
    assert (batch.state, batch.outcomes, batch.failures) == ("done", {"stored": 2}, 0)
    assert batch.vectors == vector_count(container) > 0
    assert batch.chunks_without_vectors == 0
    for mode in ("keyword", "vector", "hybrid"):
        assert "harbour closes" in found_texts(container, "when does the harbour close", mode=mode)[0]
    consistent(container)


def test_every_file_of_a_mixed_folder_ends_as_exactly_one_outcome(build, tmp_path, folder):
    container = build()  # with the real parser in its child process
    write_files(
        folder,
        {
            "good.md": "# Good\n\nSome text.",
            "empty.txt": "",
            "blank.md": " \n\n ",
            "nul.txt": b"a\x00b",
            "broken.pdf": b"%PDF-1.4 nothing of a PDF",
            "program.exe": b"MZ",
            "old.doc": b"\xd0\xcf\x11\xe0",
            ".hidden.txt": "not looked at",
            "latin.txt": "Größe".encode("latin-1"),
        },
    )
    (folder / "loop").symlink_to(folder)
    (folder / "away.txt").symlink_to(tmp_path / "secret.txt")
    (tmp_path / "secret.txt").write_text("secret")
    os.mkfifo(folder / "pipe.txt")
    os.link(folder / "good.md", folder / "good-again.md")

    batch = ingest(container, folder)

    ends = {name: report.status for name, report in outcomes(container, batch).items()}
    assert ends == {
        "good.md": "skipped",  # the same file as good-again.md, which comes first
        "good-again.md": "stored",
        "empty.txt": "empty",
        "blank.md": "empty",
        "nul.txt": "failed",
        "broken.pdf": "failed",
        "program.exe": "skipped",
        "old.doc": "skipped",
        "latin.txt": "stored",
        "loop": "skipped",
        "away.txt": "skipped",
        "pipe.txt": "skipped",
    }
    assert batch.files == batch.files_done == len(ends)
    assert batch.failures == sum(end == "failed" for end in ends.values())
    for report in outcomes(container, batch).values():
        assert report.message or report.status in ("stored", "empty")
    consistent(container)


def test_a_file_whose_name_is_no_text_is_stored_under_a_readable_one(container, folder):
    write_files(folder, {os.fsdecode(b"caf\xe9.txt"): "latin name", "[a]*?.txt": "marks"})
    batch = ingest(container, folder, prune=True)
    assert set(outcomes(container, batch)) == {r"caf\xe9.txt", "[a]*?.txt"}
    assert ingest(container, folder, prune=True).outcomes == {"unchanged": 2}
    assert sorted(found_texts(container, "latin marks", mode="keyword")) == ["latin name", "marks"]


def test_a_path_that_does_not_exist_is_refused_before_anything_is_stored(container, folder):
    with pytest.raises(errors.InputError, match=r"docs does not exist: check the path"):
        submit(container, folder)
    assert rows(container, "SELECT count(*) FROM jobs") == [(0,)]


@pytest.mark.parametrize("wrong", [{"paths": ()}, {"collection": ""}, {"namespace": ""}])
def test_a_request_that_makes_no_sense_is_refused(wrong):
    with pytest.raises(errors.InputError):
        IngestRequest(**{"paths": ("a",), **wrong})


def test_an_empty_folder_is_a_batch_without_files(container, folder):
    folder.mkdir()
    batch = ingest(container, folder)
    assert (batch.state, batch.files, batch.outcomes) == ("done", 0, {})


def test_the_same_request_again_is_the_same_batch_until_it_is_finished(container, folder):
    write_files(folder, {"a.txt": "one"})
    request = IngestRequest((str(folder),))
    first = container.ingestion.submit(request)
    assert not first.resumed
    Runner(container).drain([Queue.INGESTION], seconds=0)
    second = container.ingestion.submit(request)
    assert (second.batch_id, second.resumed) == (first.batch_id, True)
    work(container)
    assert container.ingestion.submit(request).batch_id != first.batch_id


def test_two_batches_of_one_folder_at_once_each_account_for_every_file(container, folder):
    write_files(folder, {"a.txt": "one", "b.txt": "two"})
    batches = [submit(container, folder), submit(container, folder, splitter=SMALL)]
    other = submit(container, folder, collection="other")
    work(container)
    for batch in [*batches, other]:
        with container.database.read() as unit:
            files = unit.jobs.select(parent_id=batch, kind=INGEST_FILE.name)
        assert sorted(Path(it.outcome["source"]).name for it in files) == ["a.txt", "b.txt"]
    assert rows(container, "SELECT collection, count(*) FROM documents GROUP BY collection") == [
        ("other", 2),
        ("zeph_documents", 2),
    ]
    assert len(chunk_texts(container)) == 4
    consistent(container)


def test_a_batch_whose_worker_vanished_doubles_nothing(container, folder):
    write_files(folder, {f"{number}.txt": f"text {number}" for number in range(5)} | {"x.exe": "MZ"})
    batch_id = submit(container, folder)
    run = claim(container, batch_id)
    # Everything was enqueued and recorded, but the state was not: the kill came in between.
    run.wait_for_children = lambda unit: (_ for _ in ()).throw(KeyboardInterrupt)
    with pytest.raises(KeyboardInterrupt):
        container.ingestion.run_batch(run)
    container.clock.advance(31)
    container.ledger.sweep()
    work(container)

    with container.database.read() as unit:
        files = unit.jobs.select(parent_id=batch_id, kind=INGEST_FILE.name)
    assert sorted(Path(it.outcome["source"]).name for it in files) == [
        *(f"{number}.txt" for number in range(5)),
        "x.exe",
    ]
    assert job(container, batch_id).state == "done"
    assert len(container.parser.parsed) == 5
    consistent(container)


# ---- again -----------------------------------------------------------------------------------------------------


def test_unchanged_files_are_neither_parsed_nor_embedded_again(container, folder):
    write_files(folder, {"a.md": sections("whales"), "b.txt": "text"})
    ingest(container, folder)
    container.parser.parsed.clear()
    container.embedder.texts.clear()
    write_files(folder, {"a.md": sections("whales")})  # touched, with the same bytes
    batch = ingest(container, folder)
    assert batch.outcomes == {"unchanged": 2}
    assert container.parser.parsed == []
    assert container.embedder.texts == []


def test_only_the_new_chunks_of_a_changed_file_are_embedded(container, folder):
    write_files(folder, {"a.md": sections(*"abcdefghij")})
    first = ingest(container, folder, splitter=SMALL)
    assert first.added == first.chunks == 10
    container.embedder.texts.clear()

    write_files(folder, {"a.md": sections("a", "NEW", *"bcdefghij")})
    second = ingest(container, folder, splitter=SMALL)

    assert (second.outcomes, second.chunks, second.added) == ({"stored": 1}, 11, 1)
    (text,) = container.embedder.texts
    assert "about NEW" in text
    assert "about NEW" in chunk_texts(container)[1]
    assert [
        position for (position,) in rows(container, "SELECT position FROM chunks ORDER BY start_offset")
    ] == list(range(11))
    consistent(container)


def test_chunks_that_are_stored_already_do_not_keep_the_others_out(container, folder):
    write_files(folder, {"a.md": sections(*"abc")})
    ingest(container, folder, splitter=SMALL)
    write_files(folder, {"a.md": sections(*"abcdefghij")})
    batch = ingest(container, folder, splitter=SMALL)
    assert (batch.chunks, batch.added) == (10, 7)
    assert len(chunk_texts(container)) == 10
    consistent(container)


def test_a_file_that_became_shorter_leaves_no_tail(container, folder):
    write_files(folder, {"a.md": sections("one", "two", "three", "four", "five")})
    ingest(container, folder, splitter=SMALL)
    write_files(folder, {"a.md": sections("one", "two")})
    ingest(container, folder, splitter=SMALL)
    assert len(chunk_texts(container)) == 2
    for mode in ("keyword", "vector"):
        assert not [text for text in found_texts(container, "said about five", mode=mode) if "five" in text]
    consistent(container)


def test_another_chunk_size_replaces_all_chunks(container, folder):
    write_files(folder, {"a.txt": " ".join(f"Sentence number {number} stands here." for number in range(60))})
    ingest(container, folder, splitter=SplitterConfig(200, 0))
    old = set(chunk_texts(container))
    batch = ingest(container, folder, splitter=SplitterConfig(50, 0))
    assert batch.outcomes == {"stored": 1}
    new = chunk_texts(container)
    assert len(new) == batch.chunks > len(old)
    gone = old.difference(new)
    assert len(gone) >= 2
    assert gone.isdisjoint(found_texts(container, "Sentence number 7", limit=100))
    consistent(container)


def test_equal_paragraphs_stay_separate_chunks(container, folder):
    text = "\n\n".join(["The same words in the same order."] * 3)
    write_files(folder, {"a.txt": text})
    ingest(container, folder, splitter=SplitterConfig(8, 0))
    assert (
        chunk_texts(container) == ["The same words in the same order."] * 3
        or len(chunk_texts(container)) == 3
    )
    write_files(folder, {"a.txt": text + "\n\nThe same words in the same order."})
    container.embedder.texts.clear()
    assert ingest(container, folder, splitter=SplitterConfig(8, 0)).chunks == 4
    assert len(chunk_texts(container)) == 4
    consistent(container)


def test_a_file_that_was_emptied_is_forgotten(container, folder):
    write_files(folder, {"a.txt": "words"})
    ingest(container, folder)
    write_files(folder, {"a.txt": ""})
    assert ingest(container, folder).outcomes == {"empty": 1}
    assert chunk_texts(container) == []
    assert sources(container) == set()
    consistent(container)


def test_a_file_that_can_no_longer_be_read_keeps_its_last_good_version(container, folder):
    write_files(folder, {"a.txt": "good words"})
    ingest(container, folder)
    write_files(folder, {"a.txt": b"\xff\xfe\xfa"})
    assert ingest(container, folder).outcomes == {"failed": 1}
    assert chunk_texts(container) == ["good words"]


def test_a_file_that_changes_while_it_is_read_is_read_again(container, folder):
    write_files(folder, {"a.txt": "the first version"})

    def change():
        container.parser.before_return = lambda: None
        write_files(folder, {"a.txt": "the second version"})

    container.parser.before_return = change
    batch_id = submit(container, folder)
    work(container)
    assert chunk_texts(container) == []
    container.clock.advance(1)
    work(container)
    assert chunk_texts(container) == ["the second version"]
    assert job(container, batch_id).state == "done"


def test_two_workers_on_one_path_end_with_one_whole_version(container, folder):
    write_files(folder, {"a.md": sections("old")})
    submit(container, folder, splitter=SMALL)
    (batch,) = [claim(container, it) for (it,) in rows(container, "SELECT id FROM jobs")]
    container.ingestion.run_batch(batch)
    (child,) = [it for (it,) in rows(container, "SELECT id FROM jobs WHERE parent_id IS NOT NULL")]
    slow = claim(container, child)

    def overtaken():
        # While the first worker parses, its lease lapses and another one stores a newer version.
        container.parser.before_return = lambda: None
        container.clock.advance(31)
        container.ledger.sweep()
        write_files(folder, {"a.md": sections("new", "newer")})
        work(container)

    container.parser.before_return = overtaken
    with pytest.raises((errors.LeaseLost, errors.TransientError)):
        container.ingestion.ingest_file(slow)
    assert ["old" in text for text in chunk_texts(container)] == [False, False]
    consistent(container)


# ---- taking away -----------------------------------------------------------------------------------------------


def test_removing_a_document_takes_chunks_index_marks_and_vectors_with_it(container, folder):
    write_files(folder, {"a.md": sections("whales"), "b.md": sections("ships")})
    ingest(container, folder)
    assert container.ingestion.remove([str(folder / "a.md"), "unknown"]) == 1
    assert sources(container) == {"b.md"}
    assert not [text for text in found_texts(container, "whales") if "whales" in text]
    assert rows(container, "SELECT count(*) FROM vector_tombstones")[0][0] == 1
    work(container)
    assert vector_count(container) == 1
    consistent(container)


def test_prune_forgets_what_is_gone_below_the_folder_and_nothing_else(container, folder, tmp_path):
    write_files(
        tmp_path, {"docs/a.txt": "a", "docs/sub/b.txt": "b", "docs-old/c.txt": "c", "docs_x.txt": "d"}
    )
    ingest(container, folder, tmp_path / "docs-old", tmp_path / "docs_x.txt")
    for gone in ("docs/sub/b.txt", "docs-old/c.txt", "docs_x.txt"):
        (tmp_path / gone).unlink()

    batch = ingest(container, folder)
    assert batch.outcomes == {"unchanged": 1}
    assert sources(container) == {"a.txt", "b.txt", "c.txt", "docs_x.txt"}, "without --prune nothing goes"

    batch = ingest(container, folder, prune=True)
    assert batch.outcomes == {"unchanged": 1, "removed": 1}
    assert outcomes(container, batch)["b.txt"].status == "removed"
    assert sources(container) == {"a.txt", "c.txt", "docs_x.txt"}
    consistent(container)


def test_a_file_that_comes_while_a_folder_is_pruned_stays(container, folder, monkeypatch):
    write_files(folder, {"a.txt": "a", "b.txt": "b"})
    ingest(container, folder)
    prune = service.IngestionPipeline._prune

    def after_another_batch(pipeline, *given):
        monkeypatch.setattr(service.IngestionPipeline, "_prune", prune)
        write_files(folder, {"aa.txt": "new"})
        ingest(container, folder / "aa.txt")
        prune(pipeline, *given)

    monkeypatch.setattr(service.IngestionPipeline, "_prune", after_another_batch)
    (folder / "b.txt").unlink()
    assert ingest(container, folder, prune=True).outcomes == {"unchanged": 1, "removed": 1}
    assert sources(container) == {"a.txt", "aa.txt"}


def test_prune_never_takes_everything_when_nothing_can_be_read(container, folder):
    write_files(folder, {"a.txt": "a", "b.txt": "b"})
    ingest(container, folder)
    for path in folder.iterdir():
        path.unlink()
    batch = ingest(container, folder, prune=True)
    assert batch.outcomes == {"skipped": 1}
    assert "its 2 documents stay" in outcomes(container, batch)[folder.name].message
    assert sources(container) == {"a.txt", "b.txt"}


def test_prune_takes_nothing_of_a_folder_that_is_empty_though_another_one_is_not(container, tmp_path):
    write_files(tmp_path, {"one/a.txt": "a", "one/gone.txt": "g", "disk/b.txt": "b", "disk/c.txt": "c"})
    ingest(container, tmp_path / "one", tmp_path / "disk")
    for path in (tmp_path / "one" / "gone.txt", *(tmp_path / "disk").iterdir()):
        path.unlink()
    batch = ingest(container, tmp_path / "one", tmp_path / "disk", prune=True)
    assert batch.outcomes == {"unchanged": 1, "removed": 1, "skipped": 1}
    assert sources(container) == {"a.txt", "b.txt", "c.txt"}


def test_prune_keeps_what_lies_below_a_folder_that_cannot_be_read_just_now(container, folder, monkeypatch):
    write_files(folder, {"a.txt": "a", "mounted/b.txt": "b", "mounted/deep/c.txt": "c"})
    ingest(container, folder)
    listing = Path.iterdir

    def unreadable(path):
        if path.name == "mounted":
            raise PermissionError(13, "Permission denied")
        return listing(path)

    monkeypatch.setattr(Path, "iterdir", unreadable)
    batch = ingest(container, folder, prune=True)
    assert batch.outcomes == {"unchanged": 1, "failed": 1}
    assert sources(container) == {"a.txt", "b.txt", "c.txt"}


def test_prune_keeps_everything_when_the_walk_was_cut_short(container, folder, monkeypatch):
    write_files(folder, {f"{name}.txt": name for name in "abcd"})
    ingest(container, folder)
    whole = service.walk
    monkeypatch.setattr(service, "walk", lambda paths: whole(paths, max_files=2))
    batch = ingest(container, folder, prune=True)
    assert outcomes(container, batch)["c.txt"].reason == "too_many"
    assert sources(container) == {"a.txt", "b.txt", "c.txt", "d.txt"}


def test_prune_works_below_a_folder_that_is_named_by_a_link(container, folder, tmp_path):
    write_files(folder, {"a.txt": "a", "b.txt": "b"})
    link = tmp_path / "link"
    link.symlink_to(folder)
    ingest(container, link)
    (folder / "b.txt").unlink()
    assert ingest(container, link, prune=True).outcomes == {"unchanged": 1, "removed": 1}
    assert sources(container) == {"a.txt"}


def test_prune_stays_in_its_namespace_and_collection(container, folder):
    write_files(folder, {"a.txt": "a", "b.txt": "b"})
    for where in ({}, {"namespace": "other"}, {"collection": "second"}):
        ingest(container, folder, **where)
    (folder / "b.txt").unlink()
    ingest(container, folder, prune=True)
    assert rows(container, "SELECT namespace, collection, count(*) FROM documents GROUP BY 1, 2") == [
        ("default", "second", 2),
        ("default", "zeph_documents", 1),
        ("other", "zeph_documents", 2),
    ]


# ---- vectors ---------------------------------------------------------------------------------------------------


def test_without_an_embedder_there_are_no_vectors_and_no_jobs_for_them(build, folder):
    container = build(embedding__provider="none")
    container.parser = PlainParser()
    write_files(folder, {"a.txt": "plain words"})
    batch = ingest(container, folder)
    assert (batch.state, batch.outcomes, batch.vectors) == ("done", {"stored": 1}, 0)
    assert rows(container, "SELECT count(*) FROM jobs WHERE queue = 'embedding'") == [(0,)]
    assert found_texts(container, "words") == ["plain words"]
    assert ingest(container, folder).outcomes == {"unchanged": 1}


def test_vectors_come_when_an_embedder_is_configured_later(build, folder):
    before = build(embedding__provider="none")
    before.parser = PlainParser()
    write_files(folder, {"a.txt": "plain words"})
    ingest(before, folder)
    after = build()
    after.parser = PlainParser()
    batch = ingest(after, folder)
    assert (batch.outcomes, batch.added, batch.vectors) == ({"unchanged": 1}, 0, 1)
    consistent(after)


def test_a_provider_that_is_down_costs_meaning_for_a_while_and_nothing_else(container, folder):
    container.embedder.error = errors.ModelUnavailable("connection refused")
    write_files(folder, {"a.txt": "plain words"})
    batch = ingest(container, folder)
    assert (batch.state, batch.outcomes, batch.chunks_without_vectors) == ("waiting", {"stored": 1}, 1)
    assert found_texts(container, "words") == ["plain words"]

    container.embedder.error = None
    container.clock.advance(3)
    work(container)
    assert job(container, batch.batch_id).state == "done"
    consistent(container)


def test_vectors_that_were_given_up_are_made_by_a_retry(container, folder):
    container.embedder.error = errors.ModelRejected("no such model")
    write_files(folder, {"a.txt": "plain words"})
    batch = ingest(container, folder)
    assert (batch.state, batch.dead_jobs, batch.failures) == ("done", 1, 1)
    container.embedder.error = None
    with container.database.write() as unit:
        (dead,) = unit.jobs.select(kind=EMBED_DOCUMENT.name)
        assert unit.jobs.retry(dead.id, now=container.clock.now())
    work(container)
    assert job(container, batch.batch_id).state == "done"
    consistent(container)


def test_a_crash_between_vectors_and_their_marks_leaves_no_double(container, folder):
    words = " ".join(f"word{number}" for number in range(450))  # three windows
    write_files(folder, {"a.txt": words, "b.txt": "short"})
    submit(container, folder, splitter=SplitterConfig(8_000, 0))
    work(container, [Queue.INGESTION])
    written = container.spaces.write

    def crash(*arguments):
        written(*arguments)
        container.spaces.write = written
        raise MemoryError

    container.spaces.write = crash
    work(container)
    assert rows(container, "SELECT count(*) FROM chunk_embeddings")[0][0] < 2
    container.clock.advance(3)
    work(container)
    assert vector_count(container) == 4
    consistent(container)


def test_a_document_that_is_deleted_while_it_is_embedded_leaves_no_vector(container, folder):
    write_files(folder, {"a.txt": "plain words", "b.txt": "other words"})
    submit(container, folder)
    work(container, [Queue.INGESTION])

    def delete():
        container.embedder.before_embed = lambda: None
        container.ingestion.remove([str(folder / "a.txt")])

    container.embedder.before_embed = delete
    work(container)
    assert vector_count(container) == 1
    consistent(container)


def test_chunks_that_come_in_while_their_document_is_embedded_get_vectors_too(container, folder):
    write_files(folder, {"a.md": sections("one")})
    submit(container, folder, splitter=SMALL)
    work(container, [Queue.INGESTION])

    def change():
        container.embedder.before_embed = lambda: None
        write_files(folder, {"a.md": sections("one", "two")})
        submit(container, folder, splitter=SMALL, prune=True)
        work(container, [Queue.INGESTION])

    container.embedder.before_embed = change
    work(container)
    assert len(chunk_texts(container)) == 2
    consistent(container)


def test_a_vector_store_that_is_down_is_waited_for(container, folder):
    container.vectors = FallibleStore()
    container.vectors.down = True
    write_files(folder, {"a.txt": "plain words"})
    batch = ingest(container, folder)
    assert batch.state == "waiting"
    container.vectors.down = False
    container.clock.advance(3)
    work(container)
    consistent(container)


# ---- texts -----------------------------------------------------------------------------------------------------


def test_a_text_is_stored_under_its_source_and_replaced_by_the_next_one(container):
    def add(text):
        return container.ingestion.add_text(text, DocumentMetadata("note-1", "text/plain", title="Note"))

    assert add("the first note") == "stored"
    assert found_texts(container, "first") == ["the first note"]
    assert add("the first note") == "unchanged"
    assert add("the second note") == "stored"
    assert found_texts(container, "first", mode="keyword") == []
    assert add(" ") == "empty"
    work(container)
    assert chunk_texts(container) == []
    consistent(container)


def test_a_text_with_nul_and_lone_surrogates_is_stored_readable(container):
    outcome = container.ingestion.add_text("a\x00b \ud800 c\r\nd", DocumentMetadata("odd", "text/plain"))
    work(container)
    assert outcome == "stored"
    assert chunk_texts(container) == ["a\ufffdb ? c\nd"]
    consistent(container)


@pytest.mark.parametrize("wrong", [{"source": "\ud800"}, {"title": "\ud800"}])
def test_a_text_whose_name_cannot_be_stored_is_refused(container, wrong):
    metadata = DocumentMetadata(**({"source": "s", "content_type": "text/plain"} | wrong))
    with pytest.raises(errors.InputError, match="cannot be stored"):
        container.ingestion.add_text("text", metadata)


def test_a_text_is_refused_before_it_is_stored_when_too_much_waits(build):
    container = build(jobs__max_live_jobs=1)
    container.embedder = ScriptedEmbedder()
    container.ingestion.add_text("one", DocumentMetadata("1", "text/plain"))
    with pytest.raises(errors.BackPressure):
        container.ingestion.add_text("two", DocumentMetadata("2", "text/plain"))
    assert chunk_texts(container) == ["one"]


def test_removal_is_one_job_however_many_documents_go(container):
    for number in range(5):
        container.ingestion.add_text(f"text {number}", DocumentMetadata(str(number), "text/plain"))
    work(container)
    container.ingestion.remove([str(number) for number in range(4)])
    container.ingestion.remove(["4"])
    with container.database.read() as unit:
        assert len(unit.jobs.select(kind=REMOVE_VECTORS.name)) == 1
    work(container)
    consistent(container)


def test_documents_do_not_go_where_messages_have_their_vectors(container, tmp_path):
    with pytest.raises(errors.InputError, match="zeph_conversations is not for documents"):
        submit(container, tmp_path, collection="zeph_conversations")
    with pytest.raises(errors.InputError, match="zeph_key_facts is not for documents"):
        container.ingestion.add_text("x", DocumentMetadata("x", "text/plain"), collection="zeph_key_facts")
