"""`localdecide pull`: get a model."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from localdecide import settings
from localdecide.cli import daemon, progress
from localdecide.cli.client import Client
from localdecide.cli.options import Insecure, Json, Quiet
from localdecide.cli.output import Output


def command(
    model: Annotated[
        str,
        typer.Argument(metavar="MODEL", help="A name, hf.co/ORG/REPO[:QUANT], an URL, a file, package:NAME/PATH."),
    ],
    name: Annotated[str, typer.Option("--as", help="What to call the model.")] = "",
    refresh: Annotated[bool, typer.Option("--refresh", help="Ask the source even if the model is here.")] = False,
    insecure: Insecure = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Get a model from the library or from elsewhere."""
    output = Output.of(json, quiet)
    more: dict[str, Any] = {"as": name} if name else {}
    more |= {"refresh": True} if refresh else {}
    more |= {"insecure": True} if insecure else {}
    pull(daemon.ensure(settings.load(), output), reference(model), output, more)


def reference(text: str) -> str:
    """A path as the daemon, which has another working directory, must read it; anything else as it is."""
    path = Path(text).expanduser()
    if text.startswith((".", "~", "/")) or (path.suffix.lower() == ".gguf" and path.exists()):
        return str(path.absolute())
    return text


def pull(client: Client, model: str, output: Output, more: Mapping[str, Any] | None = None) -> None:
    """Pulls with progress on stderr (on stdout as JSON lines with --json). Raises what the client raises."""
    try:
        progress.follow(client.stream("POST", "/api/pull", {"model": model, **(more or {})}), output)
    except KeyboardInterrupt:
        output.talk("stopped; what has arrived stays, and the same command goes on from there")
        raise
