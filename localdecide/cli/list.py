"""`localdecide list`: the models on this machine."""

from __future__ import annotations

from typing import Annotated

import typer

from localdecide import settings
from localdecide.cli import daemon, human
from localdecide.cli.options import Json, Prefix, Quiet
from localdecide.cli.output import Output


def command(
    prefix: Prefix = "",
    ollama: Annotated[bool, typer.Option("--ollama", help="Those that Ollama has and `pull` adopts.")] = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """List the models on this machine."""
    output = Output.of(json, quiet)
    models = daemon.ensure(settings.load(), output).get("/api/ollama" if ollama else "/api/tags")["models"]
    models = [model for model in models if model["name"].lower().startswith(prefix.lower())]
    if json:
        output.json({"models": models})
    elif quiet:
        for model in models:
            output.data(model["name"])
    else:
        rows = [
            (model["name"], identity(model["digest"]), human.size(model["size"]), human.when(model["modified_at"]))
            for model in models
        ]
        output.table(("NAME", "ID", "SIZE", "MODIFIED"), rows)


def identity(digest: str) -> str:
    """The twelve digits that tell one version of a model from another."""
    return digest.removeprefix("sha256:")[:12]
