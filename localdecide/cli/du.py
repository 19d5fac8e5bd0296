"""`localdecide du`: what the models take on the disk."""

from __future__ import annotations

from localdecide import settings
from localdecide.cli import daemon, human
from localdecide.cli.options import Json, Quiet
from localdecide.cli.output import Output


def command(json: Json = False, quiet: Quiet = False) -> None:
    """Show what the models take on the disk."""
    output = Output.of(json, quiet)
    found = daemon.ensure(settings.load(), output).get("/api/du")
    if json:
        output.json(found)
        return
    if quiet:
        output.data(str(found["blobs"] + found["derived"] + sum(partial["size"] for partial in found["partials"])))
        return
    rows = [(row["name"], human.size(row["size"]), human.size(row["own"])) for row in found["models"]]
    output.table(("NAME", "SIZE", "OWN"), rows)
    unfinished = sum(partial["size"] for partial in found["partials"])
    output.talk(
        f"{human.size(found['blobs'])} in {found['root']}, {human.size(found['unused'])} of it unused, "
        f"{human.size(found['derived'])} of faster copies, {human.size(unfinished)} unfinished, "
        f"{human.size(found['free'])} free"
    )
