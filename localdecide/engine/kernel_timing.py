"""Seconds of single operations on llama.cpp's CPU backend, with the layouts its graphs give them.

Memory that is all zeros does: no kernel looks at the numbers to choose its way.
"""

from __future__ import annotations

import ctypes
import time
from types import TracebackType

from gguf import GGMLQuantizationType

from localdecide.core.errors import ModelFailed
from localdecide.engine.ggml import ContextParameters, function

_F32, _F16 = GGMLQuantizationType.F32.value, GGMLQuantizationType.F16.value
_ACCUMULATE_F32 = 10  # GGML_PREC_F32
_OVERHEAD = 1 << 20  # bytes of a context that holds descriptions alone
# Cells of a whole KV cache: the distance between rows of V, which is kept transposed without flash attention.
_CELLS = 4608


_pointer, _int, _long = ctypes.c_void_p, ctypes.c_int, ctypes.c_int64
_size, _float = ctypes.c_size_t, ctypes.c_float
_init = function("ggml_init", _pointer, ContextParameters)
_free = function("ggml_free", None, _pointer)
_new = function("ggml_new_tensor_4d", _pointer, _pointer, _int, _long, _long, _long, _long)
_view = function("ggml_view_3d", _pointer, _pointer, _pointer, _long, _long, _long, _size, _size, _size)
_permute = function("ggml_permute", _pointer, _pointer, _pointer, _int, _int, _int, _int)
_add = function("ggml_add", _pointer, _pointer, _pointer, _pointer)
_multiply = function("ggml_mul_mat", _pointer, _pointer, _pointer, _pointer)
_soft_max = function("ggml_soft_max_ext", _pointer, _pointer, _pointer, _pointer, _float, _float)
_flash = function("ggml_flash_attn_ext", _pointer, *[_pointer] * 5, _float, _float, _float)
_precise = function("ggml_prec_set_acc", ctypes.c_bool, _pointer, _int)
_joined = function("ggml_cont_2d", _pointer, _pointer, _pointer, _long, _long)
_graph = function("ggml_new_graph", _pointer, _pointer)
_expand = function("ggml_build_forward_expand", None, _pointer, _pointer)
_bytes = function("ggml_nbytes", _size, _pointer)
_allocate_all = function("ggml_backend_alloc_ctx_tensors", _pointer, _pointer, _pointer)
_allocate_in = function("ggml_backend_tensor_alloc", _int, _pointer, _pointer, _pointer)
_set = function("ggml_backend_tensor_set", None, _pointer, ctypes.c_char_p, _size, _size)
_buffer_size = function("ggml_backend_buft_get_alloc_size", _size, _pointer, _pointer)
_buffer_new = function("ggml_backend_buft_alloc_buffer", _pointer, _pointer, _size)
_buffer_base = function("ggml_backend_buffer_get_base", _pointer, _pointer)
_buffer_clear = function("ggml_backend_buffer_clear", None, _pointer, ctypes.c_uint8)
_buffer_free = function("ggml_backend_buffer_free", None, _pointer)
_supports = function("ggml_backend_dev_supports_op", ctypes.c_bool, _pointer, _pointer)
_device = function("ggml_backend_get_device", _pointer, _pointer)
_registry = function("ggml_backend_dev_backend_reg", _pointer, _pointer)
_address = function("ggml_backend_reg_get_proc_address", _pointer, _pointer, ctypes.c_char_p)
_backend_new = function("ggml_backend_cpu_init", _pointer, library="ggml-cpu")
_backend_threads = function("ggml_backend_cpu_set_n_threads", None, _pointer, _int, library="ggml-cpu")
_backend_free = function("ggml_backend_free", None, _pointer)
_compute = function("ggml_backend_graph_compute", _int, _pointer, _pointer)


