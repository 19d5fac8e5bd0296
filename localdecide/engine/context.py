"""One llama.cpp context: decode calls with every size checked first, and what they leave behind.

llama.cpp aborts the whole process on a batch over its size, so nothing here trusts its caller.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import llama_cpp as llama
import numpy as np
from numpy.typing import NDArray

from localdecide.core.errors import ModelFailed, NumericalError
from localdecide.core.plan import LabelRow
from localdecide.engine.observer import RowObserver

Ints = NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Shape:
    """Sizes of a context. cells: KV cells for all sequences; outputs: rows one decode may read."""

    cells: int
    batch: int
    ubatch: int
    sequences: int
    outputs: int
    threads: int
    flash_attention: int = llama.LLAMA_FLASH_ATTN_TYPE_AUTO
    kv_type: int = llama.GGML_TYPE_F16


class Context:
    """Owns a `llama_context` and one reusable batch. rows: "labels", "hidden" or "encoder"."""

    def __init__(self, model: Any, shape: Shape, rows: str, width: int) -> None:
        parameters = llama.llama_context_default_params()
        parameters.n_ctx = shape.cells
        parameters.n_batch = shape.batch
        parameters.n_ubatch = shape.ubatch
        parameters.n_seq_max = shape.sequences
        parameters.n_outputs_max = max(shape.outputs, shape.sequences)
        parameters.n_threads = parameters.n_threads_batch = shape.threads
        parameters.flash_attn_type = shape.flash_attention
        parameters.type_k = parameters.type_v = shape.kv_type
        parameters.kv_unified = True
        parameters.no_perf = True
        if rows == "encoder":
            parameters.embeddings = True
            parameters.pooling_type = llama.LLAMA_POOLING_TYPE_NONE
        self._observer = RowObserver(width) if rows == "hidden" else None
        if self._observer is not None:
            parameters.cb_eval = self._observer.callback
        self.shape, self.rows, self._width = shape, rows, width
        self._handle = llama.llama_init_from_model(model, parameters)
        if not self._handle:
            raise ModelFailed(f"llama.cpp could not make a context of {shape.cells} tokens")
        self._memory = llama.llama_get_memory(self._handle)
        self._vocabulary_size = int(llama.llama_vocab_n_tokens(llama.llama_model_get_vocab(model)))
        self._batch = _Batch(shape.batch, shape.sequences)

    @property
    def has_memory(self) -> bool:
        """False for encoders, which keep nothing between calls."""
        return bool(self._memory)

    def decode(
        self,
        tokens: Sequence[int],
        positions: Sequence[int],
        sequences: Sequence[tuple[int, ...]],
        outputs: Sequence[int],
        padding: int = 0,
    ) -> None:
        """One llama_decode. outputs: indexes into `tokens` whose rows will be read.

        padding: rows to add in the context's last sequence, which nothing else may use; they leave no trace.

        Raises ModelFailed for sizes over the context's shape and for anything llama.cpp refuses.
        """
        if not 0 < len(tokens) + padding <= self.shape.batch:
            raise ModelFailed(f"a batch of {len(tokens)} tokens; this context takes 1 to {self.shape.batch}")
        if len(outputs) > max(self.shape.outputs, self.shape.sequences):
            raise ModelFailed(f"{len(outputs)} rows asked of one decode; this context gives {self.shape.outputs}")
        if self._observer is not None:
            self._observer.rows = None
        batch = self._batch.fill(tokens, positions, sequences, outputs)
        if padding:
            batch = self._batch.pad(padding, self.shape.sequences - 1)
        status = int(llama.llama_decode(self._handle, batch))
        if padding:
            self.drop(self.shape.sequences - 1)
        if status == 1:
            raise ModelFailed("the model's context has no room for this batch")
        if status != 0:
            raise ModelFailed(f"llama.cpp could not decode (status {status})")

    def label_row(self, index: int, labels: tuple[int, ...]) -> LabelRow:
        """Logits of `labels` and the log-normaliser at batch index `index` of the last decode."""
        pointer = llama.llama_get_logits_ith(self._handle, index)
        if not pointer:
            raise NumericalError("numerical error: the model gave no logits where they were asked for")
        logits = np.ctypeslib.as_array(pointer, shape=(self._vocabulary_size,))
        top = int(logits.argmax())
        peak = float(logits[top])
        log_norm = peak + float(np.log(np.exp(logits - np.float32(peak)).sum(dtype=np.float64)))
        values = logits[list(labels)].tolist()
        if not np.isfinite(log_norm) or not np.isfinite(values).all():
            raise NumericalError("numerical error: the model's logits are not finite numbers")
        return LabelRow(tuple(values), log_norm, top)

    def rows_of(self, count: int) -> NDArray[np.float32] | None:
        """`hidden_rows` where this context gives them; None where it is read at labels."""
        return self.hidden_rows(count) if count and self.rows != "labels" else None

    def hidden_rows(self, count: int) -> NDArray[np.float32]:
        """Rows after the output norm for the `count` outputs of the last decode, float32 [count, width]."""
        if self._observer is not None:
            return self._observer.take(count)
        rows = np.empty((count, self._width), dtype=np.float32)
        for index in range(count):
            pointer = llama.llama_get_embeddings_ith(self._handle, index)
            if not pointer:
                raise NumericalError("numerical error: the model gave no hidden rows where they were asked for")
            rows[index] = np.ctypeslib.as_array(pointer, shape=(self._width,))
        return rows

    def set_causal(self, causal: bool) -> None:
        llama.llama_set_causal_attn(self._handle, causal)

    def clear(self) -> None:
        """Forget every sequence."""
        if self._memory:
            llama.llama_memory_clear(self._memory, False)

    def copy(self, source: int, target: int) -> None:
        """Sequence `target` becomes a copy of the whole of `source`."""
        llama.llama_memory_seq_cp(self._memory, source, target, -1, -1)

    def drop(self, sequence: int, start: int = -1) -> bool:
        """Remove a sequence from position `start` on; False where the memory cannot cut inside it."""
        return bool(llama.llama_memory_seq_rm(self._memory, sequence, start, -1))

    def snapshot(self, sequence: int) -> NDArray[np.uint8]:
        """Everything the context knows of a sequence, as bytes."""
        size = int(llama.llama_state_seq_get_size(self._handle, sequence))
        data = np.empty(size, dtype=np.uint8)
        pointer = data.ctypes.data_as(ctypes.POINTER(ctypes.c_uint8))
        written = int(llama.llama_state_seq_get_data(self._handle, pointer, size, sequence))
        if written != size:
            raise ModelFailed(f"llama.cpp wrote {written} of {size} bytes of a snapshot")
        return data

    def restore(self, sequence: int, data: NDArray[np.uint8]) -> None:
        """Bring a snapshot back, bit for bit."""
        pointer = data.ctypes.data_as(ctypes.POINTER(ctypes.c_uint8))
        if int(llama.llama_state_seq_set_data(self._handle, pointer, data.size, sequence)) == 0:
            raise ModelFailed("llama.cpp could not restore a snapshot")

    def close(self) -> None:
        if self._handle:
            llama.llama_free(self._handle)
            self._handle = None


class _Batch:
    """A llama_batch over NumPy arrays: filling 512 tokens takes 2 us instead of 180 with ctypes loops."""

    def __init__(self, size: int, sequences: int) -> None:
        self._token = np.zeros(size, dtype=np.int32)
        self._position = np.zeros(size, dtype=np.int32)
        self._count = np.ones(size, dtype=np.int32)
        self._sequence = np.zeros((size, sequences), dtype=np.int32)
        stride = self._sequence.strides[0]
        self._rows = np.uint64(self._sequence.ctypes.data) + np.arange(size, dtype=np.uint64) * np.uint64(stride)
        self._output = np.zeros(size, dtype=np.int8)
        self._batch = llama.llama_batch(
            n_tokens=0,
            token=self._token.ctypes.data_as(ctypes.POINTER(ctypes.c_int32)),
            embd=None,
            pos=self._position.ctypes.data_as(ctypes.POINTER(ctypes.c_int32)),
            n_seq_id=self._count.ctypes.data_as(ctypes.POINTER(ctypes.c_int32)),
            seq_id=self._rows.ctypes.data_as(ctypes.POINTER(ctypes.POINTER(ctypes.c_int32))),
            logits=self._output.ctypes.data_as(ctypes.POINTER(ctypes.c_int8)),
        )

    def fill(
        self,
        tokens: Sequence[int],
        positions: Sequence[int],
        sequences: Sequence[tuple[int, ...]],
        outputs: Sequence[int],
    ) -> llama.llama_batch:
        count = len(tokens)
        self._token[:count] = tokens
        self._position[:count] = positions
        for index, members in enumerate(sequences):
            self._count[index] = len(members)
            self._sequence[index, : len(members)] = members
        self._output[:count] = 0
        self._output[list(outputs)] = 1
        self._batch.n_tokens = count
        return self._batch

    def pad(self, rows: int, sequence: int) -> llama.llama_batch:
        """The batch with `rows` more tokens, that are not read, in a sequence of their own."""
        begin = self._batch.n_tokens
        end = begin + rows
        self._token[begin:end] = self._token[0]
        self._position[begin:end] = np.arange(rows)
        self._count[begin:end] = 1
        self._sequence[begin:end, 0] = sequence
        self._output[begin:end] = 0
        self._batch.n_tokens = end
        return self._batch
