"""A state asked about again: the time to have it back, and whether any bit of an answer moves.

At once, nothing is copied: the state lies where it was decoded. After another state was read, its
snapshot is copied back into the cache of the model.

    python -m tests.bench.restore [MODEL.gguf] [--weights bf16] [--states 1000,2000] [--runs 20] [--json]
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

from localdecide.engine.base import never, nothing
from localdecide.engine.evaluation import Run
from tests.bench import weights
from tests.bench.engine import Subject, numbers
from tests.bench.measure import Series, cpu_of, table

TARGET_MS = 2.0


def measure(subject: Subject, size: int, runs: int) -> dict[str, Any]:
    """Restore alone, and the largest difference between the log-probabilities of a cold and a cached run."""
    plan = subject.plan(size, 4, 1)
    cold = subject.engine.evaluate(plan)
    subject.engine.evaluate(subject.plan(100, 1, 2))
    restored_rows = subject.engine.evaluate(plan)
    cached = subject.engine.evaluate(plan)
    difference = max(
        abs(one - other)
        for again in (restored_rows, cached)
        for mine, theirs in zip(cold.values, again.values, strict=True)
        for one, other in zip(mine[0].logprobs, theirs[0].logprobs, strict=True)
    )
    engine, prefix = subject.engine, plan.prompts[0].tokens[:size]
    lane, context = engine._lanes[0], engine._context
    run = Run(plan, context, lane, engine.cache, engine._method, never, nothing)
    found = engine.cache.find(prefix)
    assert found is not None, "the state was not kept"
    again, restored, keep, wall = Series(), Series(), Series(), []
    for _ in range(runs):
        lane.clear(context)
        started = time.perf_counter()
        restored.seconds.append(cpu_of(lambda: run._find_state(prefix))[0])
        wall.append(time.perf_counter() - started)
        again.seconds.append(cpu_of(lambda: run._find_state(prefix))[0])
        keep.seconds.append(cpu_of(lambda: context.snapshot(lane.state))[0])
    lane.clear(context)
    return {
        "state_tokens": size,
        "bytes": int(found[1].nbytes),
        "again": again.json(),
        "restored": restored.json(),
        "restored_wall_ms_least": 1000 * min(wall),
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
            f"{row['again']['cpu_ms_least']:.2f}",
            f"{row['restored']['cpu_ms_least']:.2f}",
            f"{row['restored']['cpu_ms_median']:.2f}",
            f"{row['restored_wall_ms_least']:.2f}",
            f"{row['snapshot']['cpu_ms_least']:.2f}",
            str(row["largest_difference"]),
        )
        for row in rows
    ]
    print(
        table(
            ("state", "MB", "at once ms", "restored ms", "median", "wall ms", "snapshot ms", "largest difference"),
            lines,
        )
    )
    print(f"target for 1000 tokens: <= {TARGET_MS} ms, difference 0.0")


if __name__ == "__main__":
    main()
