"""`localdecide push`: send a model to an Ollama-style registry."""

from __future__ import annotations

from typing import Annotated

import typer

from localdecide import settings
from localdecide.cli import daemon, progress
from localdecide.cli.options import Insecure, Json, Model, Quiet
from localdecide.cli.output import Output


def command(
    model: Model,
    insecure: Insecure = False,
    json: Json = False,
    quiet: Quiet = False,
    source: Annotated[str, typer.Option("--from", help="Send this model under the name MODEL.")] = "",
) -> None:
    """Send a model to an Ollama-style registry."""
    output = Output.of(json, quiet)
    client = daemon.ensure(settings.load(), output)
    if source:
        client.post("/api/copy", {"source": source, "destination": model}, timeout=60.0)
    progress.follow(client.stream("POST", "/api/push", {"model": model, "insecure": insecure}), output)
