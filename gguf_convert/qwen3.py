"""Qwen3: attention with normalised queries and keys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gguf_convert.backbone import Change, rope, same

ARCHITECTURE = "qwen3"
PRE = "qwen2"

TOP = {
    "embed_tokens.weight": "token_embd.weight",
    "norm.weight": "output_norm.weight",
    "lm_head.weight": "output.weight",
}
BLOCK = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}


def keys(config: Mapping[str, Any]) -> dict[str, Any]:
    """Header keys without the architecture's prefix."""
    return {
        "block_count": config["num_hidden_layers"],
        "context_length": config["max_position_embeddings"],
        "embedding_length": config["hidden_size"],
        "feed_forward_length": config["intermediate_size"],
        "attention.head_count": config["num_attention_heads"],
        "attention.head_count_kv": config["num_key_value_heads"],
        "attention.key_length": config["head_dim"],
        "attention.value_length": config["head_dim"],
        "attention.layer_norm_rms_epsilon": float(config["rms_norm_eps"]),
        "rope.freq_base": float(rope(config, "rope_theta", 10000.0)),
    }


def tensor(name: str, config: Mapping[str, Any]) -> tuple[str, Change] | None:
    """The GGUF's name for a tensor and what is done to its values; None for one that is left out."""
    if name in TOP:
        return TOP[name], same
    if not name.startswith("layers."):
        return None
    _, layer, *parts, kind = name.split(".")
    part = BLOCK.get(".".join(parts))
    return None if part is None else (f"blk.{layer}.{part}.{kind}", same)
