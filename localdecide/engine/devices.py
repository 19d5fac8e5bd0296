"""How many layers of a model a GPU can hold beside what decoding needs."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Sequence

from gguf import GGUFReader

from localdecide.engine.ggml import function

_GPU = 1  # enum ggml_backend_dev_type; integrated GPUs (2) share the machine's memory
ALL = 999
# Of the free memory, what weights may take: KV cache, compute buffers and the display need the rest.
SHARE = 0.8

_pointer = ctypes.c_void_p
_count = function("ggml_backend_dev_count", ctypes.c_size_t, library="ggml")
_get = function("ggml_backend_dev_get", _pointer, ctypes.c_size_t, library="ggml")
_type = function("ggml_backend_dev_type", ctypes.c_int, _pointer)
_memory = function("ggml_backend_dev_memory", None, _pointer, _pointer, _pointer)


def free_bytes() -> int:
    """Free memory of all discrete GPUs together; 0 where there are none."""
    free, total, whole = ctypes.c_size_t(), ctypes.c_size_t(), 0
    for index in range(_count()):
        device = _get(index)
        if _type(device) == _GPU:
            _memory(device, ctypes.addressof(free), ctypes.addressof(total))
            whole += free.value
    return whole


def layers_that_fit(layers: Sequence[int], free: int) -> int:
    """How many layers, the last ones first, as llama.cpp counts them for `n_gpu_layers`.

    layers: bytes of each block in order, and of the output at the end. All of them is `ALL`.
    """
    room = free * SHARE
    for count, size in enumerate(reversed(layers)):
        room -= size
        if room < 0:
            return count
    return ALL


def layer_bytes(path: str) -> list[int]:
    """Bytes of each block of a GGUF, and of the output matrix at the end."""
    blocks: dict[int, int] = {}
    output = 0
    for tensor in GGUFReader(path).tensors:
        if found := re.match(r"blk\.(\d+)\.", tensor.name):
            blocks[int(found[1])] = blocks.get(int(found[1]), 0) + int(tensor.n_bytes)
        elif tensor.name.startswith("output"):
            output += int(tensor.n_bytes)
    return [*(blocks[index] for index in sorted(blocks)), output]
