"""`localdecide cp`: give a model a second name."""

from __future__ import annotations

from typing import Annotated

import typer

from localdecide import settings
from localdecide.cli import daemon
from localdecide.cli.completion import model_names
from localdecide.cli.output import Output


def command(
    source: Annotated[str, typer.Argument(help="The model.", autocompletion=model_names)],
    destination: Annotated[str, typer.Argument(help="Its second name.")],
) -> None:
    """Give a model a second name."""
    output = Output()
    client = daemon.ensure(settings.load(), output)
    client.post("/api/copy", {"source": source, "destination": destination}, timeout=60.0)
    output.talk(f"copied '{source}' to '{destination}'")
