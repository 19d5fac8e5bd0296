"""How fast this machine multiplies matrices of each weight type, measured in milliseconds, not believed."""

from __future__ import annotations

import ctypes
import time
from functools import lru_cache

from gguf import GGMLQuantizationType

from localdecide.engine.ggml import ContextParameters, function

_INNER, _ROWS, _COLUMNS, _TRIES = 1024, 1024, 128, 3


_pointer = ctypes.c_void_p
_init = function("ggml_init", _pointer, ContextParameters)
_free = function("ggml_free", None, _pointer)
_tensor = function("ggml_new_tensor_2d", _pointer, _pointer, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
_multiply = function("ggml_mul_mat", _pointer, _pointer, _pointer, _pointer)
_graph = function("ggml_new_graph", _pointer, _pointer)
_expand = function("ggml_build_forward_expand", None, _pointer, _pointer)
_data = function("ggml_get_data", _pointer, _pointer)
_bytes = function("ggml_nbytes", ctypes.c_size_t, _pointer)
_compute = function("ggml_graph_compute_with_ctx", ctypes.c_int, _pointer, _pointer, ctypes.c_int, library="ggml-cpu")


@lru_cache(maxsize=32)
def speed(kind: str) -> float:
    """Multiply-adds per second of one thread, weights of type `kind` ("Q4_1", "BF16", ...) times float32 rows.

    The best of a few tries, in CPU time: the machine may be busy.
    """
    context = _init(ContextParameters(32 << 20, None, False))
    try:
        weights = _tensor(context, GGMLQuantizationType[kind].value, _INNER, _ROWS)
        rows = _tensor(context, GGMLQuantizationType.F32.value, _INNER, _COLUMNS)
        for each in (weights, rows):
            ctypes.memset(_data(each), 0, _bytes(each))
        graph = _graph(context)
        _expand(graph, _multiply(context, weights, rows))
        best = min(_timed(context, graph) for _ in range(_TRIES))
    finally:
        _free(context)
    return _INNER * _ROWS * _COLUMNS / best


def _timed(context: int, graph: int) -> float:
    started = time.thread_time()
    _compute(context, graph, 1)
    return max(time.thread_time() - started, 1e-6)
