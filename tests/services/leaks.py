"""What must never leave the places it is meant for: secrets, and in the broker whatever is more than an id."""

from __future__ import annotations

import base64
import contextlib
import json
from collections.abc import Iterator

import redis

from tests.builders import rows
from tests.services.harness import Stack

# Every stack is given these, so that whatever a test does, they must be found nowhere.
SECRETS = {
    "llm__api_key": "sk-canary-of-the-language-model-4711",
    "embedding__api_key": "sk-canary-of-the-embedder-4712",
    "memory__qdrant_api_key": "canary-of-the-vector-store-4713",
}
_BODY = ", body"
# Some tests put rubbish into the broker.
_NO_MESSAGE = (ValueError, TypeError, LookupError, RecursionError)


def leaks(stack: Stack, *further: str) -> list[str]:
    """Where a secret of the stack, or one of these texts, is written down: in outputs, the ledger, metrics or the broker."""
    secrets = [*SECRETS.values(), *further]
    return sorted(
        f"{secret[:12]}... in {place}"
        for place, text in _places(stack)
        for secret in secrets
        if secret in text
    )


def words_in_broker(stack: Stack) -> list[str]:
    """The arguments of hints that are anything but one id."""
    found = []
    for place, text in _broker(stack):
        if not place.endswith(_BODY):
            continue
        with contextlib.suppress(*_NO_MESSAGE):
            arguments, options, _ = json.loads(text)
            if options or [type(each) for each in arguments] != [int]:
                found.append(text[:200])
    return found


def _places(stack: Stack) -> Iterator[tuple[str, str]]:
    for path in stack.folder.glob("*.err"):
        yield path.name, path.read_text(encoding="utf-8", errors="replace")
    for path in stack.folder.glob("*.out"):
        yield path.name, path.read_text(encoding="utf-8", errors="replace")
    for table in ("jobs", "periodic_runs"):
        yield f"table {table}", repr(rows(stack.container, f"SELECT * FROM {table}"))
    yield from _broker(stack)


def _broker(stack: Stack) -> Iterator[tuple[str, str]]:
    """Every value in Redis as it is, and the bodies of messages decoded; nothing while it is away."""
    with contextlib.closing(stack.redis.client()) as client, contextlib.suppress(redis.ConnectionError):
        for key in client.scan_iter():
            for value in _values(client, key):
                text = value.decode("utf-8", "replace")
                yield f"redis {key.decode('utf-8', 'replace')}", text
                with contextlib.suppress(*_NO_MESSAGE):
                    message = json.loads(text)
                    # What is not acknowledged yet is kept with how it came.
                    message = message[0] if isinstance(message, list) else message
                    yield (
                        f"redis {key.decode('utf-8', 'replace')}, body",
                        base64.b64decode(message["body"]).decode("utf-8", "replace"),
                    )


def _values(client: redis.Redis, key: bytes) -> list[bytes]:
    kind = client.type(key)
    if kind == b"list":
        return list(client.lrange(key, 0, -1))
    if kind == b"hash":
        return [*client.hkeys(key), *client.hvals(key)]
    if kind == b"set":
        return list(client.smembers(key))
    if kind == b"zset":
        return list(client.zrange(key, 0, -1))
    if kind == b"string":
        return [client.get(key) or b""]
    # Gone since it was listed: a list that a worker has emptied.
    return []
