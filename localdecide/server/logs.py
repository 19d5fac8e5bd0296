"""The daemon's log: lines on stderr, where a service manager or the command that started it collects them."""

from __future__ import annotations

import logging
import sys


def set_up(level: str) -> None:
    """Logs everything from `level` up to stderr."""
    logging.basicConfig(
        level=level.upper(),
        stream=sys.stderr,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
        force=True,
    )
    # Its lines repeat ours in another form.
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
