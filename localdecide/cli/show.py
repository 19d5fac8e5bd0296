"""`localdecide show`: what a model is, in sections or one part of it as it is."""

from __future__ import annotations

from typing import Annotated

import typer

from localdecide import settings
from localdecide.cli import daemon
from localdecide.cli.card import sections
from localdecide.cli.options import Json, Model
from localdecide.cli.output import Output
from localdecide.cli.usage import UsageProblem

PARTS = ("license", "modelfile", "parameters", "template", "system")


def command(
    model: Model,
    license: Annotated[bool, typer.Option("--license", help="Print its licence.")] = False,
    modelfile: Annotated[bool, typer.Option("--modelfile", help="Print its Modelfile.")] = False,
    parameters: Annotated[bool, typer.Option("--parameters", help="Print its parameters.")] = False,
    template: Annotated[bool, typer.Option("--template", help="Print its chat template.")] = False,
    system: Annotated[bool, typer.Option("--system", help="Print its system message.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Also the file's metadata and tensors.")] = False,
    json: Json = False,
) -> None:
    """Show what a model is."""
    wanted = [
        part for part, asked in zip(PARTS, (license, modelfile, parameters, template, system), strict=True) if asked
    ]
    if len(wanted) > 1:
        raise UsageProblem(f"only one of --{' and --'.join(wanted)} can be shown at a time")
    output = Output.of(json)
    asked = {"model": model, "verbose": verbose, "reading": not wanted}
    shown = daemon.ensure(settings.load(), output).post("/api/show", asked, timeout=60.0)
    if json:
        output.json({wanted[0]: shown.get(wanted[0], "")} if wanted else shown)
    elif wanted:
        text = shown.get(wanted[0]) or ""
        output.data("\n\n".join(text) if isinstance(text, list) else text.rstrip("\n"))
    else:
        output.data("\n".join(sections(shown, verbose=verbose)))
