"""A large pull through a real daemon that is killed on the way, and Ollama's client against that daemon."""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import http.server
import json
import os
import random
import re
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

KILLS = 5


class FileServer:
    """Serves one file with ranges from the disk and counts every byte it hands to the kernel."""

    def __init__(self, path: Path, rate: int) -> None:
        self.sent, self.rate = 0, rate
        size = path.stat().st_size
        lock, counter = threading.Lock(), self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self) -> None:
                # What waits in the kernel to be sent was not fetched: keep that little.
                self.request.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 256 << 10)
                super().setup()

            def log_message(self, *_: object) -> None:
                pass

            def do_GET(self) -> None:
                match = re.fullmatch(r"bytes=(\d+)-(\d+)?", self.headers.get("Range", "bytes=0-"))
                assert match
                start, end = int(match[1]), min(int(match[2] or size), size - 1)
                self.send_response(206)
                self.send_header("Content-Range", f"bytes {start}-{end}/{size}")
                self.send_header("Content-Length", str(end - start + 1))
                self.end_headers()
                with path.open("rb") as file:
                    file.seek(start)
                    left = end - start + 1
                    while left:
                        data = file.read(min(left, 1 << 18))
                        self.wfile.write(data)
                        left -= len(data)
                        with lock:
                            counter.sent += len(data)
                        time.sleep(len(data) / counter.rate)

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_: Any) -> None:
                pass

        self.server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/large.gguf"
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        self.thread.start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


class Daemon:
    """`localdecide serve` on a free port; killed, started again, and ended in order."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        with socket.create_server(("127.0.0.1", 0)) as listener:
            self.port = int(listener.getsockname()[1])
        self.process: subprocess.Popen[bytes] | None = None
        self.peak = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        more = {"LOCALDECIDE_HOST": f"127.0.0.1:{self.port}", "LOCALDECIDE_MODELS": str(self.folder / "models")}
        log = (self.folder / "daemon.log").open("ab")
        command = [sys.executable, "-m", "localdecide.cli.main", "serve"]
        with log:
            self.process = subprocess.Popen(command, env={**os.environ, **more}, stdout=log, stderr=log)
        for _ in range(300):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
                return
            time.sleep(0.1)
        raise AssertionError((self.folder / "daemon.log").read_text())

    def memory(self, name: str = "VmHWM") -> int:
        """Bytes of the daemon: VmHWM is the most it ever had, VmRSS what it has now."""
        assert self.process
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            status = Path(f"/proc/{self.process.pid}/status").read_text()
            if match := re.search(rf"{name}:\s+(\d+) kB", status):
                return int(match[1]) * 1024
        return 0

    def end(self, how: signal.Signals = signal.SIGKILL) -> int:
        assert self.process
        self.peak = max(self.peak, self.memory())
        self.process.send_signal(how)
        return self.process.wait(30)


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    daemon = Daemon(tmp_path)
    daemon.start()
    yield daemon
    if daemon.process and daemon.process.poll() is None:
        daemon.end(signal.SIGTERM)


def lines(daemon: Daemon, path: str, body: dict[str, Any]) -> Iterator[dict[str, Any]]:
    connection = http.client.HTTPConnection("127.0.0.1", daemon.port, timeout=120)
    with contextlib.closing(connection):
        connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
        with connection.getresponse() as response:
            for line in response:
                yield json.loads(line)


def random_gguf(path: Path, size: int) -> str:
    """A GGUF of one tensor of random bytes; gives its sha256."""

    def text(value: str) -> bytes:
        return struct.pack("<Q", len(value)) + value.encode()

    head = struct.pack("<4sIQQ", b"GGUF", 3, 1, 1)
    head += text("general.architecture") + struct.pack("<I", 8) + text("llama")
    head += text("t") + struct.pack("<IQIQ", 1, size // 4, 0, 0)
    head += bytes(-len(head) % 32)
    hasher = hashlib.sha256(head)
    rng = random.Random(9)
    with path.open("wb") as file:
        file.write(head)
        for _ in range(size // (4 << 20)):
            data = rng.randbytes(4 << 20)
            hasher.update(data)
            file.write(data)
    return hasher.hexdigest()


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc for the daemon's memory")
def test_two_gigabytes_and_five_kills(tmp_path: Path, daemon: Daemon) -> None:
    """It arrives intact, under 5 % of it fetched twice, and the daemon's memory stays flat meanwhile."""
    size = 2 << 30
    source = tmp_path / "large.gguf"
    digest = random_gguf(source, size)
    total = source.stat().st_size
    server = FileServer(source, rate=60 << 20)
    request = {"model": f"{server.url}#sha256={digest}", "as": "large"}
    idle = daemon.memory("VmRSS")
    try:
        for kill in range(1, KILLS + 1):
            with contextlib.suppress(OSError, http.client.HTTPException):
                for line in lines(daemon, "/api/pull", request):
                    assert "error" not in line, line
                    if line.get("completed", 0) > total * kill / (KILLS + 1):
                        break
            daemon.end()
            daemon.start()
        last = list(lines(daemon, "/api/pull", request))[-1]
        daemon.peak = max(daemon.peak, daemon.memory())
    finally:
        server.close()

    blob = tmp_path / "models" / "blobs" / f"sha256-{digest}"
    twice = (server.sent - total) / total
    sys.stdout.write(
        f"{KILLS} kills: {server.sent - total} bytes of {total} sent twice ({twice:.2%}); "
        f"daemon {idle / 1e6:.0f} MB idle, {daemon.peak / 1e6:.0f} MB at most\n"
    )
    assert last == {"status": "success"}
    with blob.open("rb") as file:
        assert hashlib.file_digest(file, "sha256").hexdigest() == digest
    assert twice < 0.05
    assert daemon.peak - idle < 100e6


