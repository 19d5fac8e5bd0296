"""Threads, ubatch, flash attention and padding follow from measured numbers, measured once per machine."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest

from localdecide.engine import kernels
from localdecide.engine.kernels import Costs, Kernels, Measured, ModelShape, choose, measure, thread_counts, tile_rows

SHAPE = ModelShape(layers=2, heads=6, kv_heads=2, head_dim=64, weights=1 << 20, kind="F16")
ROWS = (64, 128, 256)


def measured(
    products: tuple[float, float, float] = (1e-3, 1e-3, 1e-3),
    plain: float = 1e-6,
    slow: float = 1e-5,
    fast: float = 1e-6,
    walls: dict[int, float] | None = None,
) -> Measured:
    """Invented numbers: a row through the weights takes 1 ms, a row on 1000 tokens 1 ms, 10 ms the slow way."""
    return Measured(
        products=dict(zip(ROWS, products, strict=True)),
        plain=dict.fromkeys((40, *ROWS), plain),
        slow=slow,
        fast=fast,
        walls={count: dict.fromkeys(ROWS, wall) for count, wall in (walls or {1: 1.0}).items()},
    )


def chosen(found: Measured) -> Kernels:
    return choose(SHAPE, found, tuple(found.walls))


def fixed(*, flash: bool = True, slow: float = 1e-5) -> Kernels:
    return Kernels(1, flash, 64, row_cost=1e-3, slow_cost=slow, fast_cost=1e-6)


def test_few_rows_are_padded_where_a_full_tile_is_cheaper() -> None:
    """64 rows at 2 ms cost 128 ms on 1000 tokens; one row below 64 costs 11 ms, so 12 rows are dearer than 64."""
    assert [0, 0, 52, 24, 1, 0, 0] == [fixed().padding(rows, 1000) for rows in (1, 11, 12, 40, 63, 64, 100)]


def test_padding_depends_on_the_depth() -> None:
    """Without tokens to attend to, padding only adds rows; the deeper the state, the sooner it pays."""
    assert [0, 0, 52, 52] == [fixed().padding(12, depth) for depth in (0, 100, 1000, 4000)]


def test_nothing_is_padded_without_need() -> None:
    """Not without flash attention, not where its kernel is as fast below 64 rows, not an empty decode."""
    assert [0, 0, 0] == [
        fixed(flash=False).padding(40, 1000),
        fixed(slow=1e-6).padding(40, 1000),
        fixed().padding(0, 1000),
    ]


@pytest.mark.parametrize(
    ("walls", "threads"),
    [
        ({1: 1.0, 2: 0.55, 4: 0.3}, 4),
        ({1: 1.0, 2: 0.5, 4: 0.48}, 2),
        ({1: 1.0, 2: 0.95, 4: 0.92}, 1),
        ({1: 1.0, 2: 0.5, 4: 3.0}, 2),
    ],
)
def test_the_fewest_threads_that_are_nearly_fastest(walls: dict[int, float], threads: int) -> None:
    """More threads must gain more than a tenth, and too many lose."""
    found = chosen(measured(walls=walls))

    assert threads == found.threads
    assert found.reasons["num_thread"].startswith(f"{walls[threads]:.2f} of the time of one thread")


@pytest.mark.parametrize(
    ("products", "ubatch"),
    [
        ((1.0e-3, 1.0e-3, 1.0e-3), 64),
        ((1.5e-3, 1.0e-3, 1.0e-3), 128),
        ((1.5e-3, 1.5e-3, 1.0e-3), 256),
        ((1.0e-3, 1.5e-3, 1.5e-3), 64),
    ],
)
def test_the_smallest_parts_that_are_nearly_fastest(products: tuple[float, float, float], ubatch: int) -> None:
    """Small parts let short requests in between, unless the products of their rows are slower."""
    found = chosen(measured(products))

    assert ubatch == found.ubatch
    assert found.reasons["num_ubatch"].startswith("a state takes 1.0")


def test_parts_are_larger_where_threads_need_more_rows() -> None:
    """Two threads that gain nothing on 64 rows and half the time on 256 make larger parts the better ones."""
    found = replace(measured(), walls={1: dict.fromkeys(ROWS, 1.0), 2: {64: 1.0, 128: 0.7, 256: 0.5}})

    assert (2, 256) == (chosen(found).threads, chosen(found).ubatch)


def test_flash_attention_is_used_where_a_request_is_cheaper_with_it() -> None:
    """A state and two questions of 40 rows: a fast tile pays, a slow one does not."""
    cheap, dear = chosen(measured(fast=0.5e-6)), chosen(measured(fast=3e-6))

    assert (True, False) == (cheap.flash_attention, dear.flash_attention)
    assert cheap.reasons["flash_attention"] < "a state and two questions take 1.00" < dear.reasons["flash_attention"]


def test_a_question_that_is_slow_with_it_outweighs_a_state_that_is_hardly_faster() -> None:
    """Padding 40 rows to 64 costs 24 rows of products: flash attention must win them back over the state."""
    found = measured(fast=1.1e-6)
    costs = Costs(SHAPE, found, 1)

    assert costs.state(256, True) < costs.state(256, False)
    assert costs.decode(40, 1000, True) > costs.decode(40, 1000, False)
    assert not chosen(measured((1e-2, 1e-2, 1e-2), fast=1.1e-6)).flash_attention


def test_what_a_decode_costs() -> None:
    """Rows times weights, plus rows times cells: steps of 256 without flash attention, visible tiles with it."""
    costs = Costs(SHAPE, measured(), 1)
    twice = Costs(SHAPE, measured(walls={1: 1.0, 2: 0.5}), 2)

    assert costs.decode(40, 1000, False) == pytest.approx(40e-3 + 40 * 1280e-6)
    assert costs.decode(128, 0, True) == pytest.approx(128e-3 + 128 * 96e-6)
    assert costs.decode(8, 1000, True) == pytest.approx(8e-3 + 8 * 1004.5e-5)
    assert costs.decode(40, 1000, True) == pytest.approx(64e-3 + 64 * 1064e-6)
    assert twice.decode(40, 1000, False) == pytest.approx(20e-3 + 20 * 1280e-6)


def test_tiles_that_chunks_cut_count_whole() -> None:
    """One thread fills every tile; two threads cut 9 heads of 64 rows into 8 chunks of 72, two tiles each."""
    assert [64, 128] == [tile_rows(64, 9, 1), tile_rows(80, 9, 1)]
    assert [16 * 64 / 9, 64] == [tile_rows(64, 9, 2), tile_rows(64, 8, 2)]
    assert chosen(measured(walls={1: 1.0, 2: 0.5})).fast_cost == pytest.approx(1e-6 * tile_rows(64, 6, 2) / 64)


def test_the_counts_of_threads_that_are_tried() -> None:
    """One, all, three quarters, and halves of halves."""
    assert [(1,), (1, 2), (1, 2, 3, 4), (1, 2, 4, 8, 12, 16)] == [thread_counts(count) for count in (1, 2, 4, 16)]


def refuse(*_: object) -> Measured:
    raise AssertionError("measured again")


def test_this_machine_is_measured_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers are finite and positive, the sizes among those offered, and the record is used again."""
    folder = tmp_path / "derived"
    first = measure(SHAPE, folder, 2)
    monkeypatch.setattr(kernels, "_benchmark", refuse)

    assert first.threads in (1, 2)
    assert first.ubatch in ROWS
    assert all(0 < cost < math.inf for cost in (first.row_cost, first.slow_cost, first.fast_cost))
    assert {"num_thread", "num_ubatch", "flash_attention"} == set(first.reasons)
    assert first == measure(SHAPE, folder, 2)
    assert 1 == measure(SHAPE, folder, 1).threads
    assert 1 == len(list(folder.iterdir()))


