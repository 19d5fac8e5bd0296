"""Qwen3.5: gated delta-net layers with full attention in between."""

from __future__ import annotations

import pathlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from tests.tiny.model import Array, Random, TinyModel, Weights, write
from tests.tiny.vocabulary import QWEN, vocabulary

LINEAR, FULL = "linear_attention", "full_attention"

CONFIG: dict[str, Any] = {
    "architectures": ["Qwen3_5ForCausalLM"],
    "model_type": "qwen3_5_text",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 4,
    "layer_types": [LINEAR, LINEAR, LINEAR, FULL],
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "attn_output_gate": True,
    "linear_conv_kernel_dim": 4,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_key_head_dim": 16,
    "linear_value_head_dim": 16,
    "rms_norm_eps": 1e-6,
    "rope_theta": 10000.0,
    # A quarter of 16 dimensions is four: two frequencies, shared by the text, height and width positions.
    "partial_rotary_factor": 0.25,
    "mrope_section": [1, 1, 0],
    "max_position_embeddings": 4096,
    "tie_word_embeddings": False,
}

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
    """Writes the model; `config` replaces values of CONFIG. Give `layer_types` to change the layers."""
    settings = CONFIG | config
    settings["num_hidden_layers"] = len(settings["layer_types"])
    words = vocabulary("qwen35", QWEN, eos="<|im_end|>", pad="<|endoftext|>")
    settings["vocab_size"] = len(words)
    weights = random_weights(settings, Random(seed))
    stored = dict(gguf_tensor(key, array, settings) for key, array in weights.items()) | dict(tensors or {})
    written = write(path, "qwen35", stored, keys(settings), words, template=template, metadata=metadata, name=name)
    return TinyModel(written, "qwen35", settings, weights, stored, words)


def random_weights(config: Mapping[str, Any], random: Random) -> Weights:
    width, inner, head = config["hidden_size"], config["intermediate_size"], config["head_dim"]
    queries, pairs = config["num_attention_heads"] * head, config["num_key_value_heads"] * head
    key_width = config["linear_num_key_heads"] * config["linear_key_head_dim"]
    values = config["linear_num_value_heads"]
    value_width = values * config["linear_value_head_dim"]
    channels = 2 * key_width + value_width
    weights: Weights = {"model.embed_tokens.weight": random.normal((config["vocab_size"], width))}
    for layer, kind in enumerate(config["layer_types"]):
        at = f"model.layers.{layer}."
        # All norms but the delta-net's own store their weight minus one.
        weights[f"{at}input_layernorm.weight"] = random.around(0, width)
        if kind == FULL:
            weights[f"{at}self_attn.q_proj.weight"] = random.matrix(2 * queries, width)  # queries and their gates
            weights[f"{at}self_attn.k_proj.weight"] = random.matrix(pairs, width)
            weights[f"{at}self_attn.v_proj.weight"] = random.matrix(pairs, width)
            weights[f"{at}self_attn.o_proj.weight"] = random.matrix(width, queries, gain=2)
            weights[f"{at}self_attn.q_norm.weight"] = random.around(0.5, head)
            weights[f"{at}self_attn.k_norm.weight"] = random.around(0.5, head)
        else:
            at_linear = f"{at}linear_attn."
            weights[f"{at_linear}in_proj_qkv.weight"] = random.matrix(channels, width)
            weights[f"{at_linear}in_proj_z.weight"] = random.matrix(value_width, width)
            weights[f"{at_linear}in_proj_b.weight"] = random.matrix(values, width)
            weights[f"{at_linear}in_proj_a.weight"] = random.matrix(values, width)
            weights[f"{at_linear}conv1d.weight"] = random.normal((channels, 1, config["linear_conv_kernel_dim"]), 0.6)
            weights[f"{at_linear}A_log"] = np.log(random.uniform(0.05, 1, values))
            weights[f"{at_linear}dt_bias"] = random.normal((values,), 0.5)
            weights[f"{at_linear}norm.weight"] = random.around(1, config["linear_value_head_dim"])
            weights[f"{at_linear}out_proj.weight"] = random.matrix(width, value_width, gain=2)
        weights[f"{at}post_attention_layernorm.weight"] = random.around(0, width)
        weights[f"{at}mlp.gate_proj.weight"] = random.matrix(inner, width)
        weights[f"{at}mlp.up_proj.weight"] = random.matrix(inner, width)
        weights[f"{at}mlp.down_proj.weight"] = random.matrix(width, inner)
    weights["model.norm.weight"] = random.around(0, width)
    if not config["tie_word_embeddings"]:
        weights["lm_head.weight"] = random.matrix(config["vocab_size"], width, gain=4)
    return weights


def gguf_tensor(name: str, array: Array, config: Mapping[str, Any]) -> tuple[str, Array]:
    """The GGUF's name and values for a tensor of the checkpoint.

    llama.cpp wants the value heads of the delta-net dealt out over the key heads (0, 2, 1, 3 for four
    over two), the decay as -exp(A_log), the convolution flat and the missing one added to norms.
    """
    top = {
        "model.embed_tokens.weight": "token_embd.weight",
        "model.norm.weight": "output_norm.weight",
        "lm_head.weight": "output.weight",
    }
    if name in top:
        return top[name], array + 1 if name == "model.norm.weight" else array
    _, _, layer, rest = name.split(".", 3)
    return f"blk.{layer}.{_BLOCK[rest]}", _values(rest, array, config)


def _values(rest: str, array: Array, config: Mapping[str, Any]) -> Array:
    key_width = config["linear_num_key_heads"] * config["linear_key_head_dim"]
    order = np.arange(config["linear_num_value_heads"]).reshape(config["linear_num_key_heads"], -1).T.reshape(-1)
    size = config["linear_value_head_dim"]
    columns = (order[:, None] * size + np.arange(size)).reshape(-1)
    match rest:
        case "linear_attn.in_proj_qkv.weight":
            return np.concatenate([array[: 2 * key_width], array[2 * key_width :][columns]])
        case "linear_attn.conv1d.weight":
            flat = array[:, 0]
            return np.concatenate([flat[: 2 * key_width], flat[2 * key_width :][columns]])
        case "linear_attn.in_proj_z.weight":
            return array[columns]
        case "linear_attn.in_proj_a.weight" | "linear_attn.in_proj_b.weight" | "linear_attn.dt_bias":
            return array[order]
        case "linear_attn.A_log":
            return -np.exp(array[order])
        case "linear_attn.out_proj.weight":
            return array[:, columns]
        case "linear_attn.norm.weight":
            return array
    return array + 1 if rest.endswith("norm.weight") else array


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
        "attention.recurrent_layers": [kind == LINEAR for kind in config["layer_types"]],
        "rope.freq_base": config["rope_theta"],
        "rope.dimension_count": int(config["head_dim"] * config["partial_rotary_factor"]),
        "rope.dimension_sections": [*config["mrope_section"], 0],
        "ssm.conv_kernel": config["linear_conv_kernel_dim"],
        "ssm.state_size": config["linear_key_head_dim"],
        "ssm.group_count": config["linear_num_key_heads"],
        "ssm.time_step_rank": config["linear_num_value_heads"],
        "ssm.inner_size": config["linear_num_value_heads"] * config["linear_value_head_dim"],
    }
