"""`localdecide bench`: how fast a model answers on this machine, alone or against another server."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from localdecide import settings
from localdecide.cli import daemon
from localdecide.cli.bench_cells import Cell, Figures, Round, calibrate, cells
from localdecide.cli.bench_target import PATHS, Target
from localdecide.cli.options import Json, Model
from localdecide.cli.output import Output
from localdecide.cli.usage import UsageProblem

TURNS, QUICK_TURNS = 5, 2


def command(
    model: Model,
    against: Annotated[str, typer.Option("--against", metavar="URL", help="Also ask this server, in turn.")] = "",
    dialect: Annotated[
        str, typer.Option("--dialect", metavar="NAME", help=f"Contract of that server: {', '.join(PATHS)}.")
    ] = "",
    against_model: Annotated[
        str, typer.Option("--against-model", metavar="NAME", help="Its name there; MODEL otherwise.")
    ] = "",
    quick: Annotated[bool, typer.Option("--quick", help="Fewer sizes, two turns.")] = False,
    json: Json = False,
) -> None:
    """Measure how fast a model answers, alone or against another server."""
    if bool(against) != bool(dialect):
        raise UsageProblem("--against and --dialect go together", f"--dialect is one of {', '.join(PATHS)}")
    if dialect and dialect not in PATHS:
        raise UsageProblem(f"no dialect {dialect!r} to measure against", f"one of {', '.join(PATHS)}")
    output = Output.of(json)
    configured = settings.load()
    client = daemon.ensure(configured, output)
    key = {"Authorization": f"Bearer {configured.api_key}"} if configured.api_key else {}
    targets = [Target(f"http://{client.address}", "localdecide", model, key)]
    if against:
        try:
            targets.append(Target(against, dialect, against_model or model))
        except ValueError as error:
            raise UsageProblem(str(error), "write it like http://127.0.0.1:8080") from None
    try:
        figures = measure(targets, quick, output)
    finally:
        for target in targets:
            target.close()
    shown = client.post("/api/show", {"model": model}, timeout=60.0)
    rows = [row(cell, index, figures) for index, cell in figures]
    if json:
        machine = {"cpus": os.cpu_count(), "model": model, "engine": (shown.get("loaded") or {}).get("engine")}
        servers = [{"url": target.url, "dialect": target.dialect, "model": target.model} for target in targets]
        output.json({**machine, "servers": servers, "rows": rows})
    else:
        show(rows, targets, output)


def measure(targets: list[Target], quick: bool, output: Output) -> dict[tuple[int, Cell], Figures]:
    """Every cell in turn at every server, then again: what else the machine does hits each alike."""
    seed = f"{time.time_ns():x}"
    output.talk("loading the model and measuring the length of its tokens")
    words = calibrate(targets[0], seed)
    for target in targets[1:]:
        calibrate(target, seed)  # loads the model there too
    figures: dict[tuple[int, Cell], Figures] = {}
    turns, todo = QUICK_TURNS if quick else TURNS, cells(quick)
    for turn in range(turns):
        output.talk(f"turn {turn + 1} of {turns}: {len(todo)} lines")
        sent = Round(words, f"{seed}.{turn}")
        for cell in todo:
            sent.play(cell, targets, figures)
    return figures


def row(cell: Cell, index: int, figures: Mapping[tuple[int, Cell], Figures]) -> dict[str, Any]:
    """One line as JSON. server: 0 is the daemon. Ratios are of the other server to the daemon."""
    mine, ours = figures[index, cell], figures[0, cell]
    rates = [each.rate for (server, _), each in figures.items() if server == index]
    best = max((rate for rate in rates if rate is not None), default=None)
    found: dict[str, Any] = {
        "server": index,
        "mode": cell.mode,
        "state_tokens": cell.state,
        "questions": cell.questions,
        "clients": cell.clients,
        "requests": mine.requests,
        "median_seconds": mine.median,
        "p95_seconds": mine.p95,
        "cpu_seconds": mine.cpu_seconds,
        "requests_per_second": mine.throughput,
        "decoded_tokens": max(mine.decoded, default=None),
        "tokens_per_second": mine.rate,
        "of_best_rate": mine.rate / best if mine.rate and best else None,
    }
    if index:
        found["times_median"] = mine.median / ours.median
        base, other = ours.cpu_seconds, mine.cpu_seconds
        found["times_cpu"] = other / base if base and other is not None else None
    return found


def show(rows: list[dict[str, Any]], targets: list[Target], output: Output) -> None:
    """The table, with a line of the other server and its ratios under each of ours."""
    header = [
        "MODE",
        "STATE",
        "QUESTIONS",
        "CLIENTS",
        "MEDIAN",
        "P95",
        "CPU",
        "DECODED",
        "TOKENS/S",
        "OF BEST",
        "REQUESTS/S",
    ]
    several = len(targets) > 1
    if several:
        header = ["SERVER", *header, "TIME", "CPU"]
    lines = []
    for each in sorted(rows, key=lambda found: (_place(found), found["server"])):
        line = [
            each["mode"],
            str(each["state_tokens"]),
            str(each["questions"]),
            str(each["clients"]),
            _milliseconds(each["median_seconds"]),
            _milliseconds(each["p95_seconds"]),
            _milliseconds(each["cpu_seconds"]),
            _number(each["decoded_tokens"]),
            _number(each["tokens_per_second"]),
            "-" if each["of_best_rate"] is None else f"{100 * each['of_best_rate']:.0f} %",
            f"{each['requests_per_second']:.2f}",
        ]
        if several:
            ratios = [_times(each.get("times_median")), _times(each.get("times_cpu"))]
            line = ["localdecide" if each["server"] == 0 else targets[1].dialect, *line, *ratios]
        lines.append(line)
    output.table(header, lines)
    output.talk("\nMEDIAN and P95 of a request; CPU of the server per request, least of all turns.")
    output.talk("OF BEST: tokens decoded per second, against the best line of this run.")


def _place(found: Mapping[str, Any]) -> tuple[Any, ...]:
    order = ("cold", "cached", "clients")
    return order.index(found["mode"]), found["state_tokens"], found["questions"], found["clients"]


def _milliseconds(seconds: float | None) -> str:
    return "-" if seconds is None else f"{1000 * seconds:.1f} ms" if seconds < 0.1 else f"{1000 * seconds:.0f} ms"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f}"


def _times(value: float | None) -> str:
    return "" if value is None else f"{value:.2f} x"
