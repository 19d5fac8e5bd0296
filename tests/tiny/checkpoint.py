"""A tiny model as the folder that Hugging Face would serve: config, safetensors, tokenizer."""

from __future__ import annotations

import json
import pathlib
import struct
from collections.abc import Mapping
from typing import Any

import numpy as np

from tests.tiny.model import Array, TinyModel
from tests.tiny.vocabulary import CONTROL, NORMAL, TinyVocabulary

_LETTERS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|"
_REST = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"

# How each pre-tokenizer cuts text before the merges, as its tokenizer.json says it.
_SPLITS = {
    "qwen2": _LETTERS + r"\p{N}" + _REST,
    "qwen35": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}"
    r"| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    "llama-bpe": _LETTERS + r"\p{N}{1,3}" + _REST,
    "lfm2": _LETTERS + r"\p{N}{1,3}" + _REST,
}


def save(model: TinyModel, folder: pathlib.Path | str, *, prefix: str = "", **config: Any) -> pathlib.Path:
    """Writes config.json, model.safetensors, tokenizer.json and tokenizer_config.json into `folder`.

    prefix: put before every tensor's name. config: replaces or adds values of config.json.
    """
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    settings = hub_config(model) | config
    (folder / "config.json").write_text(json.dumps(settings, indent=2), encoding="utf-8")
    write_safetensors(folder / "model.safetensors", {prefix + name: array for name, array in model.weights.items()})
    write_tokenizer(model.vocabulary, folder)
    return folder


def hub_config(model: TinyModel) -> dict[str, Any]:
    """config.json as transformers 5 writes it, with the rope's settings in `rope_parameters`."""
    settings = dict(model.config)
    rope = {
        key: settings.pop(key) for key in ("rope_theta", "partial_rotary_factor", "mrope_section") if key in settings
    }
    if rope:
        settings["rope_parameters"] = {"rope_type": "default"} | rope
    settings["eos_token_id"] = model.vocabulary.eos
    if model.vocabulary.bos is not None:
        settings["bos_token_id"] = model.vocabulary.bos
    return settings


def write_safetensors(path: pathlib.Path | str, tensors: Mapping[str, Array]) -> None:
    """The safetensors format in F32: a length, a JSON header, the data."""
    header: dict[str, Any] = {}
    offset = 0
    for name, array in tensors.items():
        header[name] = {"dtype": "F32", "shape": list(array.shape), "data_offsets": [offset, offset + 4 * array.size]}
        offset += 4 * array.size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for array in tensors.values():
            file.write(np.ascontiguousarray(array, dtype="<f4").tobytes())


def write_tokenizer(vocabulary: TinyVocabulary, folder: pathlib.Path | str) -> None:
    """tokenizer.json and tokenizer_config.json."""
    folder = pathlib.Path(folder)
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer_json(vocabulary)), encoding="utf-8")
    texts = vocabulary.tokens
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": None if vocabulary.bos is None else texts[vocabulary.bos],
        "eos_token": texts[vocabulary.eos],
        "pad_token": texts[vocabulary.pad],
        "added_tokens_decoder": {
            str(token["id"]): {key: value for key, value in token.items() if key != "id"}
            for token in _added(vocabulary)
        },
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(settings, indent=2), encoding="utf-8")


def tokenizer_json(vocabulary: TinyVocabulary) -> dict[str, Any]:
    """The tokenizer as Hugging Face's tokenizers library reads it; nothing is added to a text."""
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}
    if vocabulary.pre in _SPLITS:
        split = {
            "type": "Split",
            "pattern": {"Regex": _SPLITS[vocabulary.pre]},
            "behavior": "Isolated",
            "invert": False,
        }
        cut: dict[str, Any] = {"type": "Sequence", "pretokenizers": [split, byte_level]}
    else:
        cut = byte_level | {"use_regex": True}
    ordinary = [text for text, kind in zip(vocabulary.tokens, vocabulary.types, strict=True) if kind == NORMAL]
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": _added(vocabulary),
        "normalizer": None,
        "pre_tokenizer": cut,
        "post_processor": None,
        "decoder": byte_level,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": {text: number for number, text in enumerate(ordinary)},
            "merges": [list(pair) for pair in vocabulary.merges],
        },
    }


def _added(vocabulary: TinyVocabulary) -> list[dict[str, Any]]:
    return [
        {
            "id": number,
            "content": text,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": vocabulary.types[number] == CONTROL,
        }
        for text, number in vocabulary.specials.items()
    ]
