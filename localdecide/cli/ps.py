"""`localdecide ps`: the models in memory."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from localdecide import settings
from localdecide.cli import daemon, human
from localdecide.cli.list import identity
from localdecide.cli.options import Json, Prefix, Quiet
from localdecide.cli.output import Output


def command(prefix: Prefix = "", json: Json = False, quiet: Quiet = False) -> None:
    """List the models that are loaded."""
    output = Output.of(json, quiet)
    models = daemon.ensure(settings.load(), output).get("/api/ps")["models"]
    models = [model for model in models if model["name"].lower().startswith(prefix.lower())]
    if json:
        output.json({"models": models})
    elif quiet:
        for model in models:
            output.data(model["name"])
    else:
        now = datetime.now(UTC)
        rows = [
            (
                model["name"],
                identity(model["digest"]),
                human.size(model["size"]),
                processor(model["size"], model["size_vram"]),
                str(model["context_length"]),
                until(model, now),
            )
            for model in models
        ]
        output.table(("NAME", "ID", "SIZE", "PROCESSOR", "CONTEXT", "UNTIL"), rows)


def processor(size: int, size_vram: int) -> str:
    """Where the model lies: `100% CPU`, `100% GPU`, or both shares."""
    if size_vram <= 0:
        return "100% CPU"
    if size_vram >= size:
        return "100% GPU"
    on_cpu = round(100 * (size - size_vram) / size)
    return f"{on_cpu}%/{100 - on_cpu}% CPU/GPU"


def until(model: Mapping[str, Any], now: datetime) -> str:
    """When it will be unloaded, or that it is on its way in or out."""
    match model.get("state"):
        case "loading":
            return "Loading..."
        case "stopping" | "unloading":
            return "Stopping..."
    seen = human.when(model.get("expires_at"), now)
    return "Stopping..." if seen.endswith(" ago") else seen
