"""A small server that plays the daemon, and a way to run the command inside this process."""

from __future__ import annotations

import http.server
import io
import json
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from cli_doubles import Daemon, Outcome

from localdecide.cli.main import main


@pytest.fixture
def daemon(monkeypatch: pytest.MonkeyPatch) -> Iterator[Daemon]:
    """The fake, at the address that LOCALDECIDE_HOST names."""
    state = Daemon()

    class Handler(http.server.BaseHTTPRequestHandler):
        def _answer(self) -> None:
            length = int(self.headers.get("Content-Length", 0))
            read = self.rfile.read(length)
            route = f"{self.command} {self.path}"
            state.requests.append((route, _value(read), dict(self.headers.items())))
            reply = state.replies.get(route, (404, {"error": "no such route"}))
            status, value, *headers = reply.pop(0) if isinstance(reply, list) else reply
            if isinstance(value, list):
                body = b"".join(json.dumps(item).encode() + b"\n" for item in value)
            else:
                body = value if isinstance(value, bytes) else json.dumps(value).encode()
            self.send_response(status)
            for name, content in headers:
                self.send_header(name, content)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = do_DELETE = do_HEAD = _answer

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    state.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    monkeypatch.setenv("LOCALDECIDE_HOST", f"127.0.0.1:{state.port}")
    yield state
    server.shutdown()
    server.server_close()
    thread.join()


def _value(read: bytes) -> Any:
    """A body's JSON value; the bytes themselves where it is a file."""
    try:
        return json.loads(read) if read else None
    except ValueError:
        return read


@pytest.fixture(autouse=True)
def apart(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    """No test sees this user's settings, starts a daemon or writes outside its own folder."""
    for name in ("API_KEY", "DEFAULT_MODEL", "HOST", "LOG_LEVEL", "NO_AUTOSTART"):
        monkeypatch.delenv(f"LOCALDECIDE_{name}", raising=False)
    monkeypatch.setenv("LOCALDECIDE_NO_AUTOSTART", "1")
    monkeypatch.setenv("LOCALDECIDE_MODELS", str(tmp_path / "models"))
    for name in ("XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Outcome]:
    """`cli("ps", "--json", stdin=b"")`: exit code, stdout and stderr of one command."""

    def run(*arguments: str, stdin: bytes | None = None) -> Outcome:
        class Terminal(io.TextIOWrapper):
            def isatty(self) -> bool:
                return stdin is None

        monkeypatch.setattr(sys, "argv", ["localdecide", *arguments])
        monkeypatch.setattr(sys, "stdin", Terminal(io.BytesIO(stdin or b"")))
        with pytest.raises(SystemExit) as ended:
            main()
        said = capsys.readouterr()
        return Outcome(int(ended.value.code or 0), said.out, said.err)

    return run


@pytest.fixture
def free_port() -> int:
    """A port on which nothing listens."""
    import socket

    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])
