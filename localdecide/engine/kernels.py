"""Threads, ubatch, flash attention and padding, chosen from a short benchmark of this machine's kernels.

llama.cpp's flash attention on CPUs works on tiles of 64 rows and is slow below that many: whether it
pays, and when a few rows are better filled up to 64, differs between processors and builds.
"""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

import llama_cpp as llama
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType

from localdecide.engine import records
from localdecide.engine.kernel_timing import Bench

TILE = 64  # rows of a tile of flash attention, and the fewest it takes the fast way
UBATCHES = (64, 128, 256)
_STATE, _QUESTION = 1000, 40  # tokens of the request that choices are made for
_CELLS = 256  # llama.cpp counts KV cells in steps of so many; without flash attention empty ones cost as much
_TIE, _NEAR = 1.10, 1.05  # fewer threads, and smaller parts, may be this much slower
_DEPTH, _SLOW_ROWS, _SLOW_DEPTH = 1024, 16, 512
_WIDEST, _WEIGHTS, _MATRICES = 768, 1_300_000, (2, 256)  # of the products that are timed
_BUDGET, _ROUNDS = 0.4, (2, 10)  # seconds; fewest and most runs of each
_BUSY = 0.4  # of a run in which a thread waited: a fifth for the other threads; more, and others have the CPUs
_SHORTEST, _LONGEST = 1e-18, 1e6  # seconds that a record may hold: what is chosen is divided by them
_VERSION = 1


@dataclass(frozen=True, slots=True)
class ModelShape:
    """layers: those with attention, one at least, and the heads they have.

    weights: elements that one token is multiplied with, embeddings left out.
    kind: the ggml type that most of them have, as loaded ("F16", "Q4_K", ...).
    """

    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    weights: int
    kind: str


@dataclass(frozen=True, slots=True)
class Measured:
    """What a benchmark found, scaled to a model; CPU seconds of one thread unless told apart.

    products: one row through all weights, by rows. plain: one row on one KV cell in all heads and layers,
    without flash attention, by rows. slow and fast: the same with it, below TILE rows and in full tiles.
    walls: wall seconds of one row through the timed weights, by threads and rows; nothing by rows for
    counts of threads that had to wait for a CPU.
    """

    products: Mapping[int, float]
    plain: Mapping[int, float]
    slow: float
    fast: float
    walls: Mapping[int, Mapping[int, float]]


@dataclass(frozen=True, slots=True)
class Kernels:
    """What was chosen. row_cost: seconds of one row through the weights of the model.

    slow_cost, fast_cost: seconds of one row on one KV token with flash attention, below TILE rows and at TILE.
    reasons: why, by name, as `tuning.Tuning` has them.
    """

    threads: int
    flash_attention: bool
    ubatch: int
    row_cost: float
    slow_cost: float
    fast_cost: float
    reasons: Mapping[str, str] = field(default_factory=dict)

    @property
    def doubling(self) -> int:
        """Tokens behind which a row takes twice the time that it takes behind none."""
        return max(1, round(self.row_cost / self.fast_cost))

    def padding(self, rows: int, depth: int) -> int:
        """Rows to add to a decode of `rows` rows on `depth` KV tokens so that it is cheapest: 0 or up to TILE."""
        if not self.flash_attention or not 0 < rows < TILE:
            return 0
        bare = rows * (self.row_cost + depth * self.slow_cost)
        padded = TILE * (self.row_cost + depth * self.fast_cost)
        return TILE - rows if padded < bare else 0


def measure(shape: ModelShape, folder: Path | None, limit_threads: int, given: int = 0) -> Kernels:
    """Choices for a model on this machine, on at most `limit_threads` threads, or on `given` where that is not 0.

    What was measured is kept in `folder`, one file per machine and shape, and used again: choices move the
    last bits of answers. Without a folder, or where it takes no file, it is kept as long as the process lives.
    """
    path = folder / _record_name(shape) if folder is not None else None
    found = (_read(path, shape) if path is not None else None) or _kept.get(shape)
    counts = thread_counts(given or limit_threads)
    if found is None or any(count not in found.walls for count in counts):
        found = _merged(found, _benchmark(shape, counts), path, shape)
    return choose(shape, found, counts, given)


_kept: dict[ModelShape, Measured] = {}


def _merged(found: Measured | None, new: Measured, path: Path | None, shape: ModelShape) -> Measured:
    """Another count of CPUs adds speeds of threads and leaves the rest as it was."""
    if path is not None:
        found = _read(path, shape) or found  # another process may have been faster
    if found is not None:
        walls = {**found.walls, **new.walls}
        new = Measured(found.products, found.plain, found.slow, found.fast, walls)
    if path is None or not _write(path, shape, new):
        _kept[shape] = new
    return new