@pytest.mark.parametrize("kind", ["BF16", "Q4_0", "Q4_K", "Q8_0"])
def test_weights_of_every_layout_are_measured(kind: str) -> None:
    """Types that llama.cpp repacks at load, and those it leaves alone, K-quants on rows of 256 included."""
    found = measure(replace(SHAPE, kind=kind), None, 1)

    assert 0 < found.row_cost < math.inf


def test_the_narrowest_models_are_measured() -> None:
    """Their weights are thousands of small matrices, more than one graph takes: some of them stand for all."""
    found = measure(replace(SHAPE, heads=1, kv_heads=1, head_dim=8, kind="F32"), None, 1)

    assert 0 < found.row_cost < math.inf


def counted(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, ...]]:
    """Invented numbers in place of the benchmark; the counts of threads of every call."""
    calls: list[tuple[int, ...]] = []

    def benchmark(_: ModelShape, counts: tuple[int, ...]) -> Measured:
        calls.append(counts)
        return measured((len(calls) * 1e-3,) * 3, walls=dict.fromkeys(counts, 1.0))

    monkeypatch.setattr(kernels, "_benchmark", benchmark)
    monkeypatch.setattr(kernels, "_kept", {})
    return calls


@pytest.mark.parametrize(
    "change",
    [
        {"machine": "another"},
        {"version": 0},
        {"shape": {}},
        {"slow": -1.0},
        {"slow": 10**400},
        {"slow": math.nan},
        {"fast": 1e-320},
        {"products": dict.fromkeys(map(str, ROWS), 1e308)},
        {"fast": None},
        {"products": {"64": 1.0}},
        {"plain": []},
        {"walls": {}},
    ],
)
def test_a_record_that_does_not_hold_is_measured_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: dict[str, object]
) -> None:
    """Another machine's, another version's and one with a missing or impossible number: replaced by a good one."""
    calls = counted(monkeypatch)
    measure(SHAPE, tmp_path, 1)
    (record,) = tmp_path.iterdir()
    record.write_text(json.dumps({**json.loads(record.read_text()), **change}))

    assert 2e-3 == measure(SHAPE, tmp_path, 1).row_cost
    assert 2e-3 == measure(SHAPE, tmp_path, 1).row_cost
    assert 2 == len(calls)


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "\x00", "[" * 100_000])
def test_a_damaged_record_is_measured_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """Half a file or something else altogether counts for nothing."""
    calls = counted(monkeypatch)
    measure(SHAPE, tmp_path, 1)
    (record,) = tmp_path.iterdir()
    record.write_text(text)

    assert 2e-3 == measure(SHAPE, tmp_path, 1).row_cost
    assert 2 == len(calls)


