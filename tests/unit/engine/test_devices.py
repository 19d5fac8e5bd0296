"""Layers on a GPU: as many as fit, the last ones first."""

from __future__ import annotations

from pathlib import Path

import pytest

from localdecide.engine.devices import ALL, free_bytes, layer_bytes, layers_that_fit
from tests.tiny import build


@pytest.mark.parametrize(
    ("free", "count"), [(0, 0), (10, 0), (13, 1), (50, 1), (76, 2), (138, 3), (199, 3), (200, ALL), (10**9, ALL)]
)
def test_layers_that_fit(free: int, count: int) -> None:
    """Four fifths of the free memory holds the output first, then blocks from the end."""
    assert count == layers_that_fit([50, 50, 50, 10], free)


def test_bytes_of_a_files_layers(tmp_path: Path) -> None:
    """Every block has its bytes; the last number is the output's."""
    model = build("llama", tmp_path / "m.gguf", seed=1)
    sizes = layer_bytes(str(tmp_path / "m.gguf"))

    assert len(sizes) - 1 == len({name.split(".")[1] for name in model.tensors if name.startswith("blk.")})
    assert all(size > 10_000 for size in sizes[:-1])


def test_this_build_can_be_asked() -> None:
    """A build without a GPU has none, and says so without harm."""
    assert free_bytes() >= 0
