"""Qwen3 with experts: the text part of Qwen3-Omni's thinker, and Qwen3-MoE itself."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from gguf_convert import qwen3
from gguf_convert.backbone import Change, same
from gguf_convert.checkpoint import Array, ConversionError, Tensor

ARCHITECTURE = "qwen3moe"
PRE = "qwen2"

_EXPERT = re.compile(r"(?P<layer>.*layers\.\d+\.mlp)\.experts\.(?P<number>\d+)\.(?P<part>gate|up|down)_proj\.weight")
_STACKED = re.compile(r"layers\.(?P<layer>\d+)\.mlp\.experts\.(?P<part>gate|up|down)\.weight")


def keys(config: Mapping[str, Any]) -> dict[str, Any]:
    """Header keys without the architecture's prefix. Raises ConversionError for what llama.cpp cannot say."""
    if not config.get("norm_topk_prob", True):
        raise ConversionError("experts whose weights are not normalised are not supported")
    return qwen3.keys(config) | {
        "expert_count": config["num_experts"],
        "expert_used_count": config["num_experts_per_tok"],
        "expert_feed_forward_length": config["moe_intermediate_size"],
    }


def prepare(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The same tensors, with those of a layer's experts stacked. Raises ConversionError for a missing one."""
    found: dict[str, Tensor] = {}
    experts: dict[str, dict[int, Tensor]] = {}
    for name, tensor_ in tensors.items():
        match = _EXPERT.fullmatch(name)
        if match is None:
            found[name] = tensor_
        else:
            experts.setdefault(f"{match['layer']}.experts.{match['part']}.weight", {})[int(match["number"])] = tensor_
    for name, rows in experts.items():
        if sorted(rows) != list(range(len(rows))):
            raise ConversionError(f"{name}: experts are missing")
        found[name] = _stacked([rows[number] for number in range(len(rows))])
    return found


def tensor(name: str, config: Mapping[str, Any]) -> tuple[str, Change] | None:
    """The GGUF's name for a tensor and what is done to its values; None for one that is left out."""
    if match := _STACKED.fullmatch(name):
        return f"blk.{match['layer']}.ffn_{match['part']}_exps.weight", same
    if name.endswith(".mlp.gate.weight"):
        return f"blk.{name.split('.')[1]}.ffn_gate_inp.weight", same
    return qwen3.tensor(name, config)


def _stacked(parts: list[Tensor]) -> Tensor:
    def read() -> Array:
        return np.stack([part() for part in parts])

    return Tensor((len(parts), *parts[0].shape), read)
