"""`localdecide search`: what the library knows."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import quote

import typer

from localdecide import settings
from localdecide.cli import daemon, human
from localdecide.cli.options import Json, Quiet
from localdecide.cli.output import Output


def command(
    words: Annotated[list[str] | None, typer.Argument(metavar="[WORD]...", help="Words that all must fit.")] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Search the library."""
    output = Output.of(json, quiet)
    found = daemon.ensure(settings.load(), output).get(f"/api/search?q={quote(' '.join(words or []))}")
    if json:
        output.json(found)
        return
    rows = [
        (
            tag["name"],
            human.size(tag["size"]) if tag["size"] else "-",
            "yes" if tag["name"] in entry["installed"] else "",
            entry["license"],
            entry["description"].partition(". ")[0] if index == 0 else "",
        )
        for entry in found["models"]
        for index, tag in enumerate(entry["tags"])
    ]
    if quiet:
        for row in rows:
            output.data(row[0])
    elif rows:
        output.table(("NAME", "SIZE", "HERE", "LICENSE", "WHAT"), rows)
    else:
        output.talk("nothing in the library fits; `localdecide pull` also takes hf.co/ORG/REPO, an URL or a file")
