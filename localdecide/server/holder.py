"""Who holds a port that we wanted: asked over HTTP, answered in a sentence with a way on."""

from __future__ import annotations

import http.client
import json

PATIENCE_SECONDS = 1.0


def explain(host: str, port: int) -> str:
    """Why the daemon cannot listen on `host:port` and what to do."""
    where = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    text = fetch(host, port, "/")
    other = "choose another address, for example LOCALDECIDE_HOST=127.0.0.1:" + str(port + 1)
    if text is None:
        return f"{where} is in use by another program; end that program or {other}"
    if not text.startswith("localdecide is running"):
        return f"{where} is in use by another web server; end it or {other}"
    try:
        version = f" {json.loads(fetch(host, port, '/api/version') or '{}')['version']}"
    except (ValueError, KeyError, TypeError):
        version = ""
    mine = f"localdecide{version} is already running on {where}"
    return f"{mine}: use that one, end it with `localdecide shutdown`, or {other}"


def fetch(host: str, port: int, path: str) -> str | None:
    """The first kilobyte of a GET; None where nothing that speaks HTTP answers."""
    connection = http.client.HTTPConnection(host, port, timeout=PATIENCE_SECONDS)
    try:
        connection.request("GET", path)
        return connection.getresponse().read(1024).decode("utf-8", "replace")
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()
