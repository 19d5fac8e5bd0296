"""Telling systemd that the daemon is ready or ending: one datagram each (sd_notify(3))."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Mapping

log = logging.getLogger(__name__)


def notify(state: str, environment: Mapping[str, str] | None = None) -> bool:
    """Sends `state`, such as READY=1, to NOTIFY_SOCKET; False where nobody asked for it."""
    address = (os.environ if environment is None else environment).get("NOTIFY_SOCKET", "")
    if not address or not hasattr(socket, "AF_UNIX"):
        return False
    if address.startswith("@"):  # a name in the abstract space
        address = "\0" + address[1:]
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
            sock.connect(address)
            sock.sendall(state.encode())
    except OSError as error:
        log.warning("cannot tell systemd %s: %s", state, error)
        return False
    return True
