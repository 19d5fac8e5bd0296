"""Starting a daemon in the background, with a ten-line server in its place."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from localdecide import paths, settings
from localdecide.cli import daemon, start
from localdecide.cli.client import Client
from localdecide.cli.output import Output

SERVER = """
import http.server, os, sys
print("a word of the server", file=sys.stderr, flush=True)
class Handler(http.server.BaseHTTPRequestHandler):
    asked = 0
    def do_GET(self):
        Handler.asked += 1
        self.send_response(200 if Handler.asked > 2 else 503)
        self.send_header("Content-Length", "0")
        self.end_headers()
host, port = os.environ["LOCALDECIDE_HOST"].split(":")
http.server.HTTPServer((host, int(port)), Handler).serve_forever()
"""

BROKEN = "import sys; print('\\n'.join(f'line {n}' for n in range(40))); sys.exit('no memory for this')"


@pytest.fixture
def spawned(monkeypatch: pytest.MonkeyPatch, free_port: int) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Every process that `start` spawned; each is ended by its own handle."""
    children: list[subprocess.Popen[bytes]] = []
    real = start._spawn

    def spawn(log: Path) -> subprocess.Popen[bytes]:
        children.append(real(log))
        return children[-1]

    monkeypatch.setattr(start, "_spawn", spawn)
    monkeypatch.setattr(start, "command", lambda: [sys.executable, "-c", SERVER])
    monkeypatch.setenv("LOCALDECIDE_HOST", f"127.0.0.1:{free_port}")
    monkeypatch.delenv("LOCALDECIDE_NO_AUTOSTART")
    yield children
    for child in children:
        child.kill()
        child.wait()


def ensure() -> str:
    """Ensures a daemon and returns what was said meanwhile."""
    said = io.StringIO()
    daemon.ensure(settings.load(), Output("human", io.StringIO(), said))
    return said.getvalue()


def test_start_and_reuse(spawned: list[subprocess.Popen[bytes]]) -> None:
    """The first command starts one and says where its log is; the next finds it and says nothing."""
    said = ensure()

    assert 1 == len(spawned)
    assert f"its log is {start.log_path()}" in said
    assert "a word of the server" in start.log_path().read_text()
    client = Client(settings.load())
    assert f"{spawned[0].pid}\n" == start.pid_path(client).read_text()
    assert start.pid_path(client).parent == paths.run()

    assert "" == ensure()
    assert 1 == len(spawned)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_it_is_detached(spawned: list[subprocess.Popen[bytes]]) -> None:
    """A Ctrl-C at the terminal does not reach it: it leads a session of its own, away from the caller's folder."""
    ensure()

    assert spawned[0].pid == os.getsid(spawned[0].pid)
    assert "/" == os.readlink(f"/proc/{spawned[0].pid}/cwd")


def test_two_at_once_start_one(spawned: list[subprocess.Popen[bytes]]) -> None:
    """Of commands that race, one starts a daemon and all return when it is ready."""
    threads = [threading.Thread(target=ensure) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert 1 == len(spawned)
    assert Client(settings.load()).listening()


def test_one_that_ends_shows_its_last_words(
    spawned: list[subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A daemon that dies at once is reported with the end of its log, not of an older one."""
    start.log_path().parent.mkdir(parents=True)
    start.log_path().write_text("words of yesterday\n")
    monkeypatch.setattr(start, "command", lambda: [sys.executable, "-c", BROKEN])

    with pytest.raises(start.StartFailed, match="ended at once with exit code 1") as failed:
        ensure()

    assert "no memory for this" in failed.value.tail
    assert "yesterday" not in failed.value.tail
    assert start.TAIL_LINES == len(failed.value.tail.splitlines())
    assert not start.pid_path(Client(settings.load())).exists()


def test_one_that_never_gets_ready(spawned: list[subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch) -> None:
    """Waiting has an end."""
    monkeypatch.setattr(start, "READY_SECONDS", 0.2)
    monkeypatch.setattr(start, "command", lambda: [sys.executable, "-c", "import time; time.sleep(60)"])

    with pytest.raises(start.StartFailed, match="is not ready after"):
        ensure()


def test_a_long_log_is_put_aside(spawned: list[subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch) -> None:
    """A log over its size becomes server.log.1 before a new one begins."""
    monkeypatch.setattr(start, "LOG_BYTES", 10)
    start.log_path().parent.mkdir(parents=True)
    start.log_path().write_text("more than ten bytes\n")

    ensure()

    assert "more than ten bytes\n" == start.log_path().with_suffix(".log.1").read_text()
    assert "more than" not in start.log_path().read_text()


def test_no_autostart(spawned: list[subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch) -> None:
    """The setting forbids a start and the error says what to run."""
    monkeypatch.setenv("LOCALDECIDE_NO_AUTOSTART", "1")

    with pytest.raises(daemon.NoDaemon) as refused:
        ensure()

    assert "localdecide serve" in str(refused.value.hint)
    assert [] == spawned


def test_another_machine_is_not_started(
    spawned: list[subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the address is another machine's, nothing is started here."""
    monkeypatch.setenv("LOCALDECIDE_HOST", "192.0.2.1:1")
    monkeypatch.setattr(Client, "listening", lambda self: False)

    with pytest.raises(daemon.NoDaemon, match=r"no daemon answers at 192.0.2.1:1"):
        ensure()

    assert [] == spawned


def test_models_folder_stays_the_same(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A relative LOCALDECIDE_MODELS means the caller's folder, not the daemon's."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LOCALDECIDE_MODELS", "some models")

    assert str(tmp_path / "some models") == start._environment()["LOCALDECIDE_MODELS"]
