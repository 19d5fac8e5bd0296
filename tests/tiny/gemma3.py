"""Gemma 3: attention in which most layers see a window of the last tokens only, with norms behind each half too."""

from __future__ import annotations

import pathlib
from collections.abc import Mapping
from typing import Any

from tests.tiny import qwen3
from tests.tiny.model import Array, Random, TinyModel, write
from tests.tiny.vocabulary import QWEN, vocabulary

CONFIG: dict[str, Any] = qwen3.CONFIG | {
    "architectures": ["Gemma3ForCausalLM"],
    "model_type": "gemma3_text",
    "num_hidden_layers": 7,  # llama.cpp lets every sixth layer see everything
    "sliding_window": 16,
    "tie_word_embeddings": True,
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
    random = Random(seed)
    weights = qwen3.random_weights(settings, random)
    stored = {qwen3.gguf_name(key): array for key, array in weights.items()}
    for layer in range(settings["num_hidden_layers"]):
        for norm in ("post_attention_norm", "post_ffw_norm"):
            stored[f"blk.{layer}.{norm}.weight"] = random.around(1, settings["hidden_size"])
    stored |= dict(tensors or {})
    keys = qwen3.keys(settings) | {"attention.sliding_window": settings["sliding_window"]}
    written = write(path, "gemma3", stored, keys, words, template=template, metadata=metadata, name=name)
    return TinyModel(written, "gemma3", settings, weights, stored, words)
