"""The daemon that a command talks to: the one that answers, or one started now."""

from __future__ import annotations

import time

from localdecide.cli.client import Client
from localdecide.cli.output import Output
from localdecide.settings import Settings


class NoDaemon(Exception):
    """None answers and none may be started; the message says why, `hint` what to do."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint


def ensure(settings: Settings, output: Output) -> Client:
    """A client of a daemon that accepts connections, started in the background if need be.

    Raises NoDaemon where the settings forbid a start or the address is another machine's, StartFailed.
    """
    client = Client(settings)
    if client.listening():
        return client
    missing = f"no daemon answers at {client.address}"
    if not client.local:
        raise NoDaemon(missing, "check `LOCALDECIDE_HOST`, and that `localdecide serve` runs on that machine")
    if settings.no_autostart:
        raise NoDaemon(missing, "start one with `localdecide serve` (`LOCALDECIDE_NO_AUTOSTART` is set)")
    from localdecide.cli.start import start

    start(client, output)
    return client


def wait_gone(client: Client, seconds: float) -> bool:
    """Whether nothing listens any more within `seconds`."""
    deadline = time.monotonic() + seconds
    while client.listening():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True
