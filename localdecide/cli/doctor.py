"""`localdecide doctor`: whether this installation, this machine and the daemon are in order."""

from __future__ import annotations

from typing import Any

import typer

from localdecide import settings
from localdecide.cli import doctor_checks as checks
from localdecide.cli.client import Client
from localdecide.cli.options import Json
from localdecide.cli.output import Output
from localdecide.settings import BadSetting, Settings


def command(json: Json = False) -> None:
    """Check this installation, this machine and the daemon."""
    output = Output.of(json)
    found = checks.installation()
    output.talk("looking at the llama.cpp build in a process of its own")
    built = checks.probe()
    found += checks.build(built)
    configured = _settings(found)
    if configured is not None:
        client = Client(configured)
        found += checks.daemon(client)
        found += checks.folders(configured.models)
        found += checks.changed(configured)
    failed = any(check.status == "fail" for check in found)
    if json:
        output.json({"ok": not failed, "checks": [_json(check) for check in found], "build": built.facts})
    else:
        for check in found:
            output.data(f"{check.status.upper():<5} {check.name:<12} {check.text}")
            if check.hint:
                output.data(f"{'':<18} hint: {check.hint}")
    if failed:
        raise typer.Exit(1)


def _settings(found: list[checks.Check]) -> Settings | None:
    try:
        return settings.load()
    except BadSetting as error:
        found.append(checks.Check("settings", "fail", str(error), "`localdecide serve --help` lists the settings"))
        return None


def _json(check: checks.Check) -> dict[str, Any]:
    return {"name": check.name, "status": check.status, "text": check.text, "hint": check.hint}
