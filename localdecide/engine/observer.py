"""Hidden rows without the output matrix: watch the graph for the tensor after the output norm.

llama.cpp offers a callback for every node it computes. It sees `result_norm` (rows of the tokens
flagged as outputs, after the output norm), copies it, and ends the computation there: the product
with the output matrix, the largest of all, is never made.
"""

from __future__ import annotations

import ctypes

import llama_cpp
import numpy as np
from numpy.typing import NDArray

from localdecide.core.errors import NumericalError
from localdecide.engine.ggml import function

_NAME = b"result_norm"
_CALLBACK = llama_cpp.ggml_backend_sched_eval_callback
_get_name = function("ggml_get_name", ctypes.c_char_p, ctypes.c_void_p)
_nbytes = function("ggml_nbytes", ctypes.c_size_t, ctypes.c_void_p)
_tensor_get = function(
    "ggml_backend_tensor_get", None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t
)


class RowObserver:
    """Keeps the rows of the last decode. width: numbers in a row."""

    def __init__(self, width: int) -> None:
        self._width = width
        self.rows: NDArray[np.float32] | None = None
        self.callback = _CALLBACK(self._observe)

    def _observe(self, tensor: int, ask: bool, _: int | None) -> bool:
        if ask:
            return bool(_get_name(tensor) == _NAME)
        size = int(_nbytes(tensor))
        part = np.empty((size // (4 * self._width), self._width), dtype=np.float32)
        _tensor_get(tensor, part.ctypes.data, 0, size)
        # One decode may run as several ubatches; their rows follow each other.
        self.rows = part if self.rows is None else np.concatenate([self.rows, part])
        return False

    def take(self, count: int) -> NDArray[np.float32]:
        """The rows of the last decode, float32 [count, width]. Raises NumericalError if they are not there."""
        rows = self.rows
        if rows is None or len(rows) != count:
            found = 0 if rows is None else len(rows)
            raise NumericalError(f"numerical error: {count} hidden rows were asked for, the model gave {found}")
        return rows
