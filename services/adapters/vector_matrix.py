"""Vectors as a matrix with their ids and payload fields as columns: ranking, filters, and the file that shares it.

A search of many rows reads them as bytes first, a quarter of the size, with a bound on the error of each; the rows that
may be among the best by that are scored exactly.

The file lets processes map one copy instead of each holding its own. It is a cache: whoever finds it missing, damaged
or old builds it again from the rows.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import blake3
import numpy as np
import simsimd
from numpy.typing import NDArray

from services.ports import Condition, Filter, PayloadValue, ScoredPoint

if TYPE_CHECKING:
    from services.ports import Vector

Mask = NDArray[np.bool_]
Positions = NDArray[np.intp]

_INTEGER, _TEXT = 1, 2
_INT_LIMIT = 2**63
# Products of equal rows may differ in the last bits by their place in the matrix; candidates within this distance
# of the limit are scored again in a fixed order.
_ROUNDING = 1e-5
_BLOCK = 8_192
# The largest code; the smallest is its negative.
_CODES = 127
# To copy more than this part of the rows together costs more than the products of those that are not wanted.
_FEW = 8

_MAGIC = b"zephvec3"
_DIGEST_BYTES = 32
_ALIGNMENT = 64
_LEFTOVER_SECONDS = 3_600


class Column(NamedTuple):
    """One payload field: `kinds` says absent, integer or text; texts are kept as 64-bit hashes."""

    values: NDArray[np.int64]
    kinds: NDArray[np.uint8]


class Codes(NamedTuple):
    """Vectors as bytes: `values` times the row's `steps` differs from the vector by a length of at most `errors`."""

    values: NDArray[np.int8]
    steps: Vector
    errors: Vector


@dataclass(frozen=True, slots=True)
class Part:
    """Points in id order: `ids` as 16 bytes each, one unit vector per row, and the columns of their payloads.

    `texts` are the texts of all payloads by their hash. `codes` are of the same vectors, where there are many.
    """

    ids: NDArray[np.bytes_]
    matrix: Vector
    columns: Mapping[str, Column]
    texts: Mapping[int, str]
    codes: Codes | None = None

    def positions(self, ids: Sequence[str]) -> Positions:
        """The rows of those ids that are here."""
        wanted = packed_ids(ids)
        places = np.searchsorted(self.ids, wanted)
        inside = places < len(self.ids)
        places, wanted = places[inside], wanted[inside]
        found: Positions = places[self.ids[places] == wanted]
        return found

    def vectors(self, ids: Sequence[str], without: Positions | None = None) -> dict[str, Vector]:
        """The vectors of those ids that are here and not at the positions `without`."""
        rows = self.positions(ids)
        if without is not None:
            rows = np.setdiff1d(rows, without)
        return dict(zip(_ids(self, rows), self.matrix[rows], strict=True))

    def payloads(self, rows: Positions) -> list[dict[str, PayloadValue]]:
        """The payloads of these rows."""
        found: list[dict[str, PayloadValue]] = [{} for _ in rows]
        for field, column in self.columns.items():
            values, kinds = column.values[rows].tolist(), column.kinds[rows].tolist()
            for payload, value, kind in zip(found, values, kinds, strict=True):
                if kind:
                    payload[field] = self.texts[value] if kind == _TEXT else value
        return found


def packed_ids(ids: Sequence[str]) -> NDArray[np.bytes_]:
    """UUIDs as 16 bytes each, which sort like their text."""
    return np.array([bytes.fromhex(each.replace("-", "")) for each in ids], dtype="S16")


def columns_of(payloads: Sequence[str]) -> tuple[dict[str, Column], dict[int, str]]:
    """The fields of JSON payloads, and their texts by hash; a payload that is no JSON object counts as empty."""
    found: dict[str, Column] = {}
    codes: dict[str, int] = {}
    for row, text in enumerate(payloads):
        for field, value in payload_of(text).items():
            column = found.get(field)
            if column is None:
                column = found[field] = Column(
                    np.zeros(len(payloads), dtype=np.int64), np.zeros(len(payloads), dtype=np.uint8)
                )
            if isinstance(value, str):
                if value not in codes:
                    codes[value] = _code(value)
                column.values[row], column.kinds[row] = codes[value], _TEXT
            else:
                column.values[row], column.kinds[row] = value, _INTEGER
    return found, {code: text for text, code in codes.items()}


