"""The build's own best prefill rate: one raw decode, nothing of ours around it.

python -m tests.bench.prefill [MODEL.gguf]
"""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path
from typing import Any

import localdecide.engine  # sets what llama.cpp's libraries read when they load

import llama_cpp as llama  # isort: skip

from tests.bench.measure import cpu_of

SIZES = (160, 256, 512)
UBATCHES = (128, 256, 512)

_silent = llama.llama_log_callback(lambda *_: None)


class Prefill:
    """A model of its own, opened beside the engine's (the pages of the file are shared)."""

    def __init__(self, path: Path, threads: int = 1) -> None:
        llama.llama_log_set(_silent, ctypes.c_void_p(0))
        parameters = llama.llama_model_default_params()
        self._model = llama.llama_model_load_from_file(str(path).encode(), parameters)
        if not self._model:
            sys.exit(f"llama.cpp does not load {path}")
        self._contexts = {ubatch: self._open(ubatch, threads) for ubatch in UBATCHES}

    def _open(self, ubatch: int, threads: int) -> Any:
        parameters = llama.llama_context_default_params()
        parameters.n_ctx, parameters.n_batch, parameters.n_ubatch = 1024, max(SIZES), ubatch
        parameters.n_threads = parameters.n_threads_batch = threads
        parameters.n_outputs_max = 1
        parameters.no_perf = True
        return llama.llama_init_from_model(self._model, parameters)

    def seconds(self, tokens: list[int], ubatch: int) -> float:
        """CPU seconds of one decode of `tokens` into an empty memory, logits of the last alone."""
        context = self._contexts[ubatch]
        llama.llama_memory_clear(llama.llama_get_memory(context), False)
        held = (llama.llama_token * len(tokens))(*tokens)  # the batch only points at it
        batch = llama.llama_batch_get_one(held, len(tokens))
        spent, status = cpu_of(lambda: llama.llama_decode(context, batch))
        if status != 0:
            sys.exit(f"llama_decode failed with status {status}")
        return spent

    def close(self) -> None:
        for context in self._contexts.values():
            llama.llama_free(context)
        llama.llama_model_free(self._model)


def rates(prefill: Prefill, tokens: list[int], best: dict[tuple[int, int], float]) -> None:
    """One more turn over sizes and ubatches; `best` keeps tokens per CPU second by (size, ubatch)."""
    for size in SIZES:
        for ubatch in UBATCHES:
            if ubatch <= size or ubatch == UBATCHES[0]:
                rate = size / prefill.seconds(tokens[:size], ubatch)
                best[size, ubatch] = max(rate, best.get((size, ubatch), 0.0))


def main() -> None:
    from tests.bench.inputs import Tokens
    from tests.bench.weights import default_model
    from tests.tiny.raw import tokenize

    path = Path(sys.argv[1]) if len(sys.argv) > 1 else default_model()
    tokens = Tokens(lambda text: tokenize(path, text)).state(max(SIZES), 0)
    prefill, best = Prefill(path), {}
    for _ in range(3):
        rates(prefill, list(tokens), best)
    for (size, ubatch), rate in sorted(best.items()):
        print(f"{size:5} tokens, ubatch {ubatch:4}: {rate:7.0f} tokens per CPU second")
    prefill.close()


if __name__ == "__main__":
    assert localdecide.engine
    main()
