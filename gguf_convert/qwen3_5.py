"""Qwen3.5: gated delta-net layers with full attention in between.

What llama.cpp wants otherwise than the checkpoint has it: value heads of the delta-net dealt out over
the key heads, the decay as -exp(A_log), a flat convolution, and the 1 that most norms leave out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gguf_convert import qwen3
from gguf_convert.backbone import Change, rope, same
from gguf_convert.checkpoint import Array

ARCHITECTURE = "qwen35"
PRE = "qwen35"

_BLOCK = {
    "input_layernorm.weight": "attn_norm.weight",
    "self_attn.q_proj.weight": "attn_q.weight",
    "self_attn.k_proj.weight": "attn_k.weight",
    "self_attn.v_proj.weight": "attn_v.weight",
    "self_attn.o_proj.weight": "attn_output.weight",
    "self_attn.q_norm.weight": "attn_q_norm.weight",
    "self_attn.k_norm.weight": "attn_k_norm.weight",
    "linear_attn.in_proj_qkv.weight": "attn_qkv.weight",
    "linear_attn.in_proj_z.weight": "attn_gate.weight",
    "linear_attn.in_proj_b.weight": "ssm_beta.weight",
    "linear_attn.in_proj_a.weight": "ssm_alpha.weight",
    "linear_attn.conv1d.weight": "ssm_conv1d.weight",
    "linear_attn.A_log": "ssm_a",
    "linear_attn.dt_bias": "ssm_dt.bias",
    "linear_attn.norm.weight": "ssm_norm.weight",
    "linear_attn.out_proj.weight": "ssm_out.weight",
    "post_attention_layernorm.weight": "post_attention_norm.weight",
    "mlp.gate_proj.weight": "ffn_gate.weight",
    "mlp.up_proj.weight": "ffn_up.weight",
    "mlp.down_proj.weight": "ffn_down.weight",
}


def keys(config: Mapping[str, Any]) -> dict[str, Any]:
    """Header keys without the architecture's prefix."""
    head = config["head_dim"]
    sections = list(rope(config, "mrope_section", [11, 11, 10]))
    return qwen3.keys(config) | {
        "attention.recurrent_layers": [kind == "linear_attention" for kind in config["layer_types"]],
        "rope.dimension_count": int(head * rope(config, "partial_rotary_factor", 0.25)),
        "rope.dimension_sections": [*sections, *[0] * (4 - len(sections))],
        "ssm.conv_kernel": config["linear_conv_kernel_dim"],
        "ssm.state_size": config["linear_key_head_dim"],
        "ssm.group_count": config["linear_num_key_heads"],
        "ssm.time_step_rank": config["linear_num_value_heads"],
        "ssm.inner_size": config["linear_num_value_heads"] * config["linear_value_head_dim"],
    }


def tensor(name: str, config: Mapping[str, Any]) -> tuple[str, Change] | None:
    """The GGUF's name for a tensor and what is done to its values; None for one that is left out."""
    if name in qwen3.TOP:
        return qwen3.TOP[name], _plus_one if name == "norm.weight" else same
    layer, _, rest = name.removeprefix("layers.").partition(".")
    if not name.startswith("layers.") or rest not in _BLOCK:
        return None
    return f"blk.{layer}.{_BLOCK[rest]}", _change(rest, config)


def _change(rest: str, config: Mapping[str, Any]) -> Change:
    keys_ = config["linear_num_key_heads"] * config["linear_key_head_dim"]
    heads = _dealt(config)
    rows = _rows(heads, config["linear_value_head_dim"])
    match rest.removeprefix("linear_attn.").removesuffix(".weight"):
        case "in_proj_qkv":
            return lambda array: np.concatenate([array[: 2 * keys_], array[2 * keys_ :][rows]])
        case "conv1d":
            return lambda array: np.concatenate([array[: 2 * keys_, 0], array[2 * keys_ :, 0][rows]])
        case "in_proj_z":
            return lambda array: array[rows]
        case "in_proj_a" | "in_proj_b" | "dt_bias":
            return lambda array: array[heads]
        case "A_log":
            return lambda array: -np.exp(array[heads])
        case "out_proj":
            return lambda array: array[:, rows]
        case "norm":
            return same
    return _plus_one if rest.endswith("norm.weight") else same


def _dealt(config: Mapping[str, Any]) -> NDArray[np.intp]:
    """Value heads in llama.cpp's order: the first of each key head, then the second of each."""
    keys_, values = config["linear_num_key_heads"], config["linear_num_value_heads"]
    order: NDArray[np.intp] = np.arange(values).reshape(keys_, values // keys_).T.reshape(-1)
    return order


def _rows(heads: NDArray[np.intp], width: int) -> NDArray[np.intp]:
    rows: NDArray[np.intp] = (heads[:, None] * width + np.arange(width)[None, :]).reshape(-1)
    return rows


def _plus_one(array: Array) -> Array:
    return array + np.float32(1)
