"""ModernBERT: an encoder whose layers take turns between seeing everything and a window."""

from __future__ import annotations

import pathlib
from collections.abc import Mapping
from typing import Any

from tests.tiny.model import Array, Random, TinyModel, Weights, write
from tests.tiny.vocabulary import BERT, TinyVocabulary, vocabulary

CONFIG: dict[str, Any] = {
    "architectures": ["ModernBertModel"],
    "model_type": "modernbert",
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "global_attn_every_n_layers": 3,
    "local_attention": 8,
    "global_rope_theta": 160000.0,
    "local_rope_theta": 10000.0,
    "hidden_activation": "gelu",
    "norm_eps": 1e-5,
    "max_position_embeddings": 2048,
}

_BLOCK = {
    "attn_norm": "attn_norm",
    "attn.Wqkv": "attn_qkv",
    "attn.Wo": "attn_output",
    "mlp_norm": "ffn_norm",
    "mlp.Wi": "ffn_up",
    "mlp.Wo": "ffn_down",
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
    """Writes the model; `config` replaces values of CONFIG.

    name: one with "modern-bert" in it makes llama.cpp strip spaces left of [MASK].
    hidden_activation "silu" has no half-precision table in llama.cpp, so it agrees more closely.
    """
    settings = CONFIG | config
    words = vocabulary("modern-bert", BERT, eos="[SEP]", pad="[PAD]", bos="[CLS]")
    settings["vocab_size"] = len(words)
    settings |= {"pad_token_id": words.pad, "bos_token_id": words.bos, "eos_token_id": words.eos}
    settings |= {"cls_token_id": words.bos, "sep_token_id": words.eos}
    weights = random_weights(settings, Random(seed))
    stored = {gguf_name(key): array for key, array in weights.items()} | dict(tensors or {})
    header = _tokens(words) | dict(metadata or {})
    written = write(
        path,
        "modern-bert",
        stored,
        keys(settings),
        words,
        template=template,
        metadata=header,
        name=name or "tiny encoder",
    )
    return TinyModel(written, "modern-bert", settings, weights, stored, words)


def _tokens(words: TinyVocabulary) -> dict[str, Any]:
    return {
        "tokenizer.ggml.cls_token_id": words.id("[CLS]"),
        "tokenizer.ggml.seperator_token_id": words.id("[SEP]"),  # spelled so in GGUF
        "tokenizer.ggml.mask_token_id": words.id("[MASK]"),
        "tokenizer.ggml.unknown_token_id": words.id("[UNK]"),
        "tokenizer.ggml.add_eos_token": True,
        "tokenizer.ggml.add_sep_token": True,
    }


def random_weights(config: Mapping[str, Any], random: Random) -> Weights:
    width, inner = config["hidden_size"], config["intermediate_size"]
    weights: Weights = {
        "embeddings.tok_embeddings.weight": random.normal((config["vocab_size"], width)),
        "embeddings.norm.weight": random.around(1, width),
    }
    for layer in range(config["num_hidden_layers"]):
        at = f"layers.{layer}."
        if layer:  # the first layer has no norm of its own
            weights[f"{at}attn_norm.weight"] = random.around(1, width)
        weights[f"{at}attn.Wqkv.weight"] = random.matrix(3 * width, width, gain=1.4)
        weights[f"{at}attn.Wo.weight"] = random.matrix(width, width)
        weights[f"{at}mlp_norm.weight"] = random.around(1, width)
        weights[f"{at}mlp.Wi.weight"] = random.matrix(2 * inner, width)
        weights[f"{at}mlp.Wo.weight"] = random.matrix(width, inner)
    weights["final_norm.weight"] = random.around(1, width)
    return weights


def gguf_name(name: str) -> str:
    """The GGUF's name for a tensor of the checkpoint."""
    top = {
        "embeddings.tok_embeddings.weight": "token_embd.weight",
        "embeddings.norm.weight": "token_embd_norm.weight",
        "final_norm.weight": "output_norm.weight",
    }
    if name in top:
        return top[name]
    _, layer, *parts, kind = name.split(".")
    return f"blk.{layer}.{_BLOCK['.'.join(parts)]}.{kind}"


def keys(config: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "block_count": config["num_hidden_layers"],
        "context_length": config["max_position_embeddings"],
        "embedding_length": config["hidden_size"],
        "feed_forward_length": config["intermediate_size"],
        "attention.head_count": config["num_attention_heads"],
        "attention.layer_norm_epsilon": config["norm_eps"],
        "attention.causal": False,
        "attention.sliding_window": config["local_attention"],
        "attention.sliding_window_pattern": config["global_attn_every_n_layers"],
        "rope.freq_base": config["global_rope_theta"],
        "rope.freq_base_swa": config["local_rope_theta"],
        "rope.scaling.type": "none",
        "hidden_activation": config["hidden_activation"],
        "vocab_size": config["vocab_size"],
    }
