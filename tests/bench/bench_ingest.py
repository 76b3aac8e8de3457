"""`zeph ingest` with the local model, against the model alone on the same pieces of text, and against a repetition.

Usage: python tests/bench/bench_ingest.py [--data DIR] [--files 30] [--threads 0]
DIR holds markdown_rust_book.tar.xz, or is itself the folder to ingest; without it the demo corpus is ingested.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tarfile
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from services.bootstrap import Container
from services.ports import Embedder
from tests.services.harness import Stack

ARCHIVE = "markdown_rust_book.tar.xz"
CORPUS = Path(__file__).parents[1] / "corpus/handbook"
CHUNKS_PER_CALL = 32


def row(what: str, value: str, target: str = "") -> None:
    print(f"  {what:<58} {value:>18}   {target}", flush=True)


def prepared(data: Path | None, folder: Path, limit: int) -> Path:
    """A folder with the first files of the data."""
    source = data or CORPUS
    if (source / ARCHIVE).exists():
        unpacked = folder / "unpacked"
        with tarfile.open(source / ARCHIVE) as archive:
            archive.extractall(unpacked, filter="data")
        source = unpacked
    chosen = folder / "files"
    for path in sorted(path for path in source.rglob("*") if path.is_file())[:limit]:
        target = chosen / path.relative_to(source)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target)
    return chosen


def calls(container: Container) -> Iterator[list[str]]:
    """The texts of every call that ingestion makes to the embedder, chunk by chunk."""
    with container.database.read() as unit:
        documents = unit.documents.page("default", "zeph_documents", limit=10_000)
        for document in documents:
            chunks = unit.documents.unembedded(document.id, "no such collection", limit=100_000)
            for at in range(0, len(chunks), CHUNKS_PER_CALL):
                yield [chunk.text for chunk in chunks[at : at + CHUNKS_PER_CALL]]


def model_alone(embedder: Embedder, texts: list[list[str]]) -> tuple[float, int]:
    """Seconds and windows; loading the model is part of it, as it is of ingestion."""
    began, windows = time.perf_counter(), 0
    for call in texts:
        pieces = [window for text in call for window in embedder.windows(text)]
        embedder.embed(pieces, kind="document")
        windows += len(pieces)
    return time.perf_counter() - began, windows


def ingest(stack: Stack, folder: Path) -> tuple[float, float, dict[str, object]]:
    """Seconds from the start of the process to its end, seconds of the work in it, its report."""
    began = time.perf_counter()
    report = json.loads(stack.run_zeph("ingest", "--json", str(folder), seconds=1_800).stdout)
    return time.perf_counter() - began, float(report["seconds"]), report


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--files", type=int, default=30)
    parser.add_argument("--threads", type=int, default=0)
    options = parser.parse_args()
    settings = {"embedding__provider": "local", "embedding__threads": options.threads}
    with tempfile.TemporaryDirectory() as name:
        folder = prepared(options.data, Path(name), options.files)
        with Stack(Path(name, "stack"), broker=False, **settings) as stack:
            first, worked, report = ingest(stack, folder)
            again, rework, repeated = ingest(stack, folder)
            texts = list(calls(stack.container))
            assert stack.container.embedder is not None
            alone, windows = model_alone(stack.container.embedder, texts)
    if windows != report["vectors"] or set(repeated["outcomes"]) - {"unchanged", "skipped", "failed"}:
        raise SystemExit(f"not the same work: {windows} windows, {report}, {repeated}")
    print(f"{sum(report['outcomes'].values())} files, {report['chunks']} chunks, {windows} windows")
    row("model alone", f"{alone:.1f} s", f"{windows / alone:.0f} windows/s")
    row("zeph ingest, whole process", f"{first:.1f} s", f"{first - worked:.1f} s to start and end")
    row("ratio", f"{first / alone:.2f}", "target <= 1.25")
    row("unchanged run, whole process", f"{again:.2f} s", f"{first / again:.0f} times faster")
    row(
        "unchanged run, the work alone",
        f"{rework:.2f} s",
        f"{worked / rework:.0f} times faster, target >= 50",
    )


if __name__ == "__main__":
    main()
