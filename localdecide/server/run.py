"""The web server around the app: our sockets, our signals, and an end that finishes what it began.

SIGTERM ─▶ new requests get 503 ─▶ running ones finish (SHUTDOWN_GRACE) ─▶ runners end ─▶ exit 0
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType

import uvicorn

from localdecide.server import systemd
from localdecide.server.app import create_app
from localdecide.server.lifecycle import Lifecycle
from localdecide.server.sockets import urls
from localdecide.service import DecisionService
from localdecide.settings import Settings

log = logging.getLogger(__name__)

# Longer than the clients keep an idle connection, so that none is closed under a request.
KEEP_ALIVE_SECONDS = 75
# For replies to leave and connections to close once the work is done.
FLUSH_SECONDS = 2
SIGNALS = [signal.SIGINT, signal.SIGTERM]
if sys.platform == "win32":
    SIGNALS.append(signal.SIGBREAK)


class Server(uvicorn.Server):
    """uvicorn without its own idea of signals: ours drain first."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def run(
    service: DecisionService, settings: Settings, sockets: list[socket.socket], lifecycle: Lifecycle | None = None
) -> None:
    """Serves until a signal or `lifecycle.stop`, then ends in order."""
    lifecycle = lifecycle or Lifecycle()
    config = uvicorn.Config(
        create_app(service, settings, lifecycle),
        lifespan="off",
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=FLUSH_SECONDS,
    )
    server = Server(config)
    hurry = asyncio.Event()
    with on_signal(lambda: hurry.set() if lifecycle.closing else lifecycle.stop()):
        serving = asyncio.create_task(server.serve(sockets=sockets))
        stopped = asyncio.create_task(lifecycle.stopped())
        ready = asyncio.create_task(announce(server, sockets))
        await asyncio.wait((serving, stopped), return_when=asyncio.FIRST_COMPLETED)
        ready.cancel()
        stopped.cancel()
        if not serving.done():
            await drain(service, settings, lifecycle, hurry)
            server.should_exit = True
            server.force_exit = hurry.is_set()
        await serving


async def announce(server: Server, sockets: list[socket.socket]) -> None:
    """Says that the daemon answers, once it does."""
    where = " and ".join(urls(sockets))
    while not server.started:
        await asyncio.sleep(0.01)
    log.info("listening on %s", where)
    systemd.notify("READY=1")


async def drain(service: DecisionService, settings: Settings, lifecycle: Lifecycle, hurry: asyncio.Event) -> None:
    """Lets running requests finish within the grace, and ends the runners. A second signal sets `hurry`."""
    grace = settings.shutdown_grace.seconds
    systemd.notify("STOPPING=1")
    log.info("ending; %d requests run, grace %g s", lifecycle.in_flight, grace)
    orderly = asyncio.ensure_future(asyncio.gather(service.close(grace), lifecycle.idle(grace)))
    impatient = asyncio.ensure_future(hurry.wait())
    await asyncio.wait((orderly, impatient), return_when=asyncio.FIRST_COMPLETED)
    impatient.cancel()
    if not orderly.done():
        orderly.cancel()
        await asyncio.gather(orderly, return_exceptions=True)
        log.warning("asked twice; ending at once with %d requests unanswered", lifecycle.in_flight)
        await service.close(0)
    elif (error := orderly.exception()) is not None:
        log.error("the runners did not end in order", exc_info=error)
    elif lifecycle.in_flight:
        log.warning("%d requests did not finish in %g s", lifecycle.in_flight, grace)


@contextlib.contextmanager
def on_signal(act: Callable[[], object]) -> Iterator[None]:
    """Calls `act` in the running loop for SIGINT and SIGTERM; what was there before comes back.

    Does nothing in a thread other than the main one, which is the only one that can receive signals.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()

    def handle(number: int, frame: FrameType | None) -> None:
        loop.call_soon_threadsafe(act)

    before = {number: signal.signal(number, handle) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
