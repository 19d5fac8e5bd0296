"""Proxies, certificates, full disks, no network, sudden death: the world around a pull, as it really is."""

from __future__ import annotations

import contextlib
import os
import random
import select
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import tiny_gguf
from crooked_server import Answer, Asked, CrookedServer, serving
from fake_registry import digest_of, registry

from localdecide.core.errors import DiskFull, SourceFailed
from localdecide.store.depot import Depot
from localdecide.store.download.net import Patience
from localdecide.store.download.partial import PIECE, leftovers
from localdecide.store.store import Store

PATIENCE = Patience(tries=3, pause=0.01, longest=0.02, connect=5.0, stall=5.0)
LARGE = tiny_gguf.build({"general.name": "large"}, {"t": [0.5] * (6 * PIECE // 4)})
SPLIT = tiny_gguf.build(
    {"general.architecture": "qwen35", "qwen35.block_count": 1, "qwen35.decision.type": "kev"},
    {"blk.0.w": [0.5] * (5 * PIECE // 4), "cls.output.weight": [0.25] * (3 * PIECE // 4)},
)


def depot_at(folder: Path, library: Path) -> Depot:
    library.mkdir(exist_ok=True)
    return Depot(Store(folder, library), patience=PATIENCE, ollama=())


@pytest.fixture
def depot(tmp_path: Path) -> Depot:
    return depot_at(tmp_path / "models", tmp_path / "library")


def pull(depot: Depot, model: str, **more: Any) -> list[dict[str, Any]]:
    return list(depot.pull({"model": model, **more}, threading.Event()))


# proxies


def test_http_through_a_proxy(depot: Depot, monkeypatch: pytest.MonkeyPatch) -> None:
    """HTTP_PROXY carries the request; nobody asks for the host's address here."""
    data = tiny_gguf.build()
    with serving({"http://models.example/m.gguf": data}) as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        pull(depot, "http://models.example/m.gguf")

    assert {asked.path for asked in proxy.asked} == {"http://models.example/m.gguf"}
    assert depot.store.resolve("m").spec.digest == digest_of(data)


def test_no_proxy(depot: Depot, monkeypatch: pytest.MonkeyPatch) -> None:
    """NO_PROXY exempts a host from a proxy that does not work."""
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    with serving({"/m.gguf": tiny_gguf.build()}) as server:
        with pytest.raises(SourceFailed):
            pull(depot, f"{server.url}/m.gguf")
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        pull(depot, f"{server.url}/m.gguf")


@contextlib.contextmanager
def tunnel() -> Iterator[tuple[str, list[str]]]:
    """A proxy that only knows CONNECT, and the hosts it was asked for; every tunnel ends on the loopback."""
    asked: list[str] = []
    listener = socket.create_server(("127.0.0.1", 0))

    def carry(client: socket.socket) -> None:
        with client, contextlib.suppress(OSError):
            head = b""
            while b"\r\n\r\n" not in head:
                head += client.recv(4096)
            target = head.split()[1].decode()
            asked.append(target)
            with socket.create_connection(("127.0.0.1", int(target.rpartition(":")[2]))) as server:
                client.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
                while True:
                    ready, _, _ = select.select([client, server], [], [], 5)
                    for one in ready:
                        if not (data := one.recv(1 << 16)):
                            return
                        (server if one is client else client).sendall(data)
                    if not ready:
                        return

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = listener.accept()
                threading.Thread(target=carry, args=(client,), daemon=True).start()

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{listener.getsockname()[1]}", asked
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    thread.join()


# certificates


@contextlib.contextmanager
def tls(tmp_path: Path, files: dict[str, bytes]) -> Iterator[tuple[CrookedServer, Path]]:
    """The server behind a certificate for models.example and 127.0.0.1 that signs itself, and that certificate."""
    if shutil.which("openssl") is None:
        pytest.skip("needs openssl")
    certificate, key = tmp_path / "ca.pem", tmp_path / "key.pem"
    names = "subjectAltName=DNS:models.example,IP:127.0.0.1"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=models.example"]
    command += ["-addext", names, "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(command, check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with serving(files) as server:
        server.server.socket = context.wrap_socket(server.server.socket, server_side=True)
        yield server, certificate


@pytest.mark.parametrize("variable", ["SSL_CERT_FILE", "REQUESTS_CA_BUNDLE"])
def test_a_certificate_of_ones_own(
    depot: Depot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    """An unknown authority is refused once, with what to do; named by a variable it is trusted."""
    with tls(tmp_path, {"/m.gguf": tiny_gguf.build()}) as (server, certificate):
        url = f"https://{server.host}/m.gguf"
        with pytest.raises(SourceFailed, match="its certificate is not trusted .* set SSL_CERT_FILE"):
            pull(depot, url)
        monkeypatch.setenv(variable, str(certificate))
        pull(depot, url)

    assert depot.store.resolve("m")


def test_https_through_a_proxy(depot: Depot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """HTTPS_PROXY tunnels; the name is looked up by the proxy and the certificate is still checked."""
    with tls(tmp_path, {"/m.gguf": tiny_gguf.build()}) as (server, certificate), tunnel() as (proxy, asked):
        monkeypatch.setenv("HTTPS_PROXY", proxy)
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        port = server.host.rpartition(":")[2]
        pull(depot, f"https://models.example:{port}/m.gguf")

    assert set(asked) == {f"models.example:{port}"}


def test_certificates_that_cannot_be_read(depot: Depot, monkeypatch: pytest.MonkeyPatch) -> None:
    """A variable that names nothing is an error that names the variable."""
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", "/nowhere/ca.pem")
    with pytest.raises(SourceFailed, match="REQUESTS_CA_BUNDLE=/nowhere/ca.pem: cannot read"):
        pull(depot, "https://127.0.0.1:9/m.gguf")


# a full disk


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A real file system of 10 MiB."""
    folder = tmp_path / "small"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=10m", "tmpfs", str(folder)]
    if not sys.platform.startswith("linux") or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("needs the right to mount a tmpfs")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_too_little_room(small_disk: Path, tmp_path: Path) -> None:
    """Both numbers are named before a byte is fetched."""
    depot = depot_at(small_disk / "models", tmp_path / "library")
    (small_disk / "filler").write_bytes(bytes(6 << 20))
    with registry() as reg:
        reg.add("me/m:v1", LARGE)
        with pytest.raises(DiskFull, match=rf"{len(LARGE) + 81}? ?\d* bytes are needed and \d+ are free"):
            pull(depot, f"http://{reg.host}/me/m:v1", insecure=True)
        fetched = [asked for asked in reg.server.asked if "/blobs/" in asked.path]

    assert fetched == []


def test_a_disk_that_fills_up_on_the_way(small_disk: Path, tmp_path: Path) -> None:
    """What arrived stays, the error says what makes room, and once there is room the pull goes on."""
    depot = depot_at(small_disk / "models", tmp_path / "library")
    filler = small_disk / "filler"

    def behave(asked: Asked, number: int) -> Answer:
        if asked.range is None or asked.range[0] == 0:
            return Answer(cut=PIECE + 1000)
        if not filler.exists():
            filler.write_bytes(bytes(shutil.disk_usage(small_disk).free))
        return Answer()

    with registry() as reg:
        reg.add("me/m:v1", LARGE)
        reg.then = lambda asked, number: (
            behave(asked, number) if digest_of(LARGE) in asked.path and asked.range != (0, 0) else Answer()
        )
        with pytest.raises(DiskFull, match="the disk of .* is full, .*`localdecide prune`"):
            pull(depot, f"http://{reg.host}/me/m:v1", insecure=True)
        kept = [leftover.done for leftover in leftovers(depot.store.root / "partials")]
        filler.unlink()
        reg.then = lambda asked, number: Answer()
        reg.server.sent = 0
        pull(depot, f"http://{reg.host}/me/m:v1", insecure=True)

    assert kept == [PIECE]
    assert reg.server.sent < len(LARGE)
    assert Path(depot.store.resolve(f"{reg.host}/me/m:v1").spec.path).read_bytes() == LARGE


# no network

QUIET = """
import sys, threading
from pathlib import Path
events = []
sys.addaudithook(lambda name, args: events.append(name) if name.startswith("socket.") else None)
from localdecide.store.depot import Depot
from localdecide.store.store import Store
depot = Depot(Store(sys.argv[1], sys.argv[2]), offline=sys.argv[3] == "offline")
stop = threading.Event()
print([line["status"] for line in depot.pull({"model": "toy"}, stop)][-1])
print(depot.store.resolve("toy").spec.name, depot.store.show("toy")["details"]["format"])
print([line["status"] for line in depot.verify({}, stop)][-1], len(depot.search("")), depot.du()["unused"])
list(depot.export({"model": "toy", "file": sys.argv[4]}, stop))
list(depot.import_({"file": sys.argv[4], "model": "copy"}, stop))
assert events == [], events
"""


@pytest.mark.network_namespace
@pytest.mark.parametrize("mode", ["offline", "online"])
def test_not_one_socket_for_a_model_that_is_here(tmp_path: Path, mode: str) -> None:
    """With no interface up, everything about an installed model works, and not one socket is even made."""
    depot = depot_at(tmp_path / "models", tmp_path / "library")
    path = tiny_gguf.write(tmp_path / "m.gguf")
    list(depot.store.create({"model": "toy", "from": str(path)}))
    code = [sys.executable, "-c", QUIET, str(depot.store.root), str(tmp_path / "library"), mode, str(tmp_path / "b")]
    probe = subprocess.run(["unshare", "-n", "true"], capture_output=True, check=False)
    if probe.returncode:
        pytest.skip("needs the right to make a network namespace")

    done = subprocess.run(["unshare", "-n", *code], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == ["success", "toy:latest gguf", "success 0 0"]


# sudden death

SPAWNER = """
import os, sys, threading
from localdecide.store.depot import Depot
from localdecide.store.store import Store
import httpx, filelock
root, library, url = sys.argv[1:4]
for line in sys.stdin:
    child = os.fork()
    if child == 0:
        try:
            for _ in Depot(Store(root, library), ollama=()).pull({"model": url, "insecure": True}, threading.Event()):
                pass
            os._exit(0)
        except BaseException as error:
            print(error, file=sys.stderr, flush=True)
            os._exit(1)
    print(child, flush=True)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


def die_often(tmp_path: Path, times: int, file: bytes) -> None:
    """Kill a pull with SIGKILL at random moments; the store is sound after each, and complete in the end."""
    depot = depot_at(tmp_path / "models", tmp_path / "library")
    path = tiny_gguf.write(tmp_path / "other.gguf", {"general.name": "other"})
    list(depot.store.create({"model": "other", "from": str(path)}))
    rng = random.Random(5)
    with registry() as reg:
        reg.add("me/m:v1", file, license=b"MIT", system=b"S")
        url = f"http://{reg.host}/me/m:v1"
        command = [sys.executable, "-c", SPAWNER, str(depot.store.root), str(tmp_path / "library"), url]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as spawner:
            assert spawner.stdin
            assert spawner.stdout
            for turn in range(times + 1):
                reg.then = lambda asked, number: Answer(stall=0.01 * (number % 3))
                spawner.stdin.write("go\n")
                spawner.stdin.flush()
                child = int(spawner.stdout.readline())
                if turn < times:
                    time.sleep(rng.uniform(0.0, 0.25))
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(child, signal.SIGKILL)
                code = int(spawner.stdout.readline())
                assert code in (0, -signal.SIGKILL)
                check(depot, f"{reg.host}/me/m:v1", done=code == 0)
                if code == 0 and turn < times:
                    depot.store.delete(f"{reg.host}/me/m:v1")
            spawner.stdin.close()
    assert code == 0


def check(depot: Depot, name: str, *, done: bool) -> None:
    """Lists, serves and prunes right: what is installed is whole, and nobody else lost anything."""
    names = {str(model.name) for model in depot.store.list()}
    assert "other:latest" in names
    assert not done or name in names
    for model in depot.store.list():
        assert all(model.blobs.path(digest).is_file() for digest in model.manifest.digests)
        assert digest_of(Path(model.spec.path).read_bytes()) == model.spec.digest
    last = list(depot.prune({"apply": True}, threading.Event()))[-1]
    assert last["status"] == "success"
    assert set(depot.store.catalog.blobs.all()) == depot.store.catalog.used()


PULLER = """
import sys, threading
from localdecide.store.depot import Depot
from localdecide.store.store import Store
root, library, url = sys.argv[1:4]
print(list(Depot(Store(root, library), ollama=()).pull({"model": url, "insecure": True}, threading.Event()))[-1])
"""


def test_two_processes_share_one_download(tmp_path: Path) -> None:
    """Whoever comes second waits; the bytes cross the line once and the file has its own size."""
    depot = depot_at(tmp_path / "models", tmp_path / "library")
    with registry() as reg:
        reg.add("me/m:v1", LARGE)
        reg.then = lambda asked, number: Answer(stall=0.5)
        url = f"http://{reg.host}/me/m:v1"
        command = [sys.executable, "-c", PULLER, str(depot.store.root), str(tmp_path / "library"), url]
        running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
        said = [process.communicate(timeout=60)[0].strip() for process in running]

    assert said == ["{'status': 'success'}"] * 2
    assert reg.server.sent < 1.1 * len(LARGE)
    assert Path(depot.store.resolve(f"{reg.host}/me/m:v1").spec.path).read_bytes() == LARGE


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("file", [LARGE, SPLIT], ids=["plain", "split"])
def test_sudden_death(tmp_path: Path, file: bytes) -> None:
    """Ten kills at random moments, also while the file is split."""
    die_often(tmp_path, 10, file)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("file", [LARGE, SPLIT], ids=["plain", "split"])
def test_sudden_death_a_hundred_times(tmp_path: Path, file: bytes) -> None:
    """A hundred kills at random moments."""
    die_often(tmp_path, 100, file)
