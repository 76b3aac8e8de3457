"""Data sets in the common retrieval layout: corpus.jsonl.gz, queries.jsonl.gz, qrels.tsv."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from services import errors


@dataclass(frozen=True, slots=True)
class CorpusEntry:
    """One document of a data set."""

    id: str
    title: str
    text: str


@dataclass(frozen=True, slots=True)
class RetrievalSet:
    """Queries by id, and for each query the graded relevant documents."""

    folder: Path
    queries: Mapping[str, str]
    relevant: Mapping[str, Mapping[str, int]]

    def corpus(self) -> Iterator[CorpusEntry]:
        """The documents, streamed."""
        for row in rows(self.folder / "corpus.jsonl.gz"):
            yield CorpusEntry(str(row["id"]), str(row.get("title") or ""), str(row["text"]))


def load_retrieval_set(folder: Path) -> RetrievalSet:
    """Read queries and judgements. Raises InputError when the folder is not such a set."""
    missing = [
        name for name in ("corpus.jsonl.gz", "queries.jsonl.gz", "qrels.tsv") if not (folder / name).is_file()
    ]
    if missing:
        raise errors.InputError(f"{folder} is no retrieval data set: {missing[0]} is missing")
    relevant: dict[str, dict[str, int]] = {}
    for line in (folder / "qrels.tsv").read_text(encoding="utf-8").splitlines():
        fields = line.split("\t")
        # A header line, as some distributions have, has no number in the last column.
        if len(fields) >= 3 and fields[-1].strip().isdigit():
            relevant.setdefault(fields[0], {})[fields[-2]] = int(fields[-1])
    queries = {str(row["id"]): str(row["text"]) for row in rows(folder / "queries.jsonl.gz")}
    return RetrievalSet(folder, {key: queries[key] for key in relevant if key in queries}, relevant)


def rows(path: Path) -> Iterator[dict[str, Any]]:
    """The objects of a gzipped file of JSON lines, streamed."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        yield from (json.loads(line) for line in file)
