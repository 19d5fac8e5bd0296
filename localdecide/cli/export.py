"""`localdecide export`: a model in one file, for machines without a network."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from localdecide import settings
from localdecide.cli import daemon, progress
from localdecide.cli.options import Json, Model, Quiet
from localdecide.cli.output import Output


def command(
    model: Model,
    file: Annotated[Path, typer.Argument(help="Where to write; a name in .gguf gets the weights alone.")],
    force: Annotated[bool, typer.Option("--force", "-f", help="Replace the file if it exists.")] = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Write a model into one file."""
    output = Output.of(json, quiet)
    # The daemon writes the file, and has another working directory.
    request = {"model": model, "file": str(file.expanduser().absolute()), "overwrite": force}
    client = daemon.ensure(settings.load(), output)
    progress.follow(client.stream("POST", "/api/export", request), output)
