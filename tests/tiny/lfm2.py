"""LFM2: short convolutions with attention in between; one flag makes it see both ways."""

from __future__ import annotations

import pathlib
from collections.abc import Mapping
from typing import Any

from tests.tiny.model import Array, Random, TinyModel, Weights, write
from tests.tiny.vocabulary import LFM2, vocabulary

CONV, FULL = "conv", "full_attention"

CONFIG: dict[str, Any] = {
    "architectures": ["Lfm2ForCausalLM"],
    "model_type": "lfm2",
    "hidden_size": 64,
    "intermediate_size": 128,
    "block_auto_adjust_ff_dim": False,
    "num_hidden_layers": 4,
    "layer_types": [CONV, CONV, FULL, CONV],
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "conv_L_cache": 3,
    "norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "max_position_embeddings": 4096,
    "tie_word_embeddings": True,
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


def build(
    path: pathlib.Path | str,
    *,
    seed: int = 0,
    causal: bool = True,
    template: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    tensors: Mapping[str, Array] | None = None,
    name: str | None = None,
    **config: Any,
) -> TinyModel:
    """Writes the model; `config` replaces values of CONFIG.

    causal: False writes `lfm2.attention.causal`, as LiquidAI's bidirectional models have it: attention
    sees everything and convolutions are centred.
    """
    settings = CONFIG | config
    settings["num_hidden_layers"] = len(settings["layer_types"])
    words = vocabulary("lfm2", LFM2, eos="<|im_end|>", pad="<|pad|>", bos="<|startoftext|>")
    settings["vocab_size"] = len(words)
    weights = random_weights(settings, Random(seed))
    stored = {gguf_name(key): array[:, 0] if array.ndim == 3 else array for key, array in weights.items()}
    stored |= dict(tensors or {})
    header = keys(settings) | ({} if causal else {"attention.causal": False})
    written = write(path, "lfm2", stored, header, words, template=template, metadata=metadata, name=name)
    return TinyModel(written, "lfm2", settings, weights, stored, words)


def random_weights(config: Mapping[str, Any], random: Random) -> Weights:
    width, inner, heads = config["hidden_size"], config["intermediate_size"], config["num_attention_heads"]
    head = width // heads
    pairs = config["num_key_value_heads"] * head
    tied = config["tie_word_embeddings"]
    weights: Weights = {"model.embed_tokens.weight": random.normal((config["vocab_size"], width), 0.5 if tied else 1.0)}
    for layer, kind in enumerate(config["layer_types"]):
        at = f"model.layers.{layer}."
        weights[f"{at}operator_norm.weight"] = random.around(1, width)
        if kind == FULL:
            weights[f"{at}self_attn.q_proj.weight"] = random.matrix(width, width)
            weights[f"{at}self_attn.k_proj.weight"] = random.matrix(pairs, width)
            weights[f"{at}self_attn.v_proj.weight"] = random.matrix(pairs, width)
            weights[f"{at}self_attn.out_proj.weight"] = random.matrix(width, width)
            weights[f"{at}self_attn.q_layernorm.weight"] = random.around(1.5, head)
            weights[f"{at}self_attn.k_layernorm.weight"] = random.around(1.5, head)
        else:
            weights[f"{at}conv.conv.weight"] = random.normal((width, 1, config["conv_L_cache"]), 0.6)
            weights[f"{at}conv.in_proj.weight"] = random.matrix(3 * width, width)
            weights[f"{at}conv.out_proj.weight"] = random.matrix(width, width)
        weights[f"{at}ffn_norm.weight"] = random.around(1, width)
        weights[f"{at}feed_forward.w1.weight"] = random.matrix(inner, width)
        weights[f"{at}feed_forward.w3.weight"] = random.matrix(inner, width)
        weights[f"{at}feed_forward.w2.weight"] = random.matrix(width, inner)
    weights["model.embedding_norm.weight"] = random.around(1, width)
    if not tied:
        weights["lm_head.weight"] = random.matrix(config["vocab_size"], width, gain=4)
    return weights


def gguf_name(name: str) -> str:
    """The GGUF's name for a tensor of the checkpoint."""
    top = {
        "model.embed_tokens.weight": "token_embd.weight",
        "model.embedding_norm.weight": "token_embd_norm.weight",  # so named, though it is the output norm
        "lm_head.weight": "output.weight",
    }
    if name in top:
        return top[name]
    _, _, layer, *parts, kind = name.split(".")
    return f"blk.{layer}.{_BLOCK['.'.join(parts)]}.{kind}"


def keys(config: Mapping[str, Any]) -> dict[str, Any]:
    pairs = config["num_key_value_heads"]
    return {
        "block_count": config["num_hidden_layers"],
        "context_length": config["max_position_embeddings"],
        "embedding_length": config["hidden_size"],
        "feed_forward_length": config["intermediate_size"],
        "attention.head_count": config["num_attention_heads"],
        "attention.head_count_kv": [pairs if kind == FULL else 0 for kind in config["layer_types"]],
        "attention.layer_norm_rms_epsilon": config["norm_eps"],
        "rope.freq_base": config["rope_theta"],
        "shortconv.l_cache": config["conv_L_cache"],
        "vocab_size": config["vocab_size"],
    }
