"""Talking to OpenAI-compatible servers over plain HTTP: time limits, size limits, and failures as our errors."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Mapping
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

from services import errors
from services.language.prompts import redacted

if TYPE_CHECKING:
    import httpx

_MAX_RETRY_AFTER_SECONDS = 15 * 60.0
_MAX_MESSAGE = 300
# More than is shown, so that no key is cut in half before it is recognised.
_MAX_SCRUBBED = 5_000
# Too little or too late, which another try may change; 501 means that the server was not started for this.
_TRANSIENT = frozenset({408, 409, 425, 429})
_NOT_IMPLEMENTED = 501


class OpenAiEndpoint:
    """POST {base_url}/{path}. Nothing is sent before the first call.

    `section` names the settings that the messages point to, such as `embedding`. `oversize` makes the error for a
    reply beyond `max_bytes`. `client` replaces the HTTP client, and is not closed. Safe to share between threads and
    to carry across a fork.
    """

    def __init__(
        self,
        base_url: str,
        path: str,
        api_key: str,
        *,
        section: str,
        timeout_seconds: float,
        connect_seconds: float,
        max_bytes: int,
        oversize: Callable[[str], errors.MemoryError],
        client: httpx.Client | None = None,
    ) -> None:
        self.url = f"{base_url.rstrip('/')}/{path}"
        self.timeout_seconds = timeout_seconds
        self._api_key = api_key
        self._section = section
        self._connect_seconds = connect_seconds
        self._max_bytes = max_bytes
        self._oversize = oversize
        self._given = client
        self._lock = threading.Lock()
        self._client: httpx.Client | None = None
        self._owner = 0

    def post(self, body: Mapping[str, Any], *, timeout_seconds: float | None = None) -> bytes:
        """The body of a reply with status 200. A connection that was reset is tried once more, nothing else is.

        Raises ModelUnavailable with the server's Retry-After, ModelTimeout, ModelRejected with the status, or
        SettingsError for an address that is none. No message shows the key.
        """
        import httpx

        seconds = min(timeout_seconds or self.timeout_seconds, self.timeout_seconds)
        deadline = time.monotonic() + seconds
        try:
            try:
                return self._attempt(body, deadline)
            except (httpx.RemoteProtocolError, httpx.ReadError, httpx.WriteError):
                # Most often an idle connection that the server has closed.
                return self._attempt(body, deadline)
        except httpx.InvalidURL as error:
            raise errors.SettingsError(f"{self._section}.base_url {self.url!r} is no URL: {error}") from error
        except httpx.ConnectTimeout as error:
            raise errors.ModelUnavailable(self._unanswered("it cannot be reached in time")) from error
        except httpx.TimeoutException as error:
            raise errors.ModelTimeout(self._unanswered(f"no full reply in {seconds:g} s")) from error
        except httpx.HTTPError as error:
            raise errors.ModelUnavailable(
                self._unanswered(self.scrubbed(str(error)) or type(error).__name__)
            ) from error

    def scrubbed(self, text: str) -> str:
        """The start of a text, without the key, and without those in what a server repeats of what it was sent."""
        if self._api_key:
            text = text.replace(self._api_key, "***")
        return redacted(text[:_MAX_SCRUBBED])[:_MAX_MESSAGE]

    def close(self) -> None:
        """Close the connections of this process."""
        with self._lock:
            if self._client is not None and self._owner == os.getpid():
                self._client.close()
            self._client = None

    def _attempt(self, body: Mapping[str, Any], deadline: float) -> bytes:
        import httpx

        left = deadline - time.monotonic()
        if left <= 0:
            raise httpx.ReadTimeout("no time left")
        received = bytearray()
        headers = {"Authorization": f"Bearer {self._api_key}"} if self._api_key else {}
        timeout = httpx.Timeout(left, connect=min(self._connect_seconds, left))
        stream = self._connected().stream("POST", self.url, json=body, headers=headers, timeout=timeout)
        with stream as response:
            for piece in response.iter_bytes():
                received += piece
                if len(received) > self._max_bytes:
                    raise self._oversize(f"{self.url} sent more than {self._max_bytes} bytes")
                if time.monotonic() > deadline:
                    raise httpx.ReadTimeout("the reply goes on for too long")
        if response.status_code != httpx.codes.OK:
            raise self._refusal(response.status_code, response.headers.get("Retry-After"), bytes(received))
        return bytes(received)

    def _refusal(self, status: int, retry_after: str | None, content: bytes) -> errors.MemoryError:
        reason = f"status {status}: {self.scrubbed(_message(content))}"
        if status in _TRANSIENT or (status >= 500 and status != _NOT_IMPLEMENTED):
            return errors.ModelUnavailable(
                self._unanswered(reason), retry_after_seconds=retry_after_seconds(retry_after)
            )
        hint = f"check {self._section}.base_url and model"
        if status in (401, 403):
            hint = f"check {self._section}.api_key"
        if status == _NOT_IMPLEMENTED:
            hint = "the server was started without support for this"
        return errors.ModelRejected(f"{self.url} refuses: {reason} ({hint})", status=status)

    def _unanswered(self, reason: str) -> str:
        return f"{self._section} server {self.url} does not answer: {reason}"

    def _connected(self) -> httpx.Client:
        import httpx

        if self._given is not None:
            return self._given
        with self._lock:
            # Sockets that a parent process opened must not be used from its child.
            if self._client is None or self._owner != os.getpid():
                self._client, self._owner = httpx.Client(), os.getpid()
            return self._client


def retry_after_seconds(header: str | None) -> float | None:
    """A Retry-After header, seconds or a date, as seconds from now: 0 to 15 minutes; None if there is none."""
    if not header:
        return None
    try:
        seconds = float(header)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(header).timestamp() - time.time()
        except ValueError:
            return None
    return min(max(seconds, 0.0), _MAX_RETRY_AFTER_SECONDS) if seconds == seconds else None


def _message(content: bytes) -> str:
    """The server's own words: {"error": {"message": ...}} and its relatives, else the body."""
    text = content.decode("utf-8", "replace")
    try:
        found: Any = json.loads(text)
    except (ValueError, RecursionError):
        return text.strip()
    for name in ("error", "message", "detail"):
        if isinstance(found, dict) and name in found:
            found = found[name]
    return found if isinstance(found, str) else json.dumps(found)
