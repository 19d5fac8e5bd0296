"""ModernBERT and mmBERT: encoders whose layers take turns between seeing everything and a window."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gguf_convert.backbone import Change, same

ARCHITECTURE = "modern-bert"
PRE = "modern-bert"

_TOP = {
    "embeddings.tok_embeddings.weight": "token_embd.weight",
    "embeddings.norm.weight": "token_embd_norm.weight",
    "final_norm.weight": "output_norm.weight",
}
_BLOCK = {
    "attn_norm": "attn_norm",
    "attn.Wqkv": "attn_qkv",
    "attn.Wo": "attn_output",
    "mlp_norm": "ffn_norm",
    "mlp.Wi": "ffn_up",
    "mlp.Wo": "ffn_down",
}


def keys(config: Mapping[str, Any]) -> dict[str, Any]:
    """Header keys without the architecture's prefix."""
    return {
        "block_count": config["num_hidden_layers"],
        "context_length": config["max_position_embeddings"],
        "embedding_length": config["hidden_size"],
        "feed_forward_length": config["intermediate_size"],
        "attention.head_count": config["num_attention_heads"],
        "attention.layer_norm_epsilon": float(config["norm_eps"]),
        "attention.causal": False,
        "attention.sliding_window": config["local_attention"],
        "attention.sliding_window_pattern": config["global_attn_every_n_layers"],
        "rope.freq_base": _theta(config, "full_attention", "global_rope_theta", 160000.0),
        "rope.freq_base_swa": _theta(config, "sliding_attention", "local_rope_theta", 10000.0),
        "rope.scaling.type": "none",
        "hidden_activation": config.get("hidden_activation", "gelu"),
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
    return None if part is None else (f"blk.{layer}.{part}.{kind}", same)


def _theta(config: Mapping[str, Any], kind: str, old: str, default: float) -> float:
    """The rope's base of a kind of layer, where either generation of config.json puts it."""
    parameters = config.get("rope_parameters") or {}
    chosen = parameters.get(kind, {}).get("rope_theta")
    return float(chosen or config.get(old) or default)
