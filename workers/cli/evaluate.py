"""`zeph eval`: retrieval quality on data sets, so that figures can be checked by anyone."""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from services import errors
from workers.cli.session import AsJson, open_container, print_json, say, table

if TYPE_CHECKING:
    from services.bootstrap import Container

app = typer.Typer(no_args_is_help=True, help="Measure retrieval quality on a data set.")

_COLLECTION = "evaluation"
_PAGE = 500
_MODES = ("keyword", "vector", "hybrid")


@app.callback()
def group() -> None:
    """Measure retrieval quality on a data set."""


@app.command()
def retrieval(
    context: typer.Context,
    path: Annotated[Path, typer.Argument(help="Folder of the data set.")],
    *,
    layout: Annotated[
        str | None,
        typer.Option(
            "--set",
            help="Layout: locomo, realmem, beam, madial (conversations), or documents, which is corpus.jsonl.gz, "
            "queries.jsonl.gz, qrels.tsv as of scifact, rgb_zh, 2wiki; default: the folder's name.",
        ),
    ] = None,
    mode: Annotated[
        list[str] | None,
        typer.Option(help="hybrid, keyword, vector, and routed for conversations; default: all."),
    ] = None,
    graph: Annotated[
        bool,
        typer.Option(
            "--graph", help="First have the documents read for the graph, as `zeph ingest --graph`."
        ),
    ] = False,
    concurrency: Annotated[int, typer.Option(min=1, max=64)] = 2,
    as_json: AsJson = False,
) -> None:
    """Store a data set (unless it is there already), ask its questions, print recall, NDCG and MRR.

    Use an own --data-dir: it keeps the vectors, so that a second run only asks.
    """
    from services.evaluation.conversations import SETS

    folder = path.expanduser().resolve()
    name = layout or folder.name
    chosen = next((known for known in SETS if name == known or name.startswith(f"{known}_")), None)
    with open_container(context) as container:
        if chosen is not None:
            result = _conversations(container, chosen, folder, mode or [*_MODES, "routed"], concurrency)
        else:
            result = _documents(container, folder, mode or [*_MODES], concurrency, graph=graph)
    if as_json:
        print_json(result)
        return
    say(f"{result['set']}: {result['stored']} stored, {result['asked']} asked")
    _print(result["scores"])


