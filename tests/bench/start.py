"""From nothing to the first answer: the daemon's start, then the runner's, part by part.

    python -m tests.bench.start [MODEL.gguf] [--runs 3] [--json]

Wall seconds, and CPU seconds of all processes; the machine's load changes the first more than the second.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

from tests.bench import weights
from tests.bench.inputs import questions_json, state_words
from tests.bench.measure import table
from tests.bench.servers import ROOT, Daemon

TARGET_SECONDS = 0.5

# In a process of its own: what a runner imports, then the model, then its context and first decode.
RUNNER = """
import json, sys, time
begun = time.perf_counter(), time.process_time()
def lap():
    global begun
    now = time.perf_counter(), time.process_time()
    spent = [now[0] - begun[0], now[1] - begun[1]]
    begun = now
    return spent
parts = {}
from localdecide.runner import loaded
from localdecide.core.model import ModelSpec
from localdecide.core.plan import Labels, Plan, Prompt
from localdecide.engine.llama import LlamaEngine
from localdecide.engine.weights import start_backend
parts["runner imports"] = lap()
start_backend()
LlamaEngine(sys.argv[1], {"num_ctx": 2048}).close()
parts["first open on this machine, kernels measured"] = lap()
engine = LlamaEngine(sys.argv[1], {"num_ctx": 2048})
parts["model open"] = lap()
plan = Plan((Prompt("q", (1, 2), (Labels(1, (1,)),)),))
engine._prepare(plan)
parts["context"] = lap()
engine.evaluate(plan)
parts["first decode"] = lap()
print(json.dumps(parts))
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="?", type=Path)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    path = arguments.model or weights.default_model()
    parts: dict[str, list[tuple[float, float]]] = {}
    for _ in range(arguments.runs):
        found = whole(path)
        command = [sys.executable, "-c", RUNNER, str(path)]
        done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
        found |= {name: (wall, cpu) for name, (wall, cpu) in json.loads(done.stdout).items()}
        for name, pair in found.items():
            parts.setdefault(name, []).append(pair)
    rows = {}
    for name, pairs in parts.items():
        walls, cpus = zip(*pairs, strict=True)
        rows[name] = {"wall_ms_median": 1000 * statistics.median(walls), "cpu_ms_least": 1000 * min(cpus)}
    if arguments.json:
        print(json.dumps(rows, indent=2))
        return
    lines = [(name, f"{row['wall_ms_median']:.0f}", f"{row['cpu_ms_least']:.0f}") for name, row in rows.items()]
    print(table(("part", "wall ms, median", "CPU ms, least"), lines))
    opened = sum(rows[name]["cpu_ms_least"] for name in ("model open", "context")) / 1000
    print(f"model open and context: {opened:.2f} s CPU (target <= {TARGET_SECONDS} s)")


def whole(path: Path) -> dict[str, tuple[float, float]]:
    """A daemon from its start to its first answer and its second; converting weights is left out."""
    with Daemon({}, LOCALDECIDE_FAST_WEIGHTS="off") as daemon:
        found = {"daemon until ready": (daemon.ready_seconds, daemon.cpu())}
        modelfile = f"FROM {path}\nFAMILY plain\nPARAMETER num_ctx 2048\n"
        daemon.post("/api/create", {"model": "m", "modelfile": modelfile, "directory": str(ROOT), "stream": False})
        for name in ("first answer, its load included", "second answer"):
            body = {"model": "m", "state": state_words(40), "questions": questions_json(1)}
            before, started = daemon.cpu(), time.perf_counter()
            daemon.post("/v1/systemone", body)
            found[name] = time.perf_counter() - started, daemon.cpu() - before
    return found


if __name__ == "__main__":
    main()
