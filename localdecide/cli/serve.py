"""`localdecide serve`: the daemon in the foreground, and the table of its settings."""

from __future__ import annotations

from typing import Annotated

import typer

from localdecide import settings


def command(
    host: Annotated[
        str, typer.Option("--host", metavar="HOST[:PORT]", help="Address to listen on; wins over LOCALDECIDE_HOST.")
    ] = "",
) -> None:
    """Run the daemon in the foreground."""
    values = settings.load(None, **({"host": host} if host else {}))
    from localdecide.server.main import serve

    raise typer.Exit(serve(values))


def _epilog() -> str:
    """The settings table as the help shows it."""
    width = max(len(setting.variable) for setting in settings.TABLE) + 2
    rows = []
    for setting in settings.TABLE:
        default = f" [default: {setting.default}]" if setting.default else ""
        rows.append(f"  {setting.variable:{width}}{setting.sentence}{default}")
    # \b keeps the help from filling the lines into one paragraph.
    return "\b\nEnvironment variables:\n" + "\n".join(rows)


OPTIONS = {"epilog": _epilog()}
