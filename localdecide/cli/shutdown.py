"""`localdecide shutdown`: end the daemon."""

from __future__ import annotations

import contextlib

from localdecide import settings
from localdecide.cli.client import Client, Interrupted
from localdecide.cli.daemon import NoDaemon, wait_gone
from localdecide.cli.output import Output
from localdecide.cli.start import log_path, pid_path

MARGIN_SECONDS = 15.0


def command() -> None:
    """End the daemon when its requests have ended."""
    values = settings.load()
    client = Client(values)
    output = Output()
    if not client.listening():
        output.talk(f"no daemon answers at {client.address}, so there is none to end")
        return
    with contextlib.suppress(Interrupted):  # a daemon that ends at once may not finish its answer
        client.post("/api/shutdown", {}, timeout=30.0)
    if not wait_gone(client, min(values.shutdown_grace.seconds, 3600.0) + MARGIN_SECONDS):
        raise NoDaemon(f"the daemon at {client.address} is still there", f"its log is {log_path()}")
    pid_path(client).unlink(missing_ok=True)
    output.talk(f"the daemon at {client.address} has ended")