def thread_counts(limit: int) -> tuple[int, ...]:
    """Counts worth trying: 1, all, and halves and quarters of all (cores have two threads, or two sizes)."""
    counts = {1, limit, limit * 3 // 4}
    while limit > 1:
        counts.add(limit)
        limit //= 2
    return tuple(sorted(count for count in counts if count > 0))


def choose(shape: ModelShape, measured: Measured, counts: tuple[int, ...], given: int = 0) -> Kernels:
    """The choices that follow from what was measured; `counts` of threads are open, unless one is `given`.

    Counts that a busy machine kept from being measured leave it at the most: what keeps it busy may end.
    """
    passed = {count: sum(measured.walls[count].values()) for count in counts if measured.walls[count]}
    best = min(passed.values())
    if given or len(passed) < len(counts):
        threads = given or max(counts)
    else:
        threads = min(count for count in counts if passed[count] <= _TIE * best)
    costs = Costs(shape, measured, threads)
    parts = {flash: costs.part(flash) for flash in (True, False)}
    # A state, a question on it, and another one later: what is gained on the one is lost on the others.
    totals = {flash: costs.state(parts[flash], flash) + 2 * costs.decode(_QUESTION, _STATE, flash) for flash in parts}
    flash = totals[True] < totals[False]
    ubatch = parts[flash]
    fastest = min(UBATCHES, key=lambda size: costs.state(size, flash))
    near = costs.state(ubatch, flash) / costs.state(fastest, flash)
    gain = totals[True] / totals[False]
    reasons = {
        "num_thread": _why(passed, counts, threads),
        "num_ubatch": f"a state takes {near:.2f} of the time of parts of {fastest}, measured",
        "flash_attention": f"a state and two questions take {gain:.2f} of the time with it, measured",
    }
    fast = measured.fast * tile_rows(TILE, shape.heads, threads) / TILE
    return Kernels(threads, flash, ubatch, measured.products[TILE], measured.slow, fast, reasons)


def _why(passed: Mapping[int, float], counts: tuple[int, ...], threads: int) -> str:
    if len(passed) < len(counts):
        return "CPUs this process may use; the machine was too busy to measure fewer"
    return f"{passed[threads] / passed[1]:.2f} of the time of one thread, measured with {', '.join(map(str, counts))}"


@dataclass(frozen=True, slots=True)
class Costs:
    """Seconds of decodes, added up from what was measured. Norms, rotations and sums are not in it."""

    shape: ModelShape
    measured: Measured
    threads: int

    def part(self, flash: bool) -> int:
        """The smallest ubatch with which a state is read nearly as fast as with the best."""
        times = {size: self.state(size, flash) for size in UBATCHES}
        return min(size for size in UBATCHES if times[size] <= _NEAR * min(times.values()))

    def state(self, ubatch: int, flash: bool) -> float:
        """A state read in parts of `ubatch` rows."""
        starts = range(0, _STATE, ubatch)
        return sum(self.decode(min(ubatch, _STATE - start), start, flash) for start in starts)

    def decode(self, rows: int, start: int, flash: bool) -> float:
        """`rows` rows of one sequence after `start` tokens; with flash attention padded if that is cheaper."""
        if not flash:
            cells = math.ceil((start + rows) / _CELLS) * _CELLS
            return self._products(rows) + rows * cells * _nearest(self.measured.plain, rows) / self._speedup(rows)
        # Tiles that the causal mask hides are skipped: the n-th tile of rows sees the start and n tiles.
        tiles = math.ceil(rows / TILE)
        seen = start + TILE * (tiles + 1) / 2
        work = tile_rows(max(rows, TILE), self.shape.heads, self.threads) * seen * self.measured.fast
        tiled = self._products(max(rows, TILE)) + work / self._speedup(rows)
        if rows >= TILE:
            return tiled
        bare = rows * (start + (rows + 1) / 2) * self.measured.slow / self._speedup(rows)
        return min(tiled, self._products(rows) + bare)

    def _products(self, rows: int) -> float:
        return rows * _nearest(self.measured.products, rows) / self._speedup(rows)

    def _speedup(self, rows: int) -> float:
        walls = self.measured.walls
        if not walls[self.threads]:
            return self.threads
        return _nearest(walls[1], rows) / _nearest(walls[self.threads], rows)


def _nearest(costs: Mapping[int, float], rows: int) -> float:
    """What was measured for the most rows that are not more than `rows`, or for the fewest."""
    return costs[max((size for size in costs if size <= rows), default=min(costs))]


def tile_rows(rows: int, heads: int, threads: int) -> float:
    """Rows that flash attention computes in place of `rows`, per head.

    ggml deals the rows of all heads out in four equal chunks a thread. A tile ends where its head or its
    chunk does and costs the same whether full or not, so chunks that cut tiles cost more on several threads.
    """
    total = rows * heads
    chunks = threads
    if threads > 1:
        chunks = max(threads, math.ceil(total / math.ceil(total / (4 * threads))))
    length = math.ceil(total / chunks)
    tiles = 0
    for begin in range(0, total, length):
        row, end = begin, min(begin + length, total)
        while row < end:
            row += min(TILE, end - row, rows - row % rows)
            tiles += 1
    return tiles * TILE / heads


def _benchmark(shape: ModelShape, counts: tuple[int, ...]) -> Measured:
    started = time.perf_counter()
    block = GGML_QUANT_SIZES[GGMLQuantizationType[shape.kind]][0]
    width = max(block, min(_WIDEST, shape.heads * shape.head_dim) // block * block)
    matrices = min(max(_MATRICES[0], _WEIGHTS // width**2), _MATRICES[1])  # ggml aborts on graphs that are too long
    # One KV head is enough, with the query heads that share it; the layout knows of the others.
    heads = min(4, max(1, shape.heads // shape.kv_heads))
    sizes = (heads, min(8, shape.kv_heads), shape.head_dim)
    spent: dict[tuple[str, int, int], float] = {}
    passed: dict[tuple[str, int, int], float] = {}
    waited: dict[tuple[str, int, int], float] = {}
    with Bench() as bench:
        graphs: dict[tuple[str, int], int] = {
            **{("product", rows): bench.product(shape.kind, width, rows, matrices) for rows in UBATCHES},
            **{("plain", rows): bench.plain(*sizes, rows, _DEPTH) for rows in (_QUESTION, *UBATCHES)},
            ("flash", _SLOW_ROWS): bench.flash(*sizes, _SLOW_ROWS, _SLOW_DEPTH),
            ("flash", TILE): bench.flash(*sizes, TILE, _DEPTH),
        }
        # One run of each after the other, so that a busy moment meets all of them alike.
        for done in range(_ROUNDS[1]):
            if done >= _ROUNDS[0] and time.perf_counter() - started > _BUDGET:
                break
            for (name, rows), graph in graphs.items():
                for threads in counts if name == "product" else (1,):
                    key = (name, rows, threads)
                    cpu, wall = bench.run(graph, threads)
                    spent[key] = min(cpu, spent.get(key, math.inf))
                    if wall < passed.get(key, math.inf):
                        passed[key], waited[key] = wall, 1 - cpu / wall
    products = shape.weights / (matrices * width**2)
    attention = shape.layers * shape.heads / heads
    return Measured(
        products={rows: products * spent["product", rows, 1] / rows for rows in UBATCHES},
        plain={rows: attention * spent["plain", rows, 1] / (rows * _DEPTH) for rows in (_QUESTION, *UBATCHES)},
        slow=attention * spent["flash", _SLOW_ROWS, 1] / (_SLOW_ROWS * _SLOW_DEPTH),
        fast=attention * spent["flash", TILE, 1] / (TILE * _DEPTH),
        walls={
            count: {rows: passed["product", rows, count] / rows for rows in UBATCHES}
            if count == 1 or waited["product", max(UBATCHES), count] < _BUSY
            else {}
            for count in counts
        },
    )


def _machine() -> str:
    """What a measurement holds for: this build on this kind of processor."""
    return f"llama-cpp-python {llama.__version__}: {llama.llama_print_system_info().decode().strip()}"


def _record_name(shape: ModelShape) -> str:
    text = json.dumps([_machine(), asdict(shape)])
    return f"kernels-{hashlib.sha256(text.encode()).hexdigest()[:16]}.json"


def _read(path: Path, shape: ModelShape) -> Measured | None:
    """None for no record, a damaged one, or one of another machine, model or version."""
    try:
        record = json.loads(path.read_text())
        if (record["version"], record["machine"], record["shape"]) != (_VERSION, _machine(), asdict(shape)):
            return None
        walls = {int(count): _numbers(each, UBATCHES) if each else {} for count, each in record["walls"].items()}
        return Measured(
            products=_numbers(record["products"], UBATCHES),
            plain=_numbers(record["plain"], (_QUESTION, *UBATCHES)),
            slow=_positive(record["slow"]),
            fast=_positive(record["fast"]),
            walls={1: _numbers(record["walls"]["1"], UBATCHES), **walls},
        )
    except (OSError, ValueError, TypeError, LookupError, AttributeError, OverflowError, RecursionError):
        return None


def _numbers(found: Mapping[str, float], rows: tuple[int, ...]) -> dict[int, float]:
    return {count: _positive(found[str(count)]) for count in rows}


def _positive(value: float) -> float:
    if not _SHORTEST < float(value) < _LONGEST:
        raise ValueError(f"{value} is no time")
    return float(value)


def _write(path: Path, shape: ModelShape, measured: Measured) -> bool:
    """False where the folder takes no file, which only means that it is measured again."""
    record = {"version": _VERSION, "machine": _machine(), "shape": asdict(shape), **asdict(measured)}
    try:
        records.write(path, json.dumps(record))
    except OSError:
        return False
    return True