def payload_of(text: str) -> dict[str, PayloadValue]:
    """A stored payload; {} where it is damaged."""
    try:
        payload = json.loads(text)
    except ValueError:
        return {}
    return payload if isinstance(payload, dict) else {}


def matrix_of(blobs: Sequence[bytes], dimension: int) -> Vector:
    """Little-endian float32 blobs as rows."""
    rows = np.frombuffer(b"".join(blobs), dtype="<f4") if blobs else np.zeros(0, dtype=np.float32)
    return rows.reshape(len(blobs), dimension)


def codes_of(vectors: Vector) -> Codes:
    """The rows as bytes, each scaled by its largest component; what is damaged counts as 0."""
    vectors = np.nan_to_num(vectors, posinf=0.0, neginf=0.0)
    steps = np.abs(vectors).max(axis=1) / _CODES
    steps[steps == 0] = 1.0
    values = np.rint(vectors / steps[:, None])
    left = vectors - values * steps[:, None]
    return Codes(values.astype(np.int8), steps, np.sqrt(np.einsum("ij,ij->i", left, left)))


def merged(part: Part, without: Positions, more: Part) -> Part:
    """The part without the rows at some positions, and with all of another one; no codes."""
    kept = np.delete(np.arange(len(part.ids)), without)
    ids = np.concatenate([part.ids[kept], more.ids])
    order = np.argsort(ids, kind="stable")
    columns = {}
    for field in dict.fromkeys([*part.columns, *more.columns]):
        values = np.zeros(len(ids), dtype=np.int64)
        kinds = np.zeros(len(ids), dtype=np.uint8)
        if (old := part.columns.get(field)) is not None:
            values[: len(kept)], kinds[: len(kept)] = old.values[kept], old.kinds[kept]
        if (new := more.columns.get(field)) is not None:
            values[len(kept) :], kinds[len(kept) :] = new.values, new.kinds
        columns[field] = Column(values[order], kinds[order])
    matrix = np.concatenate([part.matrix[kept], more.matrix])[order]
    return Part(ids[order], matrix, columns, {**part.texts, **more.texts})


# ---- ranking -------------------------------------------------------------------------------------------------


def best(
    part: Part, query: Vector, limit: int, where: Filter | None, without: Positions | None = None
) -> list[ScoredPoint]:
    """The best rows that pass the filter and are not in `without`, with their cosines; ties by id."""
    rows = _candidates(part, query, limit, _allowed(part, where, without))
    exact = [
        np.einsum("ij,j->i", part.matrix[rows[i : i + _BLOCK]], query) for i in range(0, len(rows), _BLOCK)
    ]
    scores = np.clip(np.concatenate(exact), -1.0, 1.0) if exact else np.zeros(0, dtype=np.float32)
    order = np.lexsort((rows, -scores))[:limit]
    rows = rows[order]
    return [
        ScoredPoint(*found)
        for found in zip(_ids(part, rows), scores[order].tolist(), part.payloads(rows), strict=True)
    ]


def _ids(part: Part, rows: Positions) -> list[str]:
    digits = part.ids[rows].tobytes().hex()
    found = (digits[at : at + 32] for at in range(0, len(digits), 32))
    return [f"{one[:8]}-{one[8:12]}-{one[12:16]}-{one[16:20]}-{one[20:]}" for one in found]


def _allowed(part: Part, where: Filter | None, without: Positions | None) -> Mask | None:
    if where is None and (without is None or not len(without)):
        return None
    allowed = np.ones(len(part.ids), dtype=np.bool_)
    for condition in where.must if where else ():
        allowed &= _holds(part, condition)
    for condition in where.must_not if where else ():
        allowed &= ~_holds(part, condition)
    if without is not None:
        allowed[without] = False
    return allowed


