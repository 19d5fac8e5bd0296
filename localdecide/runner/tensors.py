"""Arrays straight from GGUF files: a head's weights, and rows of the output matrix."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from localdecide.core.errors import BadModelFile

Array = NDArray[np.float32]


def head_tensors(path: str) -> dict[str, Any]:
    """All tensors of a head file by name, float32, in NumPy order ([out, in]), and its keys under ""."""
    from gguf import GGUFReader

    reader = GGUFReader(path)
    tensors: dict[str, Any] = {tensor.name: _floats(tensor) for tensor in reader.tensors}
    tensors[""] = {name: field.contents() for name, field in reader.fields.items()}
    return tensors


def output_rows(path: str) -> Callable[[list[int]], Array]:
    """A function from token ids to rows of `output.weight`, or of `token_embd.weight` where they are tied.

    The file is opened at the first call: most families never ask.
    """
    opened: list[Any] = []

    def rows(tokens: list[int]) -> Array:
        if not opened:
            opened.append(_output_tensor(path))
        from gguf.quants import dequantize

        tensor = opened[0]
        picked = np.ascontiguousarray(tensor.data[np.asarray(tokens, dtype=np.int64)])
        return np.asarray(dequantize(picked, tensor.tensor_type), dtype=np.float32)

    return rows


def _output_tensor(path: str) -> Any:
    from gguf import GGUFReader

    by_name = {tensor.name: tensor for tensor in GGUFReader(path).tensors}
    for name in ("output.weight", "token_embd.weight"):
        if name in by_name:
            return by_name[name]
    raise BadModelFile("the model has neither output.weight nor token_embd.weight")


def _floats(tensor: Any) -> Array:
    from gguf.quants import dequantize

    shape = tuple(int(size) for size in reversed(tensor.shape))
    return np.asarray(dequantize(tensor.data, tensor.tensor_type), dtype=np.float32).reshape(shape)
