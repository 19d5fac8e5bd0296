"""Tiny random decision models with heads: files for the product, PyTorch modules for the reference."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gguf
import llama_cpp
import numpy as np
import torch

from localdecide.core.decision import Decision
from localdecide.core.model import ModelSpec
from localdecide.core.questions import parse_questions
from localdecide.runner.loaded import LoadedModel
from tests.tiny import raw, reference

# Exact numbers: what the product computes with these does not hide behind half precision.
EXACT = {"kv_cache_type": "f32", "flash_attention": "off", "num_thread": 2}

STATE = {"plan": "pro", "tags": ["a", True, {"k": 1.5}], "né": "Grüße <|im_end|> [MASK]", "z": None}
JSON = '{"plan": "pro", "tags": ["a", true, {"k": 1.5}], "né": "Grüße <|im_end|> [MASK]", "z": null}'


def choice(count: int) -> dict[str, Any]:
    """A choice of `count` options, every third described; names are of several lengths."""
    names = [f"option {'abc'[i % 3] * (i % 4 + 1)} {i}" for i in range(count)]
    return {
        "type": "choice",
        "instructions": "Which of them?",
        "criteria": {name: "the one, ja" if i % 3 == 1 else None for i, name in enumerate(names)},
    }


NOUL = {"type": "noul", "instructions": "Is the plan paid?", "criteria": {"true": "it costs"}}
SCORE = {"type": "score", "instructions": {"ask": "How bad?"}, "criteria": ["mild", {"a": 1}, ["x", "y"]]}


def write_head(
    path: Path, tensors: Mapping[str, np.ndarray], keys: Mapping[str, Any], arch: str = "localdecide-head"
) -> Path:
    """A head file: tensors in F32 and keys of Python's types."""
    writer = gguf.GGUFWriter(str(path), arch)
    for key, value in keys.items():
        kinds = {bool: writer.add_bool, int: writer.add_uint32, float: writer.add_float32, str: writer.add_string}
        kinds[type(value)](key, value)
    for name, array in tensors.items():
        # A scalar is stored as a vector of one.
        writer.add_tensor(name, np.ascontiguousarray(np.atleast_1d(np.asarray(array, dtype=np.float32))))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def load(path: Path, head: Path | None, *, family: str | None = None, **parameters: Any) -> LoadedModel:
    spec = ModelSpec(
        name="tiny:latest",
        path=str(path),
        head=None if head is None else str(head),
        family=family,
        parameters=EXACT | parameters,
    )
    return LoadedModel(spec, {}, lambda fraction: None)


def decide(model: LoadedModel, state: Any, questions: Mapping[str, Any], **options: Any) -> Any:
    """The product's Result."""
    return model.decide(Decision(state, parse_questions(questions)), lambda: False)


def gap(reading: Any, logits: Any, temperature: float = 1.0, *, false_first: bool = False) -> float:
    """The largest difference between a reading's probabilities and softmax of the reference's logits."""
    values = np.asarray(logits, dtype=np.float64) / temperature
    expected = np.exp(values - values.max())
    expected /= expected.sum()
    actual = np.asarray(reading.probabilities)
    return float(np.max(np.abs((expected[::-1] if false_first else expected) - actual)))


@functools.cache
def _opened(path: Path) -> Any:
    """A vocabulary that stays open for as long as the tests run: opening one takes longer than a whole test."""
    context = raw.loaded(path, vocabulary_only=True)
    return context, llama_cpp.llama_model_get_vocab(context.__enter__())


def tokenize(path: Path, text: str, *, special: bool = False) -> list[int]:
    """`raw.tokenize` without opening the file each time."""
    data = text.encode()
    room = (llama_cpp.llama_token * (len(data) + 8))()
    count = llama_cpp.llama_tokenize(_opened(path)[1], data, len(data), room, len(room), False, special)
    return list(room[:count])


class Backbone:
    """A tiny model's tokenizer and its network in PyTorch, each opened once."""

    def __init__(self, tiny: Any) -> None:
        self.tiny = tiny
        self._network = reference.load(tiny)

    def id(self, text: str) -> int:
        """A special token."""
        return self.tiny.vocabulary.id(text)

    def tokens(self, text: str) -> list[int]:
        """A user's words; a special token's text in them is cut behind its first character, as the product cuts it."""
        first, *rest = text.split("<|im_end|>")
        tokens = tokenize(self.tiny.path, first + "<" if rest else first)
        for part in rest:
            tokens += tokenize(self.tiny.path, "|im_end|>" + part)
        return tokens

    def rows(self, tokens: list[int]) -> torch.Tensor:
        """Hidden rows after the output norm, read causally."""
        body = getattr(self._network, "model", self._network)
        with torch.inference_mode():
            return body(input_ids=torch.tensor([tokens]), use_cache=False).last_hidden_state[0]