def test_a_client_that_leaves_ends_its_pull(tmp_path: Path, daemon: Daemon) -> None:
    """When the terminal is closed the download stops; what arrived stays for the next pull."""
    source = tmp_path / "large.gguf"
    digest = random_gguf(source, 64 << 20)
    server = FileServer(source, rate=4 << 20)
    request = {"model": f"{server.url}#sha256={digest}", "as": "large"}
    try:
        for line in lines(daemon, "/api/pull", request):
            if line.get("completed", 0) > 4 << 20:
                break
        for _ in range(100):
            before = server.sent
            time.sleep(0.2)
            if server.sent == before:
                break
        stopped = server.sent
        partial = (tmp_path / "models" / "partials" / f"sha256-{digest}").exists()
        server.rate = 1 << 30
        last = list(lines(daemon, "/api/pull", request))[-1]
    finally:
        server.close()

    assert stopped < source.stat().st_size
    assert partial
    assert last == {"status": "success"}


def test_the_ollama_client(tmp_path: Path, daemon: Daemon) -> None:
    """pull, list, show, copy, delete and ps of the official client work."""
    ollama = pytest.importorskip("ollama")
    source = tmp_path / "large.gguf"
    digest = random_gguf(source, 8 << 20)
    server = FileServer(source, rate=1 << 30)
    client = ollama.Client(host=daemon.url)
    try:
        progress = list(client.pull(f"{server.url}#sha256={digest}", stream=True))
    finally:
        server.close()

    client.copy("large", "twin:v1")
    names = {model.model for model in client.list().models}
    shown = client.show("twin:v1")
    client.delete("large")

    assert progress[0].status == "pulling manifest"
    assert progress[-1].status == "success"
    done = [line for line in progress if line.digest == f"sha256:{digest}"][-1]
    assert done.completed == done.total == source.stat().st_size
    assert {"large:latest", "twin:v1"} <= names
    assert shown.capabilities == ["decision"]
    assert shown.modelinfo["general.architecture"] == "llama"
    assert client.pull("twin:v1").status == "success"
    assert [model.model for model in client.list().models] == ["twin:v1"]
    assert list(client.ps().models) == []
    made = client.create(model="made", files={"large.gguf": client.create_blob(source)}, system="Be brief.")
    assert made.status == "success"
    assert client.create(model="child", from_="made", parameters={"num_ctx": 64}).status == "success"
    assert client.show("child").parameters == "num_ctx                        64"
    client.delete("made")
    client.delete("child")
    with pytest.raises(ollama.ResponseError, match="model 'large' not found"):
        client.delete("large")
    client._client.close()
