"""localdecide's daemon against llama-server on the same GGUF and the same tokens, in turn, in CPU time.

    python -m tests.bench.rivals --llama-server PATH [--model MODEL.gguf] [--rows cold,cached,slots,as-is] ...
    python -m tests.bench.rivals --source llama_cpp_python-0.3.36.tar.gz      (builds llama-server first)

cold     1, 16 and 64 questions over a state never seen before; equal weights (--weights)
cached   16 questions over a state both have just read
slots    llama-server with as many slots and clients as --slots, 16 questions, cold
as-is    16 questions, cold: llama-server on the file as it is, ours with what it makes of it

Each question is one prompt. Ours gets them as one request; llama-server gets exactly the tokens that
our family wrote, one prompt after the other with its prompt cache on, which is its best setting for
one client. Figures are CPU seconds of each server's processes, HTTP and JSON included: least and
median over the turns, and llama-server's over ours.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from localdecide.core.decision import Decision
from localdecide.core.model import ModelSpec, Readout
from localdecide.core.questions import parse_questions
from localdecide.runner.loaded import LoadedModel
from tests.bench import weights
from tests.bench.inputs import questions_json, state_text
from tests.bench.measure import Series, table
from tests.bench.servers import Daemon, LlamaServer, Server, build_llama_server

ROWS = ("cold", "cached", "slots", "as-is")
TARGETS = {
    ("cold", 1): 1.2,
    ("cold", 16): 1.8,
    ("cold", 64): 2.4,
    ("cached", 16): 2.6,
    ("slots", 16): 4,
    ("as-is", 16): 3.2,
}
MODELFILE = "FROM {}\nFAMILY plain\nREADOUT choice letters\nPARAMETER num_ctx {}\nPARAMETER num_thread 1\n"


class Prompts:
    """The tokens that our plain family writes for a decision over a GGUF."""

    def __init__(self, path: Path, context: int) -> None:
        spec = ModelSpec(
            "prompts",
            str(path),
            family="plain",
            readouts={"choice": Readout("letters")},
            parameters={"num_ctx": context, "num_thread": 1},
        )
        self._model: Any = LoadedModel(spec, {}, lambda fraction: None)
        self._vocabulary = self._model._engine.vocabulary

    def state(self, tokens: int, number: int) -> str:
        return state_text(tokens, number, lambda text: len(self._vocabulary.tokenize(text)))

    def of(self, state: str, count: int) -> list[tuple[int, ...]]:
        decision = Decision(state, parse_questions(questions_json(count)))
        plan = self._model._family.plan(decision, self._model._model)
        return [prompt.tokens for prompt in plan.prompts]


@dataclass(frozen=True)
class Cell:
    """One line: who is asked what."""

    row: str
    questions: int
    ours: Daemon
    model: str
    theirs: LlamaServer
    clients: int = 1


def spent(server: Server, work: Callable[[], Any]) -> tuple[float, float]:
    """CPU seconds of a server and wall seconds while `work` runs."""
    before, started = server.cpu(), time.perf_counter()
    work()
    wall = time.perf_counter() - started
    return server.cpu() - before, wall


def ask(daemon: Daemon, model: str, state: str, count: int) -> None:
    reply = daemon.post("/v1/systemone", {"model": model, "state": state, "questions": questions_json(count)})
    if len(reply["answers"]) != count:
        sys.exit(f"{count} questions, {len(reply['answers'])} answers")


def complete(server: LlamaServer, prompts: list[tuple[int, ...]], clients: int) -> None:
    """All prompts, shared out over so many clients."""

    def client(mine: list[tuple[int, ...]]) -> None:
        for tokens in mine:
            if "content" not in server.complete(tokens):
                sys.exit("llama-server's reply has no content")

    threads = [threading.Thread(target=client, args=(prompts[index::clients],)) for index in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def play(cell: Cell, prompts: Prompts, state: str) -> tuple[float, float, float, float]:
    """One turn: CPU and wall seconds of ours, then of theirs."""
    asked = prompts.of(state, cell.questions)
    if cell.row == "cached":
        ask(cell.ours, cell.model, state, 1)
        complete(cell.theirs, asked[:1], 1)
    ours = spent(cell.ours, lambda: ask(cell.ours, cell.model, state, cell.questions))
    theirs = spent(cell.theirs, lambda: complete(cell.theirs, asked, cell.clients))
    return *ours, *theirs


def run(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    binary = arguments.llama_server or build_llama_server(arguments.source, weights.cache_folder(), arguments.jobs)
    source = arguments.model or weights.default_model()
    equal = source if arguments.weights == "file" else weights.converted(source, arguments.weights)
    context = arguments.state + 256
    prompts = Prompts(source, context)
    with contextlib.ExitStack() as stack:

        def llama(path: Path, slots: int = 1) -> LlamaServer:
            # -fa auto and an f16 cache are its defaults; -kvu lets slots share one cache.
            sizes = ["-np", str(slots), "-c", str(context * slots), "--cache-ram", "0"]
            made = LlamaServer(binary, path, [*sizes, *arguments.extra])
            stack.enter_context(made)
            return made

        def daemon(path: Path, fast: str) -> Daemon:
            made = Daemon({"m": MODELFILE.format(path, context)}, LOCALDECIDE_FAST_WEIGHTS=fast)
            stack.enter_context(made)
            made.load("m")
            return made

        cells: list[Cell] = []
        if {"cold", "cached", "slots"} & set(arguments.rows):
            ours = daemon(equal, "off")
            single = llama(equal) if {"cold", "cached"} & set(arguments.rows) else None
            if single is not None and "cold" in arguments.rows:
                cells += [Cell("cold", count, ours, "m", single) for count in arguments.questions]
            if single is not None and "cached" in arguments.rows:
                cells.append(Cell("cached", 16, ours, "m", single))
            if "slots" in arguments.rows:
                cells.append(Cell("slots", 16, ours, "m", llama(equal, arguments.slots), arguments.slots))
        if "as-is" in arguments.rows:
            cells.append(Cell("as-is", 16, daemon(source, "auto"), "m", llama(source)))
        figures = {cell: tuple(Series() for _ in range(4)) for cell in cells}
        number = int(time.time())
        for turn in range(arguments.runs):
            for cell in cells:
                number += 1
                seconds = play(cell, prompts, prompts.state(arguments.state, number))
                for series, value in zip(figures[cell], seconds, strict=True):
                    series.seconds.append(value)
            print(f"turn {turn + 1} of {arguments.runs}", file=sys.stderr)
    rows = []
    for cell, (ours_cpu, ours_wall, theirs_cpu, theirs_wall) in figures.items():
        rows.append(
            {
                "row": cell.row,
                "questions": cell.questions,
                "clients_of_llama_server": cell.clients,
                "ours": ours_cpu.json(),
                "llama_server": theirs_cpu.json(),
                "ours_wall_ms_median": 1000 * ours_wall.median,
                "llama_server_wall_ms_median": 1000 * theirs_wall.median,
                "ratio_least": theirs_cpu.least / ours_cpu.least,
                "ratio_median": theirs_cpu.median / ours_cpu.median,
                "target": TARGETS.get((cell.row, cell.questions)),
            }
        )
    return rows


def show(rows: list[dict[str, Any]]) -> None:
    header = ("row", "questions", "ours ms", "llama-server ms", "ratio", "of medians", "target")
    lines = [
        (
            row["row"],
            str(row["questions"]),
            f"{row['ours']['cpu_ms_least']:.0f}",
            f"{row['llama_server']['cpu_ms_least']:.0f}",
            f"{row['ratio_least']:.2f}",
            f"{row['ratio_median']:.2f}",
            f">= {row['target']}" if row["target"] else "-",
        )
        for row in rows
    ]
    print(table(header, lines))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--llama-server", type=Path, help="a binary of the same llama.cpp as the binding's")
    parser.add_argument("--source", type=Path, help="llama-cpp-python's source package, to build it from")
    parser.add_argument("--jobs", type=int, default=1, help="compilers at once")
    parser.add_argument("--model", type=Path, help="a GGUF; the default model's otherwise")
    parser.add_argument("--weights", choices=("file", *weights.TYPES), default="bf16", help="for the equal rows")
    parser.add_argument("--rows", type=lambda text: text.split(","), default=list(ROWS))
    parser.add_argument("--questions", type=lambda text: [int(part) for part in text.split(",")], default=[1, 16, 64])
    parser.add_argument("--state", type=int, default=1000)
    parser.add_argument("--slots", type=int, default=4)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--extra", nargs="*", default=[], help="more arguments for llama-server")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    if not arguments.llama_server and not arguments.source:
        parser.error("give --llama-server or --source")
    if unknown := set(arguments.rows) - set(ROWS):
        parser.error(f"--rows: {', '.join(sorted(unknown))} is none of {', '.join(ROWS)}")
    rows = run(arguments)
    print(json.dumps(rows, indent=2)) if arguments.json else show(rows)


if __name__ == "__main__":
    main()
