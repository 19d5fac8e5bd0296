"""Tiny random models that llama.cpp loads like any other: 3 MB, a few milliseconds to write and load.

    from tests.tiny import build

    model = build("qwen35", tmp_path / "m.gguf", seed=1, metadata={"qwen35.decision.type": "lev"})

`build(arch, path, *, seed=0, template=None, metadata=None, tensors=None, name=None, **config)` writes a
GGUF in F32 and returns a `TinyModel`:

- `arch`: "qwen3" (attention), "qwen35" (gated delta-net and attention), "llama" (its rope pairs
  neighbours; text begins with BOS), "lfm2" (short convolutions and attention; `causal=False` writes
  `lfm2.attention.causal`), "modern-bert" (an encoder: no logits). "gemma3" (layers that
  see a window of 16 tokens) is for the engine's tests: it has no checkpoint.
- `seed`: the same seed, the same file, byte for byte.
- `template`: `tokenizer.chat_template`. `metadata`: more header keys in full, or other values for
  those that are there. `tensors`: more GGUF tensors (a head). `name`: `general.name`.
- `config`: replaces values of the module's CONFIG, which are those of Hugging Face's config.json:
  `hidden_size=32`, `layer_types=[...]`, `tie_word_embeddings=True`.

`TinyModel.weights` holds the checkpoint's tensors by Hugging Face name, for PyTorch and for converters;
`.tensors` the GGUF's; `.config` the settings; `.vocabulary` the tokenizer: `.id("<|im_end|>")`,
`.id(" A")`, `.specials`, `.tokens`, `.merges`.

The vocabulary is a real byte-level BPE (see `vocabulary.py`) in which every label is one token: A to Z,
AA to ZZ, a to z, 0 to 9, 00 to 99 (where the pre-tokenizer keeps digits together: not in the Qwens), yes
and no in their cases; letters and words also behind a space. Special tokens: ChatML, think, vision, fim and box
for the Qwens; `<|startoftext|>`, `<|mask|>` and `<|reserved_7|>` to `_11` for lfm2; Llama 3's headers;
`[CLS]`, `[SEP]`, `[MASK]` for modern-bert.

`checkpoint.save(model, folder, prefix="", **config)` writes the model as Hugging Face would serve it
(config.json, model.safetensors, tokenizer.json), for converters and for transformers.

`raw.decode(path, tokens, causal=None)` is llama.cpp without the product in between: hidden rows after
the output norm and logits. `raw.tokenize(path, text, special=False)` is its tokenizer.
`reference.forward(model, tokens, causal=True)` is the same network in PyTorch (tests marked `reference`).
"""

from __future__ import annotations

import pathlib
from typing import Any

from tests.tiny import gemma3, lfm2, llama, modern_bert, qwen3, qwen35
from tests.tiny.model import TinyModel

BUILDERS = {
    "qwen3": qwen3.build,
    "qwen35": qwen35.build,
    "llama": llama.build,
    "lfm2": lfm2.build,
    "modern-bert": modern_bert.build,
}


def build(arch: str, path: pathlib.Path | str, **options: Any) -> TinyModel:
    """Writes a tiny model of `arch`; see the module's text for the options."""
    return (BUILDERS | {"gemma3": gemma3.build})[arch](path, **options)