def _candidates(part: Part, query: Vector, limit: int, allowed: Mask | None) -> Positions:
    """The rows that may be among the best `limit`."""
    rows = None if allowed is None or allowed.all() else np.flatnonzero(allowed)
    count = len(part.ids) if rows is None else len(rows)
    if count <= limit:
        return np.arange(count) if rows is None else rows
    many = count * _FEW > len(part.ids)
    if part.codes is not None and many:
        estimates, error = _estimates(part.codes, query)
        near = _near(estimates if rows is None else estimates[rows], error, limit)
        # Of vectors that hardly differ, or of which one component outweighs all, codes tell too little.
        if len(near) * _FEW <= count:
            return near if rows is None else rows[near]
    if rows is None:
        return _near(part.matrix @ query, _ROUNDING / 2, limit)
    return rows[
        _near((part.matrix @ query)[rows] if many else _products(part, query, rows), _ROUNDING / 2, limit)
    ]


def _near(scores: Vector, error: float, limit: int) -> Positions:
    """Where scores that are off by up to `error` may be among the best `limit`."""
    least = np.partition(scores, len(scores) - limit)[len(scores) - limit]
    return np.flatnonzero(scores >= least - 2 * error)


def _estimates(codes: Codes, query: Vector) -> tuple[Vector, float]:
    """The product of every row with the query, and how far that may be off."""
    asked = codes_of(query[None])
    estimates = np.asarray(simsimd.cdist(asked.values, codes.values, metric="dot", out_dtype="float32"))[0]
    estimates *= codes.steps
    estimates *= asked.steps[0]
    # Of x.q - x'.q' = (x - x').q + x'.(q - q'), with lengths of 1 for x and q, and at most 1 + |x - x'| for x'.
    mine, its = float(asked.errors[0]), float(codes.errors.max())
    return estimates, its + (1 + its) * mine + _ROUNDING / 2


def _products(part: Part, query: Vector, rows: Positions) -> Vector:
    """The products of a few rows, copied together."""
    found = np.empty(len(rows), dtype=np.float32)
    for i in range(0, len(rows), _BLOCK):
        found[i : i + _BLOCK] = part.matrix[rows[i : i + _BLOCK]] @ query
    return found


def _holds(part: Part, condition: Condition) -> Mask:
    """Where the condition holds: `vectors.matches`, a column at a time."""
    low, high, listed = condition.at_least, condition.at_most, condition.any_of
    column = part.columns.get(condition.field)
    if column is None or not (listed or low is not None or high is not None):
        return np.zeros(len(part.ids), dtype=np.bool_)
    holds = column.kinds > 0
    if listed:
        numbers = [each for each in listed if type(each) is int and -_INT_LIMIT <= each < _INT_LIMIT]
        codes = [_code(each) for each in listed if isinstance(each, str)]
        holds = _among(column, _INTEGER, numbers) | _among(column, _TEXT, codes)
    if low is not None:
        holds &= (column.kinds == _INTEGER) & (column.values >= low)
    if high is not None:
        holds &= (column.kinds == _INTEGER) & (column.values <= high)
    return holds


def _among(column: Column, kind: int, values: Sequence[int]) -> Mask:
    found: Mask = column.kinds == kind
    found &= (
        column.values == values[0]
        if len(values) == 1
        else np.isin(column.values, np.array(values, dtype=np.int64))
    )
    return found


def _code(text: str) -> int:
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True)


# ---- the shared file -----------------------------------------------------------------------------------------
#
# magic | BLAKE3 of all that follows | length of the header | header (JSON) | matrix | ids | codes: values, steps, errors
# | per field: values, kinds; every array begins at a multiple of 64 bytes.


