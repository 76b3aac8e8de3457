"""A store in which a job of each kind waits to be run, with everything that kind can meet."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from services.adapters.clock import SystemEntropy
from services.adapters.in_memory import FixedEntropy, ManualClock
from services.bootstrap import Container
from services.documents.models import DocumentMetadata, SplitterConfig
from services.graph.communities import refresh_job
from services.graph.eviction import evict_job
from services.jobs import models as kinds
from services.jobs.models import JobKind, JobState, NewJob
from services.memory.models import NewMessage, Role
from services.ports import ChatReply, ChatRequest
from services.settings import load_settings
from tests.builders import Bells, PlainParser, claim, enqueue, submit, work, write_files
from tests.faults.harness import Tripwire
from workers.job import Runner

BEGINNING = 1_750_000_000_000_000
HOUR = 3_600_000_000
_TEXT = "\n\n".join(f"Paragraph {n} tells of dome {n}, its winch and its two hatches." for n in range(40))
_SETTINGS = {
    "embedding.provider": "fake",
    "jobs.min_free_disk_bytes": 0,
    "llm.provider": "openai",
    "llm.base_url": "http://127.0.0.1:9/v1",
    "llm.model": "m",
    "memory.summarization_threshold": 8,
    "memory.graph.use_embedding_resolution": True,
}
GRAPH = {"memory.graph.enabled": True}


class Talker:
    """A language model that says the same to the same question, whatever the question is."""

    identity = "fake/talker"

    def complete(self, request: ChatRequest) -> ChatReply:
        """An answer that summaries and extraction can both read; prose where no schema is asked for."""
        if request.schema is None:
            return ChatReply("Hanne repairs winches.", 10, 5)
        return ChatReply(
            json.dumps(
                {
                    "summary": "Hanne repaired the winch of dome 7.",
                    "key_facts": [
                        "Hanne repaired the winch.",
                        "Hanne repaired the winch",
                        "Dome 7 has two hatches.",
                    ],
                    "entities": [
                        {"name": "Hanne", "type": "person", "summary": "repairs winches"},
                        {"name": "Winch", "type": "tool", "summary": "of dome 7"},
                        {"name": "Winches", "type": "tool", "summary": "of the domes"},
                    ],
                    "edges": [
                        {
                            "source": "Hanne",
                            "target": "Winch",
                            "relation": "repaired",
                            "fact": "Hanne repaired the winch.",
                        }
                    ],
                }
            ),
            10,
            5,
        )


def open_store(
    folder: Path,
    *,
    hours: float = 0,
    tripwire: Tripwire | None = None,
    real_entropy: bool = False,
    **settings: Any,
) -> Container:
    """Services on a data folder, at a fixed moment plus so many hours; a tripwire counts what they do.

    Processes that run at the same time need real entropy, or they hold the same leases.
    """
    os.environ["ZEPH_CONFIG"] = ""
    wanted = load_settings(None, {"data_dir": str(folder), **_SETTINGS, **settings})
    wire = tripwire or Tripwire()
    clock = ManualClock(BEGINNING + int(hours * HOUR))
    made = Container(
        wanted,
        publisher=wire.watch(Bells()),
        clock=clock,
        entropy=SystemEntropy() if real_entropy else FixedEntropy(),
    )
    made.parser = PlainParser()  # type: ignore[assignment]
    made.embedder = wire.watch(made.embedder)
    made.vectors = wire.watch(made.vectors)
    made.language_model = wire.watch(Talker())
    return made


@dataclass(frozen=True)
class Scenario:
    """`prepare` leaves a pending job of `kind`; `settings` hold from then on. `again` is to run once more before it is over."""

    kind: JobKind
    prepare: Callable[[Container, Path], object]
    settings: Mapping[str, Any] = field(default_factory=dict)
    again: tuple[JobKind, ...] = ()


def run_first(container: Container, kind: JobKind) -> None:
    """Run the first pending job of a kind, and no other."""
    with container.database.read() as unit:
        pending = unit.jobs.select(states=(JobState.PENDING,), kind=kind.name, limit=10_000)
    Runner(container).run(claim(container, min(job.id for job in pending)))


def _talk(container: Container, count: int = 4) -> list[int]:
    said = [NewMessage(Role.USER, f"Hanne repaired the winch of dome {number}.") for number in range(count)]
    return list(container.memory.remember_many("ops", said))


def _document(container: Container, text: str = _TEXT) -> None:
    about = DocumentMetadata("dome", "text/plain", "Dome")
    container.ingestion.add_text(text, about, splitter=SplitterConfig(60, 10))


def _changed_file(container: Container, folder: Path) -> Path:
    """A folder in which one file has changed since it was ingested."""
    files = write_files(folder / "files", {"a.txt": _TEXT, "b.txt": "The second.", "c.txt": "The third."})
    submit(container, files)
    work(container)
    return write_files(files, {"a.txt": _TEXT.replace("dome 7", "dome 77")})


def _changed_folder(container: Container, folder: Path) -> None:
    files = _changed_file(container, folder)
    (files / "c.txt").unlink()
    submit(container, write_files(files, {"d.txt": "The fourth file."}), prune=True)


def _batch_begun(container: Container, folder: Path) -> None:
    submit(container, _changed_file(container, folder))
    run_first(container, kinds.INGEST_BATCH)


def _summarised(container: Container, _folder: Path) -> None:
    _talk(container, 10)
    run_first(container, kinds.SUMMARIZE)


def _read(container: Container, _folder: Path) -> None:
    _talk(container)
    run_first(container, kinds.EXTRACT_GRAPH)


def _unembedded(container: Container, _folder: Path) -> None:
    _talk(container)
    work(container)
    _sql(container, "DELETE FROM message_embeddings WHERE message_id < 3")
    enqueue(container, NewJob(kinds.EMBED_MISSING))


def _too_many(container: Container, _folder: Path) -> None:
    _talk(container, 6)
    work(container)
    with container.database.write() as unit:
        unit.messages.soft_delete("default", unit.messages.get("default", [1, 2]).keys())
    enqueue(container, NewJob(kinds.EVICT_MESSAGES))


def _deleted(container: Container, _folder: Path) -> None:
    _document(container)
    work(container)
    container.ingestion.remove(["dome"])


def _other_model(container: Container, _folder: Path) -> None:
    _document(container)
    work(container)
    enqueue(container, NewJob(kinds.REEMBED, {"name": "zeph_documents"}, dedupe_key="zeph_documents"))


def _drifted(container: Container, _folder: Path) -> None:
    _talk(container)
    _document(container)
    work(container)
    _sql(
        container,
        "DELETE FROM vector_points WHERE rowid % 3 = 0",
        "UPDATE vector_points SET id = '00000000-0000-4000-8000-000000000001' WHERE rowid = 1",
        "DELETE FROM message_embeddings WHERE message_id = 4",
    )
    enqueue(container, NewJob(kinds.RECONCILE))


def _old_jobs(container: Container, _folder: Path) -> None:
    _talk(container)
    work(container)
    _sql(container, "UPDATE jobs SET finished_at = 5 WHERE state = 'done'")
    enqueue(container, NewJob(kinds.PURGE_JOBS))


def _wrong(container: Container, _folder: Path) -> None:
    container.memory.remember(Role.USER, "Which dome has the winch?", conversation="ops")
    container.memory.remember(Role.ASSISTANT, "Dome 6 has the winch.", conversation="ops")
    work(container)
    container.memory.remember(Role.USER, "No, that's wrong, it is dome 7.", conversation="ops")


def _corrected(container: Container, folder: Path) -> None:
    _wrong(container, folder)
    run_first(container, kinds.DETECT_CORRECTION)


def _unlooked_for(container: Container, folder: Path) -> None:
    _wrong(container, folder)
    _sql(
        container,
        "INSERT INTO undetected_messages SELECT max(id) FROM messages",
        "DELETE FROM jobs WHERE kind = 'memory.detect_correction' AND state = 'pending'",
    )
    enqueue(container, NewJob(kinds.DETECT_MISSING))


def _expired(container: Container, _folder: Path) -> None:
    row = "INSERT INTO response_cache(namespace, cache_key, model, response, created_at, expires_at) VALUES "
    _sql(
        container,
        row + ", ".join(f"('default', 'k{n}', 'm', 'r', 1, {2 if n % 2 else 2**60})" for n in range(6)),
    )
    enqueue(container, NewJob(kinds.EVICT_RESPONSES))


def _unread(container: Container, folder: Path) -> None:
    _talk(container)
    _document(container, "Hanne owns the dome.")
    work(container)
    container.graph_extraction.submit_backfill("default")


def _apart(container: Container, folder: Path) -> None:
    _talk(container)
    work(container)
    enqueue(container, refresh_job("default"))


def _faded(container: Container, folder: Path) -> None:
    _talk(container)
    work(container)
    _sql(container, "UPDATE graph_edges SET valid_from = 1, valid_to = 2, created_at = 1, expired_at = 2")
    enqueue(container, evict_job("default"))


def _sql(container: Container, *statements: str) -> None:
    with container.sqlite.write() as connection:
        for statement in statements:
            connection.exec_driver_sql(statement)


SCENARIOS = [
    Scenario(kinds.INGEST_BATCH, _changed_folder),
    Scenario(kinds.INGEST_FILE, _batch_begun),
    Scenario(kinds.EMBED_DOCUMENT, lambda container, _folder: _document(container)),
    Scenario(kinds.EMBED_MESSAGES, lambda container, _folder: _talk(container)),
    Scenario(kinds.SUMMARIZE, lambda container, _folder: _talk(container, 10)),
    Scenario(kinds.EMBED_SUMMARY, _summarised),
    Scenario(kinds.EXTRACT_GRAPH, lambda container, _folder: _talk(container), GRAPH),
    Scenario(kinds.BACKFILL_GRAPH, _unread),
    Scenario(kinds.GRAPH_REFRESH, _apart, GRAPH),
    Scenario(kinds.EVICT_GRAPH, _faded, GRAPH),
    Scenario(kinds.EMBED_ENTITIES, _read, GRAPH),
    Scenario(kinds.DETECT_CORRECTION, _wrong),
    Scenario(kinds.EMBED_CORRECTION, _corrected),
    Scenario(kinds.DETECT_MISSING, _unlooked_for),
    Scenario(kinds.EMBED_MISSING, _unembedded),
    Scenario(
        kinds.EVICT_MESSAGES,
        _too_many,
        {"memory.eviction.max_entries": 2, "memory.compaction_preserve_tail": 1},
        again=(kinds.EVICT_MESSAGES,),
    ),
    Scenario(kinds.REMOVE_VECTORS, _deleted),
    Scenario(kinds.REEMBED, _other_model, {"embedding.dimensions": 32}),
    Scenario(kinds.RECONCILE, _drifted),
    Scenario(kinds.EVICT_RESPONSES, _expired),
    Scenario(kinds.PURGE_JOBS, _old_jobs),
]


@dataclass(frozen=True)
class Operation:
    """`act` is what a caller does on the store that `prepare` left; it is all done or not at all."""

    name: str
    act: Callable[[Container, Path], Any]
    prepare: Callable[[Container, Path], object] = lambda _container, _folder: None
    settings: Mapping[str, Any] = field(default_factory=lambda: GRAPH)
    again: tuple[JobKind, ...] = ()


def _settled(container: Container, _folder: Path) -> None:
    _talk(container, 10)
    _document(container)
    work(container)


def _saved(container: Container, folder: Path) -> None:
    _settled(container, folder)
    container.snapshots.export_to(folder / "snapshot.json", namespace="default")
    container.memory.forget(everything=True)
    work(container)


OPERATIONS = [
    Operation(
        "remember",
        lambda made, _: made.memory.remember(Role.USER, "The rope is new.", conversation="ops"),
        _settled,
    ),
    Operation("remember_many", lambda made, _: list(_talk(made, 12)), _settled),
    Operation("add_text", lambda made, _: _document(made, "The rope is new."), _settled),
    Operation("remove a document", lambda made, _: made.ingestion.remove(["dome"]), _settled),
    Operation(
        "submit", lambda made, folder: submit(made, write_files(folder / "new", {"n.txt": "New."})), _settled
    ),
    Operation("forget a message", lambda made, _: str(made.memory.forget(messages=[3])), _settled),
    Operation("forget a conversation", lambda made, _: str(made.memory.forget(conversation="ops")), _settled),
    Operation(
        "import",
        lambda made, folder: str(made.snapshots.import_from(folder / "snapshot.json", namespace="default")),
        _saved,
    ),
]
