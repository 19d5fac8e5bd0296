"""An engine without weights: a file's header and tokenizer, for what `show` says of a model that is not loaded."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import llama_cpp as llama

from localdecide.core.errors import BadModelFile, ModelFailed
from localdecide.core.plan import Limits, Plan, Rows
from localdecide.engine import tuning
from localdecide.engine.base import Work, never, nothing
from localdecide.engine.vocabulary import LlamaVocabulary
from localdecide.engine.weights import read_metadata


class PeekEngine:
    """See `engine.base.Engine`. Evaluates nothing; its limits are those that a loaded model would have."""

    def __init__(self, path: str, parameters: Mapping[str, Any]) -> None:
        options = llama.llama_model_default_params()
        options.vocab_only = True
        self._model = llama.llama_model_load_from_file(path.encode(), options)
        if not self._model:
            raise BadModelFile(f"{Path(path).name}: llama.cpp could not read its header and tokenizer")
        metadata = read_metadata(self._model)
        self.vocabulary = LlamaVocabulary(
            llama.llama_model_get_vocab(self._model), prefixes_space=metadata.get("tokenizer.ggml.add_space_prefix")
        )
        texts = {"bos_text": self.vocabulary.bos_text, "eos_text": self.vocabulary.eos_text}
        self.metadata: Mapping[str, Any] = {**metadata, **texts}
        arch = metadata.get("general.architecture")
        chosen = tuning.choose(
            parameters,
            os.environ,
            trained_context=int(metadata.get(f"{arch}.context_length", 0)),
            hybrid=False,
            whole=False,
            gpu=False,
        )
        self.limits = Limits(chosen.context, chosen.ubatch, int(metadata.get(f"{arch}.embedding_length", 0)))

    def evaluate(
        self,
        plan: Plan,
        *,
        exact: bool = False,
        cancelled: Callable[[], bool] = never,
        interrupt: Callable[[], Work | None] = nothing,
    ) -> Rows:
        """Raises ModelFailed: there are no weights."""
        raise ModelFailed("this model is open for its description alone")

    def output_rows(self, tokens: list[int]) -> Any:
        """Raises ModelFailed: there are no weights."""
        raise ModelFailed("this model is open for its description alone")

    def describe(self) -> dict[str, Any]:
        return {"context": self.limits.context}

    def close(self) -> None:
        if self._model:
            llama.llama_model_free(self._model)
            self._model = None
