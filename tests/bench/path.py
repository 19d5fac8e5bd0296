"""CPU of a request around the model: HTTP, JSON, validation, pipe; the engine is the fake one.

    python -m tests.bench.path [--requests 100] [--questions 1,8] [--runs 12] [--json]

Reported by process, for requests of each number of questions, in turns. The runner counts the CPU time of
its own thread in the family and the fake engine while it serves (`fake_runner.py`); that is taken off,
which leaves frames, JSON and the way between its threads.
"""

from __future__ import annotations

import argparse
import http.client
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from localdecide.cli import processes
from tests.bench.inputs import questions_json, state_words
from tests.bench.measure import Series
from tests.bench.servers import Daemon
from tests.tiny import build

TARGET_MS = 1.0
COMMAND = (sys.executable, "-m", "tests.bench.fake_daemon")
PARTS = ("daemon", "runner", "family and fake engine", "around the model")


class Measured:
    """A daemon with one model loaded, and the CPU seconds that a request costs in it."""

    def __init__(self, daemon: Daemon) -> None:
        self.daemon = daemon
        self.runners = [each for each in processes.tree(daemon.child.pid) if each != daemon.child.pid]
        self.connection = http.client.HTTPConnection("127.0.0.1", daemon.port, timeout=60)

    def run(self, body: bytes, requests: int) -> dict[str, float]:
        """CPU seconds of each part, per request."""
        daemon, runner = self._used()
        model = 0.0
        for _ in range(requests):
            status, reply = self.daemon.send("/v1/systemone", body, self.connection)
            if status != 200:
                sys.exit(f"the daemon answered {status}: {reply[:300]!r}")
            model += json.loads(reply)["x_compute_seconds"]
        after = self._used()
        daemon, runner = after[0] - daemon, after[1] - runner
        spent = (daemon, runner, model, daemon + runner - model)
        return {name: seconds / requests for name, seconds in zip(PARTS, spent, strict=True)}

    def _used(self) -> tuple[float, float]:
        children = sum(processes.cpu_seconds(each) for each in self.runners)
        return self.daemon.cpu() - children, children


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=100, help="in a run")
    parser.add_argument("--questions", default="1,8", help="numbers of questions, separated by commas")
    parser.add_argument("--words", type=int, default=30)
    parser.add_argument("--runs", type=int, default=12)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args(arguments)
    counts = [int(count) for count in asked.questions.split(",")]
    state = state_words(asked.words)
    bodies = {n: json.dumps({"model": "m", "state": state, "questions": questions_json(n)}).encode() for n in counts}
    series = {count: {part: Series() for part in PARTS} for count in counts}
    with tempfile.TemporaryDirectory() as folder:
        path = build("llama", Path(folder) / "toy.gguf").path
        with Daemon({"m": f"FROM {path}\nFAMILY plain\n"}, command=COMMAND) as daemon:
            daemon.load("m")
            measured = Measured(daemon)
            for body in bodies.values():
                measured.run(body, asked.requests)
            for _ in range(asked.runs):
                for count, body in bodies.items():
                    for part, seconds in measured.run(body, asked.requests).items():
                        series[count][part].seconds.append(seconds)
            measured.connection.close()
    if asked.json:
        rows = [
            {"questions": count, "bytes": len(bodies[count]), "target_ms": TARGET_MS}
            | {part: each.json() for part, each in parts.items()}
            for count, parts in series.items()
        ]
        print(json.dumps(rows))
        return
    for count, parts in series.items():
        print(f"{count} questions, {len(bodies[count])} bytes, {asked.runs} runs of {asked.requests} requests")
        for part, each in parts.items():
            target = f" (target <= {TARGET_MS} ms)" if part == PARTS[-1] else ""
            print(f"  {part:24} least {1000 * each.least:.3f} ms, median {1000 * each.median:.3f} ms CPU{target}")


if __name__ == "__main__":
    main()
