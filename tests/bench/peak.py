"""Prefill against the matrix peak of this CPU, per CPU second on one thread.

    python -m tests.bench.peak [MODEL.gguf] [--weights bf16 f16] [--runs 5] [--json]

The peak is what NumPy's BLAS reaches with float32 products of 1024 x 1024. A CPU with dot products of
bf16 or int8 has a higher one for those, about twice and four times as high.
Work of a token: twice the numbers in the layers' matrices; attention and the output row are left out.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import json
from pathlib import Path

import numpy as np
from gguf import GGUFReader

from tests.bench import prefill, weights
from tests.bench.inputs import Tokens
from tests.bench.measure import cpu_of, table
from tests.tiny.raw import tokenize

SIZE = 1024
TARGET = 0.4


def work_per_token(path: Path) -> int:
    """Floating-point operations of the layers' matrices for one token."""
    matrices = [each for each in GGUFReader(path).tensors if each.name.startswith("blk.") and len(each.shape) == 2]
    return 2 * sum(int(each.n_elements) for each in matrices)


def blas_rate(generator: np.random.Generator) -> float:
    """Operations per CPU second of one float32 product."""
    left, right = (generator.random((SIZE, SIZE), dtype=np.float32) for _ in range(2))
    spent, _ = cpu_of(lambda: left @ right)
    return 2 * SIZE**3 / spent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="?", type=Path)
    parser.add_argument("--weights", nargs="+", choices=("file", *weights.TYPES), default=["bf16", "f16"])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    source = arguments.model or weights.default_model()
    paths = {kind: source if kind == "file" else weights.converted(source, kind) for kind in arguments.weights}
    tokens = list(Tokens(lambda text: tokenize(source, text)).state(max(prefill.SIZES), 0))
    opened = {kind: prefill.Prefill(path) for kind, path in paths.items()}
    best: dict[str, dict[tuple[int, int], float]] = {kind: {} for kind in paths}
    generator, blas = np.random.default_rng(0), 0.0
    for _ in range(arguments.runs):
        blas = max(blas, *(blas_rate(generator) for _ in range(3)))
        for kind, each in opened.items():
            prefill.rates(each, tokens, best[kind])
    rows = []
    for kind, path in paths.items():
        rate = max(best[kind].values())
        reached = rate * work_per_token(path)
        rows.append(
            {"weights": kind, "tokens_per_cpu_second": rate, "gflops": reached / 1e9, "of_blas": reached / blas}
        )
        opened[kind].close()
    if arguments.json:
        print(json.dumps({"blas_f32_gflops": blas / 1e9, "target": TARGET, "rows": rows}, indent=2))
        return
    print(f"float32 peak of NumPy's BLAS: {blas / 1e9:.0f} GFLOP/s on one thread (target: {100 * TARGET:.0f} % of it)")
    lines = [
        (
            str(row["weights"]),
            f"{row['tokens_per_cpu_second']:.0f}",
            f"{row['gflops']:.0f}",
            f"{100 * float(row['of_blas']):.0f} %",
        )
        for row in rows
    ]
    print(table(("weights", "tok/s", "GFLOP/s", "of BLAS f32"), lines))


if __name__ == "__main__":
    main()
