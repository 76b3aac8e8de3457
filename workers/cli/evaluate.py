"""`zeph eval`: retrieval quality on data sets, so that figures can be checked by anyone."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from workers.cli.session import AsJson, open_container, print_json, say, table

app = typer.Typer(no_args_is_help=True, help="Measure retrieval quality on a data set.")

_COLLECTION = "evaluation"


@app.command()
def documents(
    context: typer.Context,
    path: Annotated[
        Path, typer.Argument(help="Folder with corpus.jsonl.gz, queries.jsonl.gz and qrels.tsv.")
    ],
    *,
    mode: Annotated[
        list[str] | None, typer.Option(help="hybrid, keyword, vector; default: all three.")
    ] = None,
    concurrency: Annotated[int, typer.Option(min=1, max=64)] = 2,
    as_json: AsJson = False,
) -> None:
    """Store a data set's corpus (unless it is there already), ask its queries, print recall, NDCG and MRR.

    Use an own --data-dir: it keeps the vectors, so that a second run only asks.
    """
    from services.documents.models import SplitterConfig
    from services.evaluation.datasets import load_retrieval_set
    from services.evaluation.documents import evaluate, store_corpus
    from workers.local import LocalWorker, nothing_left

    data = load_retrieval_set(path.expanduser())
    name = path.resolve().name
    with open_container(context) as container:
        splitter = container.settings.memory.documents
        config = SplitterConfig(splitter.chunk_size, splitter.chunk_overlap)
        count = store_corpus(container.ingestion, data, config, collection=_COLLECTION, namespace=name)
        with LocalWorker(container, concurrency=concurrency) as local:
            local.run_until(lambda: nothing_left(container, ["embedding"]))
        modes = mode or ["keyword", "vector", "hybrid"]
        found = evaluate(container.documents, data, modes, collection=_COLLECTION, namespace=name)
    if as_json:
        print_json({"set": name, "documents": count, "scores": [asdict(scores) for scores in found]})
        return
    say(f"{name}: {count} documents, {len(data.queries)} queries")
    columns = list(found[0].metrics)
    rows = [
        (scores.mode, *(f"{scores.metrics[column]:.3f}" for column in columns), f"{scores.milliseconds:.1f}")
        for scores in found
    ]
    table("mode", *columns, "ms", rows=rows)
