"""A real web server on a loopback port, around a service without a model."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import httpx
import pytest

from localdecide import settings as settings_module
from localdecide.server.fake_service import FakeService
from localdecide.server.lifecycle import Lifecycle
from localdecide.server.run import run
from localdecide.server.sockets import open_sockets


@dataclass
class Live:
    """A running server. http: a client of it that forgets the machine's proxies."""

    url: str
    service: FakeService
    http: httpx.Client
    port: int
    thread: threading.Thread
    stop: Callable[[], object]


@contextmanager
def live(service: FakeService | None = None, **variables: str) -> Iterator[Live]:
    """Serves `service` in a thread with settings from `variables`; ends it in order."""
    service = service or FakeService()
    loaded = settings_module.load({}, host="127.0.0.1:0", shutdown_grace="5s", **variables)
    sockets = open_sockets(loaded, {})
    port = sockets[0].getsockname()[1]
    started = threading.Event()
    handle: dict[str, Callable[[], object]] = {}

    async def main() -> None:
        lifecycle = Lifecycle()
        loop = asyncio.get_running_loop()
        handle["stop"] = lambda: loop.call_soon_threadsafe(lifecycle.stop)
        started.set()
        await run(service, loaded, sockets, lifecycle)

    thread = threading.Thread(target=lambda: asyncio.run(main()), daemon=True)
    thread.start()
    assert started.wait(10)
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False, timeout=20) as client:
        try:
            yield Live(f"http://127.0.0.1:{port}", service, client, port, thread, handle["stop"])
        finally:
            if thread.is_alive():
                handle["stop"]()
            thread.join(20)
            assert not thread.is_alive()


@pytest.fixture
def serve_with() -> Iterator[Callable[..., Live]]:
    """Starts servers that end with the test."""
    with ExitStack() as stack:
        yield lambda service=None, **variables: stack.enter_context(live(service, **variables))


@pytest.fixture(scope="module")
def shared() -> Iterator[Live]:
    """One server for tests that change nothing of it but what `daemon` puts back."""
    with live() as found:
        yield found


@pytest.fixture
def daemon(shared: Live) -> Live:
    """The shared server with a service in its first state."""
    shared.service.__init__()
    return shared


STATE = "I was charged twice. Refund me today."
QUESTIONS = {
    "team": {"type": "choice", "instructions": "Which team?", "criteria": {"billing": "money", "sales": None}},
    "urgent": {"type": "noul", "instructions": "Needs a reply today."},
    "anger": {"type": "score", "instructions": "How angry?", "criteria": ["calm", "angry"]},
}
FIXED = {"Which team?": (0.9, 0.1), "Needs a reply today.": (0.8, 0.2), "How angry?": (0.3, 0.7)}


@pytest.fixture
def request_body() -> dict[str, object]:
    """A request with every question type."""
    return {"model": "m", "state": STATE, "questions": QUESTIONS}
