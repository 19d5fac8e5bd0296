"""The client against a server that answers well and badly."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from localdecide import settings
from localdecide.cli.client import Client, DaemonError, Interrupted, Unreachable


def client(**overrides: str) -> Client:
    return Client(settings.load(None, **overrides))


@pytest.mark.parametrize(
    ("host", "address", "local"),
    [
        ("0.0.0.0:1234", "127.0.0.1:1234", True),
        ("0.0.0.0", "127.0.0.1:11436", True),
        ("[::]:1234", "[::1]:1234", True),
        ("localhost:1", "127.0.0.1:1", True),
        ("http://127.0.0.2:5/", "127.0.0.2:5", True),
        ("192.0.2.7:80", "192.0.2.7:80", False),
        ("", "127.0.0.1:11436", True),
    ],
)
def test_address(host: str, address: str, local: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """An unspecified address means loopback, and only loopback counts as this machine."""
    monkeypatch.setenv("LOCALDECIDE_HOST", host)
    found = client()

    assert (address, local) == (found.address, found.local)


def test_request_and_key(daemon: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """JSON goes out as UTF-8 with the key, and the reply's value comes back."""
    monkeypatch.setenv("LOCALDECIDE_API_KEY", "geheim")
    daemon.replies["POST /api/show"] = (200, {"é": 1})

    found = client().post("/api/show", {"model": "naïve"})

    assert {"é": 1} == found
    route, body, headers = daemon.requests[0]
    assert ("POST /api/show", {"model": "naïve"}) == (route, body)
    assert "Bearer geheim" == headers["Authorization"]
    assert f"127.0.0.1:{daemon.port}" == headers["Host"]


def test_no_key_no_header(daemon: Any) -> None:
    """Without a key no Authorization header is sent."""
    daemon.replies["GET /api/ps"] = (200, {"models": []})

    client().get("/api/ps")

    assert "Authorization" not in daemon.requests[0][2]


def test_proxies_are_ignored(daemon: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy of the system never sees a request to the daemon."""
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    daemon.replies["GET /api/ps"] = (200, {"models": []})

    assert {"models": []} == client().get("/api/ps")


@pytest.mark.parametrize(
    ("status", "body", "message", "hint"),
    [
        (404, {"error": "model 'x' not found"}, "model 'x' not found", None),
        (404, {"error": "no", "hint": "try `y`"}, "no", "try `y`"),
        (400, {"error": {"message": "nested"}}, "nested", None),
        (
            502,
            b"<html>Bad Gateway</html>",
            "another web server than localdecide answered, with status 502",
            "check `LOCALDECIDE_HOST`, and which program has that port",
        ),
        (500, b"", "the daemon answered with status 500", None),
        (500, b"[1]", "[1]", None),
    ],
)
def test_error_bodies(daemon: Any, status: int, body: Any, message: str, hint: str | None) -> None:
    """Whatever an error reply holds, its words arrive."""
    daemon.replies["GET /x"] = (status, body)

    with pytest.raises(DaemonError) as raised:
        client().get("/x")

    assert (status, message, hint) == (raised.value.status, raised.value.message, raised.value.hint)


def test_retry_after(daemon: Any) -> None:
    """A busy daemon's Retry-After is kept."""
    daemon.replies["GET /x"] = (503, {"error": "busy"}, ("Retry-After", "7"))

    with pytest.raises(DaemonError) as raised:
        client().get("/x")

    assert 7 == raised.value.retry_after


def test_reply_that_is_not_json(daemon: Any) -> None:
    """A 200 that is not JSON is an error, not an empty value."""
    daemon.replies["GET /x"] = (200, b"Ollama is running")

    with pytest.raises(DaemonError, match="other than JSON"):
        client().get("/x")


def test_empty_reply_is_none(daemon: Any) -> None:
    """A 200 without a body is None."""
    daemon.replies["POST /api/copy"] = (200, b"")

    assert client().post("/api/copy", {}) is None


def test_stream(daemon: Any) -> None:
    """Events arrive in order and the last is success."""
    events = [{"status": "pulling"}, {"status": "success"}]
    daemon.replies["POST /api/pull"] = (200, events)

    assert events == list(client().stream("POST", "/api/pull", {}))


def test_stream_error_line(daemon: Any) -> None:
    """An error line raises, although the status was 200."""
    daemon.replies["POST /api/pull"] = (200, [{"status": "pulling"}, {"error": "disk full", "hint": "free some"}])
    events = client().stream("POST", "/api/pull", {})

    assert {"status": "pulling"} == next(events)
    with pytest.raises(DaemonError) as raised:
        next(events)
    assert ("disk full", "free some") == (raised.value.message, raised.value.hint)


def test_stream_without_success(daemon: Any) -> None:
    """A stream that ends early is not taken for done."""
    daemon.replies["POST /api/pull"] = (200, [{"status": "pulling"}])

    with pytest.raises(Interrupted, match="before it was done"):
        list(client().stream("POST", "/api/pull", {}))


def test_stream_error_status(daemon: Any) -> None:
    """An error before the first line keeps its status."""
    daemon.replies["POST /api/pull"] = (404, {"error": "not there"})

    with pytest.raises(DaemonError) as raised:
        list(client().stream("POST", "/api/pull", {}))

    assert 404 == raised.value.status


def test_unreachable(free_port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nothing listens, the error names the address."""
    monkeypatch.setenv("LOCALDECIDE_HOST", f"127.0.0.1:{free_port}")

    assert not client().listening()
    with pytest.raises(Unreachable, match=f"no daemon answers at 127.0.0.1:{free_port}"):
        client().get("/")


@pytest.fixture
def hanging_up(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[bytes]]:
    """A server that sends what the list holds and closes; each connection takes one item."""
    sent: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(5)
        monkeypatch.setenv("LOCALDECIDE_HOST", f"127.0.0.1:{server.getsockname()[1]}")

        def answer() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(sent.pop())

        thread = threading.Thread(target=answer)
        thread.start()
        yield sent
        thread.join()


@pytest.mark.parametrize(
    "answer", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{}", b"not HTTP at all\r\n\r\n"]
)
def test_broken_connections(hanging_up: list[bytes], answer: bytes) -> None:
    """A daemon that dies mid-answer, or is none, is reported as an interruption."""
    hanging_up.append(answer)

    with pytest.raises(Interrupted, match="before it was done"):
        client().get("/api/ps")
