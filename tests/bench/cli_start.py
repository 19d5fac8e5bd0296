"""CPU milliseconds of `localdecide --help` and `localdecide ps`: the least and the median of some runs.

`ps` talks to a small server in this process, so that no daemon and no model take part.

    python tests/bench/cli_start.py [RUNS]
"""

from __future__ import annotations

import http.server
import json
import os
import resource
import statistics
import subprocess
import sys
import threading

BUDGET_MS = 150
# What the installed `localdecide` script does.
ENTRY = "from localdecide.cli.main import main; main()"


class NothingLoaded(http.server.BaseHTTPRequestHandler):
    """Answers everything with an empty list of models."""

    def do_GET(self) -> None:
        body = json.dumps({"models": []}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


def cpu_ms(arguments: list[str], environment: dict[str, str]) -> float:
    """User and system time of one run of Python with these arguments."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [sys.executable, *arguments],
        env=environment,
        check=True,
        stdout=subprocess.DEVNULL,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return 1000 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def main() -> None:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 11
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), NothingLoaded)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    environment = os.environ | {
        "LOCALDECIDE_HOST": f"127.0.0.1:{server.server_port}",
        "LOCALDECIDE_NO_AUTOSTART": "1",
    }
    # An installed program has its bytecode; with this set, every start would compile the package again.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    # A busy machine makes everything slower; the bare interpreter shows by how much.
    rows = {
        "python -c pass": (["-c", "pass"], ""),
        "localdecide --help": (["-c", ENTRY, "--help"], f" (budget {BUDGET_MS} ms)"),
        "localdecide ps": (["-c", ENTRY, "ps"], f" (budget {BUDGET_MS} ms)"),
    }
    for name, (arguments, budget) in rows.items():
        figures = [cpu_ms(arguments, environment) for _ in range(runs)]
        print(f"{name:18}  cpu: least {min(figures):4.0f} ms, median {statistics.median(figures):4.0f} ms{budget}")
    server.shutdown()


if __name__ == "__main__":
    main()
