"""CPU of a request around the model: HTTP, JSON, validation, pipe; the engine is the fake one.

    python -m tests.bench.path [--requests 300] [--questions 8] [--runs 3] [--json]

Reported by process. The runner's part contains the family's prompt and tokens and the fake engine's
hashes; the same work is measured alone in this process and taken off, which leaves frames and JSON.
"""

from __future__ import annotations

import argparse
import http.client
import json
import sys
import tempfile
from pathlib import Path

from localdecide.cli import processes
from localdecide.core.decision import Decision
from localdecide.core.model import ModelSpec
from localdecide.core.questions import parse_questions
from localdecide.runner.loaded import LoadedModel
from tests.bench.inputs import questions_json, state_words
from tests.bench.measure import Series, cpu_of
from tests.bench.servers import Daemon
from tests.tiny import build

TARGET_MS = 1.0
COMMAND = (sys.executable, "-m", "tests.bench.fake_daemon")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=300)
    parser.add_argument("--questions", type=int, default=8)
    parser.add_argument("--words", type=int, default=30)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    state, questions = state_words(arguments.words), questions_json(arguments.questions)
    body = json.dumps({"model": "m", "state": state, "questions": questions}).encode()
    alone = LoadedModel(ModelSpec("m", "fake:", family="plain"), {}, lambda fraction: None)
    decision = Decision(state, parse_questions(questions))
    series = {name: Series() for name in ("daemon", "runner", "family and fake engine alone")}
    with tempfile.TemporaryDirectory() as folder:
        path = build("llama", Path(folder) / "toy.gguf").path
        with Daemon({"m": f"FROM {path}\nFAMILY plain\n"}, command=COMMAND) as daemon:
            daemon.load("m")
            runners = [each for each in processes.tree(daemon.child.pid) if each != daemon.child.pid]
            connection = http.client.HTTPConnection("127.0.0.1", daemon.port, timeout=60)

            def send() -> None:
                for _ in range(arguments.requests):
                    status, _reply = daemon.send("/v1/systemone", body, connection)
                    if status != 200:
                        sys.exit(f"the daemon answered {status}: {_reply[:300]!r}")

            def work() -> None:
                for _ in range(arguments.requests):
                    alone.decide(decision, lambda: False)

            def used() -> tuple[float, float]:
                children = sum(processes.cpu_seconds(each) for each in runners)
                return daemon.cpu() - children, children

            send()
            for _ in range(arguments.runs):
                before = used()
                send()
                after = used()
                spent, _ = cpu_of(work)
                for name, seconds in zip(series, (after[0] - before[0], after[1] - before[1], spent), strict=True):
                    series[name].seconds.append(seconds / arguments.requests)
            connection.close()
    daemon_ms, runner_ms, alone_ms = (1000 * each.least for each in series.values())
    total = daemon_ms + max(0.0, runner_ms - alone_ms)
    if arguments.json:
        print(json.dumps({"ms": total, "target_ms": TARGET_MS, **{name: each.json() for name, each in series.items()}}))
        return
    print(f"one request: {len(body)} bytes, {arguments.questions} questions, {arguments.requests} requests a run")
    for name, each in series.items():
        print(f"  {name:30} least {1000 * each.least:.3f} ms, median {1000 * each.median:.3f} ms CPU")
    print(f"  {'around the model':30} {total:.3f} ms CPU (target <= {TARGET_MS} ms)")


if __name__ == "__main__":
    main()
