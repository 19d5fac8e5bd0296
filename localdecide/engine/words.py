"""An engine that only tokenises: for encoders that llama.cpp does not know and a family computes itself.

The model's file holds a tokenizer that llama.cpp reads, under an architecture that it does not; it is
opened for its vocabulary alone, under the name of one that it knows.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import llama_cpp as llama

from localdecide.core.errors import BadModelFile, Cancelled, ModelFailed
from localdecide.core.plan import Limits, Plan, Rows
from localdecide.engine.base import Work, never, nothing, refuse_long
from localdecide.engine.vocabulary import LlamaVocabulary
from localdecide.engine.weights import read_metadata

ARCHITECTURES = ("deberta-v2",)
"""Architectures whose encoders are families' own arithmetic."""

DEFAULT_CONTEXT = 512
_KNOWN = b"t5encoder"
_KEY = b"general.architecture"


def architecture(path: Path) -> str:
    """The architecture that a GGUF names near its beginning, where every writer puts it; else an empty text."""
    with path.open("rb") as file:
        start = file.read(1 << 16)
    at = start.find(_KEY)
    if at < 0 or len(start) < at + len(_KEY) + 12:
        return ""
    _, length = struct.unpack_from("<IQ", start, at + len(_KEY))
    first = at + len(_KEY) + 12
    return start[first : first + min(length, 64)].decode(errors="replace")


class WordEngine:
    """See `engine.base.Engine`. Evaluates plans that read nothing."""

    def __init__(self, path: str, parameters: Mapping[str, Any]) -> None:
        override = (llama.llama_model_kv_override * 2)()
        override[0].key = _KEY
        override[0].tag = llama.LLAMA_KV_OVERRIDE_TYPE_STR
        override[0].value.val_str = _KNOWN
        options = llama.llama_model_default_params()
        options.vocab_only = True
        options.kv_overrides = override
        self._model = llama.llama_model_load_from_file(path.encode(), options)
        if not self._model:
            raise BadModelFile(f"{Path(path).name}: llama.cpp could not read the tokenizer")
        kind = architecture(Path(path))
        # SentencePiece vocabularies put a space in front of every piece of text.
        self.vocabulary = LlamaVocabulary(llama.llama_model_get_vocab(self._model), prefixes_space=True)
        self.metadata: Mapping[str, Any] = {**read_metadata(self._model), "general.architecture": kind}
        trained = int(self.metadata.get(f"{kind}.context_length", DEFAULT_CONTEXT))
        context = min(trained, int(parameters.get("num_ctx") or trained))
        self.limits = Limits(context, context, int(self.metadata.get(f"{kind}.embedding_length", 0)))

    def evaluate(
        self,
        plan: Plan,
        *,
        exact: bool = False,
        cancelled: Callable[[], bool] = never,
        interrupt: Callable[[], Work | None] = nothing,
    ) -> Rows:
        """Nothing but the checks of lengths; the family's own encoder does the rest."""
        refuse_long(plan.prompts, self.limits.context)
        if any(prompt.reads for prompt in plan.prompts):
            raise ModelFailed("this engine computes nothing and can be asked for nothing")
        if cancelled():
            raise Cancelled("request canceled")
        return Rows([[] for _ in plan.prompts], decoded=sum(len(prompt.tokens) for prompt in plan.prompts))

    def output_rows(self, tokens: list[int]) -> Any:
        """Rows of the output embedding; the runner reads them from the file."""
        raise ModelFailed("this engine does not hold the output embedding")

    def describe(self) -> dict[str, Any]:
        return {"context": self.limits.context, "computes": "the tokenizer alone; the encoder is NumPy"}

    def close(self) -> None:
        if self._model:
            llama.llama_model_free(self._model)
            self._model = None
