"""LFM2: short convolutions with attention in between."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gguf_convert.backbone import Change, rope, same

ARCHITECTURE = "lfm2"
PRE = "lfm2"

_TOP = {
    "embed_tokens.weight": "token_embd.weight",
    "embedding_norm.weight": "token_embd_norm.weight",  # so named, though it is the output norm
    "lm_head.weight": "output.weight",
}
_BLOCK = {
    "operator_norm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.out_proj": "attn_output",
    "self_attn.q_layernorm": "attn_q_norm",
    "self_attn.k_layernorm": "attn_k_norm",
    "conv.conv": "shortconv.conv",
    "conv.in_proj": "shortconv.in_proj",
    "conv.out_proj": "shortconv.out_proj",
    "ffn_norm": "ffn_norm",
    "feed_forward.w1": "ffn_gate",
    "feed_forward.w3": "ffn_up",
    "feed_forward.w2": "ffn_down",
}


def keys(config: Mapping[str, Any]) -> dict[str, Any]:
    """Header keys without the architecture's prefix."""
    pairs = config["num_key_value_heads"]
    return {
        "block_count": config["num_hidden_layers"],
        "context_length": config["max_position_embeddings"],
        "embedding_length": config["hidden_size"],
        "feed_forward_length": _feed_forward(config),
        "attention.head_count": config["num_attention_heads"],
        "attention.head_count_kv": [pairs if kind == "full_attention" else 0 for kind in config["layer_types"]],
        "attention.layer_norm_rms_epsilon": float(config["norm_eps"]),
        "rope.freq_base": float(rope(config, "rope_theta", 1000000.0)),
        "shortconv.l_cache": config["conv_L_cache"],
        "vocab_size": config["vocab_size"],
    }


def tensor(name: str, config: Mapping[str, Any]) -> tuple[str, Change] | None:
    """The GGUF's name for a tensor and what is done to its values; None for one that is left out."""
    if name in _TOP:
        return _TOP[name], same
    if not name.startswith("layers."):
        return None
    _, layer, *parts, kind = name.split(".")
    part = _BLOCK.get(".".join(parts))
    if part is None:
        return None
    return f"blk.{layer}.{part}.{kind}", (lambda array: array[:, 0]) if part == "shortconv.conv" else same


def _feed_forward(config: Mapping[str, Any]) -> int:
    """The width of the feed-forward layers, which the config may leave to be rounded."""
    width = int(config.get("block_ff_dim") or config["intermediate_size"])
    if not config.get("block_auto_adjust_ff_dim", True):
        return width
    width = int(2 * width / 3)
    width = int((config.get("block_ffn_dim_multiplier") or 1.0) * width)
    multiple = int(config.get("block_multiple_of", 256))
    return multiple * ((width + multiple - 1) // multiple)
