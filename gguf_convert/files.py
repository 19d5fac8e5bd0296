"""GGUF files written tensor by tensor, and the Modelfile over them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import gguf
import numpy as np

from gguf_convert.checkpoint import Array, ConversionError, Tensor

TYPES = {"F32": np.float32, "F16": np.float16}
FILE_TYPES = {"F32": 0, "F16": 1}
HEAD = "localdecide-head"


def write(
    path: Path,
    architecture: str,
    keys: Mapping[str, Any],
    tensors: Iterable[tuple[str, Tensor]],
    kind: str = "F32",
) -> Path:
    """Write a GGUF. keys: in full, of Python's types. tensors: name and reader of each.

    kind: the type of matrices; vectors stay F32. One tensor is in memory at a time.
    """
    if kind not in TYPES:
        raise ConversionError(f"type {kind} is not one of {', '.join(TYPES)}")
    writer = gguf.GGUFWriter(str(path), architecture)
    for key, value in keys.items():
        _add(writer, key, value)
    rows = list(tensors)
    for name, tensor in rows:
        dtype = _dtype(tensor, kind)
        writer.add_tensor_info(name, tensor.shape, dtype, int(np.prod(tensor.shape)) * dtype.itemsize)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    for name, tensor in rows:
        array = np.ascontiguousarray(tensor())
        if array.shape != tensor.shape:
            raise ConversionError(f"tensor {name} has the shape {array.shape} and was announced as {tensor.shape}")
        writer.write_tensor_data(array.astype(_dtype(tensor, kind)))
    writer.close()
    return path


def write_head(path: Path, keys: Mapping[str, Any], tensors: Mapping[str, Array]) -> Path:
    """A head file in F32. keys: `localdecide.head.*` by what follows."""
    named = {f"localdecide.head.{key}": value for key, value in keys.items()}
    arrays = {name: np.atleast_1d(np.asarray(array, dtype=np.float32)) for name, array in tensors.items()}
    return write(path, HEAD, named, [(name, _constant(array)) for name, array in arrays.items()])


def write_modelfile(path: Path, model: Path, head: Path | None, family: str, *more: str) -> Path:
    """A Modelfile beside the files, for `localdecide create NAME -f Modelfile`."""
    lines = [f"FROM ./{model.name}", *([f"HEAD ./{head.name}"] if head else []), f"FAMILY {family}", *more]
    path.write_text("\n".join([*lines, ""]), encoding="utf-8")
    return path


def _constant(array: Array) -> Tensor:
    return Tensor(array.shape, lambda: array)


def _dtype(tensor: Tensor, kind: str) -> np.dtype[Any]:
    return np.dtype(TYPES[kind] if len(tensor.shape) > 1 else np.float32)


def _add(writer: gguf.GGUFWriter, key: str, value: Any) -> None:
    if key == "general.architecture":
        return
    if isinstance(value, bool):
        writer.add_bool(key, value)
    elif isinstance(value, int):
        writer.add_uint32(key, value)
    elif isinstance(value, float):
        writer.add_float32(key, value)
    elif isinstance(value, str):
        writer.add_string(key, value)
    elif isinstance(value, bytes):
        writer.add_array(key, value)
    elif isinstance(value, list | tuple):
        writer.add_array(key, list(value))
    else:
        raise ConversionError(f"the key {key} has a value of the type {type(value).__name__}")
