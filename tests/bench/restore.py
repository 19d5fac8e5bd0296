"""A state asked about again: the time to bring its snapshot back, and whether any bit of an answer moves.

python -m tests.bench.restore [MODEL.gguf] [--weights bf16] [--states 1000,2000] [--runs 20] [--json]
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

from tests.bench import weights
from tests.bench.engine import Subject, numbers
from tests.bench.measure import Series, cpu_of, table

TARGET_MS = 2.0


def measure(subject: Subject, size: int, runs: int) -> dict[str, Any]:
    """Restore alone, and the largest difference between the log-probabilities of a cold and a cached run."""
    plan = subject.plan(size, 4, 1)
    cold = subject.engine.evaluate(plan)
    cached = subject.engine.evaluate(plan)
    difference = max(
        abs(one - other)
        for mine, theirs in zip(cold.values, cached.values, strict=True)
        for one, other in zip(mine[0].logprobs, theirs[0].logprobs, strict=True)
    )
    found = subject.engine.cache.find(plan.prompts[0].tokens[:size])
    assert found is not None, "the state was not kept"
    length, snapshot = found
    context = subject.engine._context
    restore, keep, wall = Series(), Series(), []
    for _ in range(runs):
        context.clear()
        started = time.perf_counter()
        restore.seconds.append(cpu_of(lambda: context.restore(0, snapshot))[0])
        wall.append(time.perf_counter() - started)
        keep.seconds.append(cpu_of(lambda: context.snapshot(0))[0])
    context.clear()
    return {
        "state_tokens": size,
        "restored_tokens": length,
        "bytes": int(snapshot.nbytes),
        "restore": restore.json(),
        "restore_wall_ms_least": 1000 * min(wall),
        "snapshot": keep.json(),
        "cached_tokens": cached.cached,
        "largest_difference": difference,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="?", type=Path)
    parser.add_argument("--weights", choices=("file", *weights.TYPES), default="bf16")
    parser.add_argument("--states", type=numbers, default=[1000, 2000])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    arguments.family = False
    source = arguments.model or weights.default_model()
    path = source if arguments.weights == "file" else weights.converted(source, arguments.weights)
    subject = Subject(arguments.weights, path, arguments)
    rows = [measure(subject, size, arguments.runs) for size in arguments.states]
    if arguments.json:
        print(json.dumps(rows, indent=2))
        return
    lines = [
        (
            str(row["state_tokens"]),
            f"{row['bytes'] / 1e6:.1f}",
            f"{row['restore']['cpu_ms_least']:.2f}",
            f"{row['restore']['cpu_ms_median']:.2f}",
            f"{row['restore_wall_ms_least']:.2f}",
            f"{row['snapshot']['cpu_ms_least']:.2f}",
            str(row["largest_difference"]),
        )
        for row in rows
    ]
    print(table(("state", "MB", "restore ms", "median", "wall ms", "snapshot ms", "largest difference"), lines))
    print(f"target for 1000 tokens: <= {TARGET_MS} ms, difference 0.0")


if __name__ == "__main__":
    main()
