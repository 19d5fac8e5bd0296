"""How the daemon starts, listens and ends."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time

import httpx
import pytest

from localdecide import settings
from localdecide.server import holder, sockets, systemd

BODY = {"state": "s", "questions": {"q": {"type": "noul", "instructions": "i"}}}


def _settings(**variables: str) -> settings.Settings:
    return settings.load({}, **variables)


def test_both_loopbacks_answer(daemon):
    """localhost works whichever address a system tries first."""
    for host in ("127.0.0.1", "[::1]"):
        reply = httpx.get(f"http://{host}:{daemon.port}/", trust_env=False)
        assert reply.text == "localdecide is running"


def test_a_port_in_use_says_who_has_it(daemon):
    """Another localdecide is recognised; what to do stands in the sentence."""
    with pytest.raises(sockets.AddressInUse):
        sockets.open_sockets(_settings(host=f"127.0.0.1:{daemon.port}"), {})
    text = holder.explain("127.0.0.1", daemon.port)
    assert "is already running" in text
    assert "localdecide shutdown" in text
    assert "LOCALDECIDE_HOST=127.0.0.1:" in text


def test_a_port_in_use_by_something_else():
    """A program that does not speak HTTP is called another program."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        port = other.getsockname()[1]
        assert "another program" in holder.explain("127.0.0.1", port)


def test_the_second_loopback_in_use_is_not_overlooked():
    """A stranger on ::1 would get the requests of `localhost`, so the daemon does not start beside it."""
    with socket.socket(socket.AF_INET6) as other:
        other.bind(("::1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(sockets.AddressInUse):
            sockets.open_sockets(_settings(host=f"127.0.0.1:{port}"), {})


def test_a_network_needs_a_key():
    """Off loopback the daemon refuses without a key, and takes a key or an explicit yes."""
    with pytest.raises(sockets.CannotListen, match="LOCALDECIDE_API_KEY"):
        sockets.open_sockets(_settings(host="0.0.0.0:0"), {})
    for variables in ({"api_key": "k"}, {"allow_remote": "1"}):
        opened = sockets.open_sockets(_settings(host="0.0.0.0:0", **variables), {})
        sockets.close(opened)
        assert len(opened) == 1


def test_an_address_that_is_not_ours():
    """A name that does not resolve is refused by name."""
    with pytest.raises(sockets.CannotListen, match=r"no\.such\.invalid"):
        sockets.open_sockets(_settings(host="no.such.invalid:0", api_key="k"), {})


def test_sockets_of_another_process_are_left_alone():
    """LISTEN_FDS means us only where LISTEN_PID is our id."""
    assert sockets.inherited({"LISTEN_PID": "1", "LISTEN_FDS": "1"}) == []
    assert sockets.inherited({}) == []


@pytest.mark.parametrize("abstract", [False, True])
def test_systemd_is_told(tmp_path, abstract):
    """READY=1 arrives as one datagram, on a path or an abstract name."""
    name = f"@localdecide-{os.getpid()}" if abstract else str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind("\0" + name[1:] if abstract else name)
        assert systemd.notify("READY=1", {"NOTIFY_SOCKET": name})
        assert receiver.recv(100) == b"READY=1"
    assert not systemd.notify("READY=1", {})


def test_closing_finishes_what_runs_and_refuses_what_comes(serve_with):
    """After stop a running request is answered, a new one gets 503 with Retry-After, and the service is closed."""
    server = serve_with()
    gate = server.service.gate = asyncio.Event()
    replies = []
    running = threading.Thread(target=lambda: replies.append(server.http.post("/v1/systemone", json=BODY)))
    running.start()
    _wait(lambda: server.service.calls)
    server.stop()
    _wait(lambda: server.service.closed)
    with httpx.Client(base_url=server.url, trust_env=False) as late:
        refused = late.post("/v1/systemone", json=BODY)
        assert refused.status_code == 503
        assert refused.headers["retry-after"] == "5"
        assert late.get("/readyz").status_code == 503
    gate._loop.call_soon_threadsafe(gate.set)
    running.join(10)
    assert replies[0].status_code == 200
    server.thread.join(10)
    assert not server.thread.is_alive()


def test_shutdown_route(serve_with):
    """A program on this machine can end the daemon."""
    server = serve_with()
    assert server.http.post("/api/shutdown").json() == {"status": "shutting down"}
    server.thread.join(10)
    assert not server.thread.is_alive()


SCRIPT = """
import asyncio, sys
from localdecide import settings
from localdecide.server import run, sockets
from localdecide.server.fake_service import FakeService

loaded = settings.load({}, host="127.0.0.1:0", shutdown_grace=sys.argv[1])
listening = sockets.open_sockets(loaded)
service = FakeService()
print(listening[0].getsockname()[1], flush=True)

async def main():
    if sys.argv[2] == "hang":
        service.gate = asyncio.Event()
    await run.run(service, loaded, listening)
    print("closed" if service.closed else "not closed", flush=True)

asyncio.run(main())
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_with_zero(number):
    """SIGTERM and SIGINT close the service and exit 0."""
    with _process("5", "answer") as (process, url):
        assert httpx.post(f"{url}/v1/systemone", json=BODY, trust_env=False).status_code == 200
        process.send_signal(number)
        assert process.wait(10) == 0
        assert process.stdout.read().strip() == "closed"


@pytest.mark.parametrize(("grace", "signals"), [("300ms", 1), ("10m", 2)])
def test_a_hanging_request_ends_with_the_grace_or_a_second_signal(grace, signals):
    """A request that never finishes keeps the daemon neither past its grace nor past a second signal."""
    with _process(grace, "hang") as (process, url):
        errors = []

        def call() -> None:
            try:
                httpx.post(f"{url}/v1/systemone", json=BODY, trust_env=False, timeout=20)
            except httpx.HTTPError as error:
                errors.append(error)

        caller = threading.Thread(target=call)
        caller.start()
        _wait(lambda: httpx.get(f"{url}/healthz", trust_env=False).status_code == 200)
        time.sleep(0.2)
        for _ in range(signals):
            process.send_signal(signal.SIGTERM)
            time.sleep(0.2)
        assert process.wait(15) == 0
        caller.join(10)


def _process(grace: str, mode: str):
    import contextlib

    @contextlib.contextmanager
    def started():
        process = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(SCRIPT), grace, mode], stdout=subprocess.PIPE, text=True
        )
        try:
            yield process, f"http://127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.kill()
            process.wait()
            process.stdout.close()

    return started()


def _wait(true) -> None:
    for _ in range(200):
        if true():
            return
        time.sleep(0.02)
    raise AssertionError("it did not become true")
