"""`localdecide rm`: remove models."""

from __future__ import annotations

import contextlib
from typing import Annotated

import typer

from localdecide import settings
from localdecide.cli import daemon
from localdecide.cli.client import DaemonError
from localdecide.cli.completion import model_names
from localdecide.cli.output import Output
from localdecide.cli.stop import unload


def command(
    models: Annotated[list[str], typer.Argument(metavar="MODEL...", help="Names.", autocompletion=model_names)],
) -> None:
    """Remove models and files that no other uses."""
    output = Output()
    client = daemon.ensure(settings.load(), output)
    for model in models:
        with contextlib.suppress(DaemonError):  # one that cannot be unloaded was not loaded; delete tells the rest
            unload(client, model)
        client.request("DELETE", "/api/delete", {"model": model}, timeout=60.0)
        output.talk(f"deleted '{model}'")
