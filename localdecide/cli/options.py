"""Arguments and options that several commands share."""

from __future__ import annotations

from typing import Annotated

import typer

from localdecide.cli.completion import model_names

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Insecure = Annotated[bool, typer.Option("--insecure", help="Reach a registry over plain http.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print only the essentials.")]
Model = Annotated[str, typer.Argument(metavar="MODEL", help="Name of the model.", autocompletion=model_names)]
Prefix = Annotated[
    str, typer.Argument(metavar="[PREFIX]", help="Only models whose name begins so.", autocompletion=model_names)
]
