"""tokenizer.json as the keys of a GGUF: byte-level BPE, BPE over plain characters, and unigram pieces."""

from __future__ import annotations

import base64
from typing import Any

from gguf_convert.checkpoint import Checkpoint, ConversionError

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 2, 3, 4, 5, 6
SPACE = "\u2581"
# tokenizer_config.json's name of a special token, and GGUF's.
_NAMED = {
    "bos_token": ("bos",),
    "eos_token": ("eos",),
    "pad_token": ("padding",),
    "unk_token": ("unknown",),
    "cls_token": ("cls",),
    "sep_token": ("seperator",),  # spelled so in GGUF
    "mask_token": ("mask",),
}


def tokenizer_keys(checkpoint: Checkpoint, pre: str, size: int, folder: str = "") -> dict[str, Any]:
    """`tokenizer.ggml.*`. pre: llama.cpp's name of the pre-tokenizer; size: rows of the embedding.

    folder: where the tokenizer lies in the checkpoint. Raises ConversionError for a kind that is not known.
    """
    at = f"{folder}/" if folder else ""
    source = checkpoint.json(f"{at}tokenizer.json")
    config = checkpoint.json(f"{at}tokenizer_config.json") if checkpoint.has(f"{at}tokenizer_config.json") else {}
    model = source["model"]
    kind = model.get("type", "BPE")
    keys: dict[str, Any]
    if kind == "BPE":
        tokens = _by_id(model["vocab"])
        merges = [pair if isinstance(pair, str) else " ".join(pair) for pair in model["merges"]]
        keys = {"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": pre, "tokenizer.ggml.merges": merges}
    elif kind == "Unigram":
        tokens = [piece for piece, _ in model["vocab"]]
        keys = {"tokenizer.ggml.model": "t5", "tokenizer.ggml.pre": "default"} | _unigram(source)
    else:
        raise ConversionError(f"tokenizers of the kind {kind} are not known")
    scores = [float(score) for _, score in model["vocab"]] if kind == "Unigram" else []
    types = [BYTE if _is_byte(token) and model.get("byte_fallback") else NORMAL for token in tokens]
    for added in sorted(source.get("added_tokens", []), key=lambda token: int(token["id"])):
        _place(added, tokens, types, pre)
    _fill(tokens, types, size)
    if model.get("unk_id") is not None and kind == "Unigram":
        types[int(model["unk_id"])] = UNKNOWN
    keys |= {"tokenizer.ggml.tokens": tokens, "tokenizer.ggml.token_type": types}
    if kind == "Unigram":
        keys["tokenizer.ggml.scores"] = scores + [0.0] * (len(tokens) - len(scores))
    return keys | _special_ids(config, tokens)


def token_texts(checkpoint: Checkpoint, *names: str, folder: str = "") -> list[str]:
    """Texts of special tokens by their names in tokenizer_config.json. Raises ConversionError."""
    at = f"{folder}/" if folder else ""
    config = checkpoint.json(f"{at}tokenizer_config.json")
    texts = [_text(config.get(name)) for name in names]
    if None in texts:
        raise ConversionError(f"{at}tokenizer_config.json names no {names[texts.index(None)]}")
    return [str(text) for text in texts]


def _by_id(vocabulary: dict[str, int]) -> list[str]:
    tokens = [""] * (max(vocabulary.values()) + 1)
    for text, number in vocabulary.items():
        tokens[number] = text
    return tokens


def _place(added: dict[str, Any], tokens: list[str], types: list[int], pre: str) -> None:
    number, text = int(added["id"]), str(added["content"])
    _fill(tokens, types, number + 1)
    tokens[number], types[number] = text, CONTROL if added.get("special") else USER_DEFINED
    if pre == "mmbert" and not added.get("special") and text and not text.strip(" "):
        # Runs of spaces are words of U+2581 by the time they are looked up.
        tokens[number], types[number] = SPACE * len(text), NORMAL


def _fill(tokens: list[str], types: list[int], size: int) -> None:
    """Rows of the embedding that no token has."""
    for number in range(len(tokens), size):
        tokens.append(f"[PAD{number}]")
        types.append(UNUSED)
    for number, text in enumerate(tokens):
        if not text:
            tokens[number], types[number] = f"[PAD{number}]", UNUSED


def _unigram(source: dict[str, Any]) -> dict[str, Any]:
    keys: dict[str, Any] = {"tokenizer.ggml.add_space_prefix": True, "tokenizer.ggml.remove_extra_whitespaces": True}
    normalizer = source.get("normalizer") or {}
    for step in normalizer.get("normalizers", [normalizer]):
        if step.get("type") == "Precompiled" and step.get("precompiled_charsmap"):
            keys["tokenizer.ggml.precompiled_charsmap"] = base64.b64decode(step["precompiled_charsmap"])
    return keys


def _special_ids(config: dict[str, Any], tokens: list[str]) -> dict[str, Any]:
    index = {text: number for number, text in enumerate(tokens)}
    keys: dict[str, Any] = {
        "tokenizer.ggml.add_bos_token": bool(config.get("add_bos_token", False)),
        "tokenizer.ggml.add_eos_token": bool(config.get("add_eos_token", False)),
    }
    for name, targets in _NAMED.items():
        text = _text(config.get(name))
        for target in targets:
            if text in index:
                keys[f"tokenizer.ggml.{target}_token_id"] = index[text]
    return keys


def _text(value: Any) -> str | None:
    return str(value["content"]) if isinstance(value, dict) else value


def _is_byte(token: str) -> bool:
    return len(token) == 6 and token.startswith("<0x") and token.endswith(">")
