"""How much memory a model will take, from its header, and how much there is.

An estimate, not a promise: it is there to refuse what cannot work and to choose how many models stay.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from localdecide.scheduler.machine import Reading

# What the child needs before any model: Python, NumPy, llama.cpp, its threads.
PROCESS = 110 * 2**20
# Memory that stays free for everything else on the machine.
SPARE = 0.1
# The runner's sizes where no PARAMETER says otherwise; `engine/tuning.py` has the reasons.
CONTEXT = 4096
UBATCH = 256
BRANCHES = 512
OUTPUTS = 64
MOST_PARALLEL, MOST_OUTPUTS = 64, 256
RECURRENT_SEQUENCES = 8
KV_BYTES = {"f16": 2, "f32": 4}


@dataclass(frozen=True, slots=True)
class Shape:
    """What of a GGUF header the estimate needs.

    kv_heads: by layer, 0 where a layer keeps a recurrent state instead. recurrent_bytes: that state, one
    sequence, all layers. weights: bytes of all files. causal: False for models that read a prompt at once.
    """

    weights: int
    kv_heads: tuple[int, ...] = ()
    key_length: int = 0
    value_length: int = 0
    recurrent_bytes: int = 0
    embedding_length: int = 0
    feed_forward_length: int = 0
    heads: int = 0
    vocabulary: int = 0
    context_train: int = 0
    causal: bool = True


@dataclass(frozen=True, slots=True)
class Estimate:
    """Bytes by purpose. context: tokens it is made for."""

    context: int
    weights: int
    kv: int
    recurrent: int
    compute: int
    process: int = PROCESS

    @property
    def total(self) -> int:
        return self.weights + self.kv + self.recurrent + self.compute + self.process


def estimate(shape: Shape, parameters: Mapping[str, Any], parallel: int = 1) -> Estimate:
    """parameters: num_ctx, num_ubatch, kv_cache_type and flash_attention of the model, where given.

    parallel: requests that may share decode calls, each with cells and outputs of its own, up to what an
    engine takes.

    KV cache: cells x layers' heads x (key + value length) x bytes a number, cells being the context and
    two waves of branches on top of it. Compute buffer: the widest tensors of one ubatch in float32, measured to be
    about twice (residual, attention and feed-forward rows), and one row of the vocabulary for each output.
    """
    context = int(parameters.get("num_ctx") or 0) or min(shape.context_train or CONTEXT, CONTEXT)
    ubatch = int(parameters.get("num_ubatch") or UBATCH)
    if not shape.causal:
        ubatch = max(ubatch, context)
    shares = shape.causal and not shape.recurrent_bytes
    lanes = min(parallel, MOST_PARALLEL) if shares else 1
    cells = (context + BRANCHES) * lanes
    number = KV_BYTES.get(str(parameters.get("kv_cache_type", "f16")), 4)
    kv = cells * sum(shape.kv_heads) * (shape.key_length + shape.value_length) * number
    rows = 8 * shape.embedding_length + 3 * shape.feed_forward_length
    outputs = min(OUTPUTS * lanes, MOST_OUTPUTS)
    # Flash attention never holds the scores of all cells at once; whether it is used is measured at the load.
    scores = 0 if parameters.get("flash_attention") == "on" else shape.heads * cells
    return Estimate(
        context=context,
        weights=shape.weights,
        kv=kv if shape.causal else 0,
        recurrent=shape.recurrent_bytes * RECURRENT_SEQUENCES,
        compute=4 * (ubatch * rows + min(ubatch, UBATCH) * scores + outputs * shape.vocabulary),
    )


def usable(setting: int, reading: Reading, resident: int) -> int:
    """Bytes that all runners may use together.

    setting: LOCALDECIDE_MEMORY, 0 for none. reading: the machine. resident: what runners are thought to use now.
    """
    if setting:
        return setting
    return max(0, min(int(reading.total * (1 - SPARE)), reading.available + resident))


def cache_bytes(setting: int, budget: int) -> int:
    """A runner's state cache: as set, but no more than an eighth of what there is."""
    return min(setting, budget // 8)


def file_bytes(*paths: str | None) -> int:
    """Bytes of the files that are given."""
    return sum(Path(path).stat().st_size for path in paths if path)