@app.command()
def corrections(
    context: typer.Context,
    path: Annotated[Path, typer.Argument(help="Folder with sets of labelled messages, *.jsonl.gz.")],
    *,
    threshold: Annotated[
        float | None, typer.Option(min=0, max=1, help="Default: the setting correction_confidence_threshold.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Look for corrections in labelled messages, print precision, recall and false alarms."""
    from services.corrections.detector import FeedbackDetector
    from services.evaluation.corrections import evaluate

    with open_container(context) as container:
        wanted = container.settings.memory.corrections.correction_confidence_threshold
    found = evaluate(
        FeedbackDetector(wanted if threshold is None else threshold), path.expanduser().resolve()
    )
    if as_json:
        print_json([asdict(one) for one in found])
        return
    table(
        "set",
        "messages",
        "corrections",
        "found",
        "false alarms",
        "precision",
        "recall",
        "alarm rate",
        rows=[
            (
                one.name,
                one.messages,
                one.corrections,
                one.found,
                one.false_alarms,
                *map(_share, (one.precision, one.recall, one.false_alarm_rate)),
            )
            for one in found
        ],
    )
    kinds = [
        (one.name, kind, f"{hits} of {all_}") for one in found for kind, (hits, all_) in one.kinds.items()
    ]
    say("")
    table("set", "kind", "found", rows=kinds)


@app.command()
def graph(
    context: typer.Context,
    path: Annotated[Path, typer.Argument(help="Re-DocRED as gzipped JSON lines.")],
    *,
    limit: Annotated[int | None, typer.Option("--limit", "-k", min=1, help="Paragraphs at most.")] = None,
    concurrency: Annotated[int, typer.Option(min=1, max=64)] = 2,
    as_json: AsJson = False,
) -> None:
    """Read paragraphs with the configured extractor, compare what is stored with the set's entities and relations.

    Use an own --data-dir: it keeps the graph, so that a second run only compares.
    """
    from services.evaluation.graph import evaluate, load_redocred, store
    from workers.local import LocalWorker, nothing_left

    # A paragraph holds more than a message.
    most = {"memory.graph.max_entities_per_message": 1_000, "memory.graph.max_edges_per_message": 1_000}
    context.obj["overrides"] |= most
    documents = load_redocred(path.expanduser())[:limit]
    with open_container(context) as container:
        started = time.monotonic()
        store(container.memory, documents)
        with LocalWorker(container, concurrency=concurrency, queues=["graph"]) as local:
            local.run_until(lambda: nothing_left(container, ["graph"]))
        seconds = time.monotonic() - started
        result = {"extractor": container.graph_extraction.label, "seconds": round(seconds, 1)}
        result |= asdict(evaluate(container.graph, documents))
    if as_json:
        print_json(result)
        return
    for name, value in result.items():
        say(f"{name.replace('_', ' ')}: {value:.3f}" if isinstance(value, float) else f"{name}: {value}")


def _documents(
    container: Container, folder: Path, modes: list[str], concurrency: int, *, graph: bool
) -> dict[str, Any]:
    from services.documents.models import SplitterConfig
    from services.evaluation.datasets import load_retrieval_set
    from services.evaluation.documents import evaluate, store_corpus

    data = load_retrieval_set(folder)
    splitter = container.settings.memory.documents
    config = SplitterConfig(splitter.chunk_size, splitter.chunk_overlap)
    count = store_corpus(container.ingestion, data, config, collection=_COLLECTION, namespace=folder.name)
    if graph:
        _ask_for_graph(container, folder.name)
    _work(container, concurrency)
    found = evaluate(container.documents, data, modes, collection=_COLLECTION, namespace=folder.name)
    return _result(folder.name, count, len(data.queries), found)


def _conversations(
    container: Container, name: str, folder: Path, modes: list[str], concurrency: int
) -> dict[str, Any]:
    from services.evaluation.conversations import evaluate, load_conversation_set, store

    if unknown := set(modes) - {*_MODES, "routed"}:
        raise errors.InputError(f"mode is {min(unknown)!r}: use one of {', '.join((*_MODES, 'routed'))}")
    data = load_conversation_set(name, folder)
    turns = store(container.memory, data, namespace=name)
    _work(container, concurrency)
    listed = container.memory.conversations(namespace=name)
    conversations = {one.key: one.id for one in listed if one.key is not None}
    found = evaluate(container.recall, data, turns, conversations, modes, namespace=name)
    return _result(name, len(turns), len(data.questions), found)


def _ask_for_graph(container: Container, namespace: str) -> None:
    """Enqueue the documents that nobody has read for the graph yet."""
    from services.graph.extraction_jobs import enqueue_document

    after = ""
    while True:
        with container.database.write() as unit:
            page = unit.documents.page(namespace, _COLLECTION, after=after, limit=_PAGE)
            for document in page:
                enqueue_document(unit, namespace, document.id, None)
        if not page:
            return
        after = page[-1].source


def _work(container: Container, concurrency: int) -> None:
    from workers.local import LocalWorker, nothing_left

    with LocalWorker(container, concurrency=concurrency) as local:
        local.run_until(lambda: nothing_left(container, ["embedding", "graph"]))


def _result(name: str, stored: int, asked: int, scores: list[Any]) -> dict[str, Any]:
    return {"set": name, "stored": stored, "asked": asked, "scores": [asdict(one) for one in scores]}


def _print(scores: list[dict[str, Any]]) -> None:
    columns = list(scores[0]["metrics"])
    table("mode", *columns, "ms", rows=[(one["mode"], *_line(one, columns)) for one in scores])
    categories = list(scores[0].get("categories", {}))
    if len(categories) > 1:
        say("")
        rows = [
            (category, one["mode"], *_figures(one["categories"][category], columns))
            for category in categories
            for one in scores
        ]
        table("category", "mode", *columns, rows=rows)


def _line(one: dict[str, Any], columns: list[str]) -> list[str]:
    return [*_figures(one["metrics"], columns), f"{one['milliseconds']:.1f}"]


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _figures(metrics: dict[str, float], columns: list[str]) -> list[str]:
    return [f"{metrics[column]:.3f}" if column in metrics else "" for column in columns]
