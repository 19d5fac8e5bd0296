"""`localdecide pull`: get a model."""

from __future__ import annotations

from localdecide import settings
from localdecide.cli import daemon, progress
from localdecide.cli.client import Client
from localdecide.cli.options import Json, Model, Quiet
from localdecide.cli.output import Output


def command(model: Model, json: Json = False, quiet: Quiet = False) -> None:
    """Get a model from the library or from elsewhere."""
    output = Output.of(json, quiet)
    pull(daemon.ensure(settings.load(), output), model, output)


def pull(client: Client, model: str, output: Output) -> None:
    """Pulls with progress on stderr (on stdout as JSON lines with --json). Raises what the client raises."""
    progress.follow(client.stream("POST", "/api/pull", {"model": model}), output)
