"""`localdecide verify`: every byte of the models, read again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import typer

from localdecide import settings
from localdecide.cli import daemon, progress
from localdecide.cli.completion import model_names
from localdecide.cli.options import Insecure, Json, Quiet
from localdecide.cli.output import Output


def command(
    model: Annotated[str, typer.Argument(metavar="[MODEL]", help="Only this model.", autocompletion=model_names)] = "",
    repair: Annotated[bool, typer.Option("--repair/--no-repair", help="Get damaged files anew.")] = True,
    insecure: Insecure = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Check every byte of the models and repair what is damaged."""
    output = Output.of(json, quiet)
    request = {"repair": repair, "insecure": insecure, **({"model": model} if model else {})}
    client = daemon.ensure(settings.load(), output)
    last: dict[str, Any] = {}

    def events() -> Iterator[dict[str, Any]]:
        for event in client.stream("POST", "/api/verify", request):
            last.update(event)
            yield event

    progress.follow(events(), output)
    if not json:
        output.talk(f"{last.get('checked', 0)} files are sound, {last.get('repaired', 0)} of them got anew")
