"""Llama 3: plain attention whose rotary pairs are neighbours in the GGUF, and text that begins with BOS."""

from __future__ import annotations

import pathlib
from collections.abc import Mapping
from typing import Any

from tests.tiny import qwen3
from tests.tiny.model import Array, Random, TinyModel, write
from tests.tiny.vocabulary import LLAMA, vocabulary

CONFIG: dict[str, Any] = qwen3.CONFIG | {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "rms_norm_eps": 1e-5,
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
    words = vocabulary("llama-bpe", LLAMA, eos="<|eot_id|>", pad="<|end_of_text|>", bos="<|begin_of_text|>")
    settings["vocab_size"] = len(words)
    weights = qwen3.random_weights(settings, Random(seed), qk_norm=False)
    stored = {qwen3.gguf_name(key): _values(key, array, settings) for key, array in weights.items()}
    stored |= dict(tensors or {})
    keys = qwen3.keys(settings) | {"rope.dimension_count": settings["head_dim"], "vocab_size": len(words)}
    written = write(path, "llama", stored, keys, words, template=template, metadata=metadata, name=name)
    return TinyModel(written, "llama", settings, weights, stored, words)


def _values(name: str, array: Array, config: Mapping[str, Any]) -> Array:
    """Rows of queries and keys, so that what rotary embedding turns together lies together."""
    if not name.endswith(("q_proj.weight", "k_proj.weight")):
        return array
    halves = array.reshape(-1, 2, config["head_dim"] // 2, array.shape[1])
    return halves.swapaxes(1, 2).reshape(array.shape)