def test_more_cpus_measure_threads_and_keep_the_rest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A choice that moves the bits of answers stays when a container gets another CPU."""
    calls = counted(monkeypatch)
    first, second, third = (measure(SHAPE, tmp_path, limit) for limit in (1, 2, 2))

    assert [(1,), (1, 2)] == calls
    assert 1e-3 == first.row_cost == second.row_cost == third.row_cost


def test_every_model_shape_has_a_record_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two models do not overwrite each other."""
    calls = counted(monkeypatch)
    for _ in range(2):
        measure(SHAPE, tmp_path, 1)
        measure(replace(SHAPE, kind="BF16"), tmp_path, 1)

    assert 2 == len(calls)
    assert 2 == len(list(tmp_path.iterdir()))


def test_without_a_folder_a_process_measures_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """None, and a folder that cannot be made, keep the numbers in memory."""
    calls = counted(monkeypatch)
    (tmp_path / "blocked").write_text("")
    for folder in (None, None, tmp_path / "blocked" / "derived"):
        assert 1e-3 == measure(SHAPE, folder, 1).row_cost

    assert 1 == len(calls)


def test_a_busy_machine_keeps_all_its_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counts that had to wait say nothing of what they can; that choice is kept like any other."""
    calls: list[tuple[int, ...]] = []

    def busy(shape: ModelShape, counts: tuple[int, ...]) -> Measured:
        calls.append(counts)
        return replace(measured(), walls={1: dict.fromkeys(ROWS, 1.0), 2: {}, 3: {}, 4: dict.fromkeys(ROWS, 0.9)})

    monkeypatch.setattr(kernels, "_benchmark", busy)
    first, second, given = measure(SHAPE, tmp_path, 4), measure(SHAPE, tmp_path, 4), measure(SHAPE, tmp_path, 4, 2)

    assert (4, 4, 2, 1) == (first.threads, second.threads, given.threads, len(calls))
    assert "busy" in first.reasons["num_thread"]


def test_a_folder_that_takes_no_file_measures_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store on a disk that cannot be written still serves."""
    calls = counted(monkeypatch)
    (tmp_path / "blocked").write_text("")
    for _ in range(2):
        assert 1e-3 == measure(SHAPE, tmp_path / "blocked" / "derived", 1).row_cost

    assert 1 == len(calls)
