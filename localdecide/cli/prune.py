"""`localdecide prune`: files that no model uses, shown or removed."""

from __future__ import annotations

from typing import Annotated

import typer

from localdecide import settings
from localdecide.cli import daemon, human
from localdecide.cli.options import Json, Quiet
from localdecide.cli.output import Output
from localdecide.cli.usage import UsageProblem
from localdecide.core.duration import parse_duration


def command(
    apply: Annotated[bool, typer.Option("--apply", help="Remove them; without it they are only shown.")] = False,
    partials: Annotated[bool, typer.Option("--partials", help="Also unfinished downloads.")] = False,
    older: Annotated[str, typer.Option("--older", help="Of those only what is older, such as 24h.")] = "0",
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Show, or remove, files that no model uses."""
    output = Output.of(json, quiet)
    seconds = parse_duration(older)
    if seconds is None:
        raise UsageProblem(f"{older!r} is not a duration", "write it like 24h or 90m")
    client = daemon.ensure(settings.load(), output)
    request = {"apply": apply, "partials": partials, "older": seconds}
    lines = list(client.stream("POST", "/api/prune", request))
    last = lines.pop()
    if json:
        output.json({"found": lines, "freed": last["freed"], "applied": last["applied"]})
        return
    for line in lines:
        if "age" in line:
            done = f"{human.size(line['done'])} of {human.size(line['total'])}" if line["total"] else "some bytes"
            kept = ", kept" if line["kept"] and apply else ""
            source = f" from {line['source']}" if line.get("source") else ""
            output.data(f"{line['status']}{source}: {done}, untouched for {human.span(line['age'])}{kept}")
        else:
            output.data(f"{line['status']}: {human.size(line['size'])}")
    if apply:
        output.talk(f"{human.size(last['freed'])} freed")
    else:
        output.talk(f"{human.size(last['freed'])} could be freed; `localdecide prune --apply` does it")
