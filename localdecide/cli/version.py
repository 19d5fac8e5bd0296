"""`localdecide --version`: of the running daemon, and of this program where they differ."""

from __future__ import annotations

from localdecide import __version__, settings
from localdecide.cli.client import Client, DaemonError, Interrupted, Unreachable
from localdecide.cli.output import Output


def show() -> None:
    """Prints what --version tells."""
    output = Output()
    try:
        running = Client(settings.load()).get("/api/version", timeout=5.0)["version"]
    except (Unreachable, Interrupted, DaemonError):
        output.talk("Warning: could not connect to a running localdecide daemon")
        output.data(f"localdecide client version is {__version__}")
    else:
        output.data(f"localdecide version is {running}")
        if running != __version__:
            output.talk(f"Warning: client version is {__version__}")
