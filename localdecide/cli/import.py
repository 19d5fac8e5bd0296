"""`localdecide import`: a model from a file that export wrote."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from localdecide import settings
from localdecide.cli import daemon, progress
from localdecide.cli.options import Json, Quiet
from localdecide.cli.output import Output


def command(
    file: Annotated[Path, typer.Argument(help="A file that `localdecide export` wrote.")],
    name: Annotated[str, typer.Option("--as", help="What to call the model; default: the name it had.")] = "",
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Read a model from a file that export wrote."""
    output = Output.of(json, quiet)
    request = {"file": str(file.expanduser().absolute()), **({"model": name} if name else {})}
    client = daemon.ensure(settings.load(), output)
    progress.follow(client.stream("POST", "/api/import", request), output)