def save(
    path: Path, about: Mapping[str, Any], ids: NDArray[np.bytes_], columns: Mapping[str, Column],
    texts: Mapping[int, str], dimension: int, rows: Iterable[Sequence[bytes]],
) -> None:  # fmt: skip
    """Write the file in full, then put it in place at once, mode 0600. `rows` are vectors in id order, in groups.

    Raises OSError.
    """
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    _remove_leftovers(path)
    shape = {"dimension": dimension, "rows": len(ids), "fields": list(columns), "texts": list(texts.items())}
    header = json.dumps({**about, **shape}).encode()
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f"{path.name}.", suffix=".tmp")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(_MAGIC + bytes(_DIGEST_BYTES))
            hasher = blake3.blake3()
            written = file.tell()

            def put(data: bytes) -> None:
                nonlocal written
                hasher.update(data)
                written += file.write(data)

            put(len(header).to_bytes(8, "little") + header)
            _pad(put, written)
            coded = [codes_of(matrix_of([], dimension))]
            for group in rows:
                put(b"".join(group))
                coded.append(codes_of(matrix_of(group, dimension)))
            codes = (np.concatenate(arrays) for arrays in zip(*coded, strict=True))
            for array in (ids, *codes, *(array for column in columns.values() for array in column)):
                _pad(put, written)
                put(array.tobytes())
            file.seek(len(_MAGIC))
            file.write(hasher.digest(_DIGEST_BYTES))
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def load(path: Path, about: Mapping[str, Any], dimension: int) -> tuple[Part, int] | None:
    """The mapped points and the `change` of the file; None if it is missing, damaged or about something else."""
    try:
        with path.open("rb") as file:
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except (OSError, ValueError):  # missing, unreadable or empty
        return None
    start = len(_MAGIC) + _DIGEST_BYTES
    if len(data) < start + 8 or data[: len(_MAGIC)] != _MAGIC:
        return None
    with memoryview(data) as view, view[start:] as body:
        hasher = blake3.blake3(max_threads=blake3.blake3.AUTO)
        if hasher.update(body).digest(_DIGEST_BYTES) != data[len(_MAGIC) : start]:
            return None
    end = start + 8 + int.from_bytes(data[start : start + 8], "little")
    header = json.loads(data[start + 8 : end])
    if header["dimension"] != dimension or any(header[name] != value for name, value in about.items()):
        return None
    return _mapped(data, end, header), int(header["change"])


def _mapped(data: mmap.mmap, offset: int, header: Mapping[str, Any]) -> Part:
    rows, dimension, fields = header["rows"], header["dimension"], header["fields"]
    kinds = ["<f4", "S16", "i1", "<f4", "<f4", *(kind for _ in fields for kind in ("<i8", "u1"))]
    counts = [rows * (dimension if each in (0, 2) else 1) for each in range(len(kinds))]
    sizes = [np.dtype(kind).itemsize * count for kind, count in zip(kinds, counts, strict=True)]
    starts = accumulate(sizes, lambda start, size: _aligned(start + size), initial=_aligned(offset))
    matrix, ids, values, steps, errors, *rest = (
        np.frombuffer(data, dtype=kind, count=count, offset=start) if count else np.zeros(0, dtype=kind)
        for kind, count, start in zip(kinds, counts, starts, strict=False)
    )
    columns = {field: Column(rest[2 * i], rest[2 * i + 1]) for i, field in enumerate(fields)}
    codes = Codes(values.reshape(rows, dimension), steps, errors)
    return Part(ids, matrix.reshape(rows, dimension), columns, dict(header["texts"]), codes)


def _aligned(offset: int) -> int:
    return -(-offset // _ALIGNMENT) * _ALIGNMENT


def _pad(put: Callable[[bytes], None], written: int) -> None:
    put(bytes(_aligned(written) - written))


def _remove_leftovers(path: Path) -> None:
    """Remove what writers left behind that were killed long ago."""
    for leftover in path.parent.glob(f"{path.name}.*.tmp"):
        with suppress(OSError):
            if leftover.stat().st_mtime < time.time() - _LEFTOVER_SECONDS:
                leftover.unlink()
