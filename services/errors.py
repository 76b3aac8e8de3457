"""Every error that leaves this package, drawn once.

    MemoryError                     root; not Python's builtin of the same name
    |-- InputError                  the caller's request is wrong         -> tell the caller, never retry
    |   |-- SettingsError           a setting is unknown or out of range
    |   |-- DocumentError           a file cannot be read as a document   -> recorded as that file's outcome
    |   |-- DimensionMismatch       vectors of another model or length
    |   `-- NotFound                the named thing does not exist
    |-- TransientError              the world is in the way, for now      -> retried with backoff, then dead
    |   |-- StorageBusy             the database is locked or full
    |   |-- VectorStoreUnavailable  the vector store does not answer
    |   |-- ModelUnavailable        an embedding or language model does not answer
    |   |   `-- ModelTimeout        ... or not within the time it was given
    |   |-- ReplyUnusable           a model's reply is cut off or cannot be read
    |   `-- BackPressure            too much work is already queued
    `-- PermanentError              retrying cannot help                  -> dead letter with this reason
        |-- JobCancelled            somebody asked the job to stop
        |-- LeaseLost               another worker owns the job now       -> all effects are rolled back
        |-- SchemaError             the database is of another version
        |-- UnknownVersion          ... or a job was enqueued by one whose payload this one cannot read
        `-- ModelRejected           a model refused the request for good

Import the module, not the bare name: ``from services import errors``, then ``errors.MemoryError``.
"""

from __future__ import annotations


class MemoryError(Exception):  # noqa: A001 - the public name; callers import this module instead
    """Something in zeph-memory went wrong."""


class InputError(MemoryError):
    """The request is wrong and would fail again."""


class SettingsError(InputError):
    """A setting is unknown, of the wrong type or out of its range."""


class DocumentError(InputError):
    """A file cannot be read as a document; `reason` is a stable code, the message is for people."""

    def __init__(self, message: str, *, reason: str = "unreadable") -> None:
        super().__init__(message)
        self.reason = reason


class DimensionMismatch(InputError):
    """Vectors of another model or length meet a collection that has its own."""


class NotFound(InputError):
    """The named thing does not exist."""


class TransientError(MemoryError):
    """The operation failed for now; `retry_after_seconds` is a server's wish, if it stated one."""

    def __init__(self, message: str = "", *, retry_after_seconds: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds


class StorageBusy(TransientError):
    """The database is locked, full or otherwise unable to write for now."""


class VectorStoreUnavailable(TransientError):
    """The vector store does not answer."""


class ModelUnavailable(TransientError):
    """An embedding or language model does not answer."""


class ModelTimeout(ModelUnavailable):
    """A model took longer than it was given."""


class ReplyUnusable(TransientError):
    """A model's reply is cut off or cannot be read: another try may bring a better one. `replies` is how many it were."""

    def __init__(self, message: str = "", *, replies: int = 1) -> None:
        super().__init__(message)
        self.replies = replies


class BackPressure(TransientError):
    """Too much work is already queued to accept more."""


class PermanentError(MemoryError):
    """Retrying cannot help."""


class JobCancelled(PermanentError):
    """Somebody asked this job to stop."""


class LeaseLost(PermanentError):
    """Another worker owns this job now, so nothing of this run may be stored."""


class SchemaError(PermanentError):
    """The database has a schema that this version does not know."""


class UnknownVersion(PermanentError):
    """The payload of a job is of a shape that this version does not know."""


class ModelRejected(PermanentError):
    """A model refused the request for good; `status` is the HTTP status, if there was one."""

    def __init__(self, message: str = "", *, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status
