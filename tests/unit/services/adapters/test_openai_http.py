import email.utils
import os
import socket
import threading
import time

import pytest

from services import errors
from services.adapters.openai_http import OpenAiEndpoint, retry_after_seconds
from tests.fake_openai import FakeOpenAi, Reply


def endpoint(base_url, **options):
    given = {
        "section": "llm",
        "timeout_seconds": 5.0,
        "connect_seconds": 1.0,
        "max_bytes": 1_000,
        "oversize": errors.ReplyUnusable,
    }
    return OpenAiEndpoint(base_url, "embeddings", "sk-secret", **{**given, **options})


@pytest.fixture
def server():
    with FakeOpenAi() as running:
        yield running


def test_retry_after_is_read_as_seconds_or_date_and_capped():
    assert retry_after_seconds("2.5") == 2.5
    assert retry_after_seconds("86400") == 900
    assert retry_after_seconds("-3") == 0
    date = email.utils.formatdate(time.time() + 60, usegmt=True)
    assert retry_after_seconds(date) == pytest.approx(60, abs=3)
    assert [retry_after_seconds(each) for each in (None, "", "soon", "nan")] == [None] * 4


def test_a_reply_beyond_the_limit_is_the_callers_kind_of_error(server):
    server.replies.append(Reply(200, b"x" * 2_000))
    one = endpoint(server.base_url)
    with pytest.raises(errors.ReplyUnusable, match="more than 1000 bytes"):
        one.post({})
    one.close()


@pytest.mark.parametrize("resets", [1, 2])
def test_a_reset_connection_is_tried_once_more_and_no_further(resets):
    listener = socket.create_server(("127.0.0.1", 0))
    seen = []

    def serve():
        for number in range(2):
            connection, _ = listener.accept()
            with connection:
                seen.append(connection.recv(65_536))
                if number >= resets:
                    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")

    thread = threading.Thread(target=serve)
    thread.start()
    one = endpoint(f"http://127.0.0.1:{listener.getsockname()[1]}/v1")
    if resets == 1:
        assert one.post({}) == b"{}"
    else:
        with pytest.raises(errors.ModelUnavailable):
            one.post({})
    thread.join()
    listener.close()
    one.close()
    assert len(seen) == 2


def test_a_shorter_time_than_the_configured_one_holds_and_is_a_timeout(server):
    server.replies.append(Reply(delay=5))
    one = endpoint(server.base_url)
    started = time.monotonic()
    with pytest.raises(errors.ModelTimeout, match=r"no full reply in 0\.1 s"):
        one.post({}, timeout_seconds=0.1)
    assert time.monotonic() - started < 4
    one.close()


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_opens_connections_of_its_own(server):
    one = endpoint(server.base_url)
    one.post({"model": "m", "input": []})
    client = one._client
    child = os.fork()
    if child == 0:
        os._exit(0 if one._connected() is not client else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert one._connected() is client
    one.close()
