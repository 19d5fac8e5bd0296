"""`serve(settings)`: the daemon's process from its first line to its exit code."""

from __future__ import annotations

import asyncio
import gc
import logging
import socket
import sys

from localdecide.server import holder, logs, run, sockets
from localdecide.server.sockets import AddressInUse, CannotListen
from localdecide.settings import Settings

log = logging.getLogger(__name__)

SWITCH_SECONDS = 0.001


def serve(settings: Settings) -> int:
    """Runs the daemon until it is told to end. 0 after an orderly end, 1 where it could not start."""
    logs.set_up(settings.log_level)
    try:
        listening = sockets.open_sockets(settings)
    except AddressInUse:
        host, port = settings.address
        sys.stderr.write(f"error: {holder.explain('127.0.0.1' if host == 'localhost' else host, port)}\n")
        return 1
    except CannotListen as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    for name, value in settings.values.items():
        shown = "set" if name == "api_key" and value else value
        log.debug("%s=%s (%s)", name, shown, settings.sources.get(name, "default"))
    with asyncio.Runner(loop_factory=fast_loop()) as runner:
        runner.run(_serve(settings, listening))
    return 0


async def _serve(settings: Settings, listening: list[socket.socket]) -> None:
    # Imported here: a refused address should not cost the time of loading everything else.
    from localdecide.local import LocalService

    service = LocalService(settings)
    keep_turning()
    await run.run(service, settings, listening)


def keep_turning() -> None:
    """For a process with an event loop that must not be held up. Call it when all modules are loaded."""
    # What is here now stays; going through it again and again would stop the loop for 20 ms each time.
    gc.freeze()
    # A thread that reads a large body gives Python's lock back to the loop this soon.
    sys.setswitchinterval(SWITCH_SECONDS)


def fast_loop() -> type[asyncio.AbstractEventLoop] | None:
    """uvloop's event loop where there is one; None means asyncio's own."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.Loop
