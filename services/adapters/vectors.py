"""What every vector store checks and means, in one place: points, queries, limits, filters."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from services import errors
from services.ports import Condition, Filter, PayloadValue, Point

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from services.ports import Vector

MAX_LIMIT = 10_000
# Where stores without namespaces of their own keep it.
NAMESPACE_FIELD = "zeph_namespace"
_COLLECTION = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,199}")
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_INT_LIMIT = 2**63


class Batch(NamedTuple):
    """Checked points as columns: one row of unit vectors per id."""

    ids: list[str]
    vectors: Vector
    payloads: list[dict[str, PayloadValue]]


def clamped(limit: int) -> int:
    """The limit within [1, 10_000]."""
    return max(1, min(limit, MAX_LIMIT))


def known_ids(ids: Iterable[str]) -> list[str]:
    """The ids that can exist at all, each once, in the order given."""
    return [each for each in dict.fromkeys(ids) if _UUID.fullmatch(each)]


def check_collection(name: str, dimension: int) -> None:
    """Refuse names that some store cannot hold and lengths that no vector has. Raises InputError."""
    if not _COLLECTION.fullmatch(name):
        raise errors.InputError(
            f"{name!r} cannot name a collection: use up to 200 letters, digits, '_', '.' and '-'"
        )
    if not 1 <= dimension <= 65_536:
        raise errors.InputError(f"collection {name!r} cannot have dimension {dimension}: use 1 to 65536")


def unknown_collection(name: str) -> errors.NotFound:
    """The error of a write into a collection that was never created."""
    return errors.NotFound(f"there is no vector collection {name!r}: create it first with ensure_collection")


def check_dimension(name: str, existing: int, wanted: int) -> None:
    """Refuse vectors of another length than the collection's. Raises DimensionMismatch."""
    if existing != wanted:
        raise errors.DimensionMismatch(
            f"vector collection {name!r} holds vectors of dimension {existing}, these have {wanted}: "
            "use the embedding model it was made with, or embed anew into a collection of its own"
        )


def checked_points(name: str, dimension: int, points: Sequence[Point]) -> Batch:
    """The points as columns, vectors scaled to unit length; of equal ids the last one counts.

    Raises DimensionMismatch, or InputError for NaN, infinity, zero vectors, bad ids and bad payloads.
    """
    import numpy as np

    latest = {point.id: point for point in points}
    rows = []
    for point in latest.values():
        if not _UUID.fullmatch(point.id):
            raise errors.InputError(f"point id {point.id!r} is no lower-case UUID")
        _check_payload(point)
        rows.append(_row(name, dimension, point.vector))
    matrix = np.array(rows, dtype=np.float64).reshape(len(rows), dimension)
    return Batch(list(latest), _scaled(name, matrix), [dict(point.payload) for point in latest.values()])


def unit_query(name: str, dimension: int | None, vector: Vector) -> Vector:
    """The query scaled to unit length; None where the dimension is not known. Raises DimensionMismatch or InputError."""
    import numpy as np

    row = np.array([_row(name, dimension, vector)], dtype=np.float64)
    unit: Vector = _scaled(name, row)[0]
    return unit


def matches(where: Filter | None, payload: Mapping[str, PayloadValue]) -> bool:
    """Whether a payload passes the filter: the meaning that every store reproduces."""
    if where is None:
        return True
    return all(_holds(each, payload) for each in where.must) and not any(
        _holds(each, payload) for each in where.must_not
    )


def _holds(condition: Condition, payload: Mapping[str, PayloadValue]) -> bool:
    value = payload.get(condition.field)
    low, high, listed = condition.at_least, condition.at_most, condition.any_of
    if value is None or not (listed or low is not None or high is not None):
        return False
    if listed and not any(type(value) is type(each) and value == each for each in listed):
        return False
    if low is None and high is None:
        return True
    return isinstance(value, int) and (low is None or low <= value) and (high is None or value <= high)


def _check_payload(point: Point) -> None:
    for field, value in point.payload.items():
        if field == NAMESPACE_FIELD:
            raise errors.InputError(f"payload field {field!r} of point {point.id} is reserved: rename it")
        if type(value) is int and -_INT_LIMIT <= value < _INT_LIMIT:
            continue
        if type(value) is str and _is_text(field) and _is_text(value):
            continue
        raise errors.InputError(
            f"payload field {field!r} of point {point.id} is neither text nor a 64-bit integer: {value!r:.80}"
        )


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:  # a lone surrogate, which neither JSON nor SQLite can carry
        return False
    return True


def _row(name: str, dimension: int | None, vector: Vector) -> Vector:
    import numpy as np

    try:
        row = np.asarray(vector)
    except ValueError as error:  # lists of different lengths
        raise _no_numbers(name) from error
    if row.ndim != 1:
        raise errors.InputError(f"a vector for collection {name!r} has {row.ndim} axes instead of one")
    if dimension is not None:
        check_dimension(name, dimension, len(row))
    if row.dtype.kind not in "fiu":
        raise _no_numbers(name)
    return row


def _no_numbers(name: str) -> errors.InputError:
    return errors.InputError(f"a vector for collection {name!r} holds something else than real numbers")


def _scaled(name: str, matrix: NDArray[np.float64]) -> Vector:
    import numpy as np

    # In float64, because the square of a large float32 overflows.
    lengths = np.sqrt(np.einsum("ij,ij->i", matrix, matrix))
    if not np.isfinite(lengths).all():
        raise errors.InputError(f"a vector for collection {name!r} contains NaN or infinity")
    if (lengths == 0).any():
        raise errors.InputError(f"a vector for collection {name!r} is zero, which has no direction")
    unit: Vector = (matrix / lengths[:, None]).astype(np.float32)
    return unit
