"""Many clients of one daemon: throughput of 16 against one, and short requests while a long state is read.

    python -m tests.bench.clients [MODEL.gguf] [--weights bf16] [--runs 3] [--json]

Wall time, since waiting is what is asked about: run it on a machine that does nothing else.
"""

from __future__ import annotations

import argparse
import json
import statistics
import threading
import time
from pathlib import Path

from tests.bench import weights
from tests.bench.inputs import questions_json, state_words
from tests.bench.measure import table
from tests.bench.servers import Daemon

CLIENTS, REQUESTS = 16, 32
LONG_TOKENS, SHORT_WORDS = 4000, 60


def ask(daemon: Daemon, words: int, number: int) -> tuple[float, int]:
    """Seconds of one request with one question, and the tokens of its prompt."""
    body = {"model": "m", "state": state_words(words, number), "questions": questions_json(1)}
    started = time.perf_counter()
    reply = daemon.post("/v1/systemone", body)
    return time.perf_counter() - started, int(reply["usage"]["input_tokens"])


def throughput(daemon: Daemon, clients: int, first: int) -> float:
    """Requests per second of so many clients; each state is new."""

    def client(index: int) -> None:
        for number in range(index, REQUESTS, clients):
            ask(daemon, SHORT_WORDS, first + number)

    threads = [threading.Thread(target=client, args=(index,)) for index in range(clients)]
    started = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return REQUESTS / (time.perf_counter() - started)


def beside_a_long_state(daemon: Daemon, words: int, first: int) -> tuple[list[float], float]:
    """Seconds of short requests sent one after the other while a long state is read, and of the long one."""
    long: list[float] = []
    reader = threading.Thread(target=lambda: long.append(ask(daemon, words, first)[0]))
    reader.start()
    time.sleep(0.05)
    short = []
    number = first
    while reader.is_alive():
        number += 1
        short.append(ask(daemon, SHORT_WORDS, number)[0])
    reader.join()
    return short, long[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="?", type=Path)
    parser.add_argument("--weights", choices=("file", *weights.TYPES), default="bf16")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    source = arguments.model or weights.default_model()
    path = source if arguments.weights == "file" else weights.converted(source, arguments.weights)
    modelfile = f"FROM {path}\nFAMILY plain\nPARAMETER num_ctx 4608\nPARAMETER num_thread {arguments.threads}\n"
    one, many, idle, busy, long = [], [], [], [], []
    with Daemon({"m": modelfile}, LOCALDECIDE_FAST_WEIGHTS="off") as daemon:
        number = int(time.time()) * 1000
        (_, small), (_, large) = (ask(daemon, words, number + words) for words in (50, 250))
        words = round(LONG_TOKENS * 200 / (large - small))
        for _ in range(arguments.runs):
            number += 10_000
            one.append(throughput(daemon, 1, number))
            many.append(throughput(daemon, CLIENTS, number + 1000))
            idle += [ask(daemon, SHORT_WORDS, number + 2000 + index)[0] for index in range(8)]
            short, whole = beside_a_long_state(daemon, words, number + 3000)
            busy += short
            long.append(whole)
    found = {
        "requests_per_second_1": max(one),
        f"requests_per_second_{CLIENTS}": max(many),
        "throughput_ratio": max(many) / max(one),
        "short_idle_ms_median": 1000 * statistics.median(idle),
        "short_busy_ms_median": 1000 * statistics.median(busy),
        "short_ratio": statistics.median(busy) / statistics.median(idle),
        "long_ms_median": 1000 * statistics.median(long),
    }
    if arguments.json:
        print(json.dumps(found, indent=2))
        return
    print(table(("what", "value"), [(name, f"{value:.2f}") for name, value in found.items()]))
    print("targets: throughput_ratio >= 0.95, short_ratio <= 2")


if __name__ == "__main__":
    main()
