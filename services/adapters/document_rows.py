"""The SQL of documents and chunks."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.sqlite import insert

from services.adapters.collection_rows import SqlCollectionRows
from services.adapters.embedding_marks import MarkedRows
from services.adapters.erasure import Erasure, parts, with_ids
from services.adapters.scopes import scope_token
from services.adapters.tables import chunk_embeddings as e
from services.adapters.tables import chunks as c
from services.adapters.tables import documents as d
from services.documents.models import Chunk
from services.documents.store import ChunkChanges, ChunkText, DocumentVersion, Passage, StoredDocument
from services.embedding.points import chunk_point_ids
from services.embedding.store import CollectionState
from services.ids import fields_hash
from services.jobs.models import EMBED_DOCUMENT
from services.retrieval.query import match_expression, segment

# How much a word in title and headings counts against one in the text; measured on SciFact and 2Wiki (README, benchmarks).
_CONTEXT_WEIGHT = 2.0


# The statements of every document's life, built once: building them costs more than running them.
_COLLECTION_OF = sa.select(d.c.collection).where(d.c.id == sa.bindparam("document"))
_UNEMBEDDED = (
    sa.select(c.c.id, c.c.namespace, c.c.document_id, c.c.heading, c.c.text, d.c.title)
    .join_from(c, d)
    .where(
        c.c.document_id == sa.bindparam("document"),
        ~sa.exists().where(e.c.chunk_id == c.c.id, e.c.collection == sa.bindparam("physical")),
    )
    .order_by(c.c.position)
    .limit(sa.bindparam("limit"))
)


class SqlDocumentRows(MarkedRows):
    """Implements `services.documents.store.DocumentRows` on one connection."""

    _rows = c
    _marks = e
    _home = d
    _embed_job = EMBED_DOCUMENT
    _group = c.c.document_id

    # ---- documents -------------------------------------------------------------------------------------------

    def find(self, namespace: str, collection: str, source: str) -> StoredDocument | None:
        """See DocumentRows."""
        wanted = (d.c.namespace == namespace, d.c.collection == collection, d.c.source == source)
        return next(iter(self._select(*wanted)), None)

    def get(self, document_id: int) -> StoredDocument | None:
        """See DocumentRows."""
        return next(iter(self._select(d.c.id == document_id)), None)

    def collection_of(self, document_id: int) -> str | None:
        """See DocumentRows."""
        return self._connection.execute(_COLLECTION_OF, {"document": document_id}).scalar()

    def page(
        self, namespace: str, collection: str | None, *, after: str = "", limit: int = 1_000
    ) -> list[StoredDocument]:
        """See DocumentRows."""
        tests = [d.c.namespace == namespace, d.c.source > after]
        if collection is not None:
            tests.append(d.c.collection == collection)
        return self._select(*tests, limit=limit)

    def chunks_without_vectors(self, namespace: str, collection: str) -> int:
        """See DocumentRows."""
        active = SqlCollectionRows(self._connection, self._clock).find(collection, CollectionState.ACTIVE)
        if active is None:
            return 0
        mine = (d.c.namespace == namespace, d.c.collection == collection)
        chunks = sa.select(sa.func.count()).join_from(c, d).where(*mine)
        marked = (
            sa.select(sa.func.count())
            .select_from(e)
            .join(c)
            .join(d)
            .where(*mine, e.c.collection == active.physical)
        )
        total, done = (int(self._connection.execute(count).scalar_one()) for count in (chunks, marked))
        return total - done

    def totals(self, namespace: str) -> Sequence[tuple[str, int, int]]:
        """See DocumentRows."""
        counted = (
            sa.select(d.c.collection, sa.func.count(d.c.id.distinct()), sa.func.count(c.c.id))
            .join_from(d, c, isouter=True)
            .where(d.c.namespace == namespace)
            .group_by(d.c.collection)
            .order_by(d.c.collection)
        )
        return [(name, documents, chunks) for name, documents, chunks in self._connection.execute(counted)]

    def sources_below(self, namespace: str, collection: str, root: str) -> dict[str, int]:
        """See DocumentRows."""
        start = root.rstrip("/") + "/"
        rows = self._connection.execute(
            sa.select(d.c.source, d.c.id).where(
                d.c.namespace == namespace,
                d.c.collection == collection,
                # A range, because a folder's name may hold the wildcards of LIKE. "0" follows "/".
                d.c.source >= start,
                d.c.source < start[:-1] + "0",
            )
        )
        return {row.source: row.id for row in rows}

    def store(self, version: DocumentVersion) -> ChunkChanges:
        """See DocumentRows."""
        document_id = self._upsert(version)
        wanted = list(_keyed(version))
        stored = {
            (row.content_hash, row.occurrence): row
            for row in self._connection.execute(sa.select(c).where(c.c.document_id == document_id))
        }
        keys = {key for key, _ in wanted}
        gone = [row.id for key, row in stored.items() if key not in keys]
        self._remove_chunks(gone)
        new = [(key, chunk) for key, chunk in wanted if key not in stored]
        if new:
            self._connection.execute(
                sa.insert(c), [self._chunk_row(version, document_id, *pair) for pair in new]
            )
        for key, chunk in wanted:
            if key in stored:
                self._move(stored[key], chunk)
        return ChunkChanges(document_id, added=len(new), kept=len(wanted) - len(new), removed=len(gone))

    def remove(self, document_ids: Sequence[int]) -> int:
        """See DocumentRows."""
        removed = 0
        for part in parts(document_ids):
            ids = self._connection.execute(sa.select(c.c.id).where(c.c.document_id.in_(part))).scalars().all()
            self._remove_chunks(ids)
            removed += len(ids)
            self._connection.execute(sa.delete(d).where(d.c.id.in_(part)))
        return removed

    def _select(self, *tests: sa.ColumnElement[bool], limit: int = 1) -> list[StoredDocument]:
        chunks = sa.select(sa.func.count()).where(c.c.document_id == d.c.id).scalar_subquery()
        marked = sa.exists().where(e.c.chunk_id == c.c.id)
        embedded = sa.select(sa.func.count()).where(c.c.document_id == d.c.id, marked).scalar_subquery()
        rows = self._connection.execute(
            sa.select(d, chunks.label("chunks"), embedded.label("embedded"))
            .where(*tests)
            .order_by(d.c.source, d.c.collection)
            .limit(limit)
        )
        return [_stored(row) for row in rows]

    def _upsert(self, version: DocumentVersion) -> int:
        now, metadata = self._clock.now(), version.document.metadata
        values = {
            "title": metadata.title,
            "content_type": metadata.content_type,
            "content_hash": version.content_hash,
            "size_bytes": version.size_bytes,
            "splitter": version.splitter,
            "extra": json.dumps(dict(metadata.extra)),
            "warnings": json.dumps(version.document.warnings),
            "updated_at": now,
        }
        key = {"namespace": version.namespace, "collection": version.collection, "source": metadata.source}
        statement = (
            insert(d)
            .values(**key, **values, created_at=now)
            .on_conflict_do_update(index_elements=list(key), set_=values)
            .returning(d.c.id)
        )
        return int(self._connection.execute(statement).scalar_one())

    # ---- chunks ----------------------------------------------------------------------------------------------

    def _chunk_row(
        self, version: DocumentVersion, document_id: int, key: tuple[str, int], chunk: Chunk
    ) -> dict[str, Any]:
        context = heading_line(version.document.metadata.title, chunk.heading)
        return {
            "namespace": version.namespace,
            "document_id": document_id,
            "position": chunk.index,
            "start_offset": chunk.start,
            "end_offset": chunk.end,
            "page": chunk.page,
            "tokens": chunk.tokens,
            "heading": json.dumps(chunk.heading),
            "context": segment(context) or context,
            "text": chunk.text,
            "segmented": segment(chunk.text),
            "scope": scope_token(version.namespace, version.collection),
            "content_hash": key[0],
            "occurrence": key[1],
            "created_at": self._clock.now(),
        }

    def _move(self, row: sa.Row[Any], chunk: Chunk) -> None:
        place = (chunk.index, chunk.start, chunk.end, chunk.page)
        if place != (row.position, row.start_offset, row.end_offset, row.page):
            self._connection.execute(
                sa.update(c)
                .where(c.c.id == row.id)
                .values(position=chunk.index, start_offset=chunk.start, end_offset=chunk.end, page=chunk.page)
            )

    def _remove_chunks(self, ids: Sequence[int]) -> None:
        for part in parts(ids):
            marks = sa.select(c.c.namespace, e.c.chunk_id, e.c.collection, e.c.windows).join_from(c, e)
            buried = [
                (row.namespace, row.collection, point)
                for row in self._connection.execute(marks.where(c.c.id.in_(part)))
                for point in chunk_point_ids(row.namespace, row.collection, row.chunk_id, row.windows)
            ]
            SqlCollectionRows(self._connection, self._clock).bury(buried)
            Erasure(self._connection, self._clock).graph_texts(None, chunk_ids=part)
            self._connection.execute(sa.delete(c).where(c.c.id.in_(part)))

    # ---- vectors ---------------------------------------------------------------------------------------------

    def unembedded(self, document_id: int, physical: str, *, limit: int) -> list[ChunkText]:
        """See DocumentRows."""
        values = {"document": document_id, "physical": physical, "limit": limit}
        rows = self._connection.execute(_UNEMBEDDED, values)
        return [ChunkText(row.id, row.namespace, row.document_id, _embedded_text(row)) for row in rows]

    def incomplete(
        self, name: str, physical: str, *, limit: int, embedded_in: str | None = None
    ) -> list[tuple[str, int]]:
        """See DocumentRows."""
        behind = [~_marked(physical)] if embedded_in is None else [~_marked(physical), _marked(embedded_in)]
        rows = self._connection.execute(
            sa.select(d.c.namespace, d.c.id)
            .where(d.c.collection == name, sa.exists().where(c.c.document_id == d.c.id, *behind))
            .order_by(d.c.id)
            .limit(limit)
        )
        return [(row.namespace, row.id) for row in rows]

    # ---- search ----------------------------------------------------------------------------------------------

    def search(self, namespace: str, collection: str, query: str, *, limit: int) -> dict[int, float]:
        """See DocumentRows."""
        expression = match_expression(query, scope=scope_token(namespace, collection), columns="context text")
        if expression is None:
            return {}
        score = f"bm25(chunks_fts, {_CONTEXT_WEIGHT}, 1.0, 0.0)"
        rows = self._connection.execute(
            # The score holds a constant of this file; the expression is bound.
            sa.text(
                f"SELECT rowid, -{score} AS score FROM chunks_fts WHERE chunks_fts MATCH :expression "  # noqa: S608
                f"ORDER BY {score}, rowid LIMIT :limit"
            ),
            {"expression": expression, "limit": limit},
        )
        return {row.rowid: row.score for row in rows}

    def passages(self, namespace: str, chunk_ids: Sequence[int]) -> dict[int, Passage]:
        """See DocumentRows."""
        found: dict[int, Passage] = {}
        for part in parts(chunk_ids):
            rows = self._connection.execute(
                sa.select(c, d.c.source, d.c.title, d.c.updated_at)
                .join_from(c, d)
                .where(*with_ids(c, namespace, part))
            )
            found |= {row.id: _passage(row) for row in rows}
        return found


def _keyed(version: DocumentVersion) -> Iterator[tuple[tuple[str, int], Chunk]]:
    """Each chunk with its identity: what it says and under which headings, and which repetition of that it is."""
    seen: Counter[str] = Counter()
    for chunk in version.chunks:
        digest = fields_hash(version.document.metadata.title, *chunk.heading, chunk.text)
        yield (digest, seen[digest]), chunk
        seen[digest] += 1


def heading_line(title: str, heading: Sequence[str]) -> str:
    """Where a chunk stands: title and headings from the top; a title that is the first heading is not repeated."""
    parts = list(heading) if heading and heading[0] == title else [title, *heading]
    return " > ".join(part for part in parts if part)


def _embedded_text(row: Any) -> str:
    line = heading_line(row.title, json.loads(row.heading))
    return f"{line}\n{row.text}" if line else str(row.text)


def _marked(physical: str) -> sa.ColumnElement[bool]:
    return sa.exists().where(e.c.chunk_id == c.c.id, e.c.collection == physical)


def _stored(row: sa.Row[Any]) -> StoredDocument:
    return StoredDocument(
        id=row.id,
        namespace=row.namespace,
        collection=row.collection,
        source=row.source,
        title=row.title,
        content_type=row.content_type,
        content_hash=row.content_hash,
        size_bytes=row.size_bytes,
        splitter=row.splitter,
        warnings=tuple(json.loads(row.warnings)),
        chunks=row.chunks,
        embedded=row.embedded,
        updated_at=row.updated_at,
    )


def _passage(row: sa.Row[Any]) -> Passage:
    return Passage(
        chunk_id=row.id,
        document_id=row.document_id,
        source=row.source,
        title=row.title,
        heading=tuple(json.loads(row.heading)),
        page=row.page,
        start=row.start_offset,
        end=row.end_offset,
        text=row.text,
        updated_at=row.updated_at,
    )
