"""llama.cpp as directly as it goes: load, tokenise, decode one sequence, read every row.

Float32 cache, no flash attention, one thread, the whole sequence in one batch: what a reference in
PyTorch can be held against. For short sequences only, since it keeps every row of logits.
"""

from __future__ import annotations

import ctypes
import pathlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import llama_cpp
import numpy as np

from tests.tiny.model import Array

_silent = llama_cpp.llama_log_callback(lambda *_: None)


@contextmanager
def loaded(path: pathlib.Path | str, *, vocabulary_only: bool = False) -> Iterator[Any]:
    """The llama_model at `path`, freed at the end."""
    llama_cpp.llama_log_set(_silent, ctypes.c_void_p(0))
    parameters = llama_cpp.llama_model_default_params()
    parameters.n_gpu_layers = 0
    parameters.vocab_only = vocabulary_only
    model = llama_cpp.llama_model_load_from_file(str(path).encode(), parameters)
    if not model:
        raise ValueError(f"llama.cpp does not load {path}")
    try:
        yield model
    finally:
        llama_cpp.llama_model_free(model)


def tokenize(path: pathlib.Path | str, text: str, *, special: bool = False) -> list[int]:
    """Ids of `text`, nothing added; special: whether special tokens in it are recognised."""
    with loaded(path, vocabulary_only=True) as model:
        return tokenize_loaded(model, text, special=special)


def tokenize_loaded(model: Any, text: str, *, special: bool = False) -> list[int]:
    """As `tokenize`, for a model that is open."""
    vocabulary = llama_cpp.llama_model_get_vocab(model)
    data = text.encode()
    room = (llama_cpp.llama_token * (len(data) + 8))()
    count = llama_cpp.llama_tokenize(vocabulary, data, len(data), room, len(room), False, special)
    return list(room[:count])


def decode(
    path: pathlib.Path | str, tokens: Sequence[int], *, causal: bool | None = None
) -> tuple[Array, Array | None]:
    """Hidden rows after the output norm [n, width] and logits [n, vocabulary], None for an encoder.

    causal: None leaves the model's own kind of attention.
    """
    with loaded(path) as model:
        with _context(model, len(tokens), causal, embeddings=True) as context:
            _evaluate(context, tokens)
            hidden = _rows(llama_cpp.llama_get_embeddings_ith, context, tokens, llama_cpp.llama_model_n_embd(model))
        if _architecture(model) == "modern-bert":
            return hidden, None
        # A context of its own: some architectures compute no logits beside embeddings.
        size = llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(model))
        with _context(model, len(tokens), causal, embeddings=False) as context:
            _evaluate(context, tokens)
            return hidden, _rows(llama_cpp.llama_get_logits_ith, context, tokens, size)


@contextmanager
def _context(model: Any, size: int, causal: bool | None, *, embeddings: bool) -> Iterator[Any]:
    parameters = llama_cpp.llama_context_default_params()
    parameters.n_ctx = parameters.n_batch = parameters.n_ubatch = max(64, size)
    parameters.n_threads = parameters.n_threads_batch = 1
    parameters.embeddings = embeddings
    parameters.pooling_type = llama_cpp.LLAMA_POOLING_TYPE_NONE
    parameters.flash_attn_type = llama_cpp.LLAMA_FLASH_ATTN_TYPE_DISABLED
    parameters.type_k = parameters.type_v = llama_cpp.GGML_TYPE_F32
    context = llama_cpp.llama_init_from_model(model, parameters)
    try:
        if causal is not None:
            llama_cpp.llama_set_causal_attn(context, causal)
        yield context
    finally:
        llama_cpp.llama_free(context)


def _evaluate(context: Any, tokens: Sequence[int]) -> None:
    batch = llama_cpp.llama_batch_init(len(tokens), 0, 1)
    try:
        batch.n_tokens = len(tokens)
        for position, token in enumerate(tokens):
            batch.token[position] = token
            batch.pos[position] = position
            batch.n_seq_id[position] = 1
            batch.seq_id[position][0] = 0
            batch.logits[position] = 1
        if llama_cpp.llama_decode(context, batch) != 0:
            raise ValueError("llama_decode failed")
    finally:
        llama_cpp.llama_batch_free(batch)


def _rows(read: Callable[[Any, int], Any], context: Any, tokens: Sequence[int], width: int) -> Array:
    rows = [np.ctypeslib.as_array(read(context, position), shape=(width,)) for position in range(len(tokens))]
    return np.stack(rows).astype(np.float32)


def _architecture(model: Any) -> str:
    value = ctypes.create_string_buffer(64)
    llama_cpp.llama_model_meta_val_str(model, b"general.architecture", value, len(value))
    return value.value.decode()
