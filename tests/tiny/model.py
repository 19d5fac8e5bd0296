"""A tiny model: random weights under Hugging Face's names, written as the GGUF that llama.cpp loads."""

from __future__ import annotations

import pathlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import gguf
import numpy as np

from tests.tiny.vocabulary import TinyVocabulary

Array = np.ndarray[Any, np.dtype[np.float32]]
Weights = dict[str, Array]


@dataclass(frozen=True)
class TinyModel:
    """What `build` wrote.

    path: the GGUF. arch: its general.architecture. config: values of the Hugging Face config.json.
    weights: float32 arrays by Hugging Face name, [out, in]. tensors: what the GGUF holds, by its names.
    """

    path: pathlib.Path
    arch: str
    config: dict[str, Any]
    weights: Weights
    tensors: Weights
    vocabulary: TinyVocabulary


class Random:
    """Weights that make logits vary strongly and every position and order matter."""

    def __init__(self, seed: int) -> None:
        self._generator = np.random.default_rng(seed)

    def matrix(self, rows: int, columns: int, gain: float = 1.0) -> Array:
        """Keeps the scale of its input times `gain`."""
        return self.normal((rows, columns), gain / np.sqrt(columns))

    def normal(self, shape: tuple[int, ...], scale: float = 1.0) -> Array:
        return (self._generator.standard_normal(shape) * scale).astype(np.float32)

    def around(self, middle: float, size: int, spread: float = 0.1) -> Array:
        """A norm's weight."""
        return (middle + self._generator.standard_normal(size) * spread).astype(np.float32)

    def uniform(self, low: float, high: float, size: int) -> Array:
        return self._generator.uniform(low, high, size).astype(np.float32)


def write(
    path: pathlib.Path | str,
    arch: str,
    tensors: Mapping[str, Array],
    keys: Mapping[str, Any],
    vocabulary: TinyVocabulary,
    *,
    template: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    name: str | None = None,
) -> pathlib.Path:
    """Writes a GGUF in F32.

    keys: of the architecture, without its prefix. metadata: any further keys, written in full; it may
    replace what is there. Values are typed by Python's types: bool, int (u32), float (f32), str, list.
    """
    path = pathlib.Path(path)
    writer = gguf.GGUFWriter(str(path), arch)
    writer.add_name(name or f"tiny-{arch}")
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    vocabulary.write(writer)
    if template is not None:
        writer.add_chat_template(template)
    values = {f"{arch}.{key}": value for key, value in keys.items()} | dict(metadata or {})
    for key, value in values.items():
        _drop(writer, key)
        _add(writer, key, value)
    for tensor, array in tensors.items():
        writer.add_tensor(tensor, np.ascontiguousarray(array, dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _drop(writer: gguf.GGUFWriter, key: str) -> None:
    for shard in writer.kv_data:
        shard.pop(key, None)


def _add(writer: gguf.GGUFWriter, key: str, value: Any) -> None:
    if isinstance(value, bool):
        writer.add_bool(key, value)
    elif isinstance(value, int):
        writer.add_uint32(key, value)
    elif isinstance(value, float):
        writer.add_float32(key, value)
    elif isinstance(value, str):
        writer.add_string(key, value)
    else:
        writer.add_array(key, list(value))
