"""The longest time that the daemon's event loop is blocked while requests run; the engine is the fake one.

    python -m tests.bench.blocks [--seconds 3] [--case NAME]... [--json]

A task of the daemon's loop sleeps a millisecond at a time and notes how much later it wakes: that is the
longest any other client may have waited for a turn. With it goes the CPU time that the loop's own thread
used between two wakings; where the wait is longer, other threads of the daemon held Python's lock, or
other processes of the machine the CPU. "idle" shows what the machine adds without any request.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import contextlib
import http.client
import json
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from localdecide import settings
from localdecide.server.main import fast_loop
from tests.bench import fake_daemon
from tests.bench.inputs import questions_json, state_words
from tests.bench.measure import table
from tests.bench.servers import Daemon
from tests.tiny import build

TARGET_MS = 5.0
STEP = 0.001
NOTES = "BENCH_BLOCKS"


class Watch:
    """Writes the waits since the last SIGUSR1 to a file, in milliseconds: [wall, CPU of the loop's thread]."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.waits: list[tuple[float, float]] = []

    async def run(self) -> None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, self.write)
        while True:
            wall, cpu = time.perf_counter(), time.thread_time()
            await asyncio.sleep(STEP)
            late = time.perf_counter() - wall - STEP
            self.waits.append((1000 * late, 1000 * (time.thread_time() - cpu)))

    def write(self) -> None:
        waits, self.waits = self.waits, []
        whole = self.path.with_suffix(".part")
        whole.write_text(json.dumps(waits))
        whole.rename(self.path)


async def serve() -> None:
    watch = asyncio.create_task(Watch(Path(os.environ[NOTES])).run())
    await fake_daemon.serve(settings.load())
    watch.cancel()


def wide(questions: int, options: int) -> dict[str, Any]:
    criteria = {f"option {number}": None for number in range(options)}
    return {
        f"q{number}": {"type": "choice", "instructions": "Which?", "criteria": criteria} for number in range(questions)
    }


def bodies() -> dict[str, bytes]:
    """A request of every kind that could hold the loop up."""
    text, few = state_words(30), questions_json(1)
    rows = [{"number": number, "note": "as ordered", "paid": True} for number in range(18_000)]
    picture = base64.b64encode(b"\x89PNG\r\n\x1a\n" + os.urandom(9 << 20)).decode()
    asked: dict[str, dict[str, Any]] = {
        "1 question": {"state": text, "questions": few},
        "8 questions": {"state": text, "questions": questions_json(8)},
        "256 questions": {"state": text, "questions": questions_json(256)},
        "256 questions of 32 options": {"state": "x", "questions": wide(256, 32)},
        "a state of 30 KB": {"state": state_words(4500), "questions": few},
        "a state of 1 MB": {"state": state_words(150_000), "questions": few},
        "a state of 18 000 objects": {"state": rows, "questions": few},
        "12 MB of picture": {"state": text, "questions": few, "images": [picture]},
    }
    return {name: json.dumps({"model": "m", **body}).encode() for name, body in asked.items()}


class Clients:
    """Clients that repeat a request, each on a connection of its own, until `stop`."""

    def __init__(self, daemon: Daemon, body: bytes, count: int) -> None:
        self.daemon, self.body = daemon, body
        self.stop, self.answers = threading.Event(), 0
        self.threads = [threading.Thread(target=self._repeat) for _ in range(count)]
        for thread in self.threads:
            thread.start()

    def _repeat(self) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self.daemon.port, timeout=120)
        while not self.stop.is_set():
            self.daemon.send("/v1/systemone", self.body, connection)
            self.answers += 1
        connection.close()

    def end(self) -> None:
        self.stop.set()
        for thread in self.threads:
            thread.join()


def noted(daemon: Daemon, path: Path) -> list[tuple[float, float]]:
    """What the daemon has noted since this was last asked."""
    path.unlink(missing_ok=True)
    daemon.child.send_signal(signal.SIGUSR1)
    for _ in range(3000):
        if path.exists():
            return [(wall, cpu) for wall, cpu in json.loads(path.read_text())]
        time.sleep(0.01)
    sys.exit("the daemon does not answer its signal")


def measure(seconds: float, wanted: Sequence[str]) -> list[dict[str, Any]]:
    """A row for each case, or for the wanted ones."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        path, notes = build("llama", Path(folder) / "toy.gguf").path, Path(folder) / "notes"
        command = (sys.executable, "-m", "tests.bench.blocks", "--serve")
        with Daemon({"m": f"FROM {path}\nFAMILY plain\n"}, command=command, **{NOTES: str(notes)}) as daemon:
            daemon.load("m")
            cases = [("idle", b"", 0), *((name, body, 1) for name, body in bodies().items())]
            cases.append(("16 clients, 1 question each", bodies()["1 question"], 16))
            for name, body, clients in [case for case in cases if not wanted or case[0] in wanted]:
                noted(daemon, notes)
                running = Clients(daemon, body, clients)
                time.sleep(seconds)
                running.end()
                waits = noted(daemon, notes)
                walls, cpus = sorted(wall for wall, _ in waits), sorted(cpu for _, cpu in waits)
                over = [sum(value > TARGET_MS for value in values) for values in (walls, cpus)]
                rows.append(
                    {"case": name, "requests": running.answers, "bytes": len(body), "turns": len(walls)}
                    | {"wall_ms": walls[-1], "wall_p999_ms": walls[int(len(walls) * 0.999)], "wall_over": over[0]}
                    | {"cpu_ms": cpus[-1], "cpu_over": over[1]}
                )
    return rows


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=3.0, help="of each case")
    parser.add_argument("--case", action="append", default=[], help="only this one (repeatable)")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args(arguments)
    if asked.serve:
        with asyncio.Runner(loop_factory=fast_loop()) as runner, contextlib.suppress(KeyboardInterrupt):
            runner.run(serve())
        return
    rows = measure(asked.seconds, asked.case)
    if asked.json:
        print(json.dumps(rows))
        return
    over = f"over {TARGET_MS:g} ms"
    header = ("case", "bytes", "requests", "turns", "longest wait", "99.9 %", over, "longest CPU", over)
    lines = [
        (
            row["case"], str(row["bytes"]), str(row["requests"]), str(row["turns"]), f"{row['wall_ms']:.2f} ms",
            f"{row['wall_p999_ms']:.2f} ms", str(row["wall_over"]), f"{row['cpu_ms']:.2f} ms", str(row["cpu_over"]),
        )
        for row in rows
    ]  # fmt: skip
    print(table(header, lines))


if __name__ == "__main__":
    main()
