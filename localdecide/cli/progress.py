"""Progress of pull and create: bars on a terminal, a line per tenth of a layer elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from localdecide.cli import human
from localdecide.cli.output import Output

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


def follow(events: Iterable[Mapping[str, Any]], output: Output) -> None:
    """Shows every event `{status, digest?, total?, completed?}` until the last. `--json`: the events themselves."""
    if output.mode == "json":
        import json

        for event in events:
            output.data(json.dumps(event, ensure_ascii=False))
    elif output.lively:
        _bars(events, output)
    else:
        _tenths(events, output)


def _tenths(events: Iterable[Mapping[str, Any]], output: Output) -> None:
    """A status once; of a layer its start and each further tenth."""
    last = ""
    shown: dict[str, int] = {}
    for event in events:
        status, total = str(event.get("status", "")), event.get("total")
        if not total:
            if status != last:
                output.talk(status)
            last = status
            continue
        key = f"{status} {event.get('digest', '')}"  # `verify` reads a layer, and may then fetch it
        completed = event.get("completed", 0)
        tenth = 10 * completed // total
        if tenth > shown.get(key, -1):
            shown[key] = tenth
            output.talk(f"{status}: {10 * tenth:3d}% {human.size(completed)}/{human.size(total)}")
        last = status


def _bars(events: Iterable[Mapping[str, Any]], output: Output) -> None:
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(file=output.stderr)) as progress:
        tasks: dict[str, TaskID] = {}
        last = ""
        for event in events:
            status, total = str(event.get("status", "")), event.get("total")
            if total:
                _advance(progress, tasks, status, event)
            elif status != last:
                progress.console.print(status, markup=False, highlight=False)
            last = status


def _advance(progress: Progress, tasks: dict[str, TaskID], status: str, event: Mapping[str, Any]) -> None:
    key = str(event.get("digest", status))
    if key not in tasks:
        tasks[key] = progress.add_task(status, total=event["total"])
    progress.update(tasks[key], description=status, total=event["total"], completed=event.get("completed", 0))
