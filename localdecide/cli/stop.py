"""`localdecide stop`: unload a model."""

from __future__ import annotations

from localdecide import settings
from localdecide.cli.client import Client, DaemonError
from localdecide.cli.daemon import NoDaemon
from localdecide.cli.options import Model


def command(model: Model) -> None:
    """Unload a model when its requests have ended."""
    client = Client(settings.load())
    if not client.listening():
        raise NoDaemon(f"no daemon answers at {client.address}, so no model is loaded")
    unload(client, model)


def unload(client: Client, model: str) -> None:
    """Raises DaemonError, with Ollama's own words where there is no such model."""
    try:
        client.post("/api/generate", {"model": model, "keep_alive": 0}, timeout=60.0)
    except DaemonError as error:
        if error.status == 404:
            raise DaemonError(404, f'couldn\'t find model "{model}" to stop', error.hint) from None
        raise
