"""Qwen3: attention alone, with normalised queries and keys."""

from __future__ import annotations

import pathlib
from collections.abc import Mapping
from typing import Any

from tests.tiny.model import Array, Random, TinyModel, Weights, write
from tests.tiny.vocabulary import QWEN, vocabulary

CONFIG: dict[str, Any] = {
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "rms_norm_eps": 1e-6,
    "rope_theta": 10000.0,
    "max_position_embeddings": 4096,
    "tie_word_embeddings": False,
}

_BLOCK = {
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


def build(
    path: pathlib.Path | str,
    *,
    seed: int = 0,
    template: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    tensors: Mapping[str, Array] | None = None,
    name: str | None = None,
    **config: Any,
) -> TinyModel:
    """Writes the model; `config` replaces values of CONFIG."""
    settings = CONFIG | config
    words = vocabulary("qwen2", QWEN, eos="<|im_end|>", pad="<|endoftext|>")
    settings["vocab_size"] = len(words)
    weights = random_weights(settings, Random(seed))
    stored = {gguf_name(key): array for key, array in weights.items()} | dict(tensors or {})
    written = write(path, "qwen3", stored, keys(settings), words, template=template, metadata=metadata, name=name)
    return TinyModel(written, "qwen3", settings, weights, stored, words)


def random_weights(config: Mapping[str, Any], random: Random, *, qk_norm: bool = True) -> Weights:
    width, inner, head = config["hidden_size"], config["intermediate_size"], config["head_dim"]
    queries, pairs = config["num_attention_heads"] * head, config["num_key_value_heads"] * head
    weights: Weights = {"model.embed_tokens.weight": random.normal((config["vocab_size"], width))}
    for layer in range(config["num_hidden_layers"]):
        at = f"model.layers.{layer}."
        weights[f"{at}input_layernorm.weight"] = random.around(1, width)
        weights[f"{at}self_attn.q_proj.weight"] = random.matrix(queries, width)
        weights[f"{at}self_attn.k_proj.weight"] = random.matrix(pairs, width)
        weights[f"{at}self_attn.v_proj.weight"] = random.matrix(pairs, width)
        weights[f"{at}self_attn.o_proj.weight"] = random.matrix(width, queries)
        if qk_norm:
            weights[f"{at}self_attn.q_norm.weight"] = random.around(1.5, head)
            weights[f"{at}self_attn.k_norm.weight"] = random.around(1.5, head)
        weights[f"{at}post_attention_layernorm.weight"] = random.around(1, width)
        weights[f"{at}mlp.gate_proj.weight"] = random.matrix(inner, width)
        weights[f"{at}mlp.up_proj.weight"] = random.matrix(inner, width)
        weights[f"{at}mlp.down_proj.weight"] = random.matrix(width, inner)
    weights["model.norm.weight"] = random.around(1, width)
    if not config["tie_word_embeddings"]:
        weights["lm_head.weight"] = random.matrix(config["vocab_size"], width, gain=4)
    return weights


def gguf_name(name: str) -> str:
    """The GGUF's name for a tensor of the checkpoint."""
    top = {
        "model.embed_tokens.weight": "token_embd.weight",
        "model.norm.weight": "output_norm.weight",
        "lm_head.weight": "output.weight",
    }
    if name in top:
        return top[name]
    _, _, layer, *parts, kind = name.split(".")
    return f"blk.{layer}.{_BLOCK['.'.join(parts)]}.{kind}"


def keys(config: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "block_count": config["num_hidden_layers"],
        "context_length": config["max_position_embeddings"],
        "embedding_length": config["hidden_size"],
        "feed_forward_length": config["intermediate_size"],
        "attention.head_count": config["num_attention_heads"],
        "attention.head_count_kv": config["num_key_value_heads"],
        "attention.key_length": config["head_dim"],
        "attention.value_length": config["head_dim"],
        "attention.layer_norm_rms_epsilon": config["rms_norm_eps"],
        "rope.freq_base": config["rope_theta"],
    }