class Bench:
    """Makes graphs and times them. Use as a context manager: it owns what it makes."""

    def __init__(self) -> None:
        self._backend = _backend_new()
        self._contexts: list[int] = []
        self._buffers: list[int] = []

    def __enter__(self) -> Bench:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for buffer in self._buffers:
            _buffer_free(buffer)
        for context in self._contexts:
            _free(context)
        _backend_free(self._backend)

    def run(self, graph: int, threads: int = 1) -> tuple[float, float]:
        """Seconds of one run: CPU time of this thread, where neighbours do not count, and time that passed."""
        _backend_threads(self._backend, threads)
        passed, spent = time.perf_counter(), time.thread_time()
        status = int(_compute(self._backend, graph))
        spent, passed = time.thread_time() - spent, time.perf_counter() - passed
        if status != 0:
            raise ModelFailed(f"llama.cpp could not compute a benchmark (status {status})")
        return max(spent, 1e-6), max(passed, 1e-6)

    def product(self, kind: str, width: int, rows: int, count: int) -> int:
        """[rows, width] through `count` square weights of type `kind`, one after the other."""
        order = self._order(kind, width)
        context = self._context()
        result = _new(context, _F32, width, rows, 1, 1)
        for _ in range(count):
            weights = _new(context, GGMLQuantizationType[kind].value, width, width, 1, 1)
            if order is not None:
                self._place(weights, order)
                _set(weights, bytes(_bytes(weights)), 0, _bytes(weights))
            # A sum after each product: a layer has as many small steps, and threads meet after every one.
            result = _add(context, _multiply(context, weights, result), result)
        return self._finish(context, result)

    def flash(self, heads: int, kv_heads: int, size: int, rows: int, depth: int) -> int:
        """Flash attention of `rows` queries on `depth` tokens: all the heads of one of `kv_heads` KV heads."""
        context = self._context()
        queries = _permute(context, _new(context, _F32, size, heads, rows, 1), 0, 2, 1, 3)
        keys, values = (self._cached(context, kv_heads, size, depth) for _ in range(2))
        mask = _new(context, _F16, depth, rows, 1, 1)
        result = _flash(context, queries, keys, values, mask, size**-0.5, 0.0, 0.0)
        _precise(result, _ACCUMULATE_F32)
        return self._finish(context, result)

    def plain(self, heads: int, kv_heads: int, size: int, rows: int, depth: int) -> int:
        """The same without flash attention: two products and a softmax."""
        context = self._context()
        queries = _permute(context, _new(context, _F32, size, heads, rows, 1), 0, 2, 1, 3)
        keys = self._cached(context, kv_heads, size, depth)
        cells = max(_CELLS, depth)
        whole = _new(context, _F16, cells, size, 1, 1)
        values = _view(context, whole, depth, size, 1, 2 * cells, 2 * cells * size, 0)
        mask = _new(context, _F16, depth, rows, 1, 1)
        scores = _multiply(context, keys, queries)
        _precise(scores, _ACCUMULATE_F32)
        mixed = _multiply(context, values, _soft_max(context, scores, mask, size**-0.5, 0.0))
        return self._finish(context, _joined(context, _permute(context, mixed, 0, 2, 1, 3), size * heads, rows))

    def _cached(self, context: int, kv_heads: int, size: int, depth: int) -> int:
        """One KV head of a cache in which the heads of a token lie side by side."""
        whole = _new(context, _F16, size, kv_heads, depth, 1)
        head = _view(context, whole, size, 1, depth, 2 * size, 2 * size * kv_heads, 0)
        return int(_permute(context, head, 0, 2, 1, 3))

    def _context(self) -> int:
        context = int(_init(ContextParameters(_OVERHEAD, None, True)))
        self._contexts.append(context)
        return context

    def _finish(self, context: int, result: int) -> int:
        buffer = int(_allocate_all(context, self._backend))
        self._buffers.append(buffer)
        _buffer_clear(buffer, 0)
        graph = int(_graph(context))
        _expand(graph, result)
        return graph

    def _order(self, kind: str, width: int) -> int | None:
        """The buffer type in which llama.cpp repacks weights of a type at load; None where it leaves them be."""
        device = _device(self._backend)
        found = _address(_registry(device), b"ggml_backend_dev_get_extra_bufts")
        orders = ctypes.CFUNCTYPE(ctypes.POINTER(_pointer), _pointer)(found)(device) if found else None
        index = 0
        while orders and orders[index]:
            context = self._context()
            weights = _new(context, GGMLQuantizationType[kind].value, width, width, 1, 1)
            self._place(weights, orders[index])
            if _supports(device, _multiply(context, weights, _new(context, _F32, width, 1, 1, 1))):
                return int(orders[index])
            index += 1
        return None

    def _place(self, tensor: int, order: int) -> None:
        buffer = int(_buffer_new(order, _buffer_size(order, tensor)))
        self._buffers.append(buffer)
        _allocate_in(buffer, tensor, _buffer_base(buffer))
