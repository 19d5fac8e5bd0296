"""`localdecide create`: a model from a Modelfile."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from localdecide import settings
from localdecide.cli import daemon, progress
from localdecide.cli.options import Json
from localdecide.cli.output import Output
from localdecide.cli.usage import UsageProblem


def command(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the new model.")],
    file: Annotated[Path, typer.Option("--file", "-f", help="The Modelfile; - is standard input.")] = Path("Modelfile"),
    json: Json = False,
) -> None:
    """Create a model from a Modelfile."""
    output = Output.of(json)
    if str(file) == "-":
        body, folder = sys.stdin.buffer.read(), Path.cwd()
    elif file.is_file():
        body, folder = file.read_bytes(), file.absolute().parent
    else:
        raise UsageProblem(f"there is no Modelfile at {file}", "name one with `-f PATH`")
    client = daemon.ensure(settings.load(), output)
    if not client.local:
        from localdecide.cli import upload

        progress.follow(upload.create(client, name, decode(body), folder), output)
        return
    # Paths in a Modelfile are relative to it; the daemon has another working directory.
    request = {"model": name, "modelfile": decode(body), "directory": str(folder)}
    progress.follow(client.stream("POST", "/api/create", request), output)


def decode(body: bytes) -> str:
    """UTF-8 or UTF-16, told apart by the byte order mark."""
    if body[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return body.decode("utf-16")
    return body.decode("utf-8-sig")
